package cli

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"stepboard/services/operations/importer"
)

// input is a file that a command reads. It is unpacked on its way, in bounded memory, if gzip
// compressed it, or if it is a zip archive with one file, or one CSV file among others.
type input struct {
	*os.File // whose deadline ends a read that waits

	unpacked io.Reader // nil until the first read
}

// stdin is the name of the standard input.
const stdin = "-"

// openInput opens a file for reading.
func openInput(name string) (*input, error) {
	if name != stdin {
		file, err := os.Open(name)
		return &input{File: file}, err
	}
	// Unlike os.Stdin, a file that is opened here supports a deadline, if it is a pipe or a
	// terminal.
	file, err := os.Open("/dev/stdin")
	if err != nil {
		file = os.Stdin
	}
	return &input{File: file}, nil
}

// Read reads what is unpacked.
func (i *input) Read(p []byte) (int, error) {
	if i.unpacked == nil {
		var err error
		if i.unpacked, err = unpack(i.File); err != nil {
			return 0, err
		}
	}
	return i.unpacked.Read(p)
}

// unpack returns what a file holds.
func unpack(file *os.File) (io.Reader, error) {
	in := bufio.NewReaderSize(file, chunk)
	begin, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case strings.HasPrefix(string(begin), "\x1f\x8b"):
		return gzip.NewReader(in)
	case string(begin) == "PK\x03\x04":
		return unzip(file)
	}
	return in, nil
}

// unzip returns what the file in a zip archive holds.
func unzip(file *os.File) (io.Reader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("a zip archive can be read from a file only, and not from a pipe")
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("read the zip archive: %w", err)
	}
	files := slices.DeleteFunc(slices.Clone(archive.File), func(f *zip.File) bool {
		return f.FileInfo().IsDir() || strings.HasPrefix(f.Name, "__MACOSX/")
	})
	if slices.ContainsFunc(files, func(f *zip.File) bool { return f.Name == "[Content_Types].xml" }) {
		return nil, errors.New("the file is a workbook such as .xlsx: save the sheet as CSV")
	}
	for _, f := range files {
		if err := importer.ExportIn(f.Name); err != nil {
			return nil, err
		}
	}
	isTable := func(f *zip.File) bool { return strings.EqualFold(path.Ext(f.Name), ".csv") }
	if tables := slices.DeleteFunc(slices.Clone(files), func(f *zip.File) bool { return !isTable(f) }); len(tables) == 1 {
		files = tables
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("the zip archive holds %d files, and not one: unpack it, and name the file that is meant", len(files))
	}
	return files[0].Open()
}
