package e2e_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/ledger"
)

// line is a user's place in a strict order.
type line struct {
	User      models.UserID
	Score     int64
	ReachedAt models.Timestamp
}

// strictly sorts lines as the ranking order says, in the plainest words.
func strictly(lines []line) {
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ReachedAt, b.ReachedAt), cmp.Compare(b.User.String(), a.User.String()))
	})
}

// The standings of an event are one order, whoever is asked: Postgres, the API
// over Redis, and the sums and times that its callers were told. Increments are
// so small and the seconds so full that most places are decided by ties.
func TestStandingsAreOneOrder(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, withEvents)
	const writers, calls, list, users = 16, 125, 50, 3000
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		sum   = make(map[models.UserID]int64)
		told  = make(map[models.UserID]line) // by the answer with the largest score
		twice = make(map[string]bool)
	)
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for c := range calls {
				items := make([]ledger.Increment, list)
				for i := range items {
					items[i] = ledger.Increment{
						User: models.UserID(1 + rng.IntN(users)), Delta: int64(1 + rng.IntN(2)), EventID: fmt.Sprintf("s%d-%d-%d", w, c, i),
					}
				}
				before := models.TimestampOf(env.Clock.Now().Truncate(time.Second))
				results, err := s.app.Ledger.Add(t.Context(), "gifts", items)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, r := range results {
					user := items[i].User
					sum[user] += items[i].Delta
					key := fmt.Sprint(user, " ", r.Score)
					if r.Status != ledger.Applied || r.ReachedAt < before || twice[key] {
						t.Errorf("%+v after %v; told twice: %t", r, before, twice[key])
					}
					twice[key] = true
					if r.Score > told[user].Score {
						told[user] = line{user, r.Score, r.ReachedAt}
					}
				}
				mu.Unlock()
				if rng.IntN(20) == 0 {
					env.Clock.Advance(400 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	want := make([]line, 0, users)
	for user, l := range told {
		if l.Score != sum[user] {
			t.Errorf("user %v was given %d and told %d", user, sum[user], l.Score)
		}
		want = append(want, l)
	}
	strictly(want)
	ties := 0
	for i := 1; i < len(want); i++ {
		if want[i].Score == want[i-1].Score && want[i].ReachedAt == want[i-1].ReachedAt {
			ties++
		}
	}
	if ties < 20 || len(want) != users {
		t.Fatalf("%d users with %d ties within a second make no test", len(want), ties)
	}

	var stored []line
	rows, err := env.Pool.Query(t.Context(), `
		SELECT user_id, score, reached_at FROM score_totals WHERE board = 'gifts'
		ORDER BY score DESC, reached_at, user_id::text COLLATE "C" DESC`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var l line
		var at time.Time
		if err := rows.Scan(&l.User, &l.Score, &at); err != nil {
			t.Fatal(err)
		}
		l.ReachedAt = models.TimestampOf(at)
		stored = append(stored, l)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, stored); diff != "" {
		t.Errorf("Postgres (-want +got):\n%s", diff)
	}

	var shown []line
	cursor := ""
	for {
		var page models.Ranking
		s.want(s.service("GET", "/v1/boards/gifts/top?limit=200&cursor="+cursor, nil), 200, &page)
		for _, e := range page.Entries {
			if e.Rank != int64(len(shown)+1) {
				t.Fatalf("rank %d behind %d lines", e.Rank, len(shown))
			}
			shown = append(shown, line{e.User, e.Score, e.ReachedAt})
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if diff := gocmp.Diff(want, shown); diff != "" {
		t.Errorf("the API (-want +got):\n%s", diff)
	}
}
