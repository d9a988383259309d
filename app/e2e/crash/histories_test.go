package crash_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

const (
	// clientsOfObject make the calls on one object at the same time.
	clientsOfObject = 3
	// callsOfObject and unknownOfObject bound the calls on one object, and those of them
	// whose outcome is not known: checking a history takes time that is exponential in them.
	callsOfObject   = 40
	unknownOfObject = 6
	// callTimeout is when a client gives a call up.
	callTimeout = 3 * time.Second
)

// histories records the calls of clients on one object after another. It checks each history
// when the object's calls have ended, and once more with the object's last calls.
type histories struct {
	t       testing.TB
	urls    [2]atomic.Pointer[string] // of the processes
	client  *http.Client
	began   time.Time
	stop    chan struct{}
	running sync.WaitGroup
	// answered and unknown count calls.
	answered, unknown atomic.Int64

	mu       sync.Mutex
	recorded []recorded
}

// recorded is an object with the calls that were made on it.
type recorded struct {
	name    string
	object  object
	history []porcupine.Operation
}

func newHistories(t testing.TB) *histories {
	h := &histories{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, began: time.Now(), stop: make(chan struct{})}
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// start makes calls on objects of each kind, until end. The urls must be set.
func (h *histories) start(kinds map[string]func(name string) object) {
	for name, kind := range kinds {
		h.running.Go(func() { h.run(name, kind) })
	}
}

// run makes calls on new objects of a kind until end.
func (h *histories) run(name string, kind func(name string) object) {
	for n := 0; !h.t.Failed(); n++ {
		select {
		case <-h.stop:
			return
		case <-time.After(harness.Pace):
		}
		r := recorded{name: fmt.Sprintf("%s-%d", name, n)}
		r.object = kind(r.name)
		h.prepare(&r.object)
		r.history = h.record(&r.object)
		h.check(&r)
		h.mu.Lock()
		h.recorded = append(h.recorded, r)
		h.mu.Unlock()
	}
}

// check looks for an order of an object's calls that explains their answers.
func (h *histories) check(r *recorded) {
	if m := r.object.model; !porcupine.CheckOperations(m, r.history) {
		h.t.Errorf("%s: no order of its calls explains their answers: %s", r.name, describeHistory(m, r.history))
	}
}

// end stops the calls, and calls last.
func (h *histories) end() {
	h.t.Helper()
	h.pause()
	h.last()
}

// pause stops the calls and waits for their answers. There are no others than those of last then.
func (h *histories) pause() {
	close(h.stop)
	testenv.Wait(h.t, "all that runs ends", &h.running)
}

// last makes the last calls on all objects, whose answers must fit to what was recorded before.
// All faults must have ended.
func (h *histories) last() {
	h.t.Helper()
	for i := range h.recorded {
		r := &h.recorded[i]
		for j := range r.object.last {
			r.history = append(r.history, h.answer(&r.object.last[j])...)
		}
		h.check(r)
	}
	h.t.Logf("%d objects, %d calls answered, %d not", len(h.recorded), h.answered.Load(), h.unknown.Load())
}

// answer makes a call until it is answered, and returns its attempts.
func (h *histories) answer(c *call) (attempts []porcupine.Operation) {
	for !h.t.Failed() && h.t.Context().Err() == nil {
		op, known := h.make(c, clientsOfObject, rand.IntN(len(h.urls)))
		if known || !c.isRead() {
			attempts = append(attempts, op)
		}
		if known {
			break
		}
	}
	return attempts
}

// prepare makes the calls that prepare an object, until all of them succeed one after another and
// answer what they should.
func (h *histories) prepare(o *object) {
	for prepared := 0; prepared < len(o.prepare) && h.t.Context().Err() == nil && !h.t.Failed(); {
		c := &o.prepare[prepared]
		status, text, err := h.send(c, rand.IntN(len(h.urls)))
		if err == nil && (status == http.StatusOK || status == http.StatusAccepted) && strings.Contains(text, c.contains) {
			prepared++
			continue
		}
		prepared = 0
		<-time.After(10 * time.Millisecond) // a store or the process is away
	}
}

// prepareAgain makes the calls once more that have prepared the objects.
func (h *histories) prepareAgain() {
	for i := range h.recorded {
		h.prepare(&h.recorded[i].object)
	}
}

// record makes calls on an object by several clients, and returns their history.
func (h *histories) record(o *object) []porcupine.Operation {
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		calls   atomic.Int64
		unknown atomic.Int64
		clients sync.WaitGroup
	)
	for client := range clientsOfObject {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), uint64(client)))
			var next []call
			for calls.Add(1) <= callsOfObject && unknown.Load() < unknownOfObject && !h.t.Failed() {
				if len(next) == 0 {
					next = o.calls(rng)
				}
				c := next[0]
				next = next[1:]
				op, known := h.make(&c, client, rng.IntN(len(h.urls)))
				if !known {
					if c.isRead() {
						continue
					}
					unknown.Add(1)
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	testenv.Wait(h.t, "the clients end", &clients)
	return history
}

// make makes a call on one of the processes. If it is not known whether the call has taken
// effect, the operation has no end.
func (h *histories) make(c *call, client, process int) (op porcupine.Operation, known bool) {
	op = porcupine.Operation{ClientId: client, Input: c.input, Output: notKnown{}, Call: time.Since(h.began).Nanoseconds(), Return: math.MaxInt64}
	status, text, err := h.send(c, process)
	if err != nil || status == http.StatusServiceUnavailable {
		h.unknown.Add(1)
		return op, false
	}
	op.Return = time.Since(h.began).Nanoseconds()
	if op.Output, err = c.output(status, text); err != nil || status >= 400 && status != http.StatusNotFound {
		h.t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
	}
	h.answered.Add(1)
	return op, true
}

// send sends a call to one of the processes.
func (h *histories) send(c *call, process int) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), callTimeout)
	defer cancel()
	bearer := harness.Token(h.t, c.user, c.scope)
	return harness.Request(ctx, h.client, bearer, c.method, *h.urls[process].Load()+c.path, c.body)
}

// awaitMore waits until more calls were answered.
func (h *histories) awaitMore(n int64) {
	h.t.Helper()
	from := h.answered.Load()
	testenv.Eventually(h.t, "calls are answered", func() bool { return h.answered.Load() >= from+n || h.t.Failed() })
}

// awaitUnknown waits until the outcome of more calls is not known.
func (h *histories) awaitUnknown(n int64) {
	h.t.Helper()
	from := h.unknown.Load()
	testenv.Eventually(h.t, "calls fail", func() bool { return h.unknown.Load() >= from+n || h.t.Failed() })
}

// describeHistory lists the calls of a history.
func describeHistory(m porcupine.Model, history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range history {
		until := "…"
		if op.Return != math.MaxInt64 {
			until = time.Duration(op.Return).String()
		}
		fmt.Fprintf(&b, "\n%v to %s, client %d: %s", time.Duration(op.Call), until, op.ClientId, m.DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}
