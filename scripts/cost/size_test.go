package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// linesOf returns how many lines of a Go file have more than comments.
func linesOf(text []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := make(map[int]bool)
	for {
		at, kind, literal := s.Scan()
		if kind == token.EOF {
			return len(lines)
		}
		if kind == token.SEMICOLON && literal == "\n" { // inserted at the end of a line
			continue
		}
		first := files.Position(at).Line
		for i := range 1 + strings.Count(literal, "\n") {
			lines[first+i] = true
		}
	}
}

// No area has more lines of Go, and no document more words, than its budget. Generated files and those of others don't count.
func TestSizes(t *testing.T) {
	t.Parallel()
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, ".ci/budgets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var budgets struct{ Lines, Words map[string]int }
	if err := yaml.Unmarshal(text, &budgets); err != nil {
		t.Fatal(err)
	}
	lines, words := make(map[string]int), make(map[string]int)
	tests := []string{"app/e2e/", "internal/backups/backupstest/", "internal/testenv/", "services/servicetest/"}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); path != "." && (strings.HasPrefix(base, ".") || slices.Contains([]string{"node_modules", "dist", "build", "testdata"}, base)) {
				return filepath.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(path)
		if kind != ".go" && kind != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		switch kind {
		case ".go":
			area := longest(path, slices.Collect(maps.Keys(budgets.Lines)), "others")
			if strings.HasSuffix(path, "_test.go") || slices.ContainsFunc(tests, func(folder string) bool { return strings.HasPrefix(path, folder) }) {
				area = "tests"
			}
			lines[area] += linesOf(text)
		case ".md":
			words[longest(path, slices.Collect(maps.Keys(budgets.Words)), "others")] += len(strings.Fields(string(text)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "lines of Go", lines, budgets.Lines)
	compare(t, "words", words, budgets.Words)
}

func compare(t *testing.T, unit string, has, budget map[string]int) {
	t.Helper()
	sum := 0
	for _, area := range slices.Sorted(maps.Keys(has)) {
		sum += has[area]
		t.Logf("%-28s %6d %s of %d", area, has[area], unit, budget[area])
		if has[area] > budget[area] {
			t.Errorf("%s has %d %s, and .ci/budgets.yaml permits %d: something else can go, or the commit says why it needs more", area, has[area], unit, budget[area])
		}
	}
	t.Logf("together %d %s", sum, unit)
}

// A line counts if it has more than a comment.
func TestLinesOf(t *testing.T) {
	t.Parallel()
	const text = "// Package a is one.\npackage a\n\n/* long\ncomment */\nvar text = `two\nlines` // and a comment\n"
	if n := linesOf([]byte(text)); n != 3 {
		t.Errorf("%d lines", n)
	}
}
