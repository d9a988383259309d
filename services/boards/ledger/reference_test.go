package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ledger"
)

// reference counts one increment after the other in memory.
type reference struct {
	largest int64
	window  models.Hour // 0 on an event board
	known   map[string]known
	totals  map[models.UserID]map[models.Hour]int64
	reached map[models.UserID]map[models.Hour]models.Timestamp
}

type known struct {
	increment ledger.Increment
	result    string
}

func (m *reference) add(i ledger.Increment, now time.Time) string {
	if first, ok := m.known[i.EventID]; ok {
		if first.increment != i {
			return i.EventID + " rejected event_id_conflict"
		}
		return i.EventID + " duplicate " + first.result
	}
	hour, reachedAt := models.Hour(0), models.TimestampOf(now)
	if m.window > 0 {
		hour, reachedAt = models.HourOf(now), models.TimestampOf(now.Truncate(time.Second))
	}
	points := i.Amount
	for h, total := range m.totals[i.User] {
		if h > hour-m.window || m.window == 0 {
			points += total
		}
	}
	if points > m.largest {
		return i.EventID + " rejected score_out_of_range"
	}
	if m.totals[i.User] == nil {
		m.totals[i.User], m.reached[i.User] = make(map[models.Hour]int64), make(map[models.Hour]models.Timestamp)
	}
	m.totals[i.User][hour] += i.Amount
	m.reached[i.User][hour] = max(m.reached[i.User][hour], reachedAt)
	result := scoreAt(points, m.reached[i.User][hour])
	m.known[i.EventID] = known{i, result}
	return i.EventID + " applied " + result
}

// Random calls have the results that their increments would have one by one.
func TestAgainstAReference(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			const largest = 250
			p := newFixture(t, env, largest)
			env.Clock.Set(testenv.Noon)
			m := &reference{
				largest: largest, known: make(map[string]known),
				totals: make(map[models.UserID]map[models.Hour]int64), reached: make(map[models.UserID]map[models.Hour]models.Timestamp),
			}
			m.window = models.Hour(p.bucket(board).WindowHours)
			rng := rand.New(rand.NewPCG(3, 4))
			statuses := make(map[string]int)
			calls := 150
			if env.Pool == nil {
				calls = 30
			}
			for call := range calls {
				env.Clock.Advance(time.Duration(rng.IntN(400_000)) * time.Millisecond)
				items := make([]ledger.Increment, 1+rng.IntN(20))
				want := make([]string, len(items))
				for i := range items {
					id := rng.IntN(10 * calls)
					items[i] = inc(models.RowID(1+id%10), int64(1+id%17), fmt.Sprint("id-", id))
					if rng.IntN(20) == 0 {
						items[i].Amount++ // a conflict, if it is not the first
					}
					want[i] = m.add(items[i], env.Clock.Now())
					statuses[strings.Join(strings.Fields(want[i])[1:2], "")]++
				}
				if diff := cmp.Diff(want, briefs(p.add(board, items...))); diff != "" {
					t.Fatalf("%s, call %d (-want +got):\n%s", board, call, diff)
				}
			}
			if statuses["applied"] < calls || statuses["duplicate"] < calls/3 || statuses["rejected"] < calls/3 {
				t.Errorf("%s: a test of %v", board, statuses)
			}
			if s := p.ledger.Stats(); int(s.Applied.Load()) != statuses["applied"] || int(s.Duplicates.Load()) != statuses["duplicate"] || int(s.Rejected.Load()) != statuses["rejected"] {
				t.Errorf("%s: %d applied, %d duplicates, %d rejected, want %v", board, s.Applied.Load(), s.Duplicates.Load(), s.Rejected.Load(), statuses)
			}
			p.checkTotals(board)
		}
	})
}

func isDuplicate(r ledger.Result) bool { return r.Status == ledger.Duplicate }

// With concurrent calls to two replicas and the same ids, each increment is counted
// once. There is one order of counting that explains all results, and the totals
// and boards agree with it.
func TestConcurrentIncrements(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			const largest = 250
			p := newFixture(t, env, largest)
			services := []*ledger.Service{p.ledger, p.replica(p.boards, env.Clock.Now)}
			callers, calls := 16, 40
			if env.Pool == nil {
				callers, calls = 4, 15
			}
			var (
				wg  sync.WaitGroup
				mu  sync.Mutex
				all = make(map[string][]ledger.Result)
				of  = make(map[string]ledger.Increment)
				out []ledger.Increment // rejected because of the largest score
				// unknown has the increments of calls that failed. They may have been counted.
				unknown = make(map[string]bool)
			)
			for c := range callers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(5, uint64(c)))
					for range calls {
						env.Clock.Advance(time.Duration(rng.IntN(20)) * time.Millisecond)
						items := make([]ledger.Increment, 1+rng.IntN(30))
						for i := range items {
							id := rng.IntN(callers * calls * 12)
							items[i] = inc(models.RowID(1+id%20), int64(1+id%23), fmt.Sprint("id-", id))
						}
						results, err := testenv.Available(t, func() ([]ledger.Result, error) {
							results, err := services[c%2].Add(t.Context(), board, items)
							if err != nil {
								mu.Lock()
								defer mu.Unlock()
								for _, i := range items {
									unknown[i.EventID] = true
								}
							}
							return results, err
						})
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						for i, r := range results {
							all[r.EventID] = append(all[r.EventID], r)
							of[r.EventID] = items[i]
							if r.Status == ledger.Rejected {
								out = append(out, items[i])
							}
						}
						mu.Unlock()
					}
				})
			}
			testenv.Wait(t, "the calls end", &wg)
			chains := make(map[models.RowID][]ledger.Result)
			for id, results := range all {
				var applied []ledger.Result
				for _, r := range results {
					if r.Status == ledger.Applied {
						applied = append(applied, r)
					}
				}
				if i := slices.IndexFunc(results, isDuplicate); len(applied) == 0 && unknown[id] && i >= 0 {
					applied = results[i : i+1]
				}
				if len(applied) > 1 {
					t.Errorf("%s was counted %d times", id, len(applied))
				}
				for _, r := range results {
					switch {
					case r.Status == ledger.Duplicate && (len(applied) == 0 || applied[0].Score != r.Score || applied[0].ReachedAt != r.ReachedAt):
						t.Errorf("%s: duplicate %+v of %+v", id, r, applied)
					case r.Status == ledger.Rejected && models.CodeOf(r.Err) != models.CodeScoreOutOfRange:
						t.Errorf("%s: %v", id, r.Err)
					}
				}
				chains[rowOf(of[id].User)] = append(chains[rowOf(of[id].User)], applied...)
			}
			want := make(map[models.RowID]string)
			final := make(map[models.RowID]int64)
			for user, chain := range chains {
				slices.SortFunc(chain, func(a, b ledger.Result) int { return int(a.Score - b.Score) })
				var points int64
				var at models.Timestamp
				for _, r := range chain {
					points += of[r.EventID].Amount
					if r.Score != points || r.ReachedAt < at {
						t.Fatalf("user %d: %+v comes behind %s", user, r, scoreAt(points, at))
					}
					at = r.ReachedAt
				}
				final[user], want[user] = points, scoreAt(points, at)
			}
			for _, i := range out {
				if final[rowOf(i.User)]+i.Amount <= largest {
					t.Errorf("%+v was rejected, and the user has %d", i, final[rowOf(i.User)])
				}
			}
			p.checkTotals(board)
			if diff := cmp.Diff(want, p.inRedis(board)); diff != "" {
				t.Errorf("%s in Redis (-want +got):\n%s", board, diff)
			}
			if len(out) == 0 || services[0].Stats().Duplicates.Load() == 0 {
				t.Errorf("%s: %d rejected, %d duplicates", board, len(out), services[0].Stats().Duplicates.Load())
			}
			if board == "gifts" && env.Pool != nil {
				t.Logf("%d retries", services[0].Stats().Retries.Load()+services[1].Stats().Retries.Load())
			}
		}
	})
}
