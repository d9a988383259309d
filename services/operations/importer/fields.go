package importer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// spaces are the delimiters of a file whose fields are separated by any number of spaces and
// tabs.
const spaces = " \t"

// delimiterNames has the names of delimiters in messages.
var delimiterNames = map[string]string{",": "commas", ";": "semicolons", "\t": "tabs", spaces: "spaces"}

var (
	errOpen   = errors.New("not valid CSV: the quotes of a field do not end")
	errBroken = errors.New("not valid CSV: text follows behind the quotes of a field, in which a quote must be doubled")
)

// split returns the fields of a record, which end at any of the delimiters, or errOpen if the
// quotes of the last one do not end. As RFC 4180 says, a field that begins with a quote is in
// quotes, and two quotes stand for one there; a quote within another field is text. Fields between
// spaces have other delimiters in quotes only.
func split(text, delimiters string) (fields []string, err error) {
	for more := true; more; {
		var field string
		text = strings.TrimLeft(text, " ")
		quoted := strings.HasPrefix(text, `"`)
		if quoted {
			var closed bool
			if field, text, closed = cutQuoted(text[1:]); !closed {
				return nil, errOpen
			}
		}
		outside := text
		at := strings.IndexAny(text, delimiters)
		if more = at >= 0; more {
			outside, text = text[:at], text[at+1:]
		}
		switch {
		case !quoted && delimiters == spaces && strings.ContainsAny(outside, ",;"):
			err = cmp.Or(err, fmt.Errorf("%q must be in quotes: the file's ids are separated by spaces or tabs", shortened(outside)))
		case !quoted:
			field = outside
		case strings.Trim(outside, " \r\n") != "":
			err = errBroken
		}
		if quoted || field != "" || delimiters != spaces {
			fields = append(fields, field)
		}
	}
	if err != nil {
		return nil, err
	}
	return fields, nil
}

// cutQuoted cuts a text behind the quote that ends its beginning, in which two quotes stand for one.
func cutQuoted(text string) (field, rest string, closed bool) {
	var before []byte
	for {
		field, rest, closed = strings.Cut(text, `"`)
		before = append(before, field...)
		if text = strings.TrimPrefix(rest, `"`); text == rest {
			return string(before), rest, closed
		}
		before = append(before, '"')
	}
}
