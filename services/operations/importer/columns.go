package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"stepboard/internal/column"
)

// headerWithin is how many of the first records may be above the one that names the columns.
const headerWithin = 10

// filter takes records with a value in a column.
type filter struct{ column, value string }

// parseFilters parses texts such as status=accepted.
func parseFilters(texts []string) (filters []filter, err error) {
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || columnWord(name) == "" {
			return nil, fmt.Errorf("%q does not have the form COLUMN=VALUE, such as status=accepted", text)
		}
		filters = append(filters, filter{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	return filters, nil
}

// header has the columns of a file.
type header struct {
	names []string // as the file has them
	// where has the values to take by the position of their column. One of several is enough.
	where map[int][]string
}

// newHeader returns the header of a line with these fields. It fails if they do not have the
// columns of the filters.
func newHeader(fields []string, filters []filter) (h header, err error) {
	h = header{names: slices.Clone(fields), where: make(map[int][]string)}
	for _, f := range filters {
		at, err := columnNumber(fields, f.column)
		if err != nil {
			return h, fmt.Errorf("%w, which --where names", err)
		}
		h.where[at] = append(h.where[at], f.value)
	}
	return h, nil
}

// row checks the number of a record's fields. Some programs end each with a delimiter.
func (h *header) row(fields []string) ([]string, error) {
	n := len(h.names)
	if len(fields) == n+1 && fields[n] == "" {
		fields = fields[:n]
	}
	if len(fields) != n {
		return nil, fmt.Errorf("%d fields instead of %d", len(fields), n)
	}
	for at, values := range h.where {
		if !slices.ContainsFunc(values, func(v string) bool { return strings.EqualFold(v, strings.TrimSpace(fields[at])) }) {
			return nil, ErrLeftOut
		}
	}
	return fields, nil
}

// Records that are neither imported nor bad.
var (
	// ErrLeftOut is that of a record which --where does not take.
	ErrLeftOut = errors.New("left out by --where")
	// ErrNoSteps is that of a day without a number of steps.
	ErrNoSteps = errors.New("it has no steps")
)

// columnWord returns a column's name in lower case with nothing but letters and digits, without a
// unit in parentheses behind it.
func columnWord(name string) string {
	if at := strings.IndexAny(name, "([（"); at > 0 {
		name = name[:at]
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, name)
}

// isAbout reports whether a column has a name that stands for something, also behind the name of
// a kind of record and a dot, as in com.samsung.health.step_count.count.
func isAbout(name, word string) bool {
	if at := strings.LastIndexByte(name, '.'); at >= 0 && strings.Count(name, ".") > 1 {
		name = name[at+1:]
	}
	return columnWord(name) == word
}

// columnNumber returns the position of a column that is named by its name or, from 1, by its
// number.
func columnNumber(names []string, asked string) (int, error) {
	if n, err := strconv.Atoi(asked); err == nil && n >= 1 && n <= len(names) {
		return n - 1, nil
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), asked) })
	if at < 0 {
		at = slices.IndexFunc(names, func(name string) bool { return columnWord(name) == columnWord(asked) })
	}
	if at < 0 {
		return at, fmt.Errorf("no column is called %q", asked)
	}
	return at, nil
}

// listed returns names as a list for people.
func listed(names []string) string {
	quoted := column.Of(names, func(name string) string { return strconv.Quote(shortened(strings.TrimSpace(name))) })
	if len(quoted) > 20 {
		quoted = append(quoted[:20], "…")
	}
	return strings.Join(quoted, ", ")
}
