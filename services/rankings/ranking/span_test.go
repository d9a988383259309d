package ranking_test

import (
	"slices"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// Spans that can't be read are refused, and spans without scores are empty.
func TestRefusedAndEmptySpans(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		f.raise(today, 1, 500, env.Clock.Now())
		f.group("team", 1, 2)
		day := func(d models.Date) *models.Date { return &d }
		span := func(viewer models.RowID, from models.Date, to *models.Date, date *models.Date) (*models.Ranking, error) {
			q := query(viewer)
			q.Date, q.Span = date, &ranking.Span{From: from, To: to}
			return f.ranking.Group(t.Context(), q, "team")
		}
		for name, tt := range map[string]struct {
			viewer   models.RowID
			from     models.Date
			to, date *models.Date
			want     models.Code
		}{
			"backwards":            {1, today, day(today - 1), nil, models.CodeValidationFailed},
			"of 32 days":           {1, today - 31, day(today), nil, models.CodeValidationFailed},
			"of 32 days, to today": {1, today - 31, nil, nil, models.CodeValidationFailed},
			"with a date":          {1, today, day(today), day(today), models.CodeValidationFailed},
			"in the future":        {1, today + 1, day(today + 2), nil, models.CodeDateInFuture},
			"from tomorrow":        {1, today + 1, nil, nil, models.CodeDateInFuture},
			"of a stranger":        {3, today, nil, nil, models.CodeNotFound},
			"of a stranger, long before the first day": {3, -800_000, day(-799_999), nil, models.CodeNotFound},
		} {
			if r, err := span(tt.viewer, tt.from, tt.to, tt.date); models.CodeOf(err) != tt.want {
				t.Errorf("a span %s: %v, %v, want %s", name, r, err, tt.want)
			}
		}
		for name, tt := range map[string]struct {
			from    models.Date
			to      *models.Date
			entries int
			final   bool
		}{
			"that ends in the future": {today - 2, day(today + 28), 1, false},
			"of 31 days":              {today - 30, nil, 1, false},
			"of days without scores":  {today - 20, day(today - 10), 0, true},
			"before the first day":    {-800_000, day(-799_999), 0, true},
			"across the first day":    {-2, day(2), 0, true},
			"of today":                {today, day(today), 1, false},
		} {
			r, err := span(1, tt.from, tt.to, nil)
			if err != nil || len(r.Entries) != tt.entries || r.Final != tt.final || r.Source != models.SourceHot || (r.Me != nil) != (tt.entries > 0) {
				t.Errorf("a span %s: %+v, %v", name, r, err)
			}
		}
		q := query(2)
		q.Likes, q.Span = true, &ranking.Span{From: today}
		if _, err := f.ranking.Group(t.Context(), q, "team"); models.CodeOf(err) != models.CodeValidationFailed {
			t.Errorf("a span with likes: %v", err)
		}
		q.Likes = false
		if r, err := f.ranking.Group(t.Context(), q, "team"); err != nil || r.Champion == nil || r.Champion.User != "1" {
			t.Errorf("the champion of a span: %+v, %v", r, err)
		}
		if _, err := f.ranking.Friends(t.Context(), ranking.Query{Board: "nix", Viewer: "1", Limit: 1, Span: &ranking.Span{From: today}}); models.CodeOf(err) != models.CodeBoardNotFound {
			t.Errorf("an unknown board: %v", err)
		}
	})
}

// Somebody unknown has nobody in a span, whether its days are archived or not.
func TestASpanOfSomebodyUnknown(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 1)
		for _, d := range []models.Date{today - 5, today - 4, today} {
			f.raise(d, 1, 500, d.UTC().Add(12*time.Hour))
		}
		due := testenv.Must(f.archive.Due(t.Context()))
		if len(due) != 2 {
			t.Fatalf("%d days are due", len(due))
		}
		f.mustArchive(f.archive, due[0])
		q := query(1)
		q.Viewer, q.Span = "nobody", &ranking.Span{From: today - 6}
		if r, err := f.ranking.Friends(t.Context(), q); err != nil || r.Total != 0 || r.Me != nil || r.Source != models.SourceHot {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// A span reads at most 40,000 scores from Redis, and 100,000 in all.
func TestTooLargeSpans(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	env.Config.Boards[0].OpenDays = 20
	f := newFixture(t, env, 1)
	edges := make([]models.Edge, 3999)
	for i := range edges {
		edges[i] = models.Edge{A: 1, B: models.RowID(2 + i)}
	}
	// Some at a time: all at once takes a data folder nearly as long as a change may
	// take.
	for some := range slices.Chunk(edges, 250) {
		if added, rejected, err := f.friends.Import(t.Context(), some); err != nil || added != len(some) {
			t.Fatal(added, rejected, err)
		}
	}
	for day := today - 10; day <= today; day++ {
		f.raise(day, 1, 100, f.bucketOf(day).StartsAt)
	}
	for _, tt := range []struct {
		last, days models.Date
		want       models.Code
	}{
		{today, 10, ""}, {today, 11, models.CodeSpanTooLarge},
		{today - 11, 25, ""}, {today - 11, 26, models.CodeSpanTooLarge}, // none is in Redis
	} {
		q := query(1)
		q.Span = &ranking.Span{From: tt.last - tt.days + 1, To: &tt.last}
		if r, err := f.ranking.Friends(t.Context(), q); models.CodeOf(err) != tt.want {
			t.Errorf("%d days up to %v of 4,000 people: %+v, %v, want %q", tt.days, tt.last, r, err, tt.want)
		}
	}
}
