package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stepboard/models"
	"stepboard/services/people/friends"
)

// edgesExpected says what a file of friendships holds.
const edgesExpected = "two user ids a line, separated by a comma, a semicolon, a tab or spaces, such as 1001,1002"

// maxOneWay is how many rows of a file whose rows are one-way wait for the row of the other
// direction: about 600 MB.
const maxOneWay = 3_000_000

// EdgesOptions says how a file of friendships is read. The zero value reads one that says
// everything itself.
type EdgesOptions struct {
	// Offset, if it is not 0, is added to the ids, which are numbers then, and 1 or more
	// afterwards.
	Offset int64
	// Header says whether the first line names the columns: "yes", "no", or "" if the file shows it.
	Header string
	// Where takes only rows with a value, as in "status=accepted".
	Where []string
	// Note receives what a person should know about a line. It may be nil.
	Note func(line int, what string)
}

// Rows that are neither friendships nor bad, besides ErrLeftOut.
var (
	// ErrSelf is that of a row that connects somebody with themselves.
	ErrSelf = errors.New("it connects somebody with themselves")
	// ErrOneWay is that of a row of one direction if the row of the other one makes the friendship.
	ErrOneWay = errors.New("the row of the other direction makes the friendship")
)

// EachEdge calls do for each friendship of a file, or with the reason why a row is bad, until ctx
// ends or do fails. The reasons ErrSelf, ErrOneWay and ErrLeftOut are not bad.
//
// A row has two user ids, quoted or not. The first row decides whether commas, semicolons or
// white space separate the ids of the file. It may be a header, such as user1_id,user2_id; with
// one, the file may have further columns. Blank lines and comments, which begin with "# " or
// "% ", are skipped, and above the first row every line that begins with # or % and has no two
// ids.
//
// Each row makes a friendship. If the file says that its rows are one-way, by columns such as
// follower and followee or by a column type with "directed", two people are friends if it has both
// rows, and the others are bad. Such rows are passed on when the other one comes, or at the end.
//
// It fails if it can't be known what the first line is, and if a column status has other values
// than "accepted", unless o.Where names it.
func EachEdge(ctx context.Context, in io.Reader, o EdgesOptions, do func(number int, edge friends.Edge, bad error) error) error {
	filters, err := parseFilters(o.Where)
	if err != nil {
		return fmt.Errorf("--where: %w", err)
	}
	r := &edgeReader{EdgesOptions: o, filters: filters, do: do, records: newRecordReader(in, ",;\t")}
	r.columns, _ = findEdgeColumns([]string{"", ""})
	r.records.comment = isComment
	err = r.records.each(ctx, func(rec record) error {
		rec.text = strings.TrimSpace(rec.text)
		switch {
		case rec.bad != nil:
			return r.pass(edgeRow{rec.number, nil, rec.bad})
		case isComment(rec.text):
			r.size = r.size || strings.HasPrefix(rec.text, "%%MatrixMarket")
			return nil
		case rec.text == "":
			return nil
		case r.size:
			r.size = false
			return nil
		}
		return r.read(rec)
	})
	if err == nil {
		err = r.decideFirst()
	}
	if err != nil {
		return err
	}
	return r.endOneWay()
}

// edgeReader reads the friendships of a file.
type edgeReader struct {
	EdgesOptions

	filters []filter
	do      func(number int, edge friends.Edge, bad error) error
	records *recordReader
	// splitter is nil until the first row, or the header, was read.
	splitter *splitter
	header   *header // nil if the file has none
	columns  edgeColumns
	// first has the fields of the first row until the ones below it, at most rowsBelow, decide whether they are names of
	// columns.
	first edgeRow
	below []edgeRow
	// oneWay has the rows of one direction, by the two people in their order.
	oneWay map[friends.Edge]oneWayRow
	// size says that the next line has the size of a matrix, in the format Matrix Market.
	size bool
}

// edgeRow is a row. Its fields are nil for none, or if it is bad.
type edgeRow struct {
	number int
	fields []string
	bad    error
}

// rowsBelow is how many rows decide whether the one above them is a header.
const rowsBelow = 20

// oneWayRow is a row of one direction.
type oneWayRow struct {
	line  int
	edge  friends.Edge
	other bool // whether the other direction came, too
}

// isComment reports whether a line is a comment. An id may begin with # or %, but has no spaces.
func isComment(line string) bool {
	line = strings.TrimLeft(line, " ")
	if line == "" || line[0] != '#' && line[0] != '%' {
		return false
	}
	rest := strings.TrimRight(line[1:], "\r\n")
	return rest == "" || strings.ContainsRune(" \t%", rune(rest[0]))
}

// read reads a record with content.
func (r *edgeReader) read(rec record) error {
	if r.splitter == nil {
		return r.begin(rec)
	}
	fields, err := r.splitter.split(rec.text)
	if err == nil {
		fields, err = r.row(fields)
	}
	return r.pass(edgeRow{rec.number, fields, err})
}

// pass passes on a row, once it is known whether the first one is a header.
func (r *edgeReader) pass(row edgeRow) error {
	switch {
	case r.first.fields == nil && row.bad != nil:
		return r.do(row.number, friends.Edge{}, row.bad)
	case r.first.fields == nil:
		return r.edge(row.number, row.fields)
	}
	row.fields = slices.Clone(row.fields)
	if r.below = append(r.below, row); len(r.below) < rowsBelow {
		return nil
	}
	return r.decideFirst()
}

// begin reads a record of those up to the header or the first row.
func (r *edgeReader) begin(rec record) error {
	delimiters, err := delimiterOf(rec.text, rec.number)
	if err != nil {
		return err
	}
	splitter := newSplitter(delimiters)
	fields, err := splitter.split(rec.text)
	if err != nil {
		return r.do(rec.number, friends.Edge{}, err)
	}
	names := fields
	if marked := strings.TrimLeft(rec.text, "#%"); marked != rec.text {
		names = strings.FieldsFunc(marked, func(c rune) bool { return strings.ContainsRune(delimiters, c) })
		if len(fields) != 2 && headerOf(names) != certainHeader || strings.HasSuffix(fields[0], ":") {
			return nil // a comment such as #Nodes: 4039
		}
	}
	kind := headerOf(names)
	switch {
	case isAdjacency(delimiters, fields, splitter.quoted):
		return fmt.Errorf("line %d, %q, is that of an adjacency list: write a line with two ids for each friendship", rec.number, shortened(rec.text))
	case r.Header == "yes" || r.Header == "" && kind == certainHeader:
		return r.useHeader(rec.number, delimiters, names)
	case len(fields) > 2 && r.Header == "":
		return r.do(rec.number, friends.Edge{}, fmt.Errorf("%d fields instead of two user ids: a file with further columns "+
			"needs a first line that names all of them, two of them user1_id and user2_id", len(fields)))
	case len(fields) != 2:
		return r.do(rec.number, friends.Edge{}, fmt.Errorf("%d fields instead of two user ids", len(fields)))
	}
	r.use(delimiters)
	if r.Header == "no" {
		return r.edge(rec.number, fields)
	}
	r.first = edgeRow{rec.number, slices.Clone(fields), nil}
	return nil
}

// use reads the rest of the file with these delimiters.
func (r *edgeReader) use(delimiters string) {
	r.splitter = newSplitter(delimiters)
	r.records.quotes.delimiters = delimiters
}

// useHeader takes the columns from the names in a line.
func (r *edgeReader) useHeader(number int, delimiters string, names []string) error {
	h, err := newHeader(names, r.filters)
	columns, ok := findEdgeColumns(names)
	if err == nil && !ok {
		err = errors.New("call two of them user1_id and user2_id")
	}
	if err != nil {
		return fmt.Errorf("line %d has the columns %s: %w", number, listed(names), err)
	}
	for at := range h.where { // somebody has decided about the column
		switch at {
		case columns.status:
			columns.status = notNamed
		case columns.kind:
			columns.kind = notNamed
		}
	}
	r.use(delimiters)
	r.header, r.columns = &h, columns
	if r.Note == nil {
		return nil
	}
	what := fmt.Sprintf("names the columns; each row makes %q and %q friends", h.names[columns.first], h.names[columns.second])
	if columns.oneWay {
		what += ", if the row of the other direction is there, too"
	}
	if len(names) > 2 {
		what += "; the other columns are not read"
	}
	r.Note(number, what)
	return nil
}

// row checks the fields of a row.
func (r *edgeReader) row(fields []string) ([]string, error) {
	switch {
	case r.header != nil:
		return r.header.row(fields)
	case isAdjacency(r.splitter.quotes.delimiters, fields, r.splitter.quoted):
		return nil, fmt.Errorf("%q must be in quotes if it is an id; if this is an adjacency list, write a line with two ids for each friendship", shortened(fields[0]))
	case len(fields) != 2:
		return nil, fmt.Errorf("%d fields instead of two user ids: the file separates them by %s", len(fields), delimiterNames[r.splitter.quotes.delimiters])
	}
	return fields, nil
}

// isAdjacency reports whether a row is that of an adjacency list, such as 3: 2 7 9.
func isAdjacency(delimiters string, fields []string, inQuotes []bool) bool {
	return delimiters == spaces && len(fields) > 1 && !inQuotes[0] && strings.HasSuffix(fields[0], ":")
}

// decideFirst reads the first row, unless those below it show that it is a header, and then these.
func (r *edgeReader) decideFirst() error {
	first, below := r.first, r.below
	if first.fields == nil {
		return nil
	}
	r.first, r.below = edgeRow{}, nil
	err := r.readFirst(first, below)
	for _, row := range below {
		if err == nil {
			err = r.pass(row)
		}
	}
	return err
}

func (r *edgeReader) readFirst(first edgeRow, below []edgeRow) error {
	below = slices.DeleteFunc(slices.Clone(below), func(row edgeRow) bool { return row.bad != nil })
	all := func(is func(fields []string) bool) bool {
		return len(below) > 0 && !slices.ContainsFunc(below, func(row edgeRow) bool { return !is(row.fields) })
	}
	kind := headerOf(first.fields)
	most := max(idKind(first.fields[0]), idKind(first.fields[1]))
	prefix := indexed(first.fields)
	alone := prefix != "" && all(func(fields []string) bool { // nobody below is called like that
		return !strings.HasPrefix(strings.ToLower(fields[0]), prefix) && !strings.HasPrefix(strings.ToLower(fields[1]), prefix)
	})
	switch {
	case most < idNumber && len(below) >= rowsBelow/2 && all(func(fields []string) bool { return min(idKind(fields[0]), idKind(fields[1])) == idNumber }),
		kind == likelyHeader && all(func(fields []string) bool { return headerOf(fields) == noHeader }),
		alone && strings.HasSuffix(strings.TrimRight(prefix, "_- "), "id"):
		return r.useHeader(first.number, r.splitter.quotes.delimiters, first.fields)
	case kind != noHeader, alone, len(below) > 0 && most < min(idKind(below[0].fields[0]), idKind(below[0].fields[1])):
		return fmt.Errorf("line %d, %q, may be a header or two users: say which by --header yes or --header no",
			first.number, shortened(strings.Join(first.fields, r.splitter.quotes.delimiters[:1])))
	}
	return r.edge(first.number, first.fields)
}

// indexed returns what two fields begin with, in small letters, that differ by a number or a letter at their ends alone,
// such as uid_1 and uid_2; "" for others.
func indexed(fields []string) string {
	for _, index := range indexes {
		a, first := strings.CutSuffix(strings.ToLower(fields[0]), index[:1])
		b, second := strings.CutSuffix(strings.ToLower(fields[1]), index[1:])
		if first && second && a == b && len(a) > 1 && idKind(a) == idWord {
			return a
		}
	}
	return ""
}

// edge passes on the friendship of a row.
func (r *edgeReader) edge(number int, fields []string) error {
	c := r.columns
	if r.header == nil && len(r.filters) > 0 {
		return errors.New("--where: the file has no line that names its columns")
	}
	edge, err := edgeOf(fields[c.first], fields[c.second], r.Offset)
	switch {
	case err != nil:
	case edge.A == edge.B:
		err = ErrSelf
	case c.status != notNamed && !isAccepted(fields[c.status]):
		name := r.header.names[c.status]
		return fmt.Errorf("line %d: the column %q has %q: take the rows of friends only, by --where %s=accepted, or with further --where other rows, too",
			number, name, shortened(fields[c.status]), name)
	case c.oneWay, c.kind != notNamed && strings.EqualFold(strings.TrimSpace(fields[c.kind]), "directed"):
		return r.oneDirection(number, edge)
	}
	return r.do(number, edge, err)
}

// oneDirection passes on the friendship of a row if the other direction was there before.
func (r *edgeReader) oneDirection(number int, edge friends.Edge) error {
	key := friends.Edge{A: min(edge.A, edge.B), B: max(edge.A, edge.B)}
	row, there := r.oneWay[key]
	switch {
	case there && !row.other && row.edge != edge:
		row.other = true
		r.oneWay[key] = row
		if err := r.do(row.line, row.edge, ErrOneWay); err != nil {
			return err
		}
		return r.do(number, edge, nil)
	case there:
		return r.do(number, edge, ErrOneWay)
	case len(r.oneWay) == maxOneWay:
		return fmt.Errorf("the rows of the file are one-way, and more than %d pairs of people are kept in memory: split it, with both rows of a pair in the same part", maxOneWay)
	}
	if r.oneWay == nil {
		r.oneWay = make(map[friends.Edge]oneWayRow)
	}
	r.oneWay[key] = oneWayRow{line: number, edge: edge}
	return nil
}

// endOneWay reports the rows of one direction whose other direction never came.
func (r *edgeReader) endOneWay() error {
	rows := slices.SortedFunc(maps.Values(r.oneWay), func(a, b oneWayRow) int { return cmp.Compare(a.line, b.line) })
	for _, row := range rows {
		if row.other {
			continue
		}
		err := r.do(row.line, row.edge, errors.New("the row is one-way, and the file has no row of the other direction"))
		if err != nil {
			return err
		}
	}
	return nil
}

// edgeOf returns the friendship of two user ids.
func edgeOf(a, b string, offset int64) (friends.Edge, error) {
	var ids [2]models.UserID
	for i, field := range [...]string{a, b} {
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

// delimiterOf returns the delimiters of a line of ids. An id that has one must be in quotes.
func delimiterOf(line string, number int) (string, error) {
	switch has := outsideQuotes(line, ",;\t"); {
	case has[0] && has[1]:
		return "", fmt.Errorf("line %d, %q, has commas and semicolons: put ids that have one in quotes, "+
			"or put the line user1_id,user2_id or user1_id;user2_id above", number, shortened(line))
	case has[0]:
		return ",", nil
	case has[1]:
		return ";", nil
	case has[2] && headerOf(strings.Split(line, "\t")) == certainHeader:
		return "\t", nil // whose fields may have spaces
	}
	return spaces, nil
}

// edgeColumns has the positions of columns, from 0.
type edgeColumns struct {
	first, second int
	oneWay        bool // whether each row is one-way
	kind          int  // says by "directed" whether a row is one-way; notNamed if there is none
	status        int  // notNamed if there is none
}

// personWords are words that name columns of people, also followed by id, a number or a letter.
var personWords = []string{
	"", "user", "friend", "person", "member", "player", "profile", "account", "contact", "node", "vertex", "name", "username", "email",
	"source", "target", "src", "dst", "from", "to", "fromuser", "touser", "fromnode", "tonode", "sender", "receiver", "recipient", "requester", "addressee",
	"inviter", "invitee", "neighbor", "neighbour", "follower", "followee", "following", "followed",
}

// indexes are the numbers and letters by which the names of two columns of people differ.
var indexes = []string{"01", "12", "ab"}

// pairs are the names of two columns of people that belong together, besides those that differ
// by a number or a letter.
var pairs = []struct {
	first, second string
	oneWay        bool
}{
	{"source", "target", false},
	{"src", "dst", false},
	{"from", "to", false},
	{"fromuser", "touser", false},
	{"fromnode", "tonode", false},
	{"user", "friend", false},
	{"person", "friend", false},
	{"member", "friend", false},
	{"name", "friend", false},
	{"", "friend", false},
	{"node", "neighbor", false},
	{"node", "neighbour", false},
	{"sender", "receiver", false},
	{"sender", "recipient", false},
	{"requester", "addressee", false},
	{"requester", "receiver", false},
	{"inviter", "invitee", false},
	{"follower", "followee", true},
	{"follower", "following", true},
	{"follower", "followed", true},
	{"user", "follower", true},
	{"user", "following", true},
}

// personColumn is what the name of a column says of people.
type personColumn struct {
	word  string // of personWords
	index string // a number or a letter behind it
	id    bool   // whether it names ids
}

// personColumnOf returns what a column's name says of people.
func personColumnOf(name string) (c personColumn, ok bool) {
	word := columnWord(name)
	word, c.id = strings.CutSuffix(word, "id")
	if n := len(word); n > 0 && strings.IndexByte("0123456789ab", word[n-1]) >= 0 {
		if c.index = word[n-1:]; !slices.Contains(personWords, word) {
			word = word[:n-1]
		}
	}
	if before, ok := strings.CutSuffix(word, "id"); ok {
		word, c.id = before, true
	}
	c.word = word
	return c, slices.Contains(personWords, word) && (word != "" || c.id)
}

// findEdgeColumns returns the columns of a header; false if they are not known. Those of a header
// of two columns are these two.
func findEdgeColumns(names []string) (c edgeColumns, ok bool) {
	c.kind, c.status = notNamed, notNamed
	for i, name := range names {
		switch columnWord(name) {
		case "type", "edgetype", "relation":
			c.kind = i
		case "status", "state", "friendshipstatus", "requeststatus":
			c.status = i
		}
	}
	at := make(map[personColumn]int, len(names))
	for i, name := range slices.Backward(names) {
		if p, ok := personColumnOf(name); ok {
			at[p] = i // of several, the first
		}
	}
	find := func(word, index string) (int, bool) {
		for _, id := range [...]bool{true, false} {
			if i, ok := at[personColumn{word, index, id}]; ok {
				return i, true
			}
		}
		return 0, false
	}
	try := func(a, b personColumn) (both bool) {
		var first, second bool
		c.first, first = find(a.word, a.index)
		c.second, second = find(b.word, b.index)
		return first && second
	}
	for _, word := range personWords {
		for _, index := range indexes {
			if try(personColumn{word: word, index: index[:1]}, personColumn{word: word, index: index[1:]}) {
				return c, true
			}
		}
	}
	for _, p := range pairs {
		if try(personColumn{word: p.first}, personColumn{word: p.second}) {
			c.oneWay = p.oneWay
			return c, true
		}
	}
	c.first, c.second = 0, 1
	return c, len(names) == 2
}

// headerKind says whether the fields of a first row name columns.
type headerKind int

const (
	noHeader headerKind = iota
	// unclearHeader is that of one name of a column and something else.
	unclearHeader
	// likelyHeader is that of names such as user1 and user2, which may also be ids.
	likelyHeader
	certainHeader
)

// headerOf returns whether fields name columns.
func headerOf(fields []string) headerKind {
	named, ids := 0, true
	for _, field := range fields {
		if p, ok := personColumnOf(field); ok {
			named++
			ids = ids && (p.id || p.index == "")
		}
	}
	if len(fields) > 2 {
		if _, ok := findEdgeColumns(fields); ok {
			return certainHeader
		}
		return noHeader
	}
	switch {
	case named == 0, len(fields) < 2:
		return noHeader
	case named < len(fields) || fields[0] == fields[1]:
		return unclearHeader
	case !ids:
		return likelyHeader
	}
	return certainHeader
}

// isAccepted reports whether a status is that of a friendship.
func isAccepted(status string) bool {
	return slices.Contains([]string{"accepted", "accept", "approved", "confirmed", "active", "friend", "friends", "mutual"}, strings.ToLower(strings.TrimSpace(status)))
}

// What an id may be: a word, which may name a column, a number, or something else.
const (
	idWord = iota
	idMixed
	idNumber
)

// idKind returns what a field may be.
func idKind(field string) int {
	switch {
	case !strings.ContainsAny(field, "0123456789@"):
		return idWord
	case strings.Trim(field, "-+0123456789 ") == "":
		return idNumber
	}
	return idMixed
}

// parseUser returns the user of a field.
func parseUser(field string) (models.UserID, error) {
	field = strings.TrimSpace(field)
	if isPlaceholder(field) {
		return "", fmt.Errorf("%q stands for an id that is missing", field)
	}
	user, err := models.ParseUserID(strings.Clone(field)) // without the rest of the record
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

// damagedID reports whether a spreadsheet or a data frame made the id of a number, such as
// 1.50396E+09 or 1503960366.0.
func damagedID(id models.UserID) bool {
	mantissa, exponent, ok := strings.Cut(string(id), "E+")
	if whole, fraction, point := strings.Cut(string(id), "."); point && !ok {
		return whole != "" && strings.Trim(whole, "0123456789") == "" && fraction == "0"
	}
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
