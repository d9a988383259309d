package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gate is a flush that sends its items to entered and returns the errors that it
// receives from pass.
type gate struct {
	entered chan []int
	pass    chan []error
}

func newGate() *gate { return &gate{entered: make(chan []int), pass: make(chan []error)} }

func (g *gate) flush(_ context.Context, items []int) []error {
	g.entered <- slices.Clone(items)
	return <-g.pass
}

// A single call is flushed at once. Calls that arrive during its flush make up the
// next one, and each gets its own result.
func TestWaitingCallsShareAFlush(t *testing.T) {
	t.Parallel()
	gate := newGate()
	b := batch.New(100, 1, gate.flush)
	results := make([]error, 4)
	var wg sync.WaitGroup
	call := func(i int, items ...int) { wg.Go(func() { results[i] = b.Submit(t.Context(), items) }) }

	call(0, 10)
	if got := testenv.Receive(t, "a flush begins", gate.entered); !slices.Equal(got, []int{10}) {
		t.Errorf("first flush: %v", got)
	}
	call(1, 11)
	testenv.Eventually(t, "the second call waits", func() bool { return b.Waiting() == 1 })
	call(2, 12, 13)
	testenv.Eventually(t, "the third call waits", func() bool { return b.Waiting() == 2 })
	call(3, 14)
	testenv.Eventually(t, "the fourth call waits", func() bool { return b.Waiting() == 3 })
	gate.pass <- nil
	if got := testenv.Receive(t, "a flush begins", gate.entered); !slices.Equal(got, []int{11, 12, 13, 14}) {
		t.Errorf("second flush: %v", got)
	}
	broken := errors.New("broken")
	gate.pass <- []error{nil, nil, broken, nil}
	testenv.Wait(t, "the calls end", &wg)
	if results[0] != nil || results[1] != nil || !errors.Is(results[2], broken) || results[3] != nil {
		t.Errorf("results %v", results)
	}
	b.Close()
}

// A client that disconnects cancels neither its own write nor those of others.
func TestDisconnectedClientsDoNotCancelWrites(t *testing.T) {
	t.Parallel()
	gate := newGate()
	b := batch.New(100, 1, gate.flush)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.Submit(t.Context(), []int{1}); err != nil {
			t.Error(err)
		}
	})
	testenv.Receive(t, "a flush begins", gate.entered)
	ctx, disconnect := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- b.Submit(ctx, []int{2}) }()
	testenv.Eventually(t, "the call waits", func() bool { return b.Waiting() == 1 })
	wg.Go(func() {
		if err := b.Submit(t.Context(), []int{3}); err != nil {
			t.Error(err)
		}
	})
	testenv.Eventually(t, "both calls wait", func() bool { return b.Waiting() == 2 })
	disconnect()
	if err := testenv.Receive(t, "the call ends", gone); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("the disconnected call returned %v", err)
	}
	gate.pass <- nil
	if got := testenv.Receive(t, "a flush begins", gate.entered); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("flushed %v", got)
	}
	gate.pass <- nil
	testenv.Wait(t, "the calls end", &wg)
	b.Close()
}

// A client that is gone before its call is queued causes no flush.
func TestGoneBeforeTheCall(t *testing.T) {
	t.Parallel()
	b := batch.New(100, 1, func(context.Context, []int) []error {
		t.Error("there was a flush")
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := b.Submit(ctx, []int{1}); models.CodeOf(err) != models.CodeUnavailable || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}
	b.Close()
}

// Close flushes the queued calls and refuses later ones.
func TestClose(t *testing.T) {
	t.Parallel()
	gate := newGate()
	b := batch.New(1, 1, gate.flush) // one call a flush
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if err := b.Submit(t.Context(), []int{i}); err != nil {
				t.Error(err)
			}
		})
	}
	var flushed []int
	flushed = append(flushed, testenv.Receive(t, "a flush begins", gate.entered)...)
	testenv.Eventually(t, "two calls wait", func() bool { return b.Waiting() == 2 })
	closed := make(chan struct{})
	go func() {
		b.Close()
		close(closed)
	}()
	for range 2 {
		gate.pass <- nil
		flushed = append(flushed, testenv.Receive(t, "a flush begins", gate.entered)...)
	}
	gate.pass <- nil
	testenv.Receive(t, "Close returns", closed)
	testenv.Wait(t, "the calls end", &wg)
	slices.Sort(flushed)
	if !slices.Equal(flushed, []int{0, 1, 2}) {
		t.Errorf("flushed %v", flushed)
	}
	if err := b.Submit(t.Context(), []int{4}); models.CodeOf(err) != models.CodeUnavailable || !errors.Is(err, batch.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	b.Close() // again changes nothing
}

// Under load every item is flushed exactly once, and every caller gets the result
// of its own.
func TestLoad(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	var seen []int
	b := batch.New(64, 1, func(_ context.Context, items []int) []error {
		errs := make([]error, len(items))
		for i, item := range items {
			seen = append(seen, item) // needs no lock: one flush runs at a time
			if item%2 == 1 {
				errs[i] = odd
			}
		}
		return errs
	})
	const callers, calls = 32, 200
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range calls {
				item := c*calls + i
				err := b.Submit(t.Context(), []int{item})
				if (item%2 == 1) != errors.Is(err, odd) {
					t.Errorf("item %d: %v", item, err)
				}
			}
		})
	}
	testenv.Wait(t, "the calls end", &wg)
	b.Close()
	slices.Sort(seen)
	if len(seen) != callers*calls || len(slices.Compact(seen)) != callers*calls {
		t.Errorf("%d items were flushed, %d of them distinct", len(seen), len(slices.Compact(seen)))
	}
}

// With two workers at most two flushes run at the same time. Calls that arrive
// meanwhile make up the next flush.
func TestTwoWorkers(t *testing.T) {
	t.Parallel()
	gate := newGate()
	b := batch.New(100, 2, gate.flush)
	var wg sync.WaitGroup
	call := func(items ...int) {
		wg.Go(func() {
			if err := b.Submit(t.Context(), items); err != nil {
				t.Error(err)
			}
		})
	}
	call(1)
	first := testenv.Receive(t, "a flush begins", gate.entered)
	call(2)
	second := testenv.Receive(t, "a flush begins", gate.entered) // before the first has passed
	if !slices.Equal(first, []int{1}) || !slices.Equal(second, []int{2}) {
		t.Errorf("flushed %v and %v", first, second)
	}
	call(3, 4)
	testenv.Eventually(t, "the third call waits", func() bool { return b.Waiting() == 1 })
	call(5)
	testenv.Eventually(t, "the fourth call waits", func() bool { return b.Waiting() == 2 })
	select {
	case third := <-gate.entered:
		t.Errorf("a third flush begins with %v", third)
	default:
	}
	gate.pass <- nil
	if got := testenv.Receive(t, "a flush begins", gate.entered); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("the next flush: %v", got)
	}
	gate.pass <- nil
	gate.pass <- nil
	testenv.Wait(t, "the calls end", &wg)
	b.Close()
}

// A full queue refuses calls at once, which bounds its memory and the wait.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	gate := newGate()
	b := batch.New(1_000_000, 1, gate.flush)
	var wg sync.WaitGroup
	call := func(n int) {
		wg.Go(func() {
			if err := b.Submit(t.Context(), make([]int, n)); err != nil {
				t.Error(err)
			}
		})
	}
	call(1)
	testenv.Receive(t, "a flush begins", gate.entered)
	for i := range 50 {
		call(1000)
		testenv.Eventually(t, "the call waits", func() bool { return b.Waiting() == i+1 })
	}
	if err := b.Submit(t.Context(), []int{1}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("one more: %v", err)
	}
	gate.pass <- nil
	if got := testenv.Receive(t, "a flush begins", gate.entered); len(got) != 50_000 {
		t.Errorf("%d items are flushed", len(got))
	}
	gate.pass <- nil
	testenv.Wait(t, "the calls end", &wg)
	b.Close()
}

// While flushes are slow every call still returns in time, and calls that have
// timed out in the queue are not flushed.
func TestExpiredCallsAreNotFlushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var flushed []int
		b := batch.New(1, 1, func(_ context.Context, items []int) []error {
			flushed = append(flushed, items...)
			<-time.After(3 * time.Second)
			return nil
		})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				err := b.Submit(t.Context(), []int{i})
				if waited := time.Since(start); waited > 5*time.Second {
					t.Errorf("call %d waited for %v", i, waited)
				}
				if (i == 0) != (err == nil) {
					t.Errorf("call %d: %v", i, err)
				}
			})
			synctest.Wait() // keeps the calls in this order
		}
		wg.Wait()
		b.Close()
		if !slices.Equal(flushed, []int{0, 1}) {
			t.Errorf("flushed %v", flushed)
		}
		if waited := time.Since(start); waited > 8*time.Second {
			t.Errorf("Close took until %v", waited)
		}
	})
}
