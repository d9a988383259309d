// Command sbom writes the software bill of materials of a Go binary to its
// standard output, as CycloneDX JSON: the modules that the linker has built in,
// their versions and checksums, and the Go release.
//
//	sbom BINARY VERSION
//
// It needs no network. The same binary always gives the same document.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run writes the document of the binary at path. The linker records the version
// of a release only in a checkout of its tag, so it is an argument.
func run(path, version string, out io.Writer) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	info.Main.Version = version
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(newDocument(info))
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

// newDocument returns the document of a binary. A replaced module is listed as
// its replacement, which is the code that was built in.
func newDocument(info *debug.BuildInfo) document {
	d := document{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	d.Metadata.Component = newComponent("application", &info.Main)
	d.Components = append(d.Components, newComponent("library", &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}))
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		d.Components = append(d.Components, newComponent("library", module))
	}
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
