package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

// A real binary, this test, is read, and a named file.
func TestRun(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), path, []string{"../../web/page/vendor/LICENSE.uPlot"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Go go1.", "The Go Authors", "\nLICENSE.uPlot\n=============\n", "Leon Sorokin"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if err := run(t.Context(), path, []string{"missing"}, &out); err == nil {
		t.Error("a file that is missing is no error")
	}
}

func TestPrintModule(t *testing.T) {
	t.Parallel()
	const module = "github.com/google/go-cmp"
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = printModule(t.Context(), &out, &debug.Module{Path: module, Version: strings.TrimSpace(string(version))})
	if err != nil || !strings.HasPrefix(out.String(), module+"@v") || !strings.Contains(out.String(), "Redistribution and use in source and binary forms") {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := printModule(t.Context(), &out, &debug.Module{Path: module, Version: "v0.0.0-none"}); err == nil {
		t.Error("a module that does not exist is no error")
	}
}
