package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/ingest"
)

// maxUploads is the largest number of totals in one call of a user.
const maxUploads = 7

// uploadItem is a day's total.
type uploadItem struct {
	Date  *string      `json:"date" doc:"The day, YYYY-MM-DD in the board's zone: today or one of the two days before" example:"2026-11-20" required:"true" nullable:"false"`
	Score *wholeNumber `json:"score" doc:"The user's total for that day so far" example:"12345" minimum:"0" required:"true" nullable:"false"`
}

// uploadBody is one day's total, or those of several days.
type uploadBody struct {
	Date   *string       `json:"date,omitempty" doc:"The day, YYYY-MM-DD in the board's zone: today or one of the two days before" example:"2026-11-20" nullable:"false"`
	Score  *wholeNumber  `json:"score,omitempty" doc:"The user's total for that day so far" example:"12345" minimum:"0" nullable:"false"`
	Scores *[]uploadItem `json:"scores,omitempty" doc:"Instead of date and score: up to 7 days that were kept offline" minItems:"1" maxItems:"7" nullable:"false"`
}

// ScoreService accepts score updates.
type ScoreService interface {
	Accept(ctx context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, error)
	AcceptValid(ctx context.Context, board string, uploads []ingest.Upload) ([]*ingest.ItemError, error)
	Queued() bool
}

// scoreHandlers serves uploads of score totals.
type scoreHandlers struct {
	scores   ScoreService
	accepted *prometheus.CounterVec // by board
}

var uploadScores = operation{
	summary: "Upload step totals",
	description: "Send the user's total for a day, such as `{\"date\":\"2026-11-20\",\"score\":12345}`, or up to seven days that were kept offline, as " +
		"`{\"scores\":[{\"date\":\"2026-11-19\",\"score\":8000},{\"date\":\"2026-11-20\",\"score\":12345}]}`. " +
		"The highest total of a day counts, so sending one again changes nothing. Either all items are accepted or none.",
	body:        uploadBody{},
	otherStatus: http.StatusAccepted,
	errors:      bodyErrors(http.StatusNotFound, http.StatusConflict),
}

type uploadInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	OnBehalf
	RawBody []byte
}

// acceptedItem is an upload as it was taken.
type acceptedItem struct {
	Date      string           `json:"date" doc:"The day"`
	Score     int64            `json:"score" doc:"The total"`
	ReachedAt models.Timestamp `json:"reached_at" format:"date-time" doc:"The server's time on accepting it; the tie-break if no better total stands there already"`
}

type uploadOutput struct {
	Status int
	Body   uploadAnswer
}

type uploadAnswer struct {
	Accepted []acceptedItem `json:"accepted" nullable:"false" doc:"What was taken, in the order in which it was sent"`
}

// AppendJSON writes the answer as encoding/json would.
func (a uploadAnswer) AppendJSON(buf []byte) []byte {
	buf = append(buf, `{"accepted":[`...)
	for i, item := range a.Accepted {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, `{"date":"`...)
		buf = append(buf, item.Date...)
		buf = append(buf, `","score":`...)
		buf = strconv.AppendInt(buf, item.Score, 10)
		buf = append(buf, `,"reached_at":"`...)
		buf = item.ReachedAt.AppendTo(buf)
		buf = append(buf, `"}`...)
	}
	return append(buf, `]}`...)
}

func (h *scoreHandlers) upload(ctx context.Context, in *uploadInput) (*uploadOutput, error) {
	user, err := in.user(ctx)
	if err != nil {
		return nil, err
	}
	uploads, err := parseUploads(in.RawBody, user)
	if err != nil {
		return nil, err
	}
	accepted, err := h.scores.Accept(ctx, in.Board, uploads.items)
	if err != nil {
		return nil, uploads.locate(err)
	}
	h.accepted.WithLabelValues(in.Board).Add(float64(len(accepted)))
	out := &uploadOutput{Status: h.status(), Body: uploadAnswer{Accepted: make([]acceptedItem, len(accepted))}}
	for i, item := range accepted {
		out.Body.Accepted[i] = acceptedItem{Date: item.Date.String(), Score: item.Score, ReachedAt: item.ReachedAt}
	}
	return out, nil
}

// status is what an upload that was taken is answered with: that it is on
// its board, or that it will be.
func (h *scoreHandlers) status() int {
	if h.scores.Queued() {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// uploadList is a decoded upload body.
type uploadList struct {
	items []ingest.Upload
	list  bool // sent as {"scores":[…]}
}

func parseUploads(body []byte, user models.UserID) (*uploadList, error) {
	var in uploadBody
	if err := decodeBody(body, &in); err != nil {
		return nil, err
	}
	u := &uploadList{list: in.Scores != nil}
	items := []uploadItem{{Date: in.Date, Score: in.Score}}
	if u.list {
		if in.Date != nil || in.Score != nil {
			return nil, models.Invalid("body", "send date and score, or scores, not both")
		}
		items = *in.Scores
		if len(items) < 1 || len(items) > maxUploads {
			return nil, models.Invalid("body.scores", fmt.Sprintf("has 1 to %d items", maxUploads))
		}
	}
	u.items = make([]ingest.Upload, len(items))
	for i, item := range items {
		upload, err := parseUpload(item.Date, item.Score, u.location(i))
		if err != nil {
			return nil, err
		}
		upload.User = user
		u.items[i] = upload
	}
	return u, nil
}

// location is the place of an item in the body.
func (u *uploadList) location(i int) string {
	if u.list {
		return "body.scores[" + strconv.Itoa(i) + "]"
	}
	return "body"
}

// locate adds the place in the body to an error about one upload.
func (u *uploadList) locate(err error) error {
	var item *ingest.ItemError
	var known *models.Error
	if !errors.As(err, &item) || !errors.As(err, &known) {
		return err
	}
	switch known.Code {
	case models.CodeScoreOutOfRange:
		return known.At(u.location(item.Index) + ".score")
	case models.CodeDateInFuture, models.CodeDateClosed:
		return known.At(u.location(item.Index) + ".date")
	default:
		return err
	}
}

func parseUpload(date *string, score *wholeNumber, at string) (ingest.Upload, error) {
	if date == nil {
		return ingest.Upload{}, models.Invalid(at+".date", "is required")
	}
	if score == nil {
		return ingest.Upload{}, models.Invalid(at+".score", "is required")
	}
	day, err := models.ParseDate(*date)
	if err != nil {
		return ingest.Upload{}, models.Invalid(at+".date", err.Error())
	}
	return ingest.Upload{Date: day, Score: int64(*score)}, nil
}

// batchItem is a user's total for a day.
type batchItem struct {
	UserID *models.UserID `json:"user_id" doc:"The user" example:"1001" required:"true" nullable:"false"`
	Date   *string        `json:"date" doc:"The day, as for a single upload" example:"2026-11-20" required:"true" nullable:"false"`
	Score  *wholeNumber   `json:"score" doc:"The user's total for that day so far" example:"12345" minimum:"0" required:"true" nullable:"false"`
}

// batchBody describes the batch call's body; it is decoded item by item.
type batchBody struct {
	Scores []batchItem `json:"scores" doc:"Up to 1,000 totals" minItems:"1" maxItems:"1000" nullable:"false"`
}

type rejectedItem struct {
	Index  int         `json:"index" doc:"The item's position, from 0"`
	Code   models.Code `json:"code" doc:"What is wrong with it"`
	Detail string      `json:"detail" doc:"What a person should know and do"`
}

type batchOutput struct {
	Status int
	Body   struct {
		Accepted int            `json:"accepted" doc:"How many totals were taken"`
		Rejected []rejectedItem `json:"rejected" nullable:"false" doc:"The items that were not taken"`
	}
}

var uploadBatch = operation{
	summary: "Upload step totals of many users",
	description: "Send totals of up to 1,000 users, such as `{\"scores\":[{\"user_id\":\"1001\",\"date\":\"2026-11-20\",\"score\":12345}]}`. " +
		"Each item is accepted or rejected on its own: the answer counts the accepted ones and says what is wrong with the others.",
	body:        batchBody{},
	otherStatus: http.StatusAccepted,
	errors:      bodyErrors(http.StatusNotFound, http.StatusConflict),
}

type batchInput struct {
	Board   string `path:"board" doc:"The board's name" example:"steps"`
	RawBody []byte
}

func (h *scoreHandlers) uploadBatch(ctx context.Context, in *batchInput) (*batchOutput, error) {
	batch, err := parseBatch(in.RawBody)
	if err != nil {
		return nil, err
	}
	rejected, err := h.scores.AcceptValid(ctx, in.Board, batch.uploads)
	if err != nil {
		return nil, err
	}
	for _, r := range rejected {
		if err := batch.reject(batch.position(r.Index), r.Err); err != nil {
			return nil, err
		}
	}
	out := &batchOutput{Status: h.status()}
	out.Body.Accepted = len(batch.uploads) - len(rejected)
	out.Body.Rejected = batch.rejected
	slices.SortFunc(out.Body.Rejected, func(a, b rejectedItem) int { return a.Index - b.Index })
	h.accepted.WithLabelValues(in.Board).Add(float64(out.Body.Accepted))
	return out, nil
}

// scoreBatch is a decoded batch: the items that could be read, and the others.
type scoreBatch struct {
	uploads []ingest.Upload
	// positions is the uploads' positions in the body; nil where all items are uploads.
	positions []int
	rejected  []rejectedItem
}

// position is the position of an upload in the body.
func (b *scoreBatch) position(upload int) int {
	if b.positions == nil {
		return upload
	}
	return b.positions[upload]
}

// reject answers for one item, unless the error is about more than that.
func (b *scoreBatch) reject(index int, err error) error {
	var known *models.Error
	if !errors.As(err, &known) {
		return err
	}
	b.rejected = append(b.rejected, rejectedItem{Index: index, Code: known.Code, Detail: known.Message})
	return nil
}

// parseBatch reads a batch of up to maxBatch items, each for itself.
func parseBatch(body []byte) (*scoreBatch, error) {
	if uploads, ok := parseBatchFast(body); ok {
		return &scoreBatch{uploads: uploads, rejected: []rejectedItem{}}, nil
	}
	return decodeBatch(body)
}

// decodeBatch is parseBatch for whatever is not plain.
func decodeBatch(body []byte) (*scoreBatch, error) {
	items, err := splitBatch(body)
	if err != nil {
		return nil, err
	}
	b := &scoreBatch{uploads: make([]ingest.Upload, 0, len(items)), positions: make([]int, 0, len(items)), rejected: []rejectedItem{}}
	for i, raw := range items {
		upload, err := parseBatchItem(raw, i)
		if err != nil {
			if err := b.reject(i, err); err != nil {
				return nil, err
			}
			continue
		}
		b.uploads, b.positions = append(b.uploads, upload), append(b.positions, i)
	}
	return b, nil
}

// splitBatch cuts a batch into its items, so that each stands for itself.
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

func parseBatchItem(raw jsontext.Value, i int) (ingest.Upload, error) {
	at := "body.scores[" + strconv.Itoa(i) + "]"
	var item batchItem
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
