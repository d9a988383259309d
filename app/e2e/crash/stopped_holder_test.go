package crash_test

import (
	"syscall"
	"testing"

	"stepboard/internal/testenv"
)

// A process is stopped in the middle of an archive run, with the lease. Half a minute later
// another process archives the day, and with it what was written meanwhile. When the first
// one continues, it changes nothing.
func TestAStoppedLeaseHolderIsReplaced(t *testing.T) {
	t.Parallel()
	for _, tt := range testenv.Forms(t, 0, []struct {
		name string
		at   breakpoint
	}{{"while it reads", thirdChunk}, {"before it commits", beforeCommit}}) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newColdDay(t)
			link, holder := tt.at(d), d.start()
			d.awaitHeld(link, holder)
			holder.Signal(syscall.SIGSTOP)
			link.Release()
			d.writeLate()
			d.archive().Fails(t, 1, "is being archived already")
			testenv.Eventually(t, "Postgres ends the session of the holder", func() bool { return len(d.holders(leaseLock, d.lease())) == 0 })
			d.finish(anyRuns)
			d.check()
			d.writeLate()
			holder.Signal(syscall.SIGCONT)
			testenv.Eventually(t, "the first process ends", holder.Ended)
			if text := holder.Stdout(); text != "" {
				t.Errorf("the first process has printed %q", text)
			}
			d.finish(anyRuns)
			d.check()
		})
	}
}
