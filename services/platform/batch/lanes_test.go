package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/services/platform/batch"
)

// lanesOf puts each item into the lane of its tens digit.
func lanesOf(flush func(context.Context, []int) []error) *batch.Lanes[int] {
	return batch.NewLanes(100, 1, func(_ context.Context, item int) string { return string(rune('0' + item/10)) }, flush)
}

// A flush that hangs does not delay the calls of other lanes.
func TestLanesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	hung, entered := make(chan struct{}), make(chan struct{})
	lanes := lanesOf(func(_ context.Context, items []int) []error {
		if items[0] < 10 {
			entered <- struct{}{}
			<-hung
		}
		return nil
	})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := lanes.Submit(t.Context(), []int{1}); err != nil {
			t.Errorf("the call that waits: %v", err)
		}
	})
	testenv.Receive(t, "a flush begins", entered)
	for range 100 {
		if err := lanes.Submit(t.Context(), []int{11, 12}); err != nil {
			t.Fatalf("a call of another lane: %v", err)
		}
	}
	close(hung)
	testenv.Wait(t, "the calls that wait end", &waiting)
	lanes.Close()
	if err := lanes.Submit(t.Context(), []int{1}); !errors.Is(err, batch.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The items of one call are flushed lane by lane, in order. The call succeeds only
// if all flushes do.
func TestACallOfSeveralLanes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var flushed [][]int
	broken := errors.New("broken")
	lanes := lanesOf(func(_ context.Context, items []int) []error {
		mu.Lock()
		defer mu.Unlock()
		flushed = append(flushed, slices.Clone(items))
		if items[0] == 31 {
			return []error{broken}
		}
		return nil
	})
	var submitting sync.WaitGroup
	submitting.Go(func() { // before Start, for which it waits
		if err := lanes.Submit(t.Context(), []int{11, 21, 12, 22}); err != nil {
			t.Error(err)
		}
	})
	testenv.Wait(t, "the calls end", &submitting)
	slices.SortFunc(flushed, slices.Compare)
	if !slices.EqualFunc(flushed, [][]int{{11, 12}, {21, 22}}, slices.Equal) {
		t.Errorf("flushed %v", flushed)
	}
	if err := lanes.Submit(t.Context(), []int{13, 31}); !errors.Is(err, broken) {
		t.Errorf("a call with a lane that fails: %v", err)
	}
	lanes.Close()
}
