// Command licenses writes the licences of everything that a Go binary holds to its standard
// output: those of the modules that the linker has built in and of Go itself, and the named files.
//
//	licenses BINARY FILE…
//
// It runs the go command, which fetches modules that are not in its cache.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: licenses BINARY FILE…")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, files []string, out io.Writer) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	if err := printFile(out, "Go "+info.GoVersion, filepath.Join(strings.TrimSpace(string(root)), "LICENSE")); err != nil {
		return err
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if err := printModule(ctx, out, module); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := printFile(out, filepath.Base(file), file); err != nil {
			return err
		}
	}
	return nil
}

// printModule prints the licences and notices in the folder of a module. A module without one is
// an error.
func printModule(ctx context.Context, out io.Writer, m *debug.Module) error {
	at := m.Path + "@" + m.Version
	text, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", at).Output() //nolint:gosec // the binary is our own
	if err != nil {
		return fmt.Errorf("go mod download %s: %w", at, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	entries, err := os.ReadDir(found.Dir)
	if err != nil {
		return err
	}
	printed := false
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		licence := strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
		if e.IsDir() || !licence && !strings.HasPrefix(name, "NOTICE") {
			continue
		}
		printed = printed || licence
		if err := printFile(out, at+" "+e.Name(), filepath.Join(found.Dir, e.Name())); err != nil {
			return err
		}
	}
	if !printed {
		return errors.New(at + " has no licence")
	}
	return nil
}

func printFile(out io.Writer, title, path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n%s\n\n%s\n\n", title, strings.Repeat("=", len(title)), bytes.TrimSpace(text))
	return err
}
