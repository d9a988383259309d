package demo

import (
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// The board of the quiz has the best round of each person, and when it was played first.
func TestDemoQuiz(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	a, p := populatedApp(t, env, 60)
	if err := playQuiz(t.Context(), a, p, env.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	rounds := quizRounds(p, env.Clock.Now())
	best := make(map[models.UserID]models.RankedEntry)
	for _, round := range rounds {
		if b, ok := best[round.User]; !ok || round.Amount > b.Score {
			best[round.User] = models.RankedEntry{Score: round.Amount, ReachedAt: *round.OccurredAt}
		}
	}
	top := testenv.Must(a.Ranking.Top(t.Context(), ranking.Query{Board: quizBoard, Limit: 200}))
	if len(top.Entries) != len(best) || len(best) != 40 || len(rounds) <= len(best) {
		t.Fatalf("%d people are ranked, %d have played %d rounds", len(top.Entries), len(best), len(rounds))
	}
	for _, e := range top.Entries {
		if b := best[e.User]; e.Score != b.Score || e.ReachedAt != b.ReachedAt || e.Nickname == "" {
			t.Errorf("%+v is ranked, want %+v", e, b)
		}
	}
}
