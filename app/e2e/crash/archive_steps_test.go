package crash_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// halt is where a process is going to be held: it makes one of the day's
// proxies hold there, and answers which.
type halt func(d *coldDay) *testenv.Proxy

// toRedis and toPostgres hold what goes to the store, as Proxy.HoldAt.
func toRedis(n int, texts ...string) halt {
	return func(d *coldDay) *testenv.Proxy {
		d.redis.HoldAt(n, texts...)
		return d.redis
	}
}

func toPostgres(n int, texts ...string) halt {
	return func(d *coldDay) *testenv.Proxy {
		d.postgres.HoldAt(n, texts...)
		return d.postgres
	}
}

// fromPostgres holds what Postgres answers, as Proxy.HoldReply.
func fromPostgres(texts ...string) halt {
	return func(d *coldDay) *testenv.Proxy {
		d.postgres.HoldReply(texts...)
		return d.postgres
	}
}

// step is a place in a move at which the process stands still.
type step struct {
	name string
	hold halt
	// state is that of the run when the process has died there; empty where it
	// has not begun.
	state models.ArchiveState
	// runs is how many more it takes: what comes where something was set aside
	// already needs one of its own.
	runs int
}

const (
	stillRunning = models.ArchiveRunning
	committed    = models.ArchiveComplete
	completes    = "UPDATE board_archives SET state = 'complete'" // the last statement before the commit
)

// The places that several tests need.
var (
	inTheCopy    = toPostgres(200_000, "PGCOPY")
	thirdChunk   = toRedis(0, "\r\n1000\r\n")
	beforeCommit = toPostgres(0, completes, "commit\x00")
	afterCommit  = fromPostgres("UPDATE 1\x00", "COMMIT\x00")
)

// The steps of a day's first run, in their order.
var firstRun = []step{
	{"before the run is recorded", toPostgres(0, `INSERT INTO "board_archives"`), "", 1},
	{"before the shards are set aside", toRedis(0, "renamenx"), stillRunning, 1},
	{"one shard is set aside", toRedis(300, "renamenx"), stillRunning, 2},
	{"all shards are set aside", toRedis(0, "zcard"), stillRunning, 2},
	{"in the making of the month", toPostgres(0, "ATTACH PARTITION"), stillRunning, 2},
	{"before the first chunk", toRedis(0, "zrevrange"), stillRunning, 2},
	{"before the second chunk", toRedis(0, "\r\n500\r\n"), stillRunning, 2},
	{"before the third chunk", thirdChunk, stillRunning, 2},
	{"before staging", toPostgres(0, "CREATE TEMP TABLE archive_staging"), stillRunning, 2},
	{"before the rows are locked", toPostgres(0, "archive_staging", "pg_advisory_xact_lock"), stillRunning, 2},
	{"before the copy", toPostgres(0, "COPY archive_staging"), stillRunning, 2},
	{"in the middle of the copy", inTheCopy, stillRunning, 2},
	{"before the rows are stored", toPostgres(0, "INSERT INTO archived_scores"), stillRunning, 2},
	{"before the rows are verified", toPostgres(0, "SELECT count(*), coalesce(sum(score)"), stillRunning, 2},
	{"before the run is completed", toPostgres(0, completes), stillRunning, 2},
	{"before the commit", beforeCommit, stillRunning, 2},
	{"the commit is not answered", afterCommit, committed, 1},
	{"before the drop", toRedis(0, "unlink"), committed, 1},
	{"one shard is dropped", toRedis(100, "unlink"), committed, 1},
	{"all is dropped", toPostgres(0, "pg_advisory_unlock_all"), committed, 1},
}

// The steps of a later run, which merges.
var laterRun = []step{
	{"before what came is set aside", toRedis(0, "renamenx"), stillRunning, 1},
	{"all is set aside", toRedis(0, "zcard"), stillRunning, 2},
	{"before merging", toPostgres(0, "INSERT INTO archive_merged"), stillRunning, 2},
	{"before the rows are stored", toPostgres(0, "INSERT INTO archived_scores"), stillRunning, 2},
	{"before the commit", beforeCommit, stillRunning, 2},
	{"the commit is not answered", afterCommit, committed, 1},
	{"one shard is dropped", toRedis(100, "unlink"), committed, 1},
}

// Wherever the process is killed and whatever is written meanwhile, the next
// run finishes the work: nothing is lost, doubled or left behind.
func TestSoakArchiveKilledAtEachStep(t *testing.T) {
	t.Parallel()
	killAtEach(t, firstRun, func(*coldDay) {})
}

// The same for a run that merges what came late.
func TestSoakArchiveKilledWhileMerging(t *testing.T) {
	t.Parallel()
	killAtEach(t, laterRun, func(d *coldDay) {
		d.finish(1)
		d.writeLate()
	})
}

// killAtEach kills the command at each step of the run that follows what
// prepare does, and lets others finish.
func killAtEach(t *testing.T, steps []step, prepare func(*coldDay)) {
	for round := range rounds(1, 5) {
		for _, s := range steps {
			t.Run(fmt.Sprintf("%d/%s", round, s.name), func(t *testing.T) {
				t.Parallel()
				d := newColdDay(t)
				prepare(d)
				begun := d.lastRun().Run
				if s.state != "" {
					begun++
				}
				d.killAt(s.hold)
				if run := d.lastRun(); run.Run != begun || run.State != s.state {
					t.Errorf("it has left run %+v", run)
				}
				d.finish(s.runs)
				d.check()
			})
		}
	}
}

// Killed after any byte that it has sent, again and again over the same day.
func TestSoakArchiveKilledAtRandom(t *testing.T) {
	t.Parallel()
	for range rounds(1, 40) {
		d := newColdDay(t)
		for range 4 {
			link, name, most := d.postgres, "postgres", 20_000
			switch rand.N(3) {
			case 0:
				link, name, most = d.redis, "redis", 3_000
			case 1:
				most = 380_000 // most of it is the copy
			}
			after := rand.N(most)
			t.Logf("%s is held after %d bytes", name, after)
			link.HoldAt(after)
			c := d.start()
			testenv.Eventually(t, "the command is held, or has ended", func() bool { return c.Ended() || link.Holding() })
			d.writeLate()
			c.Kill()
			d.cut()
			d.redis.Start()
			d.postgres.Start()
		}
		d.finish(anyRuns)
		d.check()
	}
}
