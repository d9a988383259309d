package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/operations/reviews"
)

// reviewed is a fake handlers.ReviewService with the open reviews 2, of a day of user "a|b",
// and 1, of an event and a user that does not exist.
type reviewed struct{ *recorder }

func (s reviewed) List(_ context.Context, q reviews.Query) ([]models.Review, error) {
	if err := s.record("List", q.Board, q.User, q.Before, q.Limit); err != nil {
		return nil, err
	}
	day := models.DateOf(noon)
	var list []models.Review
	for _, r := range []models.Review{
		{ID: 2, Board: "steps", Date: &day, User: "a|b", Nickname: "Ann", Score: 98_800, ReachedAt: noon, FirstSeenAt: noon},
		{ID: 1, Board: "gifts", Score: 7, ReachedAt: noon, FirstSeenAt: noon},
	} {
		if (q.Before == 0 || r.ID < q.Before) && len(list) < q.Limit {
			list = append(list, r)
		}
	}
	return list, nil
}

func (s reviewed) Dismiss(_ context.Context, d reviews.Dismissal) (models.Review, error) {
	score := int64(-1)
	if d.Score != nil {
		score = *d.Score
	}
	err := s.record("Dismiss", d.ID, d.By, d.Reason, score, d.DryRun)
	return models.Review{
		ID: d.ID, Board: "gifts", Score: 7, ReachedAt: noon, FirstSeenAt: noon, DismissedAt: &noon, DismissedBy: d.By, DismissReason: d.Reason,
	}, err
}

func TestReviews(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Reviews: reviewed{r}} }
	const (
		list    = "GET /v1/admin/reviews"
		dismiss = "POST /v1/admin/reviews/2/dismiss"
		times   = `"reached_at":"2026-11-20T04:00:00.000Z","first_seen_at":"2026-11-20T04:00:00.000Z"`
		open    = times + `,"dismissed_at":null,"dismissed_by":null,"dismiss_reason":null`
		both    = `{"id":"2","board":"steps","date":"2026-11-20","user_id":"a|b","nickname":"Ann","score":98800,` + open + `},` +
			`{"id":"1","board":"gifts","date":null,"user_id":null,"nickname":"","score":7,` + open + `}`
	)
	dismissed := func(reason string) string {
		return `200 {"id":"2","board":"gifts","date":null,"user_id":null,"nickname":"","score":7,` + times +
			`,"dismissed_at":"2026-11-20T04:00:00.000Z","dismissed_by":"alice","dismiss_reason":"` + reason + `"}`
	}
	listed, plain := []string{"List   0 51"}, []string{"Dismiss 2 alice  -1 false"}
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, listed, `200 {"reviews":[` + both + `],"next_cursor":null}`},
		{"list those of a board", "admin", list + "?board=steps&limit=2", "", nil, []string{"List steps  0 3"}, `200 …`},
		{"list those of a user", "admin", list + "?user_id=a%7Cb", "", nil, []string{"List  a|b 0 51"}, `200 …`},
		{"list by the cursor of another board", "admin", list + "?board=steps&cursor=" + cursor(3, 0, "reviews", "gifts", ""), "", nil, nil,
			"400 invalid_cursor: …"},
		{"list those of a bad board", "admin", list + "?board=A", "", nil, nil, "422 validation_failed: query.board: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, the store is away", "admin", list, "", errUnavailable, listed, wantUnavailable},
		{"dismiss", "admin", dismiss, "", nil, plain, dismissed("")},
		{"dismiss with an empty body", "admin", dismiss, "{}", nil, plain, dismissed("")},
		{"dismiss for a reason", "admin", dismiss, `{"reason":"a marathon","score":90000}`, nil,
			[]string{"Dismiss 2 alice a marathon 90000 false"}, dismissed("a marathon")},
		{"a dry run", "admin", dismiss + "?dry_run=true", "", nil, []string{"Dismiss 2 alice  -1 true"}, dismissed("")},
		{"dismiss a negative score", "admin", dismiss, `{"score":-1}`, nil, nil, "422 validation_failed: body.score: …"},
		{"dismiss with an unknown field", "admin", dismiss, `{"raison":"x"}`, nil, nil, "422 validation_failed: body.raison: …"},
		{"dismiss with no JSON", "admin", dismiss, `{`, nil, nil, "400 invalid_request: …"},
		{"dismiss one that does not exist", "admin", dismiss, "", models.Errorf(models.CodeNotFound, "none"), plain, "404 not_found: none"},
		{"dismiss no id", "admin", "POST /v1/admin/reviews/0/dismiss", "", nil, nil, "422 validation_failed: path.id: …"},
		{"dismiss without a name", "admin without a sub", dismiss, "", nil, nil, "403 forbidden: this call is recorded: …"},
		{"dismiss with a user's token", "1", dismiss, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"dismiss, an unknown error", "admin", dismiss, "", errUnknown, plain, wantInternal},
	})
	checkPages(t, config, "admin", "GET /v1/admin/reviews?limit=1&board=steps", []string{"List steps  0 2", "List steps  2 2"})
}
