// Command sbom writes the software bill of materials of a Go binary to its
// standard output, as CycloneDX JSON: the modules that the linker has built in,
// their versions and checksums, the Go release, and the JavaScript libraries that
// are embedded, which are those that an npm lock file depends on directly.
//
//	sbom BINARY VERSION package-lock.json
//
// It needs no network. The same binary always gives the same document.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY package-lock.json")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run writes the document of the binary at path.
func run(path, lockFile string, out io.Writer) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	lock, err := os.ReadFile(lockFile) //nolint:gosec // the caller names it
	if err != nil {
		return err
	}
	libraries, err := npmComponents(lock)
	if err != nil {
		return fmt.Errorf("%s: %w", lockFile, err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(newDocument(info, libraries))
}

// document is a bill of materials. Its fields are those of CycloneDX 1.5.
type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// npmComponents returns the direct dependencies of an npm lock file, by name. The checksum is
// that of the lock file.
func npmComponents(lock []byte) (components []component, err error) {
	var file struct {
		Packages map[string]struct {
			Version, Integrity string
			Dependencies       map[string]string
		}
	}
	if err := json.Unmarshal(lock, &file); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(file.Packages[""].Dependencies)) {
		p, ok := file.Packages["node_modules/"+name]
		if !ok {
			return nil, fmt.Errorf("%s is not locked", name)
		}
		c := component{Type: "library", Name: name, Version: p.Version, PURL: "pkg:npm/" + name + "@" + p.Version}
		c.Ref = c.PURL
		c.Properties = []property{{Name: "integrity", Value: p.Integrity}}
		components = append(components, c)
	}
	return components, nil
}

// newDocument returns the document of a binary and the libraries embedded in it. A replaced
// module is listed as its replacement, which is the code that was built in.
func newDocument(info *debug.BuildInfo, libraries []component) document {
	d := document{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	d.Metadata.Component = newComponent("application", &info.Main)
	d.Components = append(d.Components, newComponent("library", &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}))
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		d.Components = append(d.Components, newComponent("library", module))
	}
	d.Components = append(d.Components, libraries...)
	return d
}

// newComponent returns a module's component. The checksum is that of go.sum.
func newComponent(kind string, m *debug.Module) component {
	c := component{Type: kind, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
	c.Ref = c.PURL
	if m.Sum != "" {
		c.Properties = []property{{Name: "go.sum", Value: m.Sum}}
	}
	return c
}
