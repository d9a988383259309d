package importer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxRecord is the longest record of an import file, in bytes.
const maxRecord = 1 << 20

// record is a record of a file: a line, or several if a quoted field has line breaks.
type record struct {
	number int    // of its first line, from 1
	text   string // without spaces and line breaks around it; empty if it is white space
	bad    error  // why it can't be read; no record follows then
}

// recordReader reads the records of a text. They end where RFC 4180 says: a line break within
// quotes ends none. Not safe for concurrent use.
type recordReader struct {
	in    *bufio.Reader
	lines int // line breaks that were read
	text  []byte
	ended bool
	// delimiters end the fields. They are empty until the file has shown which ones it has.
	delimiters string
	// comment reports whether a line is a comment, in which a quote is text. It may be nil.
	comment func(line string) bool
}

func newRecordReader(in io.Reader) *recordReader {
	return &recordReader{in: bufio.NewReaderSize(in, 64<<10)}
}

// errEnd is the error of next behind the last record.
var errEnd = errors.New("the file has ended")

// next returns the next record, errEnd behind the last one, or the error of ctx. A record whose
// quotes do not end, or not within maxRecord, is the last one, because nobody knows where the next
// one begins.
func (r *recordReader) next(ctx context.Context) (record, error) {
	next := record{number: r.lines + 1}
	if r.ended || ctx.Err() != nil {
		return next, cmp.Or(ctx.Err(), errEnd)
	}
	r.text = r.text[:0]
	for line, open := 0, false; ; {
		piece, err := r.in.ReadSlice('\n')
		r.ended = errors.Is(err, io.EOF)
		if err != nil && !r.ended && !errors.Is(err, bufio.ErrBufferFull) {
			return next, fmt.Errorf("read file: %w", err)
		}
		if r.lines == 0 && len(r.text) == 0 {
			piece = bytes.Clone(piece) // looking further into the file overwrites it
			if bad := r.checkBegin(piece); bad != nil {
				return next, bad
			}
			piece = bytes.TrimPrefix(piece, []byte("\ufeff"))
		}
		r.text = append(r.text, piece...)
		if err == nil {
			r.lines++
		}
		tooLong := len(r.text) > maxRecord
		if err == nil || r.ended || tooLong {
			open = r.endsOpen(r.text[line:], open)
			line = len(r.text)
		}
		switch {
		case r.ended && len(r.text) == 0:
			return next, errEnd
		case r.ended && open:
			next.bad = errors.New("a text in quotes begins in this line and does not end: nothing behind it was read")
			return next, nil
		case tooLong && open:
			r.ended = true
			next.bad = fmt.Errorf("a text in quotes begins in this line and is longer than %d bytes: nothing behind it was read", maxRecord)
			return next, nil
		case tooLong:
			return next, fmt.Errorf("line %d is longer than %d bytes: this is no import file", next.number, maxRecord)
		case r.ended || err == nil && !open:
			// A tab may stand for an empty first or last field.
			if next.text = strings.Trim(string(r.text), " \r\n"); strings.TrimSpace(next.text) == "" {
				next.text = ""
			}
			return next, nil
		}
	}
}

// endsOpen reports whether a text in quotes goes on behind a line, before which one went on if open is set.
func (r *recordReader) endsOpen(line []byte, open bool) bool {
	text := string(line)
	switch {
	case !strings.Contains(text, `"`):
		return open
	case open:
		text = `"` + text
	case r.comment != nil && r.comment(text):
		return false
	}
	_, err := split(text, cmp.Or(r.delimiters, ",;\t"))
	return errors.Is(err, errOpen)
}

// otherFormats are files that are often taken for text in UTF-8, by how they begin.
var otherFormats = []struct{ begin, what string }{
	{"\xff\xfe", "is UTF-16: convert it, for example by iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "is UTF-16: convert it, for example by iconv -f UTF-16 -t UTF-8"},
	{"\x1f\x8b", "is compressed by gzip: unpack it first, for example by gunzip"},
	{"PK\x03\x04", "is a zip archive or a workbook such as .xlsx: unpack it, or save the sheet as CSV"},
	{"<?xml", "is XML, as Apple Health exports it: export days as CSV instead, by an app such as Health Auto Export"},
}

// exports are what people get of their steps as JSON. Each has the commands that make CSV of the archive as it is downloaded.
var exports = []struct{ name, field, file, command string }{
	{
		"Fitbit", "\"dateTime\"", "steps-",
		// Of two programs, since jq 1.6 is an hour wrong when it reads times of UTC in a zone with summer time.
		`unzip -p takeout.zip '*/steps-*.json' | ` +
			`TZ=UTC jq '.[] | {at: (.dateTime | strptime("%m/%d/%y %H:%M:%S") | mktime), n: (.value | tonumber)}' | ` +
			`TZ=Europe/Berlin jq -rs '["date","steps"], (map(.day = (.at | localtime | strftime("%F"))) | ` +
			`group_by(.day)[] | [.[0].day, (map(.n) | add)]) | @csv' | stepboard import steps - --user ID, ` +
			`with your own zone for Europe/Berlin: its times are UTC`,
	},
	{
		"Garmin", "\"calendarDate\"", "UDSFile_",
		`unzip -p garmin.zip '*/UDSFile_*.json' | jq -rs '["date","steps"], ` +
			`(add[] | select(.totalSteps) | [.calendarDate, .totalSteps]) | @csv' | stepboard import steps - --user ID`,
	},
}

// ExportIn returns an error with the command that imports an archive as a person has downloaded it, if one of its files
// is that of such an export; otherwise nil.
func ExportIn(file string) error {
	for _, e := range exports {
		if strings.HasPrefix(path.Base(file), e.file) && path.Ext(file) == ".json" {
			return fmt.Errorf("the file is an export of %s: import it by %s", e.name, e.command)
		}
	}
	return nil
}

// jsonBegins matches the beginning of JSON, and of no table.
var jsonBegins = regexp.MustCompile(`^\s*(\[\s*[{\["]|\{\s*")`)

// checkBegin returns an error if the first line of a file shows that it is JSON, or no text in UTF-8.
func (r *recordReader) checkBegin(line []byte) error {
	for _, f := range otherFormats {
		if bytes.HasPrefix(line, []byte(f.begin)) {
			return errors.New("the file " + f.what)
		}
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return errors.New("the file has zero bytes: it is binary, or UTF-16 without a byte order mark; save it as CSV in UTF-8")
	}
	if text := bytes.TrimSpace(line); len(text) == 0 || text[0] != '[' && text[0] != '{' {
		return nil
	}
	more, _ := r.in.Peek(500) // or less
	begin := slices.Concat(line, more)
	if !jsonBegins.Match(begin) {
		return nil
	}
	for _, e := range exports {
		if bytes.Contains(begin, []byte(e.field)) {
			return fmt.Errorf("the file is a part of an export of %s: import it by %s", e.name, e.command)
		}
	}
	return errors.New("the file is JSON: make CSV of it, for example by jq")
}
