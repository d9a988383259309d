package results_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/platform/outcomes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The hashes of results that were written before are those of the same JSON.
func TestHashedResult(t *testing.T) {
	t.Parallel()
	result := results.Result{Total: 1, ScoreSum: 60, Top: []results.TopEntry{{User: 7, Score: 60, ReachedAt: models.TimestampOf(testenv.Noon)}}}
	const want = `{"Total":1,"ScoreSum":60,"Top":[{"user":7,"score":60,"reached_at":"2026-11-20T13:00:00.000Z"}]}`
	if got := testenv.Must(json.Marshal(result)); string(got) != want {
		t.Errorf("hashed is %s, want %s", got, want)
	}
}

// A result is written again with the next revision if it has changed, and only then.
func TestRevisions(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		outbox := outcomes.NewOutbox([]outcomes.Target{{URL: "https://example.com"}}, env.Clock.Now)
		result := results.Result{Total: 1, ScoreSum: 60, Top: []results.TopEntry{
			{User: 7, Score: 60, ReachedAt: models.TimestampOf(testenv.Noon)},
		}}
		add := func() {
			t.Helper()
			if err := results.Add(outbox, env.Gorm, testenv.Bucket(1), result); err != nil {
				t.Fatal(err)
			}
		}
		add()
		add()
		result.ScoreSum = 61
		add()
		const top = `"top":[{"user":7,"score":60,"reached_at":"2026-11-20T13:00:00.000Z"}]}`
		want := []string{
			`{"board":"steps","kind":"daily","date":"2026-11-20","revision":1,"total":1,"score_sum":60,` + top,
			`{"board":"steps","kind":"daily","date":"2026-11-20","revision":2,"total":1,"score_sum":61,` + top,
		}
		var got []string
		if err := env.Gorm.Raw(`SELECT payload FROM webhook_deliveries ORDER BY id`).Scan(&got).Error; err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
}
