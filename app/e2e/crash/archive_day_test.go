package crash_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stepboard/app/e2e/harness"
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
	best         harness.DayScores
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
	env := harness.Real(t)
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, env.Config.HotDays, env.Log)
	defs := env.Config.BoardDefinitions()
	defs[0].Shards = dayShards
	if err := c.Definitions.Define(t.Context(), defs); err != nil {
		t.Fatal(err)
	}
	b := testenv.Must(c.Definitions.Board("steps"))
	now := env.Clock.Now()
	d := &coldDay{
		t: t, env: env,
		redis:    testenv.NewProxy(t, env.Config.Redis.Addrs[0]),
		postgres: testenv.NewProxy(t, testenv.Address(t, env.Config.Postgres.DSN)),
		bucket:   testenv.Must(c.Buckets.ForUpload(t.Context(), b, b.Today(now), now)),
		best:     make(harness.DayScores),
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
		s := harness.Score{
			User:   models.UserID(1 + user),
			Points: rand.Int64N(20),
			At:     models.TimestampOf(d.bucket.StartsAt.Add(rand.N(3 * time.Second).Truncate(time.Second))),
		}
		raises[i] = models.Raise{Bucket: d.bucket, Entry: models.Entry{User: s.User, Composite: testenv.Must(codec.Encode(s.Points, s.At))}}
		d.best.Add(s)
	}
	for _, err := range store.Raise(d.t.Context(), raises) {
		if err != nil {
			d.t.Fatal(err)
		}
	}
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
func (d *coldDay) archive() harness.Outcome {
	d.t.Helper()
	stdout, stderr, status := testenv.Run(d.t, archiveArgs(d.env.Config)...)
	return harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}
}

// finish archives until nothing is due, which takes a number of runs. A process
// that has died is there for the servers until they notice.
func (d *coldDay) finish(want int) {
	d.t.Helper()
	for runs := 0; ; {
		o := d.archive()
		if o.Status == 1 && strings.Contains(o.Stderr, "is being archived already") {
			continue
		}
		if o.Succeeds(d.t) == "nothing is due\n" {
			if want != anyRuns && runs != want {
				d.t.Errorf("it took %d runs, want %d", runs, want)
			}
			return
		}
		if runs++; runs > 2 {
			d.t.Fatalf("run %d has found something: %s", runs, o.Stdout)
		}
	}
}

const anyRuns = -1

// process is an archive command that ends by itself.
type process struct {
	harness.Outcome
	ended chan struct{}
}

// begin starts the command.
func (d *coldDay) begin(cfg config.Config) *process {
	r := &process{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.Stdout, r.Stderr, r.Status = testenv.Run(d.t, archiveArgs(cfg)...)
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
func (r *process) Log() string { return r.wait().Stderr }

// wait waits until it has ended.
func (r *process) wait() harness.Outcome {
	<-r.ended
	return r.Outcome
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
		sum += s.Points
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
	want := d.best.Sorted()
	if len(got) != len(want) {
		d.t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		r, s := got[i], want[i]
		if r.Board != "steps" || !r.Day.Equal(d.bucket.Day.UTC()) || r.Rank != i+1 ||
			(harness.Score{User: models.UserID(r.UserID), Points: r.Score, At: models.TimestampOf(r.ReachedAt)}) != s {
			d.t.Errorf("row %d is %+v, want %+v", i+1, r, s)
			return
		}
	}
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
	if c.Stdout() != "" {
		d.t.Errorf("it has printed %q", c.Stdout())
	}
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
