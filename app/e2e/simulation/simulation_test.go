package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// length is that of a run, in steps of the schedule.
const length = 120

// result holds the findings of a run.
type result struct {
	found string   // "" if it has found nothing
	lines []string // what has happened
	steps int      // how many steps it has taken
}

// text returns what has happened, with long lines cut off.
func (r result) text() string {
	var text strings.Builder
	for _, line := range r.lines {
		text.WriteString(models.Storable(line, 400) + "\n")
	}
	return text.String()
}

// run runs the first n steps of a seed, and compares everything at the end.
func run(t testing.TB, store string, seed uint64, n int) (r result) {
	w := newWorld(t, store, seed)
	defer w.close()
	defer func() {
		r.lines = w.lines
		switch caught := recover().(type) {
		case nil:
		case failed:
			r.found = string(caught)
		default:
			panic(caught)
		}
	}()
	w.begin()
	for r.steps < n {
		r.steps++
		w.step()
	}
	w.finish()
	return r
}

// begin creates the users, in the order of people.
func (w *world) begin() {
	for _, user := range people {
		got := w.call(w.t.Context(), w.replicas[0], w.token(user, ""), "PUT", "/v1/me", fmt.Sprintf(`{"nickname":%q}`, user))
		if got.status != http.StatusOK {
			w.failf("status %d", got.status)
		}
	}
}

// finish ends all faults, lets the background work catch up, and compares everything: once
// while the last days are in Redis, and once when all are archived. The jobs that archive them
// still meet faults: before that, few days turn cold.
func (w *world) finish() {
	w.note("the end")
	w.endOutage()
	for _, r := range w.replicas {
		r.skew.Store(0)
		if r.app == nil {
			w.startReplica(r)
		}
	}
	w.catchUp()
	w.compare()
	w.drainOutcomes()
	w.settle()
	for w.clock.Now().Before(w.lastEnd().Add(8 * 24 * time.Hour)) {
		w.advance(12 * time.Hour)
		w.refresh()
		w.meddle()
		w.followStandings(w.replicas[0])
		for _, r := range w.replicas {
			if r.app != nil {
				w.takeBroken(r, []string{"archive", "archive", "correct-archive", "erase"}[w.random.IntN(4)])
			}
		}
	}
	w.catchUp()
	w.checkFinals()
	w.compare()
	w.drainOutcomes()
	w.take(w.replicas[0], action{name: "compare results", quiet: true, do: (*world).compareFinals}, plan{})
}

// catchUp lets every replica do all of its background work without faults.
func (w *world) catchUp() {
	w.advance(2 * time.Minute) // what dead processes have left has expired
	for today := dayOf(w.clock.Now()); w.clock.Now().Sub(coldAt(today-4)) < 2*time.Hour; {
		w.advance(10 * time.Minute) // late updates show when the archive has merged them
	}
	w.restartAll() // a consumer looks for entries of dead consumers when it starts
	w.refresh()
	r := w.replicas[0]
	w.writeReleased(r)
	w.advance(2 * time.Minute) // what was written a moment ago is not settled
	for range 100 {
		if !w.queued || w.backlog() == 0 {
			break
		}
		w.take(r, action{name: "consumer", quiet: true, do: func(w *world, ctx context.Context, r *replica) { _ = w.round(ctx, r, "consumer") }}, plan{})
	}
	if w.queued && w.backlog() > 0 {
		w.failf("the queue is never drained")
	}
	w.finishErasures()
	for _, g := range w.model.gifts {
		for range 3 {
			if !g.counted && !g.refused && !g.gone {
				w.take(r, action{name: "give again", quiet: true, do: func(w *world, ctx context.Context, r *replica) { w.send(ctx, r, g) }}, plan{})
			}
		}
	}
	for range 2 {
		for _, name := range []string{"finish", "reconcile", "correct", "results", "archive", "correct-archive"} {
			w.takeRound(r, name)
		}
	}
	w.refresh()
	w.take(r, action{name: "compare standings", quiet: true, do: (*world).compareStandings}, plan{})
	w.checkTraces()
	w.checkExclusions()
	if w.queued {
		w.model.eachCell(func(_ models.UserID, _ models.Date, c *cell) {
			if c.acknowledged != nil {
				c.raise(*c.acknowledged, w.clock.Now())
			}
		})
	}
}

// restartAll starts every replica anew.
func (w *world) restartAll() {
	for _, r := range w.replicas {
		w.stopReplica(r)
		w.startReplica(r)
	}
}

// compare compares every answer of every replica with the model.
func (w *world) compare() {
	w.look(true, nil)
	for _, r := range w.replicas {
		w.take(r, action{name: "compare everything", quiet: true, do: (*world).compareAll}, plan{})
	}
}

// compareAll compares the answers of a replica: everything to one user, and to the others
// what most depends on who asks.
func (w *world) compareAll(ctx context.Context, r *replica) {
	one := w.person()
	for day := w.model.started; day <= dayOf(w.clock.Now()); day++ {
		if got, ok := w.list(ctx, r, one, "/v1/boards/steps/top?date="+day.String(), 2); ok {
			w.checkTop(r, one, day, got, true)
		}
		w.rankAround(ctx, r, one, day, true)
		w.readMe(ctx, r, one, day, true)
		for _, user := range people {
			w.checkWhy(ctx, r, user, day, true)
			if user != one && w.random.IntN(2) == 0 {
				continue
			}
			if got, ok := w.list(ctx, r, user, "/v1/boards/steps/friends?include=likes&date="+day.String(), 200); ok {
				w.checkCircle(r, user, "", day, got, true)
				w.checkLikes(r, user, day, got)
			}
			w.compareAbsent(ctx, r, user, "", day, true)
		}
	}
	for _, user := range people {
		w.checkHistory(ctx, r, user, true)
		if got, ok := w.list(ctx, r, user, "/v1/boards/gifts/friends?", 200); ok {
			w.checkEvent(r, user, got, true)
		}
	}
	w.compareContests(ctx, r)
	for _, name := range sortedKeys(w.model.facts) {
		words := strings.Fields(name)
		if words[0] != "member" {
			continue
		}
		user, day := models.UserID(words[2]), w.someDay()
		if got, ok := w.list(ctx, r, user, "/v1/boards/steps/groups/"+w.groupIDs[words[1]]+"?date="+day.String(), 200); ok {
			w.checkCircle(r, user, words[1], day, got, true)
		}
		w.compareAbsent(ctx, r, user, words[1], day, true)
	}
}

// settle notes the values that the boards have now: they are sure from now on.
func (w *world) settle() {
	w.model.eachCell(func(user models.UserID, day models.Date, c *cell) {
		if _, ever := w.model.corrected(w.row(user), day); ever {
			return
		}
		w.take(w.replicas[0], action{name: "settle", quiet: true, do: func(w *world, ctx context.Context, r *replica) {
			c.sure = w.readMe(ctx, r, user, day, true)
			c.sent = nil
		}}, plan{})
	})
}

// seedsOf has the number of seeds that run on a store: always, those of a round, and in make soak.
type seedsOf struct {
	store                string
	always, round, whole uint64
}

// chosen returns the seeds of the store that SIM_STORE names, or of both.
func chosen(t testing.TB, all []seedsOf) []seedsOf {
	store := os.Getenv("SIM_STORE")
	if store == "" {
		return all
	}
	i := slices.IndexFunc(all, func(s seedsOf) bool { return s.store == store })
	if i < 0 {
		t.Fatalf("SIM_STORE is %q", store)
	}
	return all[i : i+1]
}

// list returns the seeds that run: the SIM_SEEDS first ones from SIM_SEED on; without these the first ones, which are
// the same each time, and those of the round; or in make soak many that never ran before.
func (s seedsOf) list(t testing.TB) []uint64 {
	t.Helper()
	seeds := func(first, count uint64) (list []uint64) {
		for seed := first; seed < first+count; seed++ {
			list = append(list, seed)
		}
		return list
	}
	if os.Getenv("SIM_SEED") != "" || os.Getenv("SIM_SEEDS") != "" {
		return seeds(number(t, "SIM_SEED", 1), number(t, "SIM_SEEDS", s.always))
	}
	if testenv.AllForms() {
		return seeds(uint64(time.Now().UnixMilli()), s.whole)
	}
	list := seeds(1, s.always)
	if round, ok := testenv.Round(t); ok {
		list = append(list, seeds(1000+uint64(round)*s.round, s.round)...)
	}
	return list
}

// replayed is how many seeds there are for one that runs twice.
const replayed = 20

// TestSoakSimulation runs seeds on each store.
func TestSoakSimulation(t *testing.T) {
	t.Parallel()
	whole := number(t, "SIM_SHORTEST", 1) == 1 // otherwise one failing seed is enough
	t.Cleanup(abandoned.Wait)
	for _, seeds := range chosen(t, []seedsOf{{onFile, 4, 4, 2000}, {onServers, 2, 2, 1000}}) {
		t.Run(seeds.store, func(all *testing.T) {
			for i, seed := range seeds.list(t) {
				all.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					t.Parallel()
					if !whole && all.Failed() {
						t.Skip("another seed has failed")
					}
					r := run(t, seeds.store, seed, length)
					if r.found == "" {
						if i%replayed == 0 {
							sameAgain(t, seeds.store, seed, r)
						}
						return
					}
					if whole {
						r = shortest(t, seeds.store, seed, r)
					}
					t.Fatalf("seed %d fails after %d steps: %s\n%s", seed, r.steps, r.found, r.text())
				})
			}
		})
	}
}

// sameAgain runs a seed again, which takes the same steps and gets the same answers.
func sameAgain(t *testing.T, store string, seed uint64, first result) {
	t.Helper()
	again := run(t, store, seed, length)
	for i := range max(len(first.lines), len(again.lines)) {
		if a, b := lineAt(first.lines, i), lineAt(again.lines, i); a != b {
			t.Fatalf("line %d differs:\n%s\nbefore it:\n%s\nand\n%s", i, strings.Join(first.lines[max(0, i-10):i], "\n"), a, b)
		}
	}
}

// lineAt returns a line, or that there is none.
func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(the run has ended)"
}

// shortest returns the result of the shortest failing prefix of a seed that fails.
func shortest(t testing.TB, store string, seed uint64, whole result) result {
	for n := range whole.steps {
		if r := run(t, store, seed, n); r.found != "" {
			return r
		}
	}
	return whole
}

// number returns an environment variable, or a default.
func number(t testing.TB, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // each world leaves much behind
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		dropTemplate()
		os.Exit(code)
	}))
}
