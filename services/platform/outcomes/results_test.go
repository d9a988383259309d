package outcomes_test

import (
	"context"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// mixed has users 1 to 3: the second hides from everybody, and the third was erased.
type mixed struct{}

func (mixed) RecordsMany(_ context.Context, rows []models.RowID) ([]models.PublicRecord, error) {
	records := make([]models.PublicRecord, len(rows))
	for i, row := range rows {
		if row < 3 {
			records[i] = models.PublicRecord{User: testenv.ID(row), Nickname: "name", Hidden: row == 2}
		}
	}
	return records, nil
}

// A result names nobody who hides or was erased when it is sent. It is sent again with the
// next revision if it has changed, and only then.
func TestResult(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		target := newReceiver(t, nil)
		f := newFixture(t, env, target.target())
		f.deliverAs(mixed{})
		result := outcomes.Result{Total: 3, ScoreSum: 60}
		for n := range 3 {
			entry := outcomes.TopEntry{User: models.RowID(n + 1), Score: int64(30 - 10*n), ReachedAt: models.TimestampOf(testenv.Noon)}
			result.Top = append(result.Top, entry)
		}
		add := func() {
			t.Helper()
			if err := f.outbox.AddResult(outcomes.InGorm(env.Gorm), testenv.Bucket(1), result); err != nil {
				t.Fatal(err)
			}
		}
		add()
		add()
		f.waitFor(models.DeliveryDelivered)
		const at = `"reached_at":"2026-11-20T13:00:00.000Z"`
		want := `{"type":"board.final","timestamp":"2026-11-20T13:00:00.000Z","data":{"board":"steps","kind":"daily",` +
			`"date":"2026-11-20","revision":1,"total":3,"score_sum":60,"top":[` +
			`{"rank":1,"user_id":"1","nickname":"name","avatar_url":"","score":30,` + at + `},` +
			`{"rank":2,"user_id":null,"nickname":"","avatar_url":"","anonymous":true,"score":20,` + at + `},` +
			`{"rank":3,"user_id":null,"nickname":"","avatar_url":"","anonymous":true,"score":10,` + at + `}]}}`
		if got := target.list(); len(got) != 1 || got[0].body != want {
			t.Fatalf("received %v, want %s", got, want)
		}
		result.ScoreSum = 61
		add()
		testenv.Eventually(t, "the next revision arrives", func() bool { return len(target.list()) == 2 })
	})
}
