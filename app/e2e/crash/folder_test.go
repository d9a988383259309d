package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// stepsInAFolder returns the steps at which a process that serves a data folder is killed, each with
// how often it is reached until then. Without a name it is after so many answers. These come first, so
// that there is something to archive and to erase.
func stepsInAFolder(t testing.TB, rng *rand.Rand) (steps []string) {
	t.Helper()
	names := slices.Concat(testenv.Failpoints(t, "flush"), testenv.Failpoints(t, "ledger"), testenv.Failpoints(t, "erasure"),
		testenv.Failpoints(t, "archive_version"), []string{"archive.recorded", "archive.committed"})
	names = slices.DeleteFunc(names, func(step string) bool {
		return step == "ledger.loss_replayed" || step == "ledger.some_reconciled" // only with Redis
	})
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for range 5 {
		steps = append(steps, fmt.Sprintf("#%d", 100+rng.IntN(300)))
	}
	for _, name := range names {
		times := 1
		switch subject, _, _ := strings.Cut(name, "."); {
		case subject == "flush" || subject == "ledger":
			times += rng.IntN(40)
		case name == "erasure.part":
			times += rng.IntN(8)
		}
		steps = append(steps, fmt.Sprintf("%s#%d", name, times))
	}
	return steps
}

// A process that serves a data folder is killed at each step of a flush, of an archive run and of an
// erasure, and at any moment, while users upload, give, befriend and are erased. On each day the next
// one has everything that was acknowledged, and its ranks are those of a model.
func TestSoakFolderKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for range testenv.Rounds(1, 8) {
		seed := rand.Uint64()
		if text := os.Getenv("CRASH_SEED"); text != "" {
			seed = testenv.Must(strconv.ParseUint(text, 10, 64))
		}
		t.Run(fmt.Sprintf("CRASH_SEED=%d", seed), func(t *testing.T) {
			t.Parallel()
			killInAFolder(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func killInAFolder(t *testing.T, rng *rand.Rand) {
	t.Helper()
	dir, m := t.TempDir(), newFolderModel(t)
	began, today := time.Now().UTC(), testenv.Must(time.Parse(time.DateOnly, harness.Today()))
	settings := func(day int) []string {
		return []string{
			fmt.Sprintf(`--boards=[{`+harness.Steps+`, open_days: 1}, {name: gifts, kind: event, max_score: 1000000, start: %q, end: %q}]`,
				began.Add(-time.Hour).Format(time.RFC3339), began.AddDate(0, 0, 60).Format(time.RFC3339)),
			"--hot_days=2", fmt.Sprintf("--clock.offset=%v", time.Duration(day)*24*time.Hour),
			"--auth.hs256_secret=" + harness.Secret, "--limits.user_per_minute=0", "--limits.address_per_minute=0",
		}
	}
	steps := stepsInAFolder(t, rng)
	for day, step := range steps {
		m.begin(today.AddDate(0, 0, day).Format(time.DateOnly))
		name, times, _ := strings.Cut(step, "#")
		if name == "" {
			p := testenv.ServeFolder(t, dir, settings(day)...)
			l := startLoad(m, p.URL)
			most := testenv.Must(strconv.ParseInt(times, 10, 64))
			testenv.Eventually(t, "calls are answered", func() bool { return l.answers.Load() >= most || t.Failed() })
			p.Kill()
			l.end()
		} else {
			if name == "archive_version.chunk_deleted" { // of a run that was cut off
				testenv.ServeFolderUntil(t, "archive_version.chunk_ranked", dir, settings(day)...).Killed()
			}
			p := testenv.ServeFolderUntil(t, step, dir, settings(day)...)
			l := startLoad(m, p.URL)
			p.Killed()
			l.end()
		}
		p := testenv.ServeFolder(t, dir, settings(day)...)
		m.check(p.URL)
		if t.Failed() {
			t.Fatalf("after kills at %q: %s", steps[:day+1], p.Log())
		}
		p.Kill()
	}
	m.begin(today.AddDate(0, 0, len(steps)).Format(time.DateOnly))
	finish(t, m, dir, settings(len(steps)))
}

// finish serves the folder on a later day until all that was begun is complete, and checks the
// database.
func finish(t *testing.T, m *folderModel, dir string, settings []string) {
	t.Helper()
	p := testenv.ServeFolder(t, dir, settings...)
	l := startLoad(m, p.URL)
	testenv.Eventually(t, "everything was sent", func() bool { return l.answers.Load() >= 200 || t.Failed() })
	p.Stop()
	l.end()
	for range 2 { // an erasure ends with a search that finds nothing
		p = testenv.ServeFolder(t, dir, settings...)
		for _, job := range []string{"archive", "erase"} {
			testenv.Eventually(t, "the jobs have ended", func() bool {
				at, _ := harness.Metric(t, p.Process, `stepboard_job_last_success_timestamp_seconds{job="`+job+`"}`)
				return at > 0
			})
		}
		m.check(p.URL)
		p.Stop()
	}
	st := testenv.Must(stores.OpenFolder(t.Context(), dir, time.Now))
	for query, want := range map[string]string{
		"PRAGMA integrity_check":                                            "ok",
		"SELECT count(*) FROM pragma_foreign_key_check":                     "0",
		"SELECT count(*) FROM archive_versions WHERE state <> 'current'":    "0",
		"SELECT count(*) > 5 FROM archive_versions WHERE state = 'current'": "1",
		"SELECT count(*) > 5 FROM erasures":                                 "1",
	} {
		var got string
		if err := st.SQL.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %s, %v", query, got, err)
		}
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
