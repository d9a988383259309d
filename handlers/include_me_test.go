package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/ledger"
	"stepboard/services/rankings/ranking"
)

const noPlace = `{"score":null,"reached_at":null,"global_rank":null,"global_total":7,"friends_rank":null,"friends_total":0,"percentile":null,"correction":null,"held":null}`

// With include=me the answer to an upload has the user's place on the newest accepted day, read
// with every write. It is null if the upload is queued, and if it can't be read.
func TestUploadsIncludeMe(t *testing.T) {
	t.Parallel()
	const (
		request = "POST /v1/boards/steps/scores?include=me"
		single  = `{"date":"2026-11-20","score":5}`
		list    = `{"scores":[{"date":"2026-11-19","score":4},{"date":"2026-11-20","score":5},{"date":"2026-11-18","score":3},{"date":"2026-11-21","score":3}]}`
		first   = `{"accepted":[{"date":"2026-11-20","score":5,"reached_at":"2026-11-20T04:00:00.000Z","held":false}],"rejected":[],`
	)
	late := []*ingest.ItemError{itemError(3, models.CodeDateInFuture)}
	accept := "Accept steps [{User:1001 Date:2026-11-20 Score:5}]"
	me := `Me steps 2026-11-20 viewer=1001 limit=0 cursor="" with every write`
	fake := func(queued bool, rejected []*ingest.ItemError) func(*recorder) handlers.Config {
		return func(r *recorder) handlers.Config {
			return handlers.Config{Boards: stepsBoards(t), Scores: scores{recorder: r, queued: queued, rejected: rejected}, Rankings: rankings{r, ranking.Standing{GlobalTotal: 7}}}
		}
	}
	runCases(t, fake(false, nil), []testCase{
		{"one total", "1001", request, single, nil, []string{accept, me}, "200 " + first + `"me":` + noPlace + "}"},
		{"a service for a user", "service", request + "&user_id=1001", single, nil, []string{accept, me}, "200 " + first + `"me":` + noPlace + "}"},
		{"something else", "1001", "POST /v1/boards/steps/scores?include=you", single, nil, nil, "422 validation_failed: query.include: …"},
		{"an upload that fails", "1001", request, single, errUnavailable, []string{accept}, wantUnavailable},
	})
	runCases(t, fake(false, late), []testCase{
		{"the newest accepted day", "1001", request, list, nil, []string{
			"Accept steps [{User:1001 Date:2026-11-19 Score:4} {User:1001 Date:2026-11-20 Score:5} {User:1001 Date:2026-11-18 Score:3} {User:1001 Date:2026-11-21 Score:3}]", me,
		}, "200 …"},
	})
	runCases(t, fake(true, nil), []testCase{
		{"a queued upload", "1001", request, single, nil, []string{accept}, "202 " + first + `"me":null}`},
	})
	for _, err := range []error{errUnavailable, errUnknown} {
		runCases(t, func(r *recorder) handlers.Config {
			return handlers.Config{Boards: stepsBoards(t), Scores: scores{recorder: r}, Rankings: rankings{recorder: &recorder{err: err}}}
		}, []testCase{{err.Error(), "1001", request, single, nil, []string{accept}, "200 " + first + `"me":null}`}})
	}
	runCases(t, func(r *recorder) handlers.Config {
		return handlers.Config{Boards: stepsBoards(t), Scores: scores{recorder: r}, Rankings: slowRankings{}}
	}, []testCase{{"a place that takes too long", "1001", request, single, nil, []string{accept}, "200 " + first + `"me":null}`}})
}

// slowRankings are rankings that end with their context.
type slowRankings struct{ rankings }

func (slowRankings) Me(ctx context.Context, _ ranking.Query) (*ranking.Standing, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// With include=me the answer to a single increment has the place of its user, which is null if the
// board lacks the increment.
func TestIncrementsIncludeMe(t *testing.T) {
	t.Parallel()
	const (
		request = addIncrements + "?include=me"
		gift    = `{"user_id":"1","delta":5,"event_id":"a"}`
		applied = `200 {"results":[{"event_id":"a","status":"applied","score":5,"reached_at":"2026-11-20T04:00:00.000Z"}],"me":`
	)
	add := "Add gifts [{User:1 Amount:5 Result:false EventID:a OccurredAt:<nil>}]"
	me := `Me gifts today viewer=1 limit=0 cursor="" with every write`
	fake := func(results []ledger.Result) func(*recorder) handlers.Config {
		return func(r *recorder) handlers.Config {
			return handlers.Config{Increments: increments{r, results}, Rankings: rankings{r, ranking.Standing{GlobalTotal: 7}}}
		}
	}
	runCases(t, fake(nil), []testCase{
		{"a single one", "service", request, gift, nil, []string{add, me}, applied + noPlace + "}"},
		{"a list", "service", request, `{"increments":[` + gift + `]}`, nil, nil,
			"422 validation_failed: query.include: is for a single increment: leave it out, or send user_id, delta and event_id"},
	})
	runCases(t, fake([]ledger.Result{{EventID: "a", Status: ledger.Applied, Score: 5, ReachedAt: models.TimestampOf(noon), Unraised: true}}), []testCase{
		{"one that the board lacks", "service", request, gift, nil, []string{add}, applied + "null}"},
	})
	runCases(t, fake([]ledger.Result{{EventID: "a", Status: ledger.Duplicate, Score: 5, ReachedAt: models.TimestampOf(noon)}}), []testCase{
		{"a duplicate", "service", request, gift, nil, []string{add, me}, strings.Replace(applied, "applied", "duplicate", 1) + noPlace + "}"},
	})
	runCases(t, fake([]ledger.Result{{EventID: "a", Status: ledger.Rejected, Err: models.Errorf(models.CodeEventNotOpen, "it is over")}}), []testCase{
		{"a rejected one", "service", request, gift, nil, []string{add}, "422 event_not_open: it is over"},
	})
}
