package demo

import (
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// The board of the laps has the fastest lap of each person, and when it was run first.
func TestDemoLaps(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := populated(t, env, 60)
	laps := s.laps(env.Clock.Now())
	best := make(map[models.UserID]models.RankedEntry)
	for _, lap := range laps {
		if b, ok := best[lap.User]; !ok || lap.Amount < b.Score || lap.Amount == b.Score && *lap.OccurredAt < b.ReachedAt {
			best[lap.User] = models.RankedEntry{Score: lap.Amount, ReachedAt: *lap.OccurredAt}
		}
	}
	top := testenv.Must(s.app.Ranking.Top(t.Context(), ranking.Query{Board: lapsBoard, Limit: 200}))
	if len(top.Entries) != len(best) || len(best) != 40 || len(laps) <= len(best) {
		t.Fatalf("%d people are ranked, %d have run %d laps", len(top.Entries), len(best), len(laps))
	}
	for _, e := range top.Entries {
		if b := best[e.User]; e.Score != b.Score || e.ReachedAt != b.ReachedAt || e.Nickname == "" {
			t.Errorf("%+v is ranked, want %+v", e, b)
		}
	}
}
