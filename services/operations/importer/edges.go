package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
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
	r := &edgeReader{EdgesOptions: o, filters: filters, do: do, records: newRecordReader(in), oneWay: make(map[friends.Edge]*oneWayRow)}
	r.columns, _ = findEdgeColumns([]string{"", ""})
	r.records.comment = isComment
	first, err := r.begin(ctx)
	if err == nil && first.fields != nil {
		err = r.decideFirst(ctx, first)
	}
	for err == nil {
		var row edgeRow
		if row, err = r.row(ctx); err == nil {
			err = r.edge(row)
		}
	}
	if !errors.Is(err, errEnd) {
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
	header  *header // nil if the file has none
	columns edgeColumns
	// oneWay has the rows of one direction, by the two people in their order.
	oneWay map[friends.Edge]*oneWayRow
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

// next returns the next record with content.
func (r *edgeReader) next(ctx context.Context) (record, error) {
	for matrix := false; ; {
		rec, err := r.records.next(ctx)
		rec.text = strings.TrimSpace(rec.text)
		switch {
		case err != nil, rec.bad != nil:
			return rec, err
		case isComment(rec.text):
			matrix = matrix || strings.HasPrefix(rec.text, "%%MatrixMarket")
		case rec.text == "":
		case matrix: // its size
			matrix = false
		default:
			return rec, nil
		}
	}
}

// begin reads up to the header or the first row, and returns that row.
func (r *edgeReader) begin(ctx context.Context) (first edgeRow, err error) {
	for r.records.delimiters == "" {
		rec, err := r.next(ctx)
		if err != nil {
			return first, err
		}
		if first, err = r.beginWith(rec); err != nil {
			return first, err
		}
	}
	return first, nil
}

// beginWith reads a record of those up to the header or the first row, and returns the row if it is that.
func (r *edgeReader) beginWith(rec record) (first edgeRow, err error) {
	delimiters, err := delimiterOf(rec.text, rec.number)
	if err != nil {
		return first, err
	}
	fields, bad := split(rec.text, delimiters)
	if bad = cmp.Or(rec.bad, bad); bad != nil {
		return first, r.do(rec.number, friends.Edge{}, bad)
	}
	names := fields
	if marked := strings.TrimLeft(rec.text, "#%"); marked != rec.text {
		names = strings.FieldsFunc(marked, func(c rune) bool { return strings.ContainsRune(delimiters, c) })
		if len(fields) != 2 && headerOf(names) != certainHeader || strings.HasSuffix(fields[0], ":") {
			return first, nil // a comment such as #Nodes: 4039
		}
	}
	switch {
	case isAdjacency(rec.text, fields, delimiters):
		return first, fmt.Errorf("line %d, %q, is that of an adjacency list: write a line with two ids for each friendship", rec.number, shortened(rec.text))
	case r.Header == "yes" || r.Header == "" && headerOf(names) == certainHeader:
		return first, r.useHeader(rec.number, delimiters, names)
	case len(fields) > 2 && r.Header == "":
		return first, r.do(rec.number, friends.Edge{}, fmt.Errorf("%d fields instead of two user ids: a file with further columns "+
			"needs a first line that names all of them, two of them user1_id and user2_id", len(fields)))
	case len(fields) != 2:
		return first, r.do(rec.number, friends.Edge{}, fmt.Errorf("%d fields instead of two user ids", len(fields)))
	}
	r.records.delimiters = delimiters
	return edgeRow{number: rec.number, fields: fields}, nil
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
	for _, at := range [...]*int{&columns.status, &columns.kind} {
		if h.where[*at] != nil {
			*at = notNamed // somebody has decided about the column
		}
	}
	r.records.delimiters, r.header, r.columns = delimiters, &h, columns
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

// row returns the next row below the header or the first row.
func (r *edgeReader) row(ctx context.Context) (edgeRow, error) {
	rec, err := r.next(ctx)
	row := edgeRow{number: rec.number, bad: rec.bad}
	if err == nil && row.bad == nil {
		row.fields, row.bad = r.fieldsOf(rec.text)
	}
	return row, err
}

// fieldsOf returns the fields of a row.
func (r *edgeReader) fieldsOf(text string) ([]string, error) {
	delimiters := r.records.delimiters
	fields, err := split(text, delimiters)
	switch {
	case err != nil:
		return nil, err
	case r.header != nil:
		return r.header.row(fields)
	case isAdjacency(text, fields, delimiters):
		return nil, fmt.Errorf("%q must be in quotes if it is an id; if this is an adjacency list, write a line with two ids for each friendship", shortened(fields[0]))
	case len(fields) != 2:
		return nil, fmt.Errorf("%d fields instead of two user ids: the file separates them by %s", len(fields), delimiterNames[delimiters])
	}
	return fields, nil
}

// isAdjacency reports whether a row is that of an adjacency list, such as 3: 2 7 9.
func isAdjacency(text string, fields []string, delimiters string) bool {
	return delimiters == spaces && len(fields) > 1 && text[0] != '"' && strings.HasSuffix(fields[0], ":")
}

// decideFirst reads the first row, unless those below it show that it is a header, and these.
func (r *edgeReader) decideFirst(ctx context.Context, first edgeRow) (err error) {
	var below []edgeRow
	var good [][]string // the fields of those that are not bad
	for r.Header == "" && len(below) < rowsBelow && err == nil {
		var row edgeRow
		if row, err = r.row(ctx); err == nil {
			below = append(below, row)
		}
		if row.fields != nil {
			good = append(good, row.fields)
		}
	}
	if err != nil && !errors.Is(err, errEnd) {
		return err
	}
	isHeader, doubt := false, false
	if r.Header == "" {
		isHeader, doubt = headerAbove(first.fields, good)
	}
	switch delimiters := r.records.delimiters; {
	case isHeader:
		err = r.useHeader(first.number, delimiters, first.fields)
	case doubt:
		err = fmt.Errorf("line %d, %q, may be a header or two users: say which by --header yes or --header no",
			first.number, shortened(strings.Join(first.fields, delimiters[:1])))
	default:
		err = r.edge(first)
	}
	for _, row := range below {
		if err == nil {
			err = r.edge(row)
		}
	}
	return err
}

// headerAbove reports whether a first row is a header, or may be one, by the rows below it.
func headerAbove(first []string, below [][]string) (isHeader, doubt bool) {
	all := func(is func(fields []string) bool) bool {
		return len(below) > 0 && !slices.ContainsFunc(below, func(fields []string) bool { return !is(fields) })
	}
	lowest := func(fields []string) int { return min(idKind(fields[0]), idKind(fields[1])) }
	kind := headerOf(first)
	most := max(idKind(first[0]), idKind(first[1]))
	prefix := indexed(first)
	alone := prefix != "" && all(func(fields []string) bool { // nobody below is called like that
		return !strings.HasPrefix(strings.ToLower(fields[0]), prefix) && !strings.HasPrefix(strings.ToLower(fields[1]), prefix)
	})
	isHeader = most < idNumber && len(below) >= rowsBelow/2 && all(func(fields []string) bool { return lowest(fields) == idNumber }) ||
		kind == likelyHeader && all(func(fields []string) bool { return headerOf(fields) == noHeader }) ||
		alone && strings.HasSuffix(strings.TrimRight(prefix, "_- "), "id")
	return isHeader, kind != noHeader || alone || len(below) > 0 && most < lowest(below[0])
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
func (r *edgeReader) edge(row edgeRow) error {
	if row.bad != nil {
		return r.do(row.number, friends.Edge{}, row.bad)
	}
	c, fields := r.columns, row.fields
	if r.header == nil && len(r.filters) > 0 {
		return errors.New("--where: the file has no line that names its columns")
	}
	a, errA := parseUser(fields[c.first], r.Offset)
	b, errB := parseUser(fields[c.second], r.Offset)
	edge, err := friends.Edge{A: a, B: b}, cmp.Or(errA, errB)
	switch {
	case err != nil:
	case edge.A == edge.B:
		err = ErrSelf
	case c.status != notNamed && !isAccepted(fields[c.status]):
		name := r.header.names[c.status]
		return fmt.Errorf("line %d: the column %q has %q: take the rows of friends only, by --where %s=accepted, or with further --where other rows, too",
			row.number, name, shortened(fields[c.status]), name)
	case c.oneWay, c.kind != notNamed && strings.EqualFold(strings.TrimSpace(fields[c.kind]), "directed"):
		return r.oneDirection(row.number, edge)
	}
	return r.do(row.number, edge, err)
}

// oneDirection passes on the friendship of a row if the other direction was there before.
func (r *edgeReader) oneDirection(number int, edge friends.Edge) error {
	key := friends.Edge{A: min(edge.A, edge.B), B: max(edge.A, edge.B)}
	row := r.oneWay[key]
	switch {
	case row == nil && len(r.oneWay) == maxOneWay:
		return fmt.Errorf("the rows of the file are one-way, and more than %d pairs of people are kept in memory: split it, with both rows of a pair in the same part", maxOneWay)
	case row == nil:
		r.oneWay[key] = &oneWayRow{line: number, edge: edge}
		return nil
	case row.other || row.edge == edge:
		return r.do(number, edge, ErrOneWay)
	}
	row.other = true
	if err := r.do(row.line, row.edge, ErrOneWay); err != nil {
		return err
	}
	return r.do(number, edge, nil)
}

// endOneWay reports the rows of one direction whose other direction never came.
func (r *edgeReader) endOneWay() error {
	for _, row := range slices.SortedFunc(maps.Values(r.oneWay), func(a, b *oneWayRow) int { return cmp.Compare(a.line, b.line) }) {
		if row.other {
			continue
		}
		if err := r.do(row.line, row.edge, errors.New("the row is one-way, and the file has no row of the other direction")); err != nil {
			return err
		}
	}
	return nil
}

// quotedField matches a field in quotes, with the delimiter before it.
var quotedField = regexp.MustCompile(`(^|[,;\t ]) *"(?:[^"]|"")*(?:"|$)`)

// delimiterOf returns the delimiters of a line of ids. An id that has one must be in quotes.
func delimiterOf(line string, number int) (string, error) {
	outside := quotedField.ReplaceAllString(line, "$1")
	comma, semicolon := strings.Contains(outside, ","), strings.Contains(outside, ";")
	switch {
	case comma && semicolon:
		return "", fmt.Errorf("line %d, %q, has commas and semicolons: put ids that have one in quotes, "+
			"or put the line user1_id,user2_id or user1_id;user2_id above", number, shortened(line))
	case comma:
		return ",", nil
	case semicolon:
		return ";", nil
	case strings.Contains(outside, "\t") && headerOf(strings.Split(line, "\t")) == certainHeader:
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
// by a number or a letter. Rows of oneWayPairs are one-way.
var (
	pairs = [][2]string{
		{"source", "target"}, {"src", "dst"}, {"from", "to"}, {"fromuser", "touser"}, {"fromnode", "tonode"},
		{"user", "friend"}, {"person", "friend"}, {"member", "friend"}, {"name", "friend"}, {"", "friend"},
		{"node", "neighbor"}, {"node", "neighbour"}, {"sender", "receiver"}, {"sender", "recipient"},
		{"requester", "addressee"}, {"requester", "receiver"}, {"inviter", "invitee"},
	}
	oneWayPairs = [][2]string{
		{"follower", "followee"}, {"follower", "following"}, {"follower", "followed"}, {"user", "follower"}, {"user", "following"},
	}
)

// personForm matches the name of a column of people, as columnWord returns it: a word, and the
// number or the letter behind it, each of which id may follow.
var personForm = regexp.MustCompile("^(" + strings.Join(personWords, "|") + ")(id)?([0-9ab]?)(id)?$")

// personColumn returns what a column's name says of people: one of personWords, the number or the
// letter behind it, and whether it names ids. It returns false if it says nothing.
func personColumn(name string) (word, index string, ids, ok bool) {
	m := personForm.FindStringSubmatch(columnWord(name))
	if m == nil {
		return "", "", false, false
	}
	ids = m[2]+m[4] != ""
	return m[1], m[3], ids, ids || m[1] != ""
}

// findEdgeColumns returns the columns of a header; false if they are not known. Those of a header
// of two columns are these two.
func findEdgeColumns(names []string) (c edgeColumns, ok bool) {
	c.kind, c.status = notNamed, notNamed
	at := make(map[string]int, len(names))         // by word and index
	for _, ofIDs := range [...]bool{false, true} { // of several, the first of ids
		for i, name := range slices.Backward(names) {
			if word, index, ids, ok := personColumn(name); ok && ids == ofIDs {
				at[word+index] = i
			}
		}
	}
	for i, name := range names {
		switch columnWord(name) {
		case "type", "edgetype", "relation":
			c.kind = i
		case "status", "state", "friendshipstatus", "requeststatus":
			c.status = i
		}
	}
	both := func(a, b string) bool {
		var first, second bool
		c.first, first = at[a]
		c.second, second = at[b]
		return first && second
	}
	for _, word := range personWords {
		for _, index := range indexes {
			if both(word+index[:1], word+index[1:]) {
				return c, true
			}
		}
	}
	for i, pair := range slices.Concat(pairs, oneWayPairs) {
		if both(pair[0], pair[1]) {
			c.oneWay = i >= len(pairs)
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
		if _, index, ofIDs, ok := personColumn(field); ok {
			named++
			ids = ids && (ofIDs || index == "")
		}
	}
	_, known := findEdgeColumns(fields)
	switch {
	case len(fields) > 2 && known:
		return certainHeader
	case len(fields) != 2, named == 0:
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

// parseUser returns the user of a field. An offset that is not 0 is added to its number.
func parseUser(field string, offset int64) (models.UserID, error) {
	field = strings.TrimSpace(field)
	if offset != 0 {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return "", fmt.Errorf("%q is not a number, to which --offset could be added", shortened(field))
		}
		sum := n + offset
		if sum < 1 || (offset > 0) != (sum > n) {
			return "", fmt.Errorf("%s with offset %d is not 1 or more", field, offset)
		}
		field = strconv.FormatInt(sum, 10)
	}
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

// damagedForm matches what a spreadsheet or a data frame makes of a number.
var damagedForm = regexp.MustCompile(`^(\d+\.0|[\d.,]+E\+\d+)$`)

// damagedID reports whether a spreadsheet or a data frame made the id of a number, such as
// 1.50396E+09 or 1503960366.0.
func damagedID(id models.UserID) bool {
	return strings.ContainsAny(string(id), ".E") && damagedForm.MatchString(string(id))
}

// shortened returns the beginning of a long text.
func shortened(text string) string {
	const limit = 100
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "…"
}
