package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDocumentsMatchTheSettings(t *testing.T) {
	t.Parallel()
	for name, want := range documents() {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is out of date, run go generate ./config (-generated +file):\n%s", name, diff)
		}
	}
}
