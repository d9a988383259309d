package crash_test

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// What may fail where nothing does, where a store does, and where a process of
// ours does as well.
func nothing(int, error) bool { return false }

func refusals(status int, err error) bool {
	return err == nil && status == http.StatusServiceUnavailable
}

func brokenCalls(status int, err error) bool { return err != nil || refusals(status, err) }

// rounds is how often a test kills: a few times, or many in a soak.
func rounds(few, many int) int {
	if os.Getenv("SOAK") != "" {
		return many
	}
	return few
}

// giftBoards is the flag that defines a daily board, an event under way and a
// rolling board, all of so many shards.
func giftBoards(shards int) string {
	start := time.Now().Add(-time.Hour).UTC()
	return fmt.Sprintf(`--boards=[{name: steps, shards: %[1]d}, {name: gifts, kind: event, max_score: 100000000, shards: %[1]d, start: %[2]q, end: %[3]q}, {name: active, kind: rolling, shards: %[1]d, max_score: 8000000}]`,
		shards, start.Format(time.RFC3339), start.AddDate(0, 0, 2).Format(time.RFC3339))
}

// traffic is calls of workers that go on until they are told to stop.
type traffic struct {
	t    testing.TB
	url  atomic.Pointer[string]
	wg   sync.WaitGroup
	stop chan struct{}
	// done were answered well, refused were not, or not at all.
	done, refused atomic.Int64
}

func newTraffic(t testing.TB, url string) *traffic {
	tr := &traffic{t: t, stop: make(chan struct{})}
	tr.to(url)
	return tr
}

// to says where to call from now on.
func (tr *traffic) to(url string) { tr.url.Store(&url) }

// progress waits until some more calls were answered well.
func (tr *traffic) progress(n int64) {
	tr.t.Helper()
	from := tr.done.Load()
	testenv.Eventually(tr.t, "calls go on", func() bool { return tr.done.Load() >= from+n || tr.t.Failed() })
}

// end stops the workers, each with an answer to what it has sent.
func (tr *traffic) end() {
	close(tr.stop)
	tr.wg.Wait()
}
