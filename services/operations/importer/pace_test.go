package importer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestNextSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lines  int
		took   time.Duration
		target time.Duration
		want   int64
	}{
		{2_000, 2 * time.Second, 2 * time.Second, 2_000},
		{2_000, time.Second, 2 * time.Second, 4_000},
		{2_000, time.Millisecond, 2 * time.Second, 16_000},
		{2_000, 0, 2 * time.Second, 16_000},
		{200_000, time.Second, 2 * time.Second, maxChunk},
		{100_000, 4 * time.Second, 2 * time.Second, 50_000},
		{100_000, time.Minute, 2 * time.Second, 12_500},
		{600, time.Minute, 2 * time.Second, minChunk},
	} {
		if got := nextSize(tt.lines, tt.took, tt.target); got != tt.want {
			t.Errorf("%d lines in %v: next %d, want %d", tt.lines, tt.took, got, tt.want)
		}
	}
}

// A gentle import rests as long as it works, unless it is stopped.
func TestAGentleImportRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, gently := range []bool{false, true} {
			start := time.Now()
			new(Service).newPace(gently, gentleSteps).stored(t.Context(), 1000, time.Second, time.Minute-time.Second)
			if rested := time.Since(start); (rested == time.Minute) != gently || (rested == 0) == gently {
				t.Errorf("gently %v: it rests for %v", gently, rested)
			}
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		start := time.Now()
		new(Service).newPace(true, gentleSteps).stored(ctx, 1000, 0, time.Minute)
		if rested := time.Since(start); rested != time.Second {
			t.Errorf("stopped after a second it rests for %v", rested)
		}
	})
}

// Where uploads wait while a chunk is stored, chunks are small from the first one on.
func TestChunksOfOneWriter(t *testing.T) {
	t.Parallel()
	s := Service{OneWriter: true}
	for _, gently := range []bool{false, true} {
		p := s.newPace(gently, gentleFriends)
		if p.size() != minChunk || p.chunkTime > sqliteChunk {
			t.Errorf("gently %v: %d lines in %v", gently, p.size(), p.chunkTime)
		}
	}
}

// While a chunk is stored the next one is read; a gentle import reads none meanwhile.
func TestInChunks(t *testing.T) {
	t.Parallel()
	for _, gently := range []bool{false, true} {
		var read, stored []int
		reading := make(chan int, 10)
		err := inChunks(t.Context(), nil, gently, func(_ context.Context, pass func(int) error) error {
			for i := range 3 {
				reading <- i
				if err := pass(i); err != nil {
					return err
				}
			}
			return nil
		}, func(_ context.Context, c int) error {
			if !gently && c < 2 {
				for len(read) < c+2 {
					read = append(read, <-reading)
				}
			}
			if gently && len(reading) != c+1 {
				t.Errorf("%d chunks were read when chunk %d is stored", len(reading), c)
			}
			stored = append(stored, c)
			return nil
		})
		if err != nil || len(stored) != 3 || stored[0] != 0 || stored[1] != 1 || stored[2] != 2 {
			t.Errorf("gently %v: stored %v, %v", gently, stored, err)
		}
		broken := errors.New("broken")
		err = inChunks(t.Context(), nil, gently, func(_ context.Context, pass func(int) error) error {
			for {
				if err := pass(0); err != nil {
					return err
				}
			}
		}, func(context.Context, int) error { return broken })
		if !errors.Is(err, broken) {
			t.Errorf("gently %v: error %v", gently, err)
		}
	}
}
