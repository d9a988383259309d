package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/catalog"
	"stepboard/services/score"
)

// coldDay is a day that is due to be archived, with everything that was ever
// written to it.
type coldDay struct {
	t   testing.TB
	env *testenv.Env
	// redis and postgres stand between the stores and the process that dies.
	redis, postgres *testenv.Proxy
	bucket          *models.Bucket
	// inTime writes where the day is while it is hot, as a process that has
	// slept still does; late writes where the processes of this test do.
	inTime, late *board.Store
	best         dayOfScores
}

// standing is what a user has reached.
type standing struct {
	user   models.UserID
	points int64
	at     models.Timestamp
}

const (
	dayUsers   = 7500 // five chunks for each shard, and some 345 kB to copy
	lateUsers  = 300
	dayShards  = 3
	boardsFlag = "--boards=[{name: steps, shards: 3}]"
)

// newColdDay makes a day and writes it.
func newColdDay(t testing.TB) *coldDay {
	t.Helper()
	env := prepared(t)
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, env.Config.HotDays, env.Log)
	defs := env.Config.BoardDefinitions()
	defs[0].Shards = dayShards
	if err := c.Define(t.Context(), defs); err != nil {
		t.Fatal(err)
	}
	b := testenv.Must(c.Board("steps"))
	now := env.Clock.Now()
	d := &coldDay{
		t: t, env: env,
		redis:    testenv.NewProxy(t, env.Config.Redis.Addrs[0]),
		postgres: testenv.NewProxy(t, testenv.Address(t, env.Config.Postgres.DSN)),
		bucket:   testenv.Must(c.ForUpload(t.Context(), b, b.Today(now), now)),
		best:     make(dayOfScores),
	}
	due := d.bucket.ColdAt.Add(2 * time.Hour)
	env.Config.Clock.Offset = time.Until(due).Truncate(time.Second)
	d.inTime = board.NewStore(env.Redis, env.Keys, env.Clock.Now)
	d.late = board.NewStore(env.Redis, env.Keys, func() time.Time { return due })
	d.write(d.inTime, dayUsers)
	return d
}

// write writes scores of n users, few scores and few times, so that many tie
// and some are no better than what stands there.
func (d *coldDay) write(store *board.Store, n int) {
	d.t.Helper()
	codec := score.Of(d.bucket)
	raises := make([]models.Raise, n)
	for i, user := range rand.Perm(2 * dayUsers)[:n] {
		s := standing{
			user:   models.UserID(1 + user),
			points: rand.Int64N(20),
			at:     models.TimestampOf(d.bucket.StartsAt.Add(rand.N(3 * time.Second).Truncate(time.Second))),
		}
		raises[i] = models.Raise{Bucket: d.bucket, Entry: models.Entry{User: s.user, Composite: testenv.Must(codec.Encode(s.points, s.at))}}
		d.best.add(s)
	}
	for _, err := range store.Raise(d.t.Context(), raises) {
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// compare is less than 0 where a standing ranks before another one.
func (s standing) compare(other standing) int {
	return cmp.Or(cmp.Compare(other.points, s.points), cmp.Compare(s.at, other.at), strings.Compare(other.user.String(), s.user.String()))
}

// dayOfScores is the best that users have reached on a day.
type dayOfScores map[models.UserID]standing

// add adds what a user has reached.
func (d dayOfScores) add(s standing) {
	if old, ok := d[s.user]; !ok || s.compare(old) < 0 {
		d[s.user] = s
	}
}

// sorted is the ranking.
func (d dayOfScores) sorted() []standing {
	return slices.SortedFunc(maps.Values(d), standing.compare)
}

// writeLate writes what comes after the day has turned cold, both ways.
func (d *coldDay) writeLate() {
	d.t.Helper()
	d.write(d.late, lateUsers)
	d.write(d.inTime, lateUsers)
}

// linked is the settings of a process that is going to die.
func (d *coldDay) linked() config.Config {
	cfg := d.env.Config
	cfg.Redis.Addrs = []string{d.redis.Addr()}
	cfg.Postgres.DSN = testenv.WithAddress(d.t, cfg.Postgres.DSN, d.postgres.Addr())
	return cfg
}

func archiveArgs(cfg config.Config) []string {
	return append([]string{"archive", boardsFlag}, testenv.Flags(cfg)...)
}

// archive runs the command to its end, beside whatever the proxies do.
func (d *coldDay) archive() outcome {
	d.t.Helper()
	stdout, stderr, status := testenv.Run(d.t, archiveArgs(d.env.Config)...)
	return outcome{status, stdout, stderr}
}

// finish archives until nothing is due, which takes a number of runs. A process
// that has died is there for the servers until they notice.
func (d *coldDay) finish(want int) {
	d.t.Helper()
	for runs := 0; ; {
		o := d.archive()
		if o.status == 1 && strings.Contains(o.stderr, "is being archived already") {
			continue
		}
		if o.succeeds(d.t) == "nothing is due\n" {
			if want != anyRuns && runs != want {
				d.t.Errorf("it took %d runs, want %d", runs, want)
			}
			return
		}
		if runs++; runs > 2 {
			d.t.Fatalf("run %d has found something: %s", runs, o.stdout)
		}
	}
}

const anyRuns = -1

// process is an archive command that ends by itself.
type process struct {
	outcome
	ended chan struct{}
}

// begin starts the command.
func (d *coldDay) begin(cfg config.Config) *process {
	r := &process{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.stdout, r.stderr, r.status = testenv.Run(d.t, archiveArgs(cfg)...)
	}()
	d.t.Cleanup(func() { <-r.ended })
	return r
}

// Ended tells whether it has ended.
func (r *process) Ended() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Log is what it has printed on its standard error, once it has ended.
func (r *process) Log() string { return r.wait().stderr }

// wait waits until it has ended.
func (r *process) wait() outcome {
	<-r.ended
	return r.outcome
}

// await waits until the proxy holds something of a process.
func (d *coldDay) await(link *testenv.Proxy, running interface {
	Ended() bool
	Log() string
}) {
	d.t.Helper()
	testenv.Eventually(d.t, "the process is held", func() bool {
		if running.Ended() {
			d.t.Fatalf("it has ended: %s", running.Log())
		}
		return link.Holding()
	})
}

// The keys of a move's locks: its lease and its transaction's, where @name is
// that of the lease.
const (
	leaseLock = `hashtextextended(format('stepboard lease %I %s', current_schema(), CAST(@name AS text)), 0)`
	rowsLock  = `hashtextextended(current_schema() || '/' || @name, 0)`
)

// lease is the name of the day's lease.
func (d *coldDay) lease() string { return "archive/steps/" + d.bucket.Name }

// holders lists the server's processes that hold a lock.
func (d *coldDay) holders(lock, name string) []int {
	d.t.Helper()
	var pids []int
	err := d.env.Gorm.WithContext(d.t.Context()).Raw(`
		SELECT pid FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND (classid::bigint << 32) | objid::bigint = `+lock,
		map[string]any{"name": name}).Scan(&pids).Error
	if err != nil {
		d.t.Fatal(err)
	}
	return pids
}

// waiting tells how many of the server's processes wait for one of them.
func (d *coldDay) waiting(pid int) (n int) {
	d.t.Helper()
	err := d.env.Gorm.WithContext(d.t.Context()).Raw(`SELECT count(*) FROM pg_stat_activity WHERE ? = ANY(pg_blocking_pids(pid))`, pid).Scan(&n).Error
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// hangUp makes the server end the connection that holds a lock.
func (d *coldDay) hangUp(lock string) {
	d.t.Helper()
	pids := d.holders(lock, d.lease())
	if len(pids) != 1 {
		d.t.Fatalf("%d processes hold the lock", len(pids))
	}
	if _, err := d.env.Pool.Exec(d.t.Context(), `SELECT pg_terminate_backend($1)`, pids[0]); err != nil {
		d.t.Fatal(err)
	}
}

// runs lists the runs that were ever begun.
func (d *coldDay) runs() []models.ArchiveRun {
	d.t.Helper()
	var runs []models.ArchiveRun
	if err := d.env.Gorm.WithContext(d.t.Context()).Order("id").Find(&runs).Error; err != nil {
		d.t.Fatal(err)
	}
	return runs
}

// lastRun is the day's latest run; its number is 0 where there is none.
func (d *coldDay) lastRun() (last models.ArchiveRun) {
	d.t.Helper()
	for _, last = range d.runs() {
	}
	return last
}

// keys lists what Redis holds, without the prefix.
func (d *coldDay) keys() []string {
	d.t.Helper()
	var keys []string
	iter := d.env.Redis.Scan(d.t.Context(), 0, d.env.Keys.Prefix+"*", 1000).Iterator()
	for iter.Next(d.t.Context()) {
		// What jobs note is no part of a day.
		if key := strings.TrimPrefix(iter.Val(), d.env.Keys.Prefix); !strings.HasPrefix(key, "boards-noted:") {
			keys = append(keys, key)
		}
	}
	if err := iter.Err(); err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// check compares the archive with everything that was written: all of it,
// once, on its rank. Nothing is left in Redis, and no run is unfinished.
func (d *coldDay) check() {
	d.t.Helper()
	if keys := d.keys(); len(keys) > 0 {
		d.t.Errorf("left in Redis: %v", keys)
	}
	d.checkRows()
	for i, run := range d.runs() {
		if run.Run != i+1 || run.Bucket != d.bucket.Name || run.State != models.ArchiveComplete || run.Error != "" || run.FinishedAt == nil {
			d.t.Errorf("run %+v", run)
		}
	}
	var sum int64
	for _, s := range d.best {
		sum += s.points
	}
	if last := d.lastRun(); last.Entries != int64(len(d.best)) || last.ScoreSum != sum {
		d.t.Errorf("the last run is %+v; want %d entries and a sum of %d", last, len(d.best), sum)
	}
}

func (d *coldDay) checkRows() {
	d.t.Helper()
	rows, err := d.env.Pool.Query(d.t.Context(), `
		SELECT board, day, rank, user_id, score, reached_at FROM archived_scores
		ORDER BY score DESC, reached_at, user_id::text COLLATE "C" DESC`)
	if err != nil {
		d.t.Fatal(err)
	}
	type row struct {
		Board     string
		Day       time.Time
		Rank      int
		UserID    int64
		Score     int64
		ReachedAt time.Time
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		d.t.Fatal(err)
	}
	want := d.best.sorted()
	if len(got) != len(want) {
		d.t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		r, s := got[i], want[i]
		if r.Board != "steps" || !r.Day.Equal(d.bucket.Day.UTC()) || r.Rank != i+1 ||
			(standing{models.UserID(r.UserID), r.Score, models.TimestampOf(r.ReachedAt)}) != s {
			d.t.Errorf("row %d is %+v, want %+v", i+1, r, s)
			return
		}
	}
}

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

// start starts the command between the proxies, to be killed.
func (d *coldDay) start() *testenv.Command {
	d.t.Helper()
	return testenv.Start(d.t, archiveArgs(d.linked())...)
}

// cut ends the connections of a process that is dead, and with them what it
// has sent and what was not let through.
func (d *coldDay) cut() {
	d.redis.Cut()
	d.postgres.Cut()
}

// killAt lets the command run as far as the place, and kills it there while
// late updates come.
func (d *coldDay) killAt(hold halt) {
	d.t.Helper()
	link, c := hold(d), d.start()
	d.await(link, c)
	d.writeLate()
	c.Kill()
	d.cut()
	if c.Printed() != "" {
		d.t.Errorf("it has printed %q", c.Printed())
	}
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

// A process that slept writes where the day was while the day is set aside.
// The next run must not put that in the place of the day.
func TestArchiveKeepsTheDayThatIsSetAside(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.killAt(toRedis(0, "zcard"))
	want := []string{}
	for shard := range d.bucket.Shards {
		for _, key := range []string{
			d.env.Keys.Board(d.bucket, shard), d.env.Keys.Late(d.bucket, shard), d.env.Keys.Frozen(d.bucket, shard, 1, false),
		} {
			want = append(want, strings.TrimPrefix(key, d.env.Keys.Prefix))
		}
	}
	slices.Sort(want)
	if keys := d.keys(); !slices.Equal(keys, want) {
		t.Fatalf("Redis has %v, want %v", keys, want)
	}
	// The first run moves the day as it was, with what came late; the second one
	// what the sleeper wrote.
	for run, moved := range []int{dayUsers + lateUsers, lateUsers} {
		moved := fmt.Sprintf("run %d moved %d entries", run+1, moved)
		if text := d.archive().succeeds(t); !strings.Contains(text, moved) {
			t.Errorf("run %d: %s", run+1, text)
		}
	}
	d.finish(0)
	d.check()
}

// A process that was slow to set the day aside is dead, and another one has
// moved the day, when what it has sent arrives.
func TestArchiveSetsAsideForTheDead(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.redis.HoldAt(0, "renamenx")
	c := d.start()
	d.await(d.redis, c)
	c.Kill()
	d.finish(1)
	d.writeLate()
	d.redis.Release()
	testenv.Eventually(t, "all is set aside for the run that is over", func() bool {
		return !slices.ContainsFunc(d.keys(), func(key string) bool { return !strings.HasSuffix(key, ":aside:1") })
	})
	d.finish(1)
	d.check()
}

// The same with its commit, which the next process waits for: the dead one
// holds its lease no more, but what it has written.
func TestArchiveCommitsForTheDead(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	link, c := beforeCommit(d), d.start()
	d.await(link, c)
	c.Kill()
	d.writeLate()
	testenv.Eventually(t, "the server notices", func() bool { return len(d.holders(leaseLock, d.lease())) == 0 })
	next := d.begin(d.env.Config)
	testenv.Eventually(t, "the next process waits", func() bool {
		if next.Ended() {
			t.Fatalf("it did not wait: %+v", next.outcome)
		}
		return d.waiting(d.holders(rowsLock, d.lease())[0]) == 1
	})
	link.Release()
	next.wait().succeeds(t)
	d.finish(0)
	d.check()
}

// Of two processes one works, and the other one says so.
func TestArchiveTwoProcesses(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.postgres.HoldAt(0, "INSERT INTO archived_scores")
	first := d.begin(d.linked())
	d.await(d.postgres, first)
	d.archive().fails(t, 1, "2026-11-20 of board steps is being archived already")
	d.postgres.Release()
	if text := first.wait().succeeds(t); !strings.Contains(text, fmt.Sprintf("run 1 moved %d entries", dayUsers)) {
		t.Error(text)
	}
	d.finish(0)
	d.check()
}

// left expects the state of the last run, and where that has failed, why.
func (d *coldDay) left(state models.ArchiveState, why string) {
	d.t.Helper()
	run := d.lastRun()
	failed := state == models.ArchiveFailed
	if run.State != state || failed != (run.Error != "") || failed && (!strings.Contains(run.Error, why) || run.FinishedAt == nil) {
		d.t.Errorf("it has left run %+v; want it %s, %q", run, state, why)
	}
}

// A Redis that goes away in the middle ends the command; the run is noted as
// failed, and the next one does its work.
func TestArchiveLosesRedis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		hold halt
		why  string
		left models.ArchiveState
	}{
		{"while it is set aside", toRedis(0, "renamenx"), "set aside", models.ArchiveFailed},
		{"while it is listed", toRedis(0, "zcard"), "list what is set aside", models.ArchiveFailed},
		{"while it is read", thirdChunk, "read what is set aside", models.ArchiveFailed},
		{"while it is dropped", toRedis(0, "unlink"), "drop what is archived", committed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newColdDay(t)
			link, r := tt.hold(d), d.begin(d.linked())
			d.await(link, r)
			link.Cut()
			r.wait().fails(t, 1, "archive 2026-11-20 of board steps", tt.why)
			d.left(tt.left, tt.why)
			d.finish(1)
			d.check()
		})
	}
}

// So does a Postgres that goes away, whole or one connection of it.
func TestArchiveLosesPostgres(t *testing.T) {
	t.Parallel()
	cut := func(d *coldDay) { d.postgres.Cut() }
	for _, tt := range []struct {
		name string
		hold halt
		lose func(d *coldDay)
		why  string // as the command says
		left models.ArchiveState
		note string // as the run says, where it could be told
	}{
		{"in the middle of the copy", inTheCopy, cut, "copy into staging", stillRunning, ""},
		{"before the commit", beforeCommit, cut, "commit", stillRunning, ""},
		{"the commit is not answered", afterCommit, cut, "commit", committed, ""},
		{"the transaction's connection alone", inTheCopy, func(d *coldDay) {
			d.hangUp(rowsLock)
			d.postgres.Release()
		}, "copy into staging", models.ArchiveFailed, "copy into staging"},
		{"the lease's connection alone", thirdChunk, func(d *coldDay) {
			d.hangUp(leaseLock)
		}, "the lease was lost", models.ArchiveFailed, "the lease was lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newColdDay(t)
			link, r := tt.hold(d), d.begin(d.linked())
			d.await(link, r)
			tt.lose(d)
			r.wait().fails(t, 1, "archive 2026-11-20 of board steps", tt.why)
			d.left(tt.left, tt.note)
			d.finish(1)
			d.check()
		})
	}
}

// lastSuccess finds when the archive's job has succeeded last, in seconds.
var lastSuccess = regexp.MustCompile(`(?m)^stepboard_job_last_success_timestamp_seconds\{job="archive"\} (\S+)$`)

// A service that is started after another one has died in the middle takes up
// its work by itself.
func TestArchiveIsTakenUpByServe(t *testing.T) {
	t.Parallel()
	d := newColdDay(t)
	d.postgres.HoldAt(0, "INSERT INTO archived_scores")
	dying := testenv.Serve(t, d.linked(), boardsFlag)
	testenv.Eventually(t, "its job is held", d.postgres.Holding)
	d.writeLate()
	dying.Kill()
	d.cut()
	testenv.Eventually(t, "the server notices", func() bool {
		return len(d.holders(leaseLock, d.lease()))+len(d.holders(leaseLock, "job/archive")) == 0
	})
	p := testenv.Serve(t, d.env.Config, boardsFlag)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	success := func() float64 {
		_, text, err := request(t.Context(), client, "", "GET", p.URL+"/metrics", "")
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
	if run := d.lastRun(); run.Run != 1 || run.Attempts != 2 || run.Moved != dayUsers+lateUsers {
		t.Errorf("run %+v", run)
	}
	if status := p.Stop(); status != 0 {
		t.Errorf("status %d: %s", status, p.Log())
	}
	// What the sleeper wrote waits for the next night, or the next start.
	p = testenv.Serve(t, d.env.Config, boardsFlag)
	testenv.Eventually(t, "what came late is merged", func() bool { return success() > 0 })
	d.check()
}
