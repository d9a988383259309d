package crash_test

import (
	"fmt"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// breakpoint is a point at which a process is held. Calling it makes one of the
// day's proxies hold there, and returns the proxy.
type breakpoint func(d *coldDay) *testenv.Proxy

// atRedis and atPostgres hold what is sent to the store, as Proxy.HoldAt does.
func atRedis(n int, texts ...string) breakpoint {
	return func(d *coldDay) *testenv.Proxy {
		d.redis.HoldAt(n, texts...)
		return d.redis
	}
}

func atPostgres(n int, texts ...string) breakpoint {
	return func(d *coldDay) *testenv.Proxy {
		d.postgres.HoldAt(n, texts...)
		return d.postgres
	}
}

// atPostgresReply holds what Postgres answers, as Proxy.HoldReply does.
func atPostgresReply(texts ...string) breakpoint {
	return func(d *coldDay) *testenv.Proxy {
		d.postgres.HoldReply(texts...)
		return d.postgres
	}
}

// step is a point of an archive run at which the process is killed.
type step struct {
	name string
	at   breakpoint
	// state is the state in which the run is left; "" if it was not recorded yet.
	state models.ArchiveState
	// runs is how many more runs are needed: scores that arrive after the freeze
	// need a run of their own.
	runs int
}

const (
	stillRunning = models.ArchiveRunning
	committed    = models.ArchiveComplete
	completes    = "UPDATE board_archives SET state = 'complete'" // the last statement before the commit
	// In the keys that the script of a shard gets to freeze it, for the first and the second run. No
	// earlier command of the run has them.
	freezing, freezingLate = ":aside:1", ":aside:2"
)

// Breakpoints of several tests.
var (
	inTheCopy    = atPostgres(200_000, "PGCOPY")
	thirdChunk   = atRedis(0, "\r\n1000\r\n")
	beforeCommit = atPostgres(0, completes, "commit\x00")
	afterCommit  = atPostgresReply("UPDATE 1\x00", "COMMIT\x00")
)

// firstRun lists the steps of a day's first run in their order.
var firstRun = []step{
	{"before the run is recorded", atPostgres(0, `INSERT INTO "board_archives"`), "", 1},
	{"while the month's partition is made", atPostgres(0, "ATTACH PARTITION"), stillRunning, 1},
	{"before the shards are frozen", atRedis(0, freezing), stillRunning, 1},
	{"one shard is frozen", atRedis(300, freezing), stillRunning, 2},
	{"all shards are frozen", atRedis(0, "zcard"), stillRunning, 2},
	{"before the first chunk", atRedis(0, "zrevrange"), stillRunning, 2},
	{"before the second chunk", atRedis(0, "\r\n500\r\n"), stillRunning, 2},
	{"before the third chunk", thirdChunk, stillRunning, 2},
	{"before staging", atPostgres(0, "CREATE TEMP TABLE IF NOT EXISTS archive_staging"), stillRunning, 2},
	{"before the rows are locked", atPostgres(0, "archive_staging", "pg_try_advisory_xact_lock"), stillRunning, 2},
	{"before the copy", atPostgres(0, `copy "archive_staging"`), stillRunning, 2},
	{"in the middle of the copy", inTheCopy, stillRunning, 2},
	{"before the rows are stored", atPostgres(0, "INSERT INTO archived_scores"), stillRunning, 2},
	{"before the rows are verified", atPostgres(0, "SELECT count(*), coalesce(sum(score)"), stillRunning, 2},
	{"before the run is completed", atPostgres(0, completes), stillRunning, 2},
	{"before the commit", beforeCommit, stillRunning, 2},
	{"the commit is not answered", afterCommit, committed, 1},
	{"before the drop", atRedis(0, "unlink"), committed, 1},
	{"one shard is dropped", atRedis(100, "unlink"), committed, 1},
	{"all is dropped", atPostgres(0, "pg_advisory_unlock_all"), committed, 1},
}

// laterRun lists steps of a later run, which merges.
var laterRun = []step{
	{"before the late scores are frozen", atRedis(0, freezingLate), stillRunning, 1},
	{"all is frozen", atRedis(0, "zcard"), stillRunning, 2},
	{"before merging", atPostgres(0, "INSERT INTO archive_merged"), stillRunning, 2},
	{"before the rows are stored", atPostgres(0, "INSERT INTO archived_scores"), stillRunning, 2},
	{"before the commit", beforeCommit, stillRunning, 2},
	{"the commit is not answered", afterCommit, committed, 1},
	{"one shard is dropped", atRedis(100, "unlink"), committed, 1},
}

// At whatever step the process is killed, the next run finishes the work:
// nothing is lost, doubled or left behind, late scores included.
func TestSoakArchiveKilledAtEachStep(t *testing.T) {
	t.Parallel()
	killAtEach(t, 1, firstRun, func(*coldDay) {})
}

// The same holds for a run that merges late scores.
func TestSoakArchiveKilledWhileMerging(t *testing.T) {
	t.Parallel()
	killAtEach(t, 0, laterRun, func(d *coldDay) {
		d.finish(1)
		d.writeLate()
	})
}

// killAtEach kills the command at each step of the run after prepare, or at a few of them, and lets
// other runs finish.
func killAtEach(t *testing.T, few int, steps []step, prepare func(*coldDay)) {
	for round := range testenv.Rounds(1, 5) {
		for _, s := range testenv.Forms(t, few, steps) {
			t.Run(fmt.Sprintf("%d/%s", round, s.name), func(t *testing.T) {
				t.Parallel()
				d := newColdDay(t)
				prepare(d)
				begun := d.lastRun().Run
				if s.state != "" {
					begun++
				}
				d.killAt(s.at)
				if run := d.lastRun(); run.Run != begun || run.State != s.state {
					t.Errorf("the killed process has left run %+v", run)
				}
				d.finish(s.runs)
				d.check()
			})
		}
	}
}
