package crash_test

import (
	"slices"
	"strings"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// The command with which a killed process freezes the day arrives when another
// process has archived the day.
func TestArchiveFreezeOfADeadProcess(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.redis.HoldAt(0, freezing)
	c := d.start()
	d.awaitHeld(d.redis, c)
	c.Kill()
	d.finish(1)
	d.writeLate()
	d.redis.Release()
	testenv.Eventually(t, "everything is frozen for the run that is over", func() bool {
		return !slices.ContainsFunc(d.keys(), func(key string) bool { return !strings.HasSuffix(key, ":aside:1") })
	})
	d.finish(1)
	d.check()
}

// The commit of a killed process arrives after the next process has archived the
// day. The killed one has lost its lease, but still holds the lock of its
// transaction, so the next one ends its session.
func TestArchiveCommitOfADeadProcess(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	d := newColdDay(t)
	link, c := beforeCommit(d), d.start()
	d.awaitHeld(link, c)
	c.Kill()
	d.writeLate()
	testenv.Eventually(t, "the server notices", func() bool { return len(d.holders(leaseLock, d.lease())) == 0 })
	d.finish(2) // the run of the killed process, and one for the late scores
	link.Release()
	d.finish(0)
	d.check()
}

// If Redis goes away during a run, the command fails, the run is recorded as
// failed, and the next one does its work.
func TestArchiveLosesRedis(t *testing.T) {
	t.Parallel()
	for _, tt := range testenv.Forms(t, 2, []struct {
		name string
		at   breakpoint
		why  string
		left models.ArchiveState
	}{
		{"while the day is frozen", atRedis(0, freezing), "freeze a bucket", models.ArchiveFailed},
		{"while the parts are listed", atRedis(0, "zcard"), "list frozen parts", models.ArchiveFailed},
		{"while a part is read", thirdChunk, "read a frozen part", models.ArchiveFailed},
		{"while the parts are dropped", atRedis(0, "unlink"), "drop frozen parts", committed},
	}) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newColdDay(t)
			link, r := tt.at(d), d.inBackground(d.behindProxies())
			d.awaitHeld(link, r)
			link.Cut()
			r.wait().Fails(t, 1, "archive 2026-11-20 of board steps", tt.why)
			d.wantLastRun(tt.left, tt.why)
			d.finish(1)
			d.check()
		})
	}
}

// The same holds if Postgres goes away, as a whole or one connection of it.
func TestArchiveLosesPostgres(t *testing.T) {
	t.Parallel()
	cut := func(d *coldDay) { d.postgres.Cut() }
	for _, tt := range testenv.Forms(t, 2, []struct {
		name string
		at   breakpoint
		lose func(d *coldDay)
		why  string // in the command's error
		left models.ArchiveState
		note string // in the error of the run; "" if it could not be recorded
	}{
		{"in the middle of the copy", inTheCopy, cut, "copy into staging", stillRunning, ""},
		{"before the commit", beforeCommit, cut, "commit", stillRunning, ""},
		{"the commit is not answered", afterCommit, cut, "commit", committed, ""},
		{"the transaction's connection alone", inTheCopy, func(d *coldDay) {
			d.endSession(rowsLock)
			d.postgres.Release()
		}, "copy into staging", models.ArchiveFailed, "copy into staging"},
		{"the lease's connection alone", thirdChunk, func(d *coldDay) {
			d.endSession(leaseLock)
		}, "the lease was lost", models.ArchiveFailed, "the lease was lost"},
	}) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newColdDay(t)
			link, r := tt.at(d), d.inBackground(d.behindProxies())
			d.awaitHeld(link, r)
			tt.lose(d)
			r.wait().Fails(t, 1, "archive 2026-11-20 of board steps", tt.why)
			d.wantLastRun(tt.left, tt.note)
			d.finish(1)
			d.check()
		})
	}
}
