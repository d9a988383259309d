package cli

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// zipped returns a zip archive with these files, each with the same text.
func zipped(t *testing.T, text string, names ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range names {
		f := testenv.Must(w.Create(name))
		if !strings.HasSuffix(name, "/") {
			testenv.Must(io.WriteString(f, text))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	testenv.Must(io.WriteString(w, text))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Files are read as what they hold.
func TestFilesAreUnpacked(t *testing.T) {
	t.Parallel()
	const text = "1,2\n3,4\n"
	for name, tt := range map[string]struct{ file, refused string }{
		"text":                  {file: text},
		"nothing":               {},
		"gzip":                  {file: gzipped(t, text)},
		"two parts of gzip":     {file: gzipped(t, "1,2\n") + gzipped(t, "3,4\n")},
		"half of gzip":          {file: gzipped(t, text)[:20], refused: "unexpected EOF"},
		"one file":              {file: zipped(t, text, "a/", "a/steps.txt")},
		"one CSV file":          {file: zipped(t, text, "README", "Steps.CSV", "__MACOSX/._Steps.CSV")},
		"two CSV files":         {file: zipped(t, text, "a.csv", "b.csv"), refused: "holds 2 files, and not one"},
		"an archive of nothing": {file: zipped(t, text, "a/"), refused: "holds 0 files"},
		"half of an archive":    {file: zipped(t, text, "a.csv")[:40], refused: "read the zip archive"},
		"Fitbit's":              {file: zipped(t, text, "Takeout/Fitbit/Global Export Data/steps-2026-11-01.json", "x.csv"), refused: "unzip -p takeout.zip"},
		"Garmin's":              {file: zipped(t, text, "DI_CONNECT/DI-Connect-Aggregator/UDSFile_2026.json"), refused: "unzip -p garmin.zip"},
		"a workbook":            {file: zipped(t, text, "[Content_Types].xml", "xl/workbook.xml"), refused: "save the sheet as CSV"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		in := testenv.Must(openInput(path))
		got, err := io.ReadAll(in)
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: %v", name, err)
			}
		} else if want := map[bool]string{true: text}[tt.file != ""]; err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A zip archive ends with its directory, so it can't be read as it comes.
func TestAnArchiveFromAPipeIsRefused(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	testenv.Must(write.WriteString(zipped(t, "1,2\n", "a.csv")))
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(&input{File: read}); err == nil || !strings.Contains(err.Error(), "not from a pipe") {
		t.Errorf("%v", err)
	}
}
