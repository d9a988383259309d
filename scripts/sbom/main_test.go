package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestDocumentListsWhatIsBuiltIn(t *testing.T) {
	t.Parallel()
	libraries, err := npmComponents([]byte(`{"packages": {"": {"dependencies": {"page": "1.0.0"}},
		"node_modules/page": {"version": "1.0.0", "integrity": "sha512-x"}, "node_modules/of-page": {"version": "2.0.0"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	d := newDocument(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "stepboard", Version: "v0.1.0"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.2.3", Sum: "h1:abc="},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1", Sum: "h1:def="}},
		},
	}, libraries)
	if d.Format != "CycloneDX" || d.Metadata.Component.PURL != "pkg:golang/stepboard@v0.1.0" {
		t.Errorf("the document is %+v", d)
	}
	var got []string
	for _, c := range d.Components {
		line := c.Ref
		for _, p := range c.Properties {
			line += " " + p.Name + " " + p.Value
		}
		got = append(got, line)
	}
	want := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.com/a@v1.2.3 go.sum h1:abc=", "pkg:golang/example.com/fork@v1.0.1 go.sum h1:def=", "pkg:npm/page@1.0.0 integrity sha512-x"}
	if !slices.Equal(got, want) {
		t.Errorf("the components are\n%s", strings.Join(got, "\n"))
	}
}

// A real binary, this test, is read.
func TestRunReadsABinary(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const lock = "../../web/package-lock.json"
	var out bytes.Buffer
	if err := run(path, lock, &out); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || len(d.Components) == 0 || d.Components[0].Name != "std" {
		t.Errorf("%v: %s", err, out.String())
	}
	if err := run("main.go", lock, &out); err == nil {
		t.Error("a file that is no Go binary has a document")
	}
}
