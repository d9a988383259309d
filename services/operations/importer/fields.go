package importer

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// spaces are the delimiters of a file whose fields are separated by any number of spaces and
// tabs.
const spaces = " \t"

// delimiterNames has the names of delimiters in messages.
var delimiterNames = map[string]string{",": "commas", ";": "semicolons", "\t": "tabs", spaces: "spaces"}

// quoteState says where in a field a reader is.
type quoteState int

const (
	fieldBegins quoteState = iota // before the first character that is no space
	unquoted
	quoted // a line break is text
	closed // behind a quote that ends the text, unless another one follows
	broken // text follows behind the quotes
)

// meaning says what a character of a record is.
type meaning int

const (
	isText meaning = iota
	isSyntax
	isDelimiter
)

// quotes follows the quotes of a record, as RFC 4180 defines them. A field that begins with a
// quote is in quotes, and two quotes stand for one there. A quote within another field is text.
type quotes struct {
	delimiters string
	state      quoteState
}

// next returns what the next character is.
func (q *quotes) next(c byte) meaning {
	if q.state == quoted {
		if c != '"' {
			return isText
		}
		q.state = closed
		return isSyntax
	}
	switch {
	case strings.IndexByte(q.delimiters, c) >= 0:
		q.state = fieldBegins
		return isDelimiter
	case c == '"' && q.state == fieldBegins:
		q.state = quoted
		return isSyntax
	case c == '"' && q.state == closed:
		q.state = quoted
		return isText
	case c == ' ' && q.state != unquoted:
		return isSyntax // around quotes
	case q.state == fieldBegins:
		q.state = unquoted
	case q.state == closed && c != '\r' && c != '\n':
		q.state = broken
	}
	return isText
}

// follow takes a piece of a record.
func (q *quotes) follow(piece []byte) {
	if n := len(piece); n > 0 && piece[n-1] == '\n' && bytes.IndexByte(piece, '"') < 0 {
		return // no line without a quote begins or ends a text in quotes
	}
	for _, c := range piece {
		q.next(c)
	}
}

// splitter splits the records of a file into fields. Not safe for concurrent use.
type splitter struct {
	quotes quotes
	fields []string
	quoted []bool // whether each field was in quotes
}

func newSplitter(delimiters string) *splitter {
	return &splitter{quotes: quotes{delimiters: delimiters}}
}

var errBroken = errors.New("not valid CSV: text follows behind the quotes of a field, in which a quote must be doubled")

// split returns the fields of a record that is not empty. The slice is valid until the next
// call.
func (s *splitter) split(text string) ([]string, error) {
	s.fields, s.quoted, s.quotes.state = s.fields[:0], s.quoted[:0], fieldBegins
	if strings.IndexByte(text, '"') < 0 {
		return s.splitPlain(text)
	}
	var field []byte
	inQuotes := false
	end := func() {
		if s.quotes.delimiters != spaces || inQuotes || len(field) > 0 {
			s.fields, s.quoted = append(s.fields, string(field)), append(s.quoted, inQuotes)
		}
		field, inQuotes = field[:0], false
	}
	for i := range len(text) {
		switch s.quotes.next(text[i]) {
		case isDelimiter:
			end()
		case isText:
			field = append(field, text[i])
		}
		switch s.quotes.state {
		case broken:
			return nil, errBroken
		case quoted:
			inQuotes = true
		}
	}
	if s.quotes.state == quoted {
		return nil, errors.New("not valid CSV: the quotes of a field do not end")
	}
	end()
	return s.checked()
}

// splitPlain returns the fields of a record without quotes.
func (s *splitter) splitPlain(text string) ([]string, error) {
	if s.quotes.delimiters == spaces {
		s.fields = append(s.fields, strings.Fields(text)...)
	} else {
		for more := true; more; {
			var field string
			field, text, more = strings.Cut(text, s.quotes.delimiters)
			s.fields = append(s.fields, strings.TrimLeft(field, " "))
		}
	}
	for range s.fields {
		s.quoted = append(s.quoted, false)
	}
	return s.checked()
}

// checked returns the fields. Those between spaces have other delimiters in quotes only.
func (s *splitter) checked() ([]string, error) {
	if s.quotes.delimiters != spaces {
		return s.fields, nil
	}
	for i, field := range s.fields {
		if !s.quoted[i] && strings.ContainsAny(field, ",;") {
			return nil, fmt.Errorf("%q must be in quotes: the file's ids are separated by spaces or tabs", shortened(field))
		}
	}
	return s.fields, nil
}

// outsideQuotes reports which of the characters a record has outside of quotes.
func outsideQuotes(text string, characters string) (has []bool) {
	has = make([]bool, len(characters))
	q := quotes{delimiters: characters + spaces}
	for i := range len(text) {
		inside := q.state == quoted
		q.next(text[i])
		if at := strings.IndexByte(characters, text[i]); at >= 0 && !inside {
			has[at] = true
		}
	}
	return has
}
