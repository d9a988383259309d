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
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// coldDay is a day that is due to be archived, with every score that was ever
// written to it.
type coldDay struct {
	t   testing.TB
	env *testenv.Env
	// redis and postgres are proxies between the stores and the process that is
	// killed.
	redis, postgres *testenv.Proxy
	bucket          *models.Bucket
	// hotWriter writes to the keys of a hot day, as a process that was suspended
	// still does after the day has turned cold. coldWriter writes to the keys for
	// late scores.
	hotWriter, coldWriter *board.Store
	best                  harness.DayScores
}

const (
	dayUsers   = 7500 // five chunks of each shard; the copy has about 345 kB
	lateUsers  = 300
	dayShards  = 3
	boardsFlag = "--boards=[{name: steps, shards: 3}]"
)

// newColdDay writes the scores of a day, and sets the clock of the commands to
// a time when the day is due.
func newColdDay(t testing.TB) *coldDay {
	t.Helper()
	env := harness.RealWithSecret(t)
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
		postgres: testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN)),
		bucket:   testenv.Must(c.Buckets.ForUpload(t.Context(), b, b.Today(now), now)),
		best:     make(harness.DayScores),
	}
	due := d.bucket.ColdAt.Add(2 * time.Hour)
	env.Config.Clock.Offset = time.Until(due).Truncate(time.Second)
	d.hotWriter = board.NewStore(env.Redis, env.Keys, env.Clock.Now, nil)
	// Redis has the script then, and a run that is stopped within its commands need not repeat them.
	if err := d.hotWriter.Freeze(t.Context(), &models.Bucket{Board: "steps", Name: "empty", Shards: 1}, 1); err != nil {
		t.Fatal(err)
	}
	d.coldWriter = board.NewStore(env.Redis, env.Keys, func() time.Time { return due }, nil)
	d.write(d.hotWriter, dayUsers)
	return d
}

// write writes scores of n random users. It uses few scores and few times, so
// that many tie, and some are no better than the user's former score.
func (d *coldDay) write(store *board.Store, n int) {
	d.t.Helper()
	codec := score.Of(d.bucket)
	raises := make([]models.Raise, n)
	for i, user := range rand.Perm(2 * dayUsers)[:n] {
		s := harness.Score{
			User:   models.RowID(1 + user),
			Points: rand.Int64N(20),
			At:     models.TimestampOf(d.bucket.StartsAt.Add(rand.N(3 * time.Second).Truncate(time.Second))),
		}
		raises[i] = models.Raise{Bucket: d.bucket, Entry: models.Entry{User: s.User, Composite: testenv.Must(codec.Encode(d.bucket.Points(s.Points), s.At))}}
		d.best.Add(s)
	}
	for _, err := range store.Raise(d.t.Context(), raises) {
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

// writeLate writes scores after the day has turned cold, with both writers.
func (d *coldDay) writeLate() {
	d.t.Helper()
	d.write(d.coldWriter, lateUsers)
	d.write(d.hotWriter, lateUsers)
}

// behindProxies returns the settings of a process that connects through the
// proxies.
func (d *coldDay) behindProxies() config.Config {
	cfg := d.env.Config
	cfg.Redis.Addrs = []string{d.redis.Addr()}
	cfg.Postgres.DSN = testenv.WithAddress(cfg.Postgres.DSN, d.postgres.Addr())
	return cfg
}

// archiveArgs returns the arguments of the archive command.
func archiveArgs(cfg config.Config) []string {
	return append(append([]string{"archive"}, testenv.Flags(cfg)...), boardsFlag)
}

// archive runs the command to its end, without the proxies.
func (d *coldDay) archive() harness.Outcome {
	d.t.Helper()
	stdout, stderr, status := testenv.Run(d.t, archiveArgs(d.env.Config)...)
	return harness.Outcome{Status: status, Stdout: stdout, Stderr: stderr}
}

// finish archives until nothing is due, and expects this to take the given
// number of runs.
func (d *coldDay) finish(want int) {
	d.t.Helper()
	before := d.attempts()
	for commands := 0; ; {
		o := harness.Archive(d.t, archiveArgs(d.env.Config)...)
		if o.Succeeds(d.t) == "nothing is due\n" {
			if runs := d.attempts() - before; want != anyRuns && runs != want {
				d.t.Errorf("archiving took %d runs, want %d", runs, want)
			}
			return
		}
		if commands++; commands > 2 {
			d.t.Fatalf("command %d still found something: %s", commands, o.Stdout)
		}
	}
}

// attempts returns how often runs were begun.
func (d *coldDay) attempts() (n int) {
	d.t.Helper()
	if err := d.env.Pool.QueryRow(d.t.Context(), `SELECT coalesce(sum(attempts), 0) FROM board_archives`).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

// anyRuns makes finish accept any number of runs.
const anyRuns = -1

// backgroundRun is an archive command that runs in the background and ends by
// itself.
type backgroundRun struct {
	harness.Outcome
	ended chan struct{}
}

// inBackground starts the command.
func (d *coldDay) inBackground(cfg config.Config) *backgroundRun {
	r := &backgroundRun{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.Stdout, r.Stderr, r.Status = testenv.Run(d.t, archiveArgs(cfg)...)
	}()
	d.t.Cleanup(func() { <-r.ended })
	return r
}

// Ended reports whether the command has ended.
func (r *backgroundRun) Ended() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// Log waits until the command has ended and returns its error output.
func (r *backgroundRun) Log() string { return r.wait().Stderr }

// wait waits until the command has ended.
func (r *backgroundRun) wait() harness.Outcome {
	<-r.ended
	return r.Outcome
}

// awaitHeld waits until the proxy holds data of a process that still runs.
func (d *coldDay) awaitHeld(link *testenv.Proxy, running interface {
	Ended() bool
	Log() string
}) {
	d.t.Helper()
	testenv.Eventually(d.t, "the process is held", func() bool {
		if running.Ended() {
			d.t.Fatalf("the process has ended: %s", running.Log())
		}
		return link.Holding()
	})
}

// The keys of the two locks of an archive run, where @name is the name of its
// lease: the lock of the lease, and the lock that its transaction takes.
const (
	leaseLock = `hashtextextended(format('stepboard lease %I %s', current_schema(), CAST(@name AS text)), 0)`
	rowsLock  = `hashtextextended(current_schema() || '/' || @name, 0)`
)

// lease returns the name of the day's lease.
func (d *coldDay) lease() string { return "archive/steps/" + d.bucket.Name }

// holders returns the ids of the server processes that hold a lock.
func (d *coldDay) holders(lock, name string) []int {
	d.t.Helper()
	return holders(d.t, d.env, lock, name)
}

func holders(t testing.TB, env *testenv.Env, lock, name string) []int {
	t.Helper()
	var pids []int
	err := env.Gorm.WithContext(t.Context()).Raw(`
		SELECT pid FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND (classid::bigint << 32) | objid::bigint = `+lock,
		map[string]any{"name": name}).Scan(&pids).Error
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

// endSession makes the server close the connection that holds a lock.
func (d *coldDay) endSession(lock string) {
	d.t.Helper()
	pids := d.holders(lock, d.lease())
	if len(pids) != 1 {
		d.t.Fatalf("%d sessions hold the lock", len(pids))
	}
	if _, err := d.env.Pool.Exec(d.t.Context(), `SELECT pg_terminate_backend($1)`, pids[0]); err != nil {
		d.t.Fatal(err)
	}
}

// runs returns all runs, in the order in which they began.
func (d *coldDay) runs() []models.ArchiveRun {
	d.t.Helper()
	var runs []models.ArchiveRun
	if err := d.env.Gorm.WithContext(d.t.Context()).Order("id").Find(&runs).Error; err != nil {
		d.t.Fatal(err)
	}
	return runs
}

// lastRun returns the latest run; its number is 0 if the day has none.
func (d *coldDay) lastRun() (last models.ArchiveRun) {
	d.t.Helper()
	for _, last = range d.runs() {
	}
	return last
}

// keys returns all keys of the test's boards in Redis, without the prefix.
func (d *coldDay) keys() []string {
	d.t.Helper()
	var keys []string
	iter := d.env.Redis.Scan(d.t.Context(), 0, d.env.Keys.Prefix+"board:*", 1000).Iterator()
	for iter.Next(d.t.Context()) {
		keys = append(keys, strings.TrimPrefix(iter.Val(), d.env.Keys.Prefix))
	}
	if err := iter.Err(); err != nil {
		d.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// check compares the archive with everything that was written: every user once,
// with the right rank. Redis must have no key left, and no run may be
// unfinished.
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
	if last := d.lastRun(); last.Entries != int64(len(d.best)) || d.bucket.ScoreSum(last.Entries, last.PointsSum) != sum {
		d.t.Errorf("the last run is %+v; want %d entries and a sum of %d", last, len(d.best), sum)
	}
}

// checkRows compares the archived rows with the best scores.
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
			(harness.Score{User: models.RowID(r.UserID), Points: r.Score, At: models.TimestampOf(r.ReachedAt)}) != s {
			d.t.Errorf("row %d is %+v, want %+v", i+1, r, s)
			return
		}
	}
}

// start starts a command that connects through the proxies and is going to be
// killed.
func (d *coldDay) start() *testenv.Command {
	d.t.Helper()
	return testenv.Start(d.t, archiveArgs(d.behindProxies())...)
}

// disconnect closes the connections of a killed process and drops the data that
// the proxies hold.
func (d *coldDay) disconnect() {
	d.redis.Cut()
	d.postgres.Cut()
}

// killAt runs the command up to the breakpoint, writes late scores and kills
// the command.
func (d *coldDay) killAt(at breakpoint) {
	d.t.Helper()
	link, c := at(d), d.start()
	d.awaitHeld(link, c)
	d.writeLate()
	c.Kill()
	d.disconnect()
	if c.Stdout() != "" {
		d.t.Errorf("the killed command has printed %q", c.Stdout())
	}
}

// wantLastRun expects the state of the last run and, if it has failed, the
// reason in its error.
func (d *coldDay) wantLastRun(state models.ArchiveState, why string) {
	d.t.Helper()
	run := d.lastRun()
	failed := state == models.ArchiveFailed
	if run.State != state || failed != (run.Error != "") || failed && (!strings.Contains(run.Error, why) || run.FinishedAt == nil) {
		d.t.Errorf("the last run is %+v, want state %s, error %q", run, state, why)
	}
}
