package e2e_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

// line is a user's line in the order of an event.
type line struct {
	User      models.UserID // the decimal text of the row id
	Score     int64
	ReachedAt models.Timestamp
}

// The order of an event is the same in Postgres, in the API over Redis, and in
// the scores and times that the callers of increments were answered. Increments
// are small and the seconds are full, so most places are decided by ties.
func TestOneOrderOfAnEvent(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	testenv.NumberUsers(t, env, eventUsers)
	s := newServer(t, env, withEvents)
	want := orderOf(t, addAtOnce(t, s))
	if diff := gocmp.Diff(want, storedOrder(t, env)); diff != "" {
		t.Errorf("Postgres (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(want, s.shownOrder()); diff != "" {
		t.Errorf("the API (-want +got):\n%s", diff)
	}
}

// eventUsers is how many users get increments.
const eventUsers = 3000

// addAtOnce adds increments of random users from many goroutines. It returns
// the answer with the largest score of each user, which must be the sum of the
// user's increments.
func addAtOnce(t *testing.T, s *server) map[models.UserID]line {
	t.Helper()
	const writers, calls, list = 16, 60, 50
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		sum      = make(map[models.UserID]int64)
		largest  = make(map[models.UserID]line)
		answered = make(map[string]bool) // by user and score
	)
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 2))
			for c := range calls {
				items := make([]ledger.Increment, list)
				for i := range items {
					items[i] = ledger.Increment{
						User: testenv.ID(1 + rng.IntN(eventUsers)), Amount: int64(1 + rng.IntN(2)), EventID: fmt.Sprintf("s%d-%d-%d", w, c, i),
					}
				}
				before := models.TimestampOf(s.env.Clock.Now().Truncate(time.Second))
				results, err := s.app.Ledger.Add(t.Context(), "gifts", items)
				for n := 0; n < 10 && errors.Is(err, stores.ErrBusy); n++ { // as a client would
					results, err = s.app.Ledger.Add(t.Context(), "gifts", items)
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for i, r := range results {
					user := items[i].User
					sum[user] += items[i].Amount
					key := fmt.Sprint(user, " ", r.Score)
					if r.Status != ledger.Applied || r.ReachedAt < before || answered[key] {
						t.Errorf("%+v after %v; answered twice: %t", r, before, answered[key])
					}
					answered[key] = true
					if r.Score > largest[user].Score {
						largest[user] = line{user, r.Score, r.ReachedAt}
					}
				}
				mu.Unlock()
				if rng.IntN(20) == 0 {
					s.env.Clock.Advance(400 * time.Millisecond)
				}
			}
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	for user, l := range largest {
		if l.Score != sum[user] {
			t.Errorf("user %v was given %d, and the largest answer is %d", user, sum[user], l.Score)
		}
	}
	return largest
}

// orderOf sorts lines as the order of a ranking is defined. All users must have
// one, and some must tie in score and time.
func orderOf(t *testing.T, lines map[models.UserID]line) []line {
	t.Helper()
	order := slices.SortedFunc(maps.Values(lines), func(a, b line) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ReachedAt, b.ReachedAt), cmp.Compare(b.User, a.User))
	})
	ties := 0
	for i := 1; i < len(order); i++ {
		if order[i].Score == order[i-1].Score && order[i].ReachedAt == order[i-1].ReachedAt {
			ties++
		}
	}
	if ties < 20 || len(order) != eventUsers {
		t.Fatalf("%d users with %d ties are too few for this test", len(order), ties)
	}
	return order
}

// storedOrder reads the order from Postgres.
func storedOrder(t *testing.T, env *testenv.Env) (stored []line) {
	t.Helper()
	rows, err := env.Pool.Query(t.Context(), `
		SELECT user_id::text, score, reached_at FROM score_totals WHERE board = 'gifts'
		ORDER BY score DESC, reached_at, user_id::text COLLATE "C" DESC`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
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
	return stored
}

// shownOrder reads the order from the API, page by page.
func (s *server) shownOrder() (shown []line) {
	s.t.Helper()
	for cursor := ""; ; {
		var page models.Ranking
		s.want(s.service("GET", "/v1/boards/gifts/top?limit=200&cursor="+cursor, nil), 200, &page)
		for _, e := range page.Entries {
			if e.Rank != int64(len(shown)+1) {
				s.t.Fatalf("rank %d after %d lines", e.Rank, len(shown))
			}
			shown = append(shown, line{e.User, e.Score, e.ReachedAt})
		}
		if page.NextCursor == nil {
			return shown
		}
		cursor = *page.NextCursor
	}
}
