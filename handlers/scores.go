package handlers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/rankings/ranking"
)

// maxUploads is the largest number of totals in one call of a user.
const maxUploads = 31

// dayTotal is the total of one day.
type dayTotal struct {
	Date  *string      `json:"date" doc:"The day, YYYY-MM-DD in the board's zone: today or one of the board's open_days before it" format:"date" example:"2026-11-20" required:"true" nullable:"false"`
	Score *wholeNumber `json:"score" doc:"The user's total for that day so far" example:"12345" minimum:"0" required:"true" nullable:"false"`
}

// dayTotals is the body with the totals of several days.
type dayTotals struct {
	Scores []dayTotal `json:"scores" doc:"Up to 31 days that were stored offline" minItems:"1" maxItems:"31" nullable:"false"`
}

// uploadBody is either body: a dayTotal or dayTotals.
type uploadBody struct {
	dayTotal
	Scores *[]dayTotal `json:"scores"`
}

// ScoreService accepts score updates.
type ScoreService interface {
	Accept(ctx context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error)
	AcceptBatch(ctx context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error)
	Queued() bool
}

// scoreHandlers serves uploads of score totals.
type scoreHandlers struct {
	scores   ScoreService
	boards   BoardService
	rankings *rankingHandlers
	accepted *prometheus.CounterVec // by board
}

var uploadScores = operation{
	id:      "uploadScores",
	summary: "Upload step totals",
	description: "Send the user's total for a day, such as `{\"date\":\"2026-11-20\",\"score\":12345}`, or up to 31 days that were stored offline, as " +
		"`{\"scores\":[{\"date\":\"2026-11-19\",\"score\":8000},{\"date\":\"2026-11-20\",\"score\":12345}]}`. " +
		"The best total of a day counts, so sending one again changes nothing. " +
		"In a list, an item whose day is closed or in the future, or whose score is out of range, is rejected alone: `rejected` says why. " +
		"If that leaves none, the answer is 422 with the code of the first and the same `rejected`. " +
		"A list with a malformed item is refused as a whole. " +
		"On a board with uploads service a user's token is forbidden. " +
		"`?include=me` adds the user's score and places on the newest accepted day, as GET /v1/boards/{board}/me has them: never older than this upload.",
	bodies:      []any{dayTotal{}, dayTotals{}},
	otherStatus: http.StatusAccepted,
	errors:      []models.Code{models.CodeBoardNotFound, models.CodeBoardKind, models.CodeScoreOutOfRange, models.CodeDateInFuture, models.CodeDateClosed},
	redisOnly:   true,
}

type uploadInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	IncludeMe
	OnBehalf
	RawBody []byte
}

// acceptedTotal is an accepted upload.
type acceptedTotal struct {
	Date      string           `json:"date" format:"date" doc:"The day" example:"2026-11-20"`
	Score     int64            `json:"score" doc:"The total" example:"12345"`
	ReachedAt models.Timestamp `json:"reached_at" format:"date-time" doc:"The server's time on accepting it; it decides among equal scores, unless a better total is stored already"`
	Held      bool             `json:"held" doc:"Whether it counts only once an operator has looked at it, because it is unusually large; GET /v1/boards/{board}/me shows it meanwhile"`
}

// rejectedDayTotal is an upload of a list that was rejected.
type rejectedDayTotal struct {
	Index  int         `json:"index" doc:"The item's position, from 0" example:"1"`
	Date   string      `json:"date" format:"date" doc:"The day" example:"2026-11-01"`
	Code   models.Code `json:"code" enum:"date_closed,date_in_future,score_out_of_range" doc:"Why it was rejected. A day in the future may be accepted later, the others never"`
	Detail string      `json:"detail" doc:"What a person should know and do"`
}

// acceptedTotals says what became of an upload.
type acceptedTotals struct {
	Accepted []acceptedTotal    `json:"accepted" nullable:"false" doc:"The accepted totals, in the order in which they were sent"`
	Rejected []rejectedDayTotal `json:"rejected" nullable:"false" doc:"The totals that were rejected, in the order in which they were sent"`
	Me       **ranking.Standing `json:"me,omitzero" doc:"With include=me: the user's place on the newest accepted day, with this upload; null if the upload is queued (202), or if the place can't be read in half a second"`
}

func (h *scoreHandlers) upload(ctx context.Context, user models.UserID, in *uploadInput) (*statusOutput[acceptedTotals], error) {
	uploads, err := parseUploads(in.RawBody, user)
	if err != nil {
		return nil, err
	}
	if err := h.mayUpload(ctx, in.Board); err != nil {
		return nil, err
	}
	accepted, rejected, err := h.scores.Accept(ctx, in.Board, uploads.items)
	if err != nil {
		return nil, err
	}
	answer, err := h.answer(in.Board, uploads, accepted, rejected)
	if err != nil {
		return nil, err
	}
	if in.Include != "" {
		answer.Me = new(*ranking.Standing)
		if !h.scores.Queued() {
			*answer.Me = h.rankings.after(ctx, ranking.Query{Board: in.Board, Date: newest(accepted), Viewer: user})
		}
	}
	return &statusOutput[acceptedTotals]{h.status(), answer}, nil
}

// answer counts what was accepted, and returns what became of an upload, or the error of one of which nothing was.
func (h *scoreHandlers) answer(board string, uploads *uploadList, accepted []ingest.Accepted, rejected []*ingest.ItemError) (acceptedTotals, error) {
	if len(accepted) == 0 {
		return acceptedTotals{}, uploads.refusal(rejected)
	}
	h.accepted.WithLabelValues(board).Add(float64(len(accepted)))
	days := answersOf(accepted, func(a ingest.Accepted) acceptedTotal {
		return acceptedTotal{a.Date.String(), a.Score, a.ReachedAt, a.Held}
	})
	return acceptedTotals{Accepted: days, Rejected: uploads.rejectedDays(rejected)}, nil
}

// mayUpload returns CodeForbidden if the board takes uploads from services only and the caller is
// not one.
func (h *scoreHandlers) mayUpload(ctx context.Context, board string) error {
	b, err := h.boards.Board(board)
	if err != nil {
		return err
	}
	return b.MayUpload(callerFrom(ctx).Service)
}

// newest returns the last day of uploads.
func newest(accepted []ingest.Accepted) *models.Date {
	last := slices.MaxFunc(accepted, func(a, b ingest.Accepted) int { return cmp.Compare(a.Date, b.Date) })
	return &last.Date
}

// status returns the status of accepted uploads: 200 if they are on their board,
// 202 if they wait in the queue.
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
	items := []dayTotal{in.dayTotal}
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

// location returns the location of an item in the body.
func (u *uploadList) location(i int) string {
	if u.list {
		return "body.scores[" + strconv.Itoa(i) + "]"
	}
	return "body"
}

// rejectedDays describes the items that were rejected.
func (u *uploadList) rejectedDays(rejected []*ingest.ItemError) []rejectedDayTotal {
	return answersOf(rejected, func(item *ingest.ItemError) rejectedDayTotal {
		return rejectedDayTotal{item.Index, u.items[item.Index].Date.String(), item.Err.Code, item.Err.Message}
	})
}

// refusal returns the error of a call whose items were all rejected.
func (u *uploadList) refusal(rejected []*ingest.ItemError) error {
	first := *rejected[0].Err
	for _, item := range rejected {
		field := ".date"
		if item.Err.Code == models.CodeScoreOutOfRange {
			field = ".score"
		}
		first.Fields = append(first.Fields, item.Err.At(u.location(item.Index)+field).Fields...)
	}
	if !u.list {
		return &first
	}
	return &refusedUploads{error: &first, rejected: u.rejectedDays(rejected)}
}

// refusedUploads is the error of a list whose items were all rejected. Its text and its code are
// those of the first.
type refusedUploads struct {
	error
	rejected []rejectedDayTotal
}

// Unwrap returns the error itself.
func (e *refusedUploads) Unwrap() error { return e.error }

func parseUpload(date *string, score *wholeNumber, at string) (ingest.Upload, *models.Error) {
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
