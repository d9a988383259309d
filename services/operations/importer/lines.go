package importer

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine is the longest line of an import file, in bytes.
const maxLine = 1 << 20

// eachLine calls do for each line of a text until ctx ends or do fails. Lines
// are numbered from 1 and come without spaces and carriage returns around them; the first
// one comes without a byte order mark. A line of white space is empty.
func eachLine(ctx context.Context, in io.Reader, do func(number int, line string) error) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for number := 1; scanner.Scan(); number++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		line := scanner.Text()
		if number == 1 {
			if err := checkText(line); err != nil {
				return err
			}
			line = strings.TrimPrefix(line, "\ufeff")
		}
		// A tab may stand for an empty first or last field.
		if line = strings.Trim(line, " \r"); strings.TrimSpace(line) == "" {
			line = ""
		}
		if err := do(number, line); err != nil {
			return err
		}
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("a line is longer than %d bytes: this is no import file", maxLine)
	} else if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	return nil
}

// otherFormats are files that are often taken for text in UTF-8, by how they begin.
var otherFormats = []struct{ begin, what string }{
	{"\xff\xfe", "is UTF-16: convert it, for example by iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "is UTF-16: convert it, for example by iconv -f UTF-16 -t UTF-8"},
	{"\x1f\x8b", "is compressed by gzip: unpack it first, for example by gunzip"},
	{"PK\x03\x04", "is a zip archive or a workbook such as .xlsx: unpack it, or save the sheet as CSV"},
	{"<?xml", "is XML, as Apple Health exports it: convert it to CSV"},
}

// checkText returns an error if the first line of a file shows that it is no text in UTF-8.
func checkText(line string) error {
	for _, f := range otherFormats {
		if strings.HasPrefix(line, f.begin) {
			return errors.New("the file " + f.what)
		}
	}
	if strings.Contains(line, "\x00") {
		return errors.New("the file has zero bytes: it is binary, or UTF-16 without a byte order mark; save it as CSV in UTF-8")
	}
	return nil
}

// spaces is the delimiter of a file whose fields are separated by any number of spaces and
// tabs.
const spaces = ' '

// delimiterNames has the names of delimiters in messages.
var delimiterNames = map[rune]string{',': "commas", ';': "semicolons", '\t': "tabs", spaces: "spaces"}

// splitter splits the lines of a file into fields, which may be in quotes, as in CSV. Not
// safe for concurrent use.
type splitter struct {
	delimiter rune
	line      strings.Reader
	csv       *csv.Reader // reads from line; reused, because its buffer has 4 KB
}

func newSplitter(delimiter rune) *splitter {
	s := &splitter{delimiter: delimiter}
	s.csv = csv.NewReader(&s.line)
	s.csv.Comma = delimiter
	s.csv.FieldsPerRecord = -1
	s.csv.ReuseRecord = true
	s.csv.TrimLeadingSpace = delimiter != '\t' // otherwise it would remove empty fields
	return s
}

// split returns the fields of a line that is not empty. The slice is valid until the
// next call.
func (s *splitter) split(line string) ([]string, error) {
	if s.delimiter == spaces {
		return splitAtSpaces(line)
	}
	s.line.Reset(line)
	fields, err := s.csv.Read()
	if bad := (*csv.ParseError)(nil); errors.As(err, &bad) {
		return nil, fmt.Errorf("not valid CSV: %w", bad.Err) // without a line number, which it does not know
	}
	return fields, err
}

// splitAtSpaces splits a line at its spaces and tabs, also at those in quotes.
func splitAtSpaces(line string) ([]string, error) {
	fields := strings.Fields(line)
	for i, field := range fields {
		if strings.ContainsAny(field, ",;") && field[0] != '"' {
			return nil, fmt.Errorf("%q must be in quotes: the file's ids are separated by spaces or tabs", field)
		}
		if field[0] != '"' {
			continue
		}
		inner := strings.TrimSuffix(field[1:], `"`)
		unquoted := strings.ReplaceAll(inner, `""`, `"`)
		if len(field)-len(inner) != 2 || strings.Count(inner, `"`) != 2*strings.Count(unquoted, `"`) {
			return nil, fmt.Errorf("not valid CSV: %w", csv.ErrQuote)
		}
		fields[i] = unquoted
	}
	return fields, nil
}

// outsideQuotes reports which of the characters a line has outside of quotes.
func outsideQuotes(line string, characters string) (has []bool) {
	has = make([]bool, len(characters))
	quoted := false
	for i := range len(line) {
		if line[i] == '"' {
			quoted = !quoted
		} else if at := strings.IndexByte(characters, line[i]); at >= 0 && !quoted {
			has[at] = true
		}
	}
	return has
}
