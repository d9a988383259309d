package crash_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// allowNone, allowUnavailable and allowBroken report whether a call may fail:
// not at all, with 503 while a store is away, or also by a broken connection
// while processes are killed.
func allowNone(int, error) bool { return false }

func allowUnavailable(status int, err error) bool {
	return err == nil && status == http.StatusServiceUnavailable
}

func allowBroken(status int, err error) bool { return err != nil || allowUnavailable(status, err) }

// giftBoards returns the flag that defines a daily board, an event that has
// begun and a rolling board, with the given number of shards each.
func giftBoards(shards int) string {
	start := time.Now().Add(-time.Hour).UTC()
	return fmt.Sprintf(`--boards=[{`+harness.Steps+`, shards: %[1]d}, {name: gifts, kind: event, max_score: 100000000, shards: %[1]d, start: %[2]q, end: %[3]q}, {name: contest, kind: event, takes: best, late: 2h, max_score: 1000, shards: %[1]d, start: %[2]q, end: %[3]q}, {name: active, kind: rolling, shards: %[1]d, max_score: 8000000}]`,
		shards, start.Format(time.RFC3339), start.AddDate(0, 0, 2).Format(time.RFC3339))
}

// traffic is the calls of several workers, who go on until end.
type traffic struct {
	t    testing.TB
	url  atomic.Pointer[string]
	wg   sync.WaitGroup
	stop chan struct{}
	// done counts successful calls, refused those that failed.
	done, refused atomic.Int64
}

func newTraffic(t testing.TB, url string) *traffic {
	tr := &traffic{t: t, stop: make(chan struct{})}
	tr.redirect(url)
	return tr
}

// redirect sends all further calls to another process.
func (tr *traffic) redirect(url string) { tr.url.Store(&url) }

// awaitMore waits until n more calls have succeeded, or the test has failed.
func (tr *traffic) awaitMore(n int64) {
	tr.t.Helper()
	from := tr.done.Load()
	testenv.Eventually(tr.t, "calls go on", func() bool { return tr.done.Load() >= from+n || tr.t.Failed() })
}

// end stops the workers and waits for their last answers.
func (tr *traffic) end() {
	close(tr.stop)
	testenv.Wait(tr.t, "the calls end", &tr.wg)
}
