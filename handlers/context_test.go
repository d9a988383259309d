package handlers

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type someKey struct{}

func TestRequestContextEndsAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now().Add(6 * time.Second)
		unwatched := &requestContext{Context: t.Context(), ends: ends}
		watched := &requestContext{Context: t.Context(), ends: ends}
		child, cancel := context.WithCancelCause(watched)
		defer cancel(nil)
		if at, ok := unwatched.Deadline(); !ok || !at.Equal(ends) {
			t.Errorf("deadline %v, %v", at, ok)
		}
		<-time.After(6*time.Second - 1)
		if unwatched.Err() != nil || watched.Err() != nil || child.Err() != nil {
			t.Error("a context ended too early")
		}
		<-time.After(1)
		synctest.Wait()
		for _, ctx := range []context.Context{unwatched, watched, child} {
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("error %v", ctx.Err())
			}
			<-ctx.Done()
		}
	})
}

func TestRequestContextEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	connection, hangUp := context.WithCancel(context.WithValue(t.Context(), someKey{}, "value"))
	contexts := []context.Context{
		&requestContext{Context: connection},
		&requestContext{Context: connection, ends: time.Now().Add(time.Hour)},
	}
	child, cancel := context.WithTimeout(contexts[1], time.Minute)
	defer cancel()
	contexts = append(contexts, child)
	for _, ctx := range contexts {
		if ctx.Value(someKey{}) != "value" || ctx.Err() != nil {
			t.Errorf("value %v, error %v", ctx.Value(someKey{}), ctx.Err())
		}
	}
	hangUp()
	for _, ctx := range contexts {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("error %v", ctx.Err())
		}
	}
}

// The standard library starts a goroutine for each context that derives from one that it
// does not know.
func TestRequestContextNeedsNoGoroutines(t *testing.T) {
	ctx := &requestContext{Context: t.Context(), ends: time.Now().Add(time.Hour)}
	before := runtime.NumGoroutine()
	for range 100 {
		_, cancel := context.WithCancel(ctx)
		defer cancel()
	}
	if started := runtime.NumGoroutine() - before; started > 50 {
		t.Errorf("%d goroutines were started", started)
	}
}

// After a request, whoever still waits for its end hears of it.
func TestRequestContextStops(t *testing.T) {
	t.Parallel()
	ctx := &requestContext{Context: t.Context(), ends: time.Now().Add(time.Hour)}
	var waiting sync.WaitGroup
	for range 4 {
		waiting.Add(1)
		done := ctx.Done()
		go func() { <-done; waiting.Done() }()
	}
	ctx.stop()
	waiting.Wait()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("error %v", ctx.Err())
	}
}
