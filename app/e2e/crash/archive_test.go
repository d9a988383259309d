package crash_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A process that was suspended writes to the keys of the hot day after the day
// was frozen. The next run must not freeze these scores in place of the day.
func TestArchiveKeepsAFrozenDay(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.killAt(atRedis(0, "zcard"))
	want := []string{}
	for shard := range d.bucket.Shards {
		for _, key := range []string{
			d.env.Keys.Board(d.bucket, shard), d.env.Keys.Late(d.bucket, shard), d.env.Keys.Frozen(d.bucket, shard, 1, models.KeyBoard),
		} {
			want = append(want, strings.TrimPrefix(key, d.env.Keys.Prefix))
		}
	}
	slices.Sort(want)
	if keys := d.keys(); !slices.Equal(keys, want) {
		t.Fatalf("Redis has %v, want %v", keys, want)
	}
	// The first run moves the frozen day and the late scores, the second one the
	// scores of the suspended process.
	if text := d.archive().Succeeds(t); !strings.Contains(text, fmt.Sprintf("run 2 moved %d entries", dayUsers+2*lateUsers)) {
		t.Error(text)
	}
	d.finish(0)
	d.check()
}

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

// Of two processes that archive the same day, one refuses to.
func TestArchiveByTwoProcesses(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.postgres.HoldAt(0, "INSERT INTO archived_scores")
	first := d.inBackground(d.behindProxies())
	d.awaitHeld(d.postgres, first)
	d.archive().Fails(t, 1, "2026-11-20 of board steps is being archived already")
	d.postgres.Release()
	if text := first.wait().Succeeds(t); !strings.Contains(text, fmt.Sprintf("run 1 moved %d entries", dayUsers)) {
		t.Error(text)
	}
	d.finish(0)
	d.check()
}

// If Redis goes away during a run, the command fails, the run is recorded as
// failed, and the next one does its work.
func TestArchiveLosesRedis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		at   breakpoint
		why  string
		left models.ArchiveState
	}{
		{"while the day is frozen", atRedis(0, freezing), "freeze a bucket", models.ArchiveFailed},
		{"while the parts are listed", atRedis(0, "zcard"), "list frozen parts", models.ArchiveFailed},
		{"while a part is read", thirdChunk, "read a frozen part", models.ArchiveFailed},
		{"while the parts are dropped", atRedis(0, "unlink"), "drop frozen parts", committed},
	} {
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
	for _, tt := range []struct {
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
	} {
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

// lastSuccess matches the time of the archive job's last success, in Unix
// seconds.
var lastSuccess = regexp.MustCompile(`(?m)^stepboard_job_last_success_timestamp_seconds\{job="archive"\} (\S+)$`)

// A service that is started after another one has died during a run finishes
// the run by itself.
func TestServeResumesTheArchive(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.postgres.HoldAt(0, "INSERT INTO archived_scores")
	dying := testenv.Serve(t, d.behindProxies(), boardsFlag)
	testenv.Eventually(t, "its job is held", d.postgres.Holding)
	d.writeLate()
	dying.Kill()
	d.disconnect()
	testenv.Eventually(t, "the server notices", func() bool {
		return len(d.holders(leaseLock, d.lease()))+len(d.holders(leaseLock, "job/archive")) == 0
	})
	p := testenv.Serve(t, d.env.Config, boardsFlag)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	success := func() float64 {
		_, text, err := harness.Request(t.Context(), client, "", "GET", p.URL+"/metrics", "")
		if err != nil {
			t.Fatal(err)
		}
		m := lastSuccess.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no such metric: %s", text)
		}
		return testenv.Must(strconv.ParseFloat(m[1], 64))
	}
	testenv.Eventually(t, "the day is archived", func() bool { return d.lastRun().State == models.ArchiveComplete })
	testenv.Eventually(t, "the job has succeeded", func() bool { return success() > 0 })
	// The second run merges the scores of the suspended process.
	runs := d.runs()
	if len(runs) != 2 || runs[0].Attempts != 2 || runs[0].Moved != dayUsers+lateUsers || runs[1].Attempts != 1 || runs[1].Moved != lateUsers {
		t.Errorf("runs %+v", runs)
	}
	p.Stop()
	d.check()
}
