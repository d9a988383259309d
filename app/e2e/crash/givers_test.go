package crash_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/platform/auth"
)

// givers send increments until end. Each repeats an increment with the same
// event id until it is answered, and one in ten once more after that.
type givers struct {
	*traffic
	tries atomic.Int64

	mu sync.Mutex
	// given holds the score that each user must have, by board: the sum of the
	// acknowledged increments, or the best of them. All increments are acknowledged in the end.
	given map[string]map[models.UserID]int64
}

// giverBoards are the boards of increments. contest takes the best, late.
var giverBoards = []string{"gifts", "active", "contest"}

// together returns the score that two increments of a board make up.
func together(board string, a, b int64) int64 {
	if board == "contest" {
		return max(a, b)
	}
	return a + b
}

func startGivers(t testing.TB, url string) *givers {
	g := &givers{traffic: newTraffic(t, url), given: make(map[string]map[models.UserID]int64)}
	bearer := harness.Token(t, "1", auth.ScopeService)
	for _, name := range giverBoards {
		g.given[name] = make(map[models.UserID]int64)
	}
	for worker := range 8 {
		g.wg.Go(func() { g.run(worker, bearer) })
	}
	return g
}

func (g *givers) run(worker int, bearer string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	rng := rand.New(rand.NewPCG(uint64(worker), 1))
	for n := 0; ; n++ {
		select {
		case <-g.stop:
			return
		case <-time.After(harness.Pace):
		}
		board := giverBoards[n%len(giverBoards)]
		items := make([]string, 1+rng.IntN(4))
		users, deltas := make([]models.UserID, len(items)), make([]int64, len(items))
		for i := range items {
			user, delta := 1+rng.IntN(20), 1+rng.IntN(9)
			users[i], deltas[i] = testenv.ID(user), int64(delta)
			id := fmt.Sprintf("w%d-%d-%d", worker, n, i)
			if items[i] = harness.IncrementJSON(user, delta, id); board == "contest" {
				at := time.Now().UTC().Add(-time.Duration(rng.IntN(3000)) * time.Second).Format(time.RFC3339)
				items[i] = fmt.Sprintf(`{"user_id":"%d","score":%d,"event_id":%q,"occurred_at":%q}`, user, delta, id, at)
			}
		}
		first := g.send(client, bearer, board, items)
		if first == nil {
			return
		}
		if rng.IntN(10) == 0 {
			again := g.send(client, bearer, board, items)
			for i := range again {
				if again[i].Status != "duplicate" || *again[i].Score != *first[i].Score || *again[i].ReachedAt != *first[i].ReachedAt {
					g.t.Errorf("first %s, then %s", first[i].Brief(), again[i].Brief())
				}
			}
		}
		g.mu.Lock()
		for i := range items {
			g.given[board][users[i]] = together(board, g.given[board][users[i]], deltas[i])
		}
		g.mu.Unlock()
		g.done.Add(1)
	}
}

// send sends increments until they are answered.
func (g *givers) send(client *http.Client, bearer, board string, items []string) []harness.IncrementResult {
	for {
		g.tries.Add(1)
		status, text, err := harness.Request(g.t.Context(), client, bearer, "POST", *g.url.Load()+"/v1/boards/"+board+"/increments", harness.IncrementsJSON(items...))
		switch {
		case g.t.Context().Err() != nil:
			return nil
		case err != nil || status == http.StatusServiceUnavailable:
			g.refused.Add(1)
			<-time.After(10 * time.Millisecond) // a store or the process is away
			continue
		case status != http.StatusOK:
			g.t.Errorf("status %d: %s", status, text)
			return nil
		}
		var got harness.IncrementResults
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Results) != len(items) {
			g.t.Errorf("%v: %s", err, text)
			return nil
		}
		for _, r := range got.Results {
			if r.Status == "rejected" {
				g.t.Errorf("%+v", r)
			}
		}
		return got.Results
	}
}

// sums returns the rows of a query, a user and a sum each, as a map.
func sums(t testing.TB, st *stores.Stores, query string, args ...any) map[models.UserID]int64 {
	t.Helper()
	rows, err := st.Pool.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	got := make(map[models.UserID]int64)
	for rows.Next() {
		var user models.UserID
		var sum int64
		if err := rows.Scan(&user, &sum); err != nil {
			t.Fatal(err)
		}
		got[user] = sum
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return got
}

// byGivers is the condition that a user is one of the givers, whose ids are numbers.
const byGivers = `external_id ~ '^[0-9]+$'`

// check compares, after the load has ended, the acknowledged increments with
// the increments and totals in Postgres and with the scores in Redis.
func (g *givers) check(st *stores.Stores, keys keys.Builder) {
	g.t.Helper()
	c := catalog.New(catalog.NewStore(st.Gorm), time.Now, 3, testenv.Log())
	for name, total := range map[string]string{"gifts": "event", "active": "live", "contest": "event"} {
		want := g.given[name]
		if diff := cmp.Diff(want, sums(g.t, st, `SELECT external_id, (CASE $1 WHEN 'contest' THEN max(delta) ELSE sum(delta) END)::bigint FROM score_events JOIN users USING (user_id) WHERE board = $1 AND `+byGivers+` GROUP BY 1`, name)); diff != "" {
			g.t.Errorf("%s: increments (-given +stored):\n%s", name, diff)
		}
		if diff := cmp.Diff(want, sums(g.t, st, `SELECT external_id, score FROM score_totals JOIN users USING (user_id) WHERE board = $1 AND total = $2 AND `+byGivers, name, total)); diff != "" {
			g.t.Errorf("%s: totals (-given +stored):\n%s", name, diff)
		}
		bucket := testenv.Must(c.Buckets.Load(g.t.Context(), name, total))
		s := board.NewStore(st.Redis, keys, time.Now, nil)
		users := slices.Collect(maps.Keys(want))
		rows := harness.Rows(g.t, st.Gorm, users)
		read := func() map[models.UserID]int64 {
			got := make(map[models.UserID]int64)
			composites, err := s.Composites(g.t.Context(), bucket, rows)
			if err != nil {
				g.t.Fatal(err)
			}
			for i, user := range users {
				if points, _ := score.Of(bucket).Decode(composites[i]); points > 0 {
					got[user] = bucket.Score(points)
				}
			}
			return got
		}
		// The reconciler repairs Redis in its next pass.
		testenv.Eventually(g.t, name+" has what the ledger has", func() bool { return cmp.Equal(want, read()) || g.t.Failed() })
	}
}
