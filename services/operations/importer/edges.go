package importer

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"stepboard/models"
	"stepboard/services/people/friends"
)

// edgesExpected says what a file of friendships holds.
const edgesExpected = "two user ids a line, separated by a comma, a semicolon, a tab or spaces, such as 1001,1002"

// EachEdge calls do for each friendship of a file, or with the reason why a line is bad,
// until ctx ends or do fails. A line has two user ids, quoted or not. The first line with
// two fields decides whether commas, semicolons or white space separate the ids of the file.
// It may be a header: two column names such as user1_id,user2_id. Blank lines and comments,
// which begin with "# ", are skipped. An offset other than 0 is added to the ids, which are
// numbers then, and 1 or more afterwards.
//
// It fails if it can't be known what the first line is.
func EachEdge(ctx context.Context, in io.Reader, offset int64, do func(number int, edge friends.Edge, bad error) error) error {
	r := &edgeReader{offset: offset, do: do}
	err := eachLine(ctx, in, func(number int, line string) error {
		if line = strings.TrimSpace(line); line == "" || isComment(line) {
			return nil
		}
		return r.read(number, line)
	})
	if err != nil {
		return err
	}
	return r.decideFirst(nil)
}

// edgeReader reads the friendships of a file.
type edgeReader struct {
	offset int64
	do     func(number int, edge friends.Edge, bad error) error
	// splitter is nil until a line has two fields.
	splitter *splitter
	// first has the fields of that line until the next one decides whether they are names
	// of columns.
	first  []string
	number int // of that line
}

// isComment reports whether a line is a comment. An id may begin with #, but has no spaces.
func isComment(line string) bool {
	return line == "#" || strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "#\t")
}

// read reads a line with content.
func (r *edgeReader) read(number int, line string) error {
	splitter := r.splitter
	if splitter == nil {
		delimiter, err := delimiterOf(line, number)
		if err != nil {
			return err
		}
		splitter = newSplitter(delimiter)
	}
	fields, err := splitter.split(line)
	switch {
	case err != nil:
		return r.do(number, friends.Edge{}, err)
	case len(fields) != 2 && r.splitter == nil:
		return r.do(number, friends.Edge{}, fmt.Errorf("%d fields instead of two user ids", len(fields)))
	case len(fields) != 2:
		return r.do(number, friends.Edge{}, fmt.Errorf("%d fields instead of two user ids: the file separates them by %s",
			len(fields), delimiterNames[splitter.delimiter]))
	case r.splitter == nil:
		r.splitter = splitter
		if !isEdgeHeader(fields) {
			r.first, r.number = []string{fields[0], fields[1]}, number
		}
		return nil
	case r.first != nil:
		if err := r.decideFirst(fields); err != nil {
			return err
		}
	}
	return r.edge(number, fields)
}

// decideFirst reads the first line, unless it was a header. next has the fields of the line
// behind it, or is nil.
func (r *edgeReader) decideFirst(next []string) error {
	first := r.first
	if first == nil {
		return nil
	}
	r.first = nil
	if next != nil && max(idKind(first[0]), idKind(first[1])) < min(idKind(next[0]), idKind(next[1])) {
		between := string(r.splitter.delimiter)
		return fmt.Errorf("line %d, %q, looks like a header: call the columns user1_id and user2_id; "+
			"if these are two users, put the line user1_id%suser2_id above it", r.number, shortened(strings.Join(first, between)), between)
	}
	return r.edge(r.number, first)
}

// edge passes on the friendship of a line.
func (r *edgeReader) edge(number int, fields []string) error {
	edge, err := edgeOf(fields, r.offset)
	return r.do(number, edge, err)
}

// edgeOf returns the friendship of two user ids.
func edgeOf(fields []string, offset int64) (friends.Edge, error) {
	var ids [2]models.UserID
	for i, field := range fields {
		var err error
		if offset != 0 {
			if field, err = addOffset(field, offset); err != nil {
				return friends.Edge{}, err
			}
		}
		if ids[i], err = parseUser(field); err != nil {
			return friends.Edge{}, err
		}
	}
	return friends.Edge{A: ids[0], B: ids[1]}, nil
}

// delimiterOf returns the delimiter of a line of ids. An id that has one must be in quotes.
func delimiterOf(line string, number int) (rune, error) {
	switch has := outsideQuotes(line, ",;"); {
	case has[0] && has[1]:
		return 0, fmt.Errorf("line %d, %q, has commas and semicolons: put ids that have one in quotes, "+
			"or put the line user1_id,user2_id or user1_id;user2_id above", number, shortened(line))
	case has[0]:
		return ',', nil
	case has[1]:
		return ';', nil
	}
	return spaces, nil
}

// personWords are words that name columns of people, also behind from and to, with a number
// or a letter, and followed by id.
var personWords = map[string]bool{
	"user": true, "usera": true, "userb": true, "friend": true, "person": true, "member": true, "player": true, "node": true,
	"source": true, "target": true, "from": true, "to": true, "fromuser": true, "touser": true, "fromnode": true, "tonode": true,
	"follower": true, "followee": true, "following": true, "followed": true,
}

// columnWord returns a column's name in lower case, with nothing but its letters, and
// whether it has digits.
func columnWord(name string) (word string, digits bool) {
	word = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c >= '0' && c <= '9':
			digits = true
		}
		return -1
	}, name)
	return word, digits
}

// isEdgeHeader reports whether fields are certainly names of columns. A name such as user1
// may also be an id.
func isEdgeHeader(fields []string) bool {
	for _, field := range fields {
		word, digits := columnWord(field)
		person, isID := strings.CutSuffix(word, "id")
		if !personWords[person] || digits && !isID {
			return false
		}
	}
	return true
}

// idKind returns 0 for a word, which may name a column, 2 for a number, and 1 for every
// other id.
func idKind(field string) int {
	word, digits := columnWord(field)
	switch {
	case !digits || word == "id" || personWords[strings.TrimSuffix(word, "id")]:
		return 0
	case strings.Trim(field, "-+0123456789 ") == "":
		return 2
	}
	return 1
}

// parseUser returns the user of a field.
func parseUser(field string) (models.UserID, error) {
	field = strings.TrimSpace(field)
	if isPlaceholder(field) {
		return "", fmt.Errorf("%q stands for an id that is missing", field)
	}
	user, err := models.ParseUserID(field)
	if err != nil {
		return "", fmt.Errorf("%q: %w", shortened(field), err)
	}
	return user, nil
}

// isPlaceholder reports whether a field is what databases, spreadsheets and programs write
// for a value that is missing.
func isPlaceholder(field string) bool {
	if len(field) < 2 || len(field) > len("undefined") {
		return false // most ids are longer, or numbers
	}
	switch strings.ToLower(field) {
	case "null", "(null)", "<null>", `\n`, "nil", "<nil>", "none", "nan", "na", "n/a", "<na>", "#n/a", "undefined":
		return true
	}
	return false
}

// damagedID reports whether a spreadsheet made the id of a long number, such as
// 1.50396E+09. Different numbers become the same.
func damagedID(id models.UserID) bool {
	mantissa, exponent, ok := strings.Cut(string(id), "E+")
	return ok && exponent != "" && mantissa != "" && strings.Trim(exponent, "0123456789") == "" && strings.Trim(mantissa, "0123456789.,") == ""
}

// shortened returns the beginning of a long text.
func shortened(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}

// addOffset adds the offset to a number.
func addOffset(field string, offset int64) (string, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is not a number, to which --offset could be added", shortened(field))
	}
	sum := n + offset
	if sum < 1 || (offset > 0) != (sum > n) {
		return "", fmt.Errorf("%s with offset %d is not 1 or more", field, offset)
	}
	return strconv.FormatInt(sum, 10), nil
}
