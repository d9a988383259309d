package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// Redis is emptied while an event is due to be archived, and again while it is moved. The
// archive has every increment that was acknowledged.
func TestRedisEmptiedWhileAnEventIsDue(t *testing.T) {
	t.Parallel()
	env, _, rdb := withRedis(t)
	start := time.Now().Add(-time.Hour).UTC()
	boards := fmt.Sprintf(`--boards=[{`+harness.Steps+`}, {name: active, kind: rolling, max_score: 8000000},
		{name: gifts, kind: event, shards: 2, max_score: 100000000, start: %[1]q, end: %[2]q},
		{name: contest, kind: event, takes: best, late: 2h, shards: 2, max_score: 1000, start: %[1]q, end: %[2]q}]`, start.Format(time.RFC3339), start.Add(3*time.Hour).Format(time.RFC3339))
	first := testenv.Serve(t, env.Config, boards)
	g := startGivers(t, first.URL)
	g.awaitMore(100)
	g.end()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	later := env.Config
	later.Clock.Offset = 6 * 24 * time.Hour
	p := testenv.Serve(t, later, boards, "--jobs.archive_cron=@every 1s")
	flushed := 0
	testenv.Eventually(t, "the event is archived", func() bool {
		if flushed < 20 {
			if err := rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			flushed++
		}
		var complete bool
		err := env.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM board_archives WHERE board = 'gifts' AND state = 'complete')`).Scan(&complete)
		if err != nil {
			t.Fatal(err)
		}
		return complete
	})
	got := sums(t, env.Stores, `SELECT external_id, score FROM archived_scores JOIN users USING (user_id) WHERE board = 'gifts'`)
	if diff := cmp.Diff(g.given["gifts"], got); diff != "" {
		t.Errorf("the archive (-given +stored):\n%s", diff)
	}
	p.Stop()
}
