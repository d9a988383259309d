package ledger_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/ledger"
)

// restorePostgres brings the ledger back to where it was when the copy was made.
func (p *fixture) restorePostgres(copied []string) {
	p.t.Helper()
	for _, statement := range append([]string{`DELETE FROM score_totals`, `DELETE FROM score_events`}, copied...) {
		if err := p.env.Gorm.Exec(statement).Error; err != nil {
			p.t.Fatal(err)
		}
	}
}

// copyPostgres copies the ledger. It returns the statements that bring it back.
func (p *fixture) copyPostgres() []string {
	p.t.Helper()
	for _, table := range []string{"score_totals", "score_events"} {
		if err := p.env.Gorm.Exec(`CREATE TABLE copied_` + table + ` AS SELECT * FROM ` + table).Error; err != nil {
			p.t.Fatal(err)
		}
	}
	return []string{`INSERT INTO score_totals SELECT * FROM copied_score_totals`, `INSERT INTO score_events SELECT * FROM copied_score_events`}
}

// After Postgres was restored to an earlier moment, a rebuild makes the boards show what
// it has.
func TestRebuildAfterAnOlderPostgres(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100_000)
		give := func(call string, from, to models.RowID) {
			var items []ledger.Increment
			for user := from; user <= to; user++ {
				items = append(items, inc(user, int64(user), fmt.Sprint(call, user)))
			}
			p.add("gifts", items...)
			p.add("active", items...)
		}
		give("gone-", 61, 62) // in an hour that has left the window in the end
		env.Clock.Advance(2 * time.Hour)
		give("a-", 1, 10)
		env.Clock.Advance(time.Hour)
		give("b-", 8, 17)
		gifts, active := p.inRedis("gifts"), p.inRedis("active")
		copied := p.copyPostgres()
		give("c-", 1, 30)
		env.Clock.Advance(time.Minute)
		give("d-", 5, 60)
		if got := p.inRedis("gifts"); len(got) != 62 {
			t.Fatalf("%d users were given something", len(got))
		}
		p.restorePostgres(copied)
		if _, err := p.boards.Drain(t.Context(), p.bucket("active")); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(active, func(user models.RowID, _ string) bool { return user > 60 })

		for run, lowered := range []int64{60 + 60, 0} {
			rebuilt, err := p.reconciler().Rebuild(t.Context(), func(int64) {})
			if want := (ledger.Rebuilt{Totals: 17 + 2 + 10 + 10, Lowered: lowered}); err != nil || rebuilt != want {
				t.Errorf("run %d: %+v, %v, want %+v", run, rebuilt, err, want)
			}
			if diff := cmp.Diff(gifts, p.inRedis("gifts")); diff != "" {
				t.Errorf("gifts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(active, p.inRedis("active")); diff != "" {
				t.Errorf("active (-want +got):\n%s", diff)
			}
			if _, drifted, err := p.boards.Drift(t.Context(), p.bucket("active"), 100); err != nil || drifted != 0 {
				t.Errorf("%d sums are wrong, %v", drifted, err)
			}
		}
	})
}

// betweenReadAndLower calls do before each call of Lower.
type betweenReadAndLower struct {
	board.Entries
	do func()
}

func (b *betweenReadAndLower) Lower(ctx context.Context, p models.BoardPart, lowerings []models.Lowering) (int64, error) {
	b.do()
	return b.Entries.Lower(ctx, p, lowerings)
}

// Increments that are counted while a board is rebuilt are on it in the end: those of
// users whose entry was more, for whom the first raise changes nothing, and those that
// pass the entry.
func TestIncrementsDuringARebuild(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			env.Clock.Set(testenv.Noon)
			p := newFixture(t, env, 1000)
			p.add(board, inc(1, 5, "a"), inc(2, 5, "b"), inc(3, 5, "c"), inc(4, 5, "d"))
			p.add(board, inc(1, 20, "e"), inc(2, 20, "f"), inc(3, 20, "g"))
			for user := range 3 { // the second gifts are lost, and all of user 3
				statement := fmt.Sprintf(`UPDATE score_totals SET score = 5 WHERE user_id = %d`, user+1)
				if user == 2 {
					statement = `DELETE FROM score_totals WHERE user_id = 3`
				}
				if err := env.Gorm.Exec(statement).Error; err != nil {
					t.Fatal(err)
				}
			}
			env.Clock.Advance(time.Second)
			var once sync.Once
			r := p.reconciler()
			r.Entries = &betweenReadAndLower{p.boards, func() {
				once.Do(func() { p.add(board, inc(1, 1, "h"), inc(2, 30, "i"), inc(3, 2, "j"), inc(4, 1, "k"), inc(5, 1, "l")) })
			}}
			if _, err := r.Rebuild(t.Context(), func(int64) {}); err != nil {
				t.Fatal(err)
			}
			want := map[models.RowID]string{
				1: "6 at 13:00:01.000", 2: "35 at 13:00:01.000", 3: "2 at 13:00:01.000", 4: "6 at 13:00:01.000", 5: "1 at 13:00:01.000",
			}
			if diff := cmp.Diff(want, p.inRedis(board)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", board, diff)
			}
		}
	})
}

// A rebuild leaves the keys of an archived event alone, whose totals may have been
// deleted.
func TestRebuildLeavesArchivedEvents(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Local(t), 1000)
	p.add("gifts", inc(1, 5, "a"))
	bucket := p.bucket("gifts")
	p.restorePostgres(nil)
	p.env.Clock.Set(bucket.ColdAt.Add(time.Minute))
	r := p.reconciler()
	r.Archived = alwaysArchived
	if rebuilt, err := r.Rebuild(t.Context(), func(int64) {}); err != nil || rebuilt != (ledger.Rebuilt{}) {
		t.Errorf("%+v, %v", rebuilt, err)
	}
	if got := entriesOf(p, bucket); len(got) != 1 {
		t.Errorf("on the board: %v", got)
	}
}
