package handlers_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ingest"
)

// scores is a fake handlers.ScoreService that accepts every upload, except
// those that rejected names.
type scores struct {
	*recorder
	queued   bool
	rejected []*ingest.ItemError
	held     bool
}

func (s scores) Accept(_ context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error) {
	return s.accept("Accept", board, uploads)
}

func (s scores) AcceptBatch(_ context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error) {
	return s.accept("AcceptBatch", board, uploads)
}

func (s scores) accept(method, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error) {
	if err := s.record(method, board, uploads); err != nil {
		return nil, nil, err
	}
	var accepted []ingest.Accepted
	for i, u := range uploads {
		if !slices.ContainsFunc(s.rejected, func(r *ingest.ItemError) bool { return r.Index == i }) {
			accepted = append(accepted, ingest.Accepted{Index: i, Held: s.held, Date: u.Date, Score: u.Score, ReachedAt: models.TimestampOf(noon)})
		}
	}
	return accepted, s.rejected, nil
}

func (s scores) Queued() bool { return s.queued }

// stepsBoards are the boards steps, and backend, which takes uploads of services only.
func stepsBoards(t *testing.T) boards {
	t.Helper()
	return boards{&recorder{}, []*catalog.Board{
		newBoard(t, "steps", nil), newBoard(t, "backend", func(b *models.Board) { b.Uploads = models.AudienceService }),
	}}
}

// itemError is the error of one upload.
func itemError(index int, code models.Code) *ingest.ItemError {
	return &ingest.ItemError{Index: index, Err: models.Errorf(code, "not this one")}
}

func TestUploadScores(t *testing.T) {
	t.Parallel()
	const (
		request = "POST /v1/boards/steps/scores"
		single  = `{"date":"2026-11-20","score":5}`
		list    = `{"scores":[{"date":"2026-11-19","score":4},{"date":"2026-11-20","score":5}]}`
		first   = `{"date":"2026-11-20","score":5,"reached_at":"2026-11-20T04:00:00.000Z","held":false}`
	)
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Scores: scores{recorder: r}, Boards: stepsBoards(t)}
	}
	one := []string{"Accept steps [{User:1001 Date:2026-11-20 Score:5}]"}
	two := []string{"Accept steps [{User:1001 Date:2026-11-19 Score:4} {User:1001 Date:2026-11-20 Score:5}]"}
	runCases(t, config, []testCase{
		{"one total", "1001", request, single, nil, one, `200 {"accepted":[` + first + `],"rejected":[]}`},
		{"two totals", "1001", request, list, nil, two,
			`200 {"accepted":[{"date":"2026-11-19","score":4,"reached_at":"2026-11-20T04:00:00.000Z","held":false},` + first + `],"rejected":[]}`},
		{"a service for a user", "service", request + "?user_id=1001", single, nil, one, `200 {"accepted":[` + first + `],"rejected":[]}`},
		{"a service for nobody", "service", request, single, nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"a user for another", "1001", request + "?user_id=1002", single, nil, nil, "403 forbidden: a user acts only for oneself"},
		{"a user, where services upload", "1001", "POST /v1/boards/backend/scores", single, nil, nil,
			"403 forbidden: backend takes scores from a backend only, not with a user's token"},
		{"a service, where services upload", "service", "POST /v1/boards/backend/scores?user_id=1001", single, nil,
			[]string{"Accept backend [{User:1001 Date:2026-11-20 Score:5}]"}, `200 {"accepted":[` + first + `],"rejected":[]}`},
		{"a user, on no board", "1001", "POST /v1/boards/none/scores", single, nil, nil, "404 board_not_found: no board none"},
		{"a user id that is none", "service", request + "?user_id=ann+b", single, nil, nil,
			"422 validation_failed: query.user_id: …"},
		{"no JSON", "1001", request, `{`, nil, nil, "400 invalid_request: the body is not JSON, or names a key twice"},
		{"an unknown field", "1001", request, `{"steps":5}`, nil, nil, "422 validation_failed: body.steps: is not a field of this call"},
		{"a fraction", "1001", request, `{"date":"2026-11-20","score":1.5}`, nil, nil, "422 validation_failed: body.score: must be a whole number"},
		{"more than any score", "1001", request, `{"date":"2026-11-20","score":99999999999999999999}`, nil,
			[]string{"Accept steps [{User:1001 Date:2026-11-20 Score:9223372036854775807}]"}, "200 …"},
		{"less than any score", "1001", request, `{"date":"2026-11-20","score":-99999999999999999999}`, nil,
			[]string{"Accept steps [{User:1001 Date:2026-11-20 Score:-9223372036854775808}]"}, "200 …"},
		{"a fraction in a list", "1001", request, `{"scores":[` + single + `,{"date":"2026-11-19","score":11623.858733}]}`, nil, nil,
			"422 validation_failed: body.scores[1].score: must be a whole number"},
		{"a score in words", "1001", request, `{"date":"2026-11-20","score":"5"}`, nil, nil, "422 validation_failed: body.score: must be a whole number"},
		{"both forms", "1001", request, `{"date":"2026-11-20","scores":[]}`, nil, nil,
			"422 validation_failed: body: send date and score, or scores, not both"},
		{"no totals", "1001", request, `{"scores":[]}`, nil, nil, "422 validation_failed: body.scores: has 1 to 31 items"},
		{"32 totals", "1001", request, `{"scores":[` + strings.Repeat(single+",", 31) + single + `]}`, nil, nil,
			"422 validation_failed: body.scores: has 1 to 31 items"},
		{"no date", "1001", request, `{"score":5}`, nil, nil, "422 validation_failed: body.date: is required"},
		{"no score", "1001", request, `{"date":"2026-11-20"}`, nil, nil, "422 validation_failed: body.score: is required"},
		{"a date that is none", "1001", request, `{"scores":[` + single + `,{"date":"2026-11-31","score":5}]}`, nil, nil,
			"422 validation_failed: body.scores[1].date: …"},
		{"the store is away", "1001", request, single, errUnavailable, one, wantUnavailable},
		{"an unknown error", "1001", request, single, errUnknown, one, wantInternal},
	})
}

// The error of a single upload points at what is wrong in the body.
func TestUploadScoresLocatesErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code  models.Code
		field string
	}{
		{models.CodeScoreOutOfRange, "score"},
		{models.CodeDateClosed, "date"},
		{models.CodeDateInFuture, "date"},
	} {
		api := newAPI(t, handlers.Config{Scores: scores{recorder: &recorder{}, rejected: []*ingest.ItemError{itemError(0, tt.code)}}, Boards: stepsBoards(t)})
		got := send(t, api, "1001", "POST /v1/boards/steps/scores", `{"date":"2026-11-20","score":5}`)
		text := got.Body.String()
		if got.Code != 422 || !strings.Contains(text, `"location":"body.`+tt.field+`"`) || !strings.Contains(text, string(tt.code)) || strings.Contains(text, `"rejected"`) {
			t.Errorf("%s: %d %s", tt.code, got.Code, text)
		}
	}
}

// Items of a list are rejected one by one. With none left the call fails with the error of
// the first.
func TestUploadScoresRejects(t *testing.T) {
	t.Parallel()
	const (
		list   = `{"scores":[{"date":"2026-11-01","score":4},{"date":"2026-11-20","score":5},{"date":"2026-11-21","score":6}]}`
		closed = `{"index":0,"date":"2026-11-01","code":"date_closed","detail":"not this one"}`
		large  = `{"index":1,"date":"2026-11-20","code":"score_out_of_range","detail":"not this one"}`
		early  = `{"index":2,"date":"2026-11-21","code":"date_in_future","detail":"not this one"}`
	)
	fake := scores{recorder: &recorder{}, rejected: []*ingest.ItemError{itemError(0, models.CodeDateClosed), itemError(2, models.CodeDateInFuture)}}
	registry := prometheus.NewRegistry()
	got := send(t, newAPI(t, handlers.Config{Scores: fake, Boards: stepsBoards(t), Registry: registry}), "1001", "POST /v1/boards/steps/scores", list)
	want := `200 {"accepted":[{"date":"2026-11-20","score":5,"reached_at":"2026-11-20T04:00:00.000Z","held":false}],"rejected":[` + closed + `,` + early + `]}`
	if text := describe(t, got); text != want {
		t.Errorf("answered\n\t%s\nwant\n\t%s", text, want)
	}
	if n := accepted(t, registry, "steps"); n != 1 {
		t.Errorf("%v uploads are counted as accepted, want 1", n)
	}

	fake.rejected = append(fake.rejected[:1:1], itemError(1, models.CodeScoreOutOfRange), fake.rejected[1])
	got = send(t, newAPI(t, handlers.Config{Scores: fake, Boards: stepsBoards(t)}), "1001", "POST /v1/boards/steps/scores", list)
	if text := describe(t, got); text != "422 date_closed: not this one" {
		t.Errorf("with none accepted: %s", text)
	}
	for _, want := range []string{`"rejected":[` + closed + `,` + large + `,` + early + `]`, `"body.scores[0].date"`, `"body.scores[1].score"`, `"body.scores[2].date"`} {
		if text := got.Body.String(); !strings.Contains(text, want) {
			t.Errorf("with none accepted: %s, without %s", text, want)
		}
	}
}

func TestUploadBatch(t *testing.T) {
	t.Parallel()
	const (
		request = "POST /v1/boards/steps/scores/batch"
		ann     = `{"user_id":"1","date":"2026-11-20","score":5}`
		bob     = `{"user_id":"2","date":"2026-11-20","score":6}`
		broken  = `{"user_id":"3","date":"2026-11-20"}`
	)
	both := []string{"AcceptBatch steps [{User:1 Date:2026-11-20 Score:5} {User:2 Date:2026-11-20 Score:6}]"}
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Scores: scores{recorder: r}, Boards: stepsBoards(t)}
	}
	runCases(t, config, []testCase{
		{"two totals", "service", request, `{"scores":[` + ann + `,` + bob + `]}`, nil, both, `200 {"accepted":2,"rejected":[],"held":[]}`},
		{"a broken item", "service", request, `{"scores":[` + ann + `,` + broken + `,` + bob + `]}`, nil, both,
			`200 {"accepted":2,"rejected":[{"index":1,"code":"validation_failed","detail":"body.scores[1].score: is required"}],"held":[]}`},
		{"an item without a user", "service", request, `{"scores":[{"date":"2026-11-20","score":5},` + ann + `,` + bob + `]}`, nil, both,
			`200 {"accepted":2,"rejected":[{"index":0,"code":"validation_failed","detail":"body.scores[0].user_id: is required"}],"held":[]}`},
		{"items of other types", "service", request, `{"scores":["nothing",{"user_id":6,"date":"2026-11-20","score":5},` + ann + `,{"user_id":"7","date":"yesterday","score":5},` + bob + `]}`, nil, both,
			`200 {"accepted":2,"rejected":[{"index":0,"code":"validation_failed",…`},
		{"no totals", "service", request, `{"scores":[]}`, nil, nil, "422 validation_failed: body.scores: has 1 to 1000 items"},
		{"too many totals", "service", request, `{"scores":[` + strings.Repeat(ann+",", 1000) + ann + `]}`, nil, nil,
			"422 validation_failed: body.scores: has 1 to 1000 items"},
		{"no JSON", "service", request, `[`, nil, nil, "400 invalid_request: the body is not JSON, or names a key twice"},
		{"a user's token", "1001", request, `{"scores":[` + ann + `]}`, nil, nil, "403 forbidden: this token may not make this call"},
		{"an unknown board", "service", request, `{"scores":[` + ann + `,` + bob + `]}`,
			models.Errorf(models.CodeBoardNotFound, "no such board"), both, "404 board_not_found: no such board"},
		{"an unknown error", "service", request, `{"scores":[` + ann + `,` + bob + `]}`, errUnknown, both, wantInternal},
	})
}

// Rejected items are listed in the order of the body, whether the handler or the
// service has rejected them.
func TestUploadBatchRejects(t *testing.T) {
	t.Parallel()
	const broken = `{"date":"2026-11-20","score":5}`
	const item = `{"user_id":"1","date":"2026-11-20","score":5}`
	fake := scores{recorder: &recorder{}, rejected: []*ingest.ItemError{itemError(0, models.CodeDateClosed), itemError(2, models.CodeScoreOutOfRange)}, held: true}
	registry := prometheus.NewRegistry()
	api := newAPI(t, handlers.Config{Scores: fake, Boards: stepsBoards(t), Registry: registry})
	got := send(t, api, "service", "POST /v1/boards/steps/scores/batch", `{"scores":[`+item+`,`+broken+`,`+item+`,`+item+`]}`)
	want := `200 {"accepted":1,"rejected":[{"index":0,"code":"date_closed","detail":"not this one"},` +
		`{"index":1,"code":"validation_failed","detail":"body.scores[1].user_id: is required"},` +
		`{"index":3,"code":"score_out_of_range","detail":"not this one"}],"held":[2]}`
	if text := describe(t, got); text != want {
		t.Errorf("answered\n\t%s\nwant\n\t%s", text, want)
	}
	if n := accepted(t, registry, "steps"); n != 1 {
		t.Errorf("%v uploads are counted as accepted, want 1", n)
	}
}

// With a queue an upload is accepted, but not applied yet: 202.
func TestUploadsIntoAQueue(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	api := newAPI(t, handlers.Config{Scores: scores{recorder: &recorder{}, queued: true}, Boards: stepsBoards(t), Registry: registry})
	if got := send(t, api, "1", "POST /v1/boards/steps/scores", `{"date":"2026-11-20","score":5}`); got.Code != 202 {
		t.Errorf("a total: %d %s", got.Code, got.Body)
	}
	if got := send(t, api, "service", "POST /v1/boards/steps/scores/batch", `{"scores":[{"user_id":"1","date":"2026-11-20","score":5}]}`); got.Code != 202 {
		t.Errorf("a batch: %d %s", got.Code, got.Body)
	}
	if n := accepted(t, registry, "steps"); n != 2 {
		t.Errorf("%v uploads are counted as accepted, want 2", n)
	}
}
