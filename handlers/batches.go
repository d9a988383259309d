package handlers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"stepboard/models"
	"stepboard/services/boards/ingest"
)

// userTotal is the total of a user on one day.
type userTotal struct {
	UserID *models.UserID `json:"user_id" doc:"The user" example:"1001" required:"true" nullable:"false"`
	Date   *string        `json:"date" doc:"The day, as for a single upload" format:"date" example:"2026-11-20" required:"true" nullable:"false"`
	Score  *wholeNumber   `json:"score" doc:"The user's total for that day so far" example:"12345" minimum:"0" required:"true" nullable:"false"`
}

// userTotals describes the body of a batch. It is decoded item by item.
type userTotals struct {
	Scores []userTotal `json:"scores" doc:"Up to 1,000 totals" minItems:"1" maxItems:"1000" nullable:"false"`
}

type rejectedTotal struct {
	Index  int         `json:"index" doc:"The item's position, from 0" example:"1"`
	Code   models.Code `json:"code" doc:"Why it was not accepted"`
	Detail string      `json:"detail" doc:"What a person should know and do"`
}

// batchResult says what became of a batch.
type batchResult struct {
	Accepted int             `json:"accepted" doc:"How many totals were accepted" example:"999"`
	Rejected []rejectedTotal `json:"rejected" nullable:"false" doc:"The items that were not accepted"`
	Held     []int           `json:"held" nullable:"false" doc:"The positions, from 0, of accepted totals that count only once an operator has looked at them, because they are unusually large"`
}

var uploadBatch = operation{
	id:      "uploadScoreBatch",
	summary: "Upload step totals of many users",
	description: "Send totals of up to 1,000 users, such as `{\"scores\":[{\"user_id\":\"1001\",\"date\":\"2026-11-20\",\"score\":12345}]}`. " +
		"Each item is accepted or rejected on its own: the answer counts the accepted ones and says what is wrong with the others.",
	bodies:      []any{userTotals{}},
	list:        true,
	otherStatus: http.StatusAccepted,
	errors:      []models.Code{models.CodeBoardNotFound, models.CodeBoardKind},
	redisOnly:   true,
}

type batchInput struct {
	Board   string `path:"board" doc:"The board's name" example:"steps"`
	RawBody []byte
}

func (h *scoreHandlers) uploadBatch(ctx context.Context, in *batchInput) (*statusOutput[batchResult], error) {
	batch, err := parseBatch(in.RawBody)
	if err != nil {
		return nil, err
	}
	accepted, rejected, err := h.scores.AcceptBatch(ctx, in.Board, batch.uploads)
	if err != nil {
		return nil, err
	}
	for _, r := range rejected {
		batch.reject(batch.position(r.Index), r.Err)
	}
	slices.SortFunc(batch.rejected, func(a, b rejectedTotal) int { return a.Index - b.Index })
	h.accepted.WithLabelValues(in.Board).Add(float64(len(accepted)))
	held := []int{}
	for _, a := range accepted {
		if a.Held {
			held = append(held, batch.position(a.Index))
		}
	}
	return &statusOutput[batchResult]{h.status(), batchResult{Accepted: len(accepted), Rejected: batch.rejected, Held: held}}, nil
}

// scoreBatch is a decoded batch: the valid items and the rejected ones.
type scoreBatch struct {
	uploads []ingest.Upload
	// positions are the positions of the uploads in the body; nil if all items are
	// valid.
	positions []int
	rejected  []rejectedTotal
}

// position returns the position of an upload in the body.
func (b *scoreBatch) position(upload int) int {
	if b.positions == nil {
		return upload
	}
	return b.positions[upload]
}

// reject records the error of one item.
func (b *scoreBatch) reject(index int, err *models.Error) {
	b.rejected = append(b.rejected, rejectedTotal{Index: index, Code: err.Code, Detail: err.Message})
}

// parseBatch parses a batch of up to maxBatch items. Broken items are rejected
// one by one.
func parseBatch(body []byte) (*scoreBatch, error) {
	if uploads, ok := parseBatchFast(body); ok {
		return &scoreBatch{uploads: uploads, rejected: []rejectedTotal{}}, nil
	}
	return decodeBatch(body)
}

// decodeBatch parses the bodies that parseBatchFast does not.
func decodeBatch(body []byte) (*scoreBatch, error) {
	items, err := splitBatch(body)
	if err != nil {
		return nil, err
	}
	b := &scoreBatch{uploads: make([]ingest.Upload, 0, len(items)), positions: make([]int, 0, len(items)), rejected: []rejectedTotal{}}
	for i, raw := range items {
		upload, err := parseBatchItem(raw, i)
		if err != nil {
			b.reject(i, err)
			continue
		}
		b.uploads, b.positions = append(b.uploads, upload), append(b.positions, i)
	}
	return b, nil
}

// splitBatch returns the items of a batch undecoded, so that a broken one does
// not spoil the others.
func splitBatch(body []byte) ([]jsontext.Value, error) {
	var in struct {
		Scores *[]jsontext.Value `json:"scores"`
	}
	if err := decodeBody(body, &in); err != nil {
		return nil, err
	}
	if in.Scores == nil || len(*in.Scores) < 1 || len(*in.Scores) > maxBatch {
		return nil, models.Invalid("body.scores", fmt.Sprintf("has 1 to %d items", maxBatch))
	}
	return *in.Scores, nil
}

func parseBatchItem(raw jsontext.Value, i int) (ingest.Upload, *models.Error) {
	at := "body.scores[" + strconv.Itoa(i) + "]"
	var item userTotal
	if err := json.Unmarshal(raw, &item, json.RejectUnknownMembers(true)); err != nil {
		return ingest.Upload{}, bodyError(at, raw, err)
	}
	if item.UserID == nil {
		return ingest.Upload{}, models.Invalid(at+".user_id", "is required")
	}
	upload, err := parseUpload(item.Date, item.Score, at)
	upload.User = *item.UserID
	return upload, err
}

// maxBatch is the largest number of totals in one batch.
const maxBatch = 1000

// parseBatchFast parses a batch in the form that programs usually send: items
// with nothing but user_id, date and score, each once, in any order and without
// escapes. For every other body, valid or not, it returns false; decodeBatch
// then parses the body or reports what is wrong, in four times the time. Both
// return the same uploads for a body that parseBatchFast accepts.
func parseBatchFast(body []byte) ([]ingest.Upload, bool) {
	r := &batchReader{rest: string(body)} // the user ids are parts of it
	if !r.skip('{') || r.readString() != "scores" || !r.skip(':') || !r.skip('[') {
		return nil, false
	}
	uploads := make([]ingest.Upload, 0, maxBatch)
	for more := true; more; more = r.skip(',') {
		upload, ok := r.readItem()
		if !ok || len(uploads) == maxBatch {
			return nil, false
		}
		uploads = append(uploads, upload)
	}
	return uploads, r.skip(']') && r.skip('}') && r.atEnd()
}

// batchReader reads the JSON of parseBatchFast. After unexpected input its
// results are meaningless, but they never form a valid item.
type batchReader struct {
	rest string

	// The last date and its text: most items of a batch have the same date.
	dateText string
	date     models.Date
}

// readItem reads one item. It must have the three keys, each once.
func (r *batchReader) readItem() (upload ingest.Upload, ok bool) {
	var user, date, score bool
	for _, before := range []byte("{,,") {
		if !r.skip(before) {
			return upload, false
		}
		key := r.readString()
		if !r.skip(':') {
			return upload, false
		}
		switch key {
		case "user_id":
			upload.User, user = r.readUser()
		case "date":
			upload.Date, date = r.readDate()
		case "score":
			upload.Score, score = r.readScore()
		default:
			return upload, false
		}
	}
	return upload, user && date && score && r.skip('}')
}

func (r *batchReader) readUser() (models.UserID, bool) {
	id, err := models.ParseUserID(r.readString())
	return id, err == nil
}

func (r *batchReader) readDate() (models.Date, bool) {
	text := r.readString()
	if text == "" || text != r.dateText {
		date, err := models.ParseDate(text)
		if err != nil {
			return 0, false
		}
		r.date, r.dateText = date, text
	}
	return r.date, true
}

// readScore reads a whole number without a sign, of at most 18 digits, so that
// it fits in an int64.
func (r *batchReader) readScore() (n int64, ok bool) {
	r.skipSpace()
	i := 0
	for i < len(r.rest) && r.rest[i] >= '0' && r.rest[i] <= '9' {
		n = n*10 + int64(r.rest[i]-'0')
		i++
	}
	if i == 0 || i > 18 || i > 1 && r.rest[0] == '0' {
		return 0, false
	}
	r.rest = r.rest[i:]
	return n, true
}

// readString reads a string. It returns "" for one with escapes, which is not a valid
// id, date or key.
func (r *batchReader) readString() string {
	if !r.skip('"') {
		return ""
	}
	end := strings.IndexByte(r.rest, '"')
	if end < 0 || strings.IndexByte(r.rest[:end], '\\') >= 0 {
		return ""
	}
	text := r.rest[:end]
	r.rest = r.rest[end+1:]
	return text
}

// skip reads one character and the space before it. It returns false if
// another character follows.
func (r *batchReader) skip(c byte) bool {
	r.skipSpace()
	if r.rest == "" || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *batchReader) atEnd() bool {
	r.skipSpace()
	return r.rest == ""
}

func (r *batchReader) skipSpace() {
	for r.rest != "" && (r.rest[0] == ' ' || r.rest[0] == '\n' || r.rest[0] == '\t' || r.rest[0] == '\r') {
		r.rest = r.rest[1:]
	}
}
