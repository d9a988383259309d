package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/score"
	"stepboard/services/servicetest"
)

// fixture is a stream, its consumers and their boards.
type fixture struct {
	t           *testing.T
	env         *testenv.Env
	catalog     *catalog.Catalog
	boards      board.Entries
	deadLetters *ingest.DeadLetterStore
	bucket      *models.Bucket
	options     ingest.StreamOptions
}

func newFixture(t *testing.T, env *testenv.Env) *fixture {
	t.Helper()
	p := &fixture{
		t: t, env: env, catalog: catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log),
		boards: servicetest.Entries(env, env.Clock.Now, nil), deadLetters: ingest.NewDeadLetterStore(env.Gorm),
		options: ingest.StreamOptions{MaxUpdates: 1_000_000, Keep: time.Hour, ClaimAfter: time.Hour, Clock: time.Now},
	}
	if err := p.catalog.Definitions.Define(t.Context(), env.Config.BoardDefinitions()); err != nil {
		t.Fatal(err)
	}
	b := testenv.Must(p.catalog.Definitions.Board("steps"))
	now := env.Clock.Now()
	bucket, err := p.catalog.Buckets.ForUpload(t.Context(), b, b.Today(now), now)
	if err != nil {
		t.Fatal(err)
	}
	p.bucket = bucket
	return p
}

// stream returns the queue, over a client of its own.
// everybody is a directory in which users 1 to 1,000,000 exist.
type everybody struct{}

func (everybody) Exists(_ context.Context, row models.RowID) (bool, error) {
	return row <= 1_000_000, nil
}

func (f *fixture) targets() ingest.Targets {
	return ingest.Targets{Buckets: f.catalog.Buckets, Users: everybody{}}
}

func (f *fixture) stream() *ingest.Stream {
	return ingest.NewStream(stores.OpenRedis(f.env.Config.Redis), f.env.Keys, f.options)
}

func (f *fixture) consumer(q ingest.Queue, boards ingest.Entries) *ingest.Consumer {
	return ingest.NewConsumer(ingest.ConsumerOptions{
		Queue: q, Targets: f.targets(), Entries: boards, DeadLetters: f.deadLetters, Clock: f.env.Clock.Now, Log: f.env.Log,
		Interval: time.Millisecond, Batch: 1000, Registry: prometheus.NewRegistry(),
	})
}

// run runs a consumer until stop is called, which waits for its end.
func (f *fixture) run(c *ingest.Consumer) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) update(user models.RowID, points int64) ingest.Update {
	return ingest.Update{Board: "steps", Bucket: f.bucket.Name, User: user, Score: points, ReachedAt: models.TimestampOf(f.bucket.StartsAt) + models.Timestamp(points)}
}

func (f *fixture) append(q ingest.Queue, updates ...ingest.Update) {
	f.t.Helper()
	for _, err := range q.Append(f.t.Context(), updates) {
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// scores returns the scores of the board.
func (f *fixture) scores() map[models.RowID]int64 {
	f.t.Helper()
	w, err := f.boards.Window(f.t.Context(), f.bucket, board.Top, 0, 100_000)
	if err != nil {
		f.t.Fatal(err)
	}
	scores := make(map[models.RowID]int64)
	for _, e := range w.Behind {
		points, _ := score.Of(f.bucket).Decode(e.Composite)
		scores[e.User] = f.bucket.Score(points)
	}
	return scores
}

// drained waits until everything is acknowledged.
func (f *fixture) drained(q ingest.Queue) {
	f.t.Helper()
	testenv.Eventually(f.t, "the queue is drained", func() bool {
		lag, err := q.Lag(f.t.Context())
		return err == nil && lag.Messages == 0
	})
}

// All appended updates reach the boards, which hold the largest total of each
// user.
func TestAStreamReachesTheBoards(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env)
	q := ingest.NewStream(stores.OpenRedis(p.redis()), env.Keys, p.options)
	defer q.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	want := make(map[models.RowID]int64)
	var updates []ingest.Update
	for range 3000 {
		u := p.update(models.RowID(1+rng.IntN(200)), rng.Int64N(1000))
		want[u.User] = max(want[u.User], u.Score)
		updates = append(updates, u)
	}
	for i := 0; i < len(updates); i += 100 {
		p.append(q, updates[i:i+100]...)
		if i%1000 == 0 {
			p.append(q, updates[max(0, i-100):i+1]...) // again
		}
	}
	stop := p.run(p.consumer(q, p.boards))
	p.drained(q)
	stop()
	if got := p.scores(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the board holds\n%v, want\n%v", got, want)
	}
}

// redis returns the settings of the test's Redis.
func (f *fixture) redis() (cfg config.Redis) {
	cfg = f.env.Config.Redis
	if rdb, ok := f.env.Redis.(*redis.Client); ok {
		cfg.Addrs = []string{rdb.Options().Addr}
	}
	return cfg
}

// failing is a store of boards that fails until the test restores it.
type failing struct {
	board.Entries
	mu    sync.Mutex
	tries int
	back  bool
}

func (f *failing) Raise(ctx context.Context, raises []models.Raise) []error {
	f.mu.Lock()
	f.tries++
	back := f.back
	f.mu.Unlock()
	if !back {
		errs := make([]error, len(raises))
		for i := range errs {
			errs[i] = models.Unavailable("raise", errors.New("away"))
		}
		return errs
	}
	return f.Entries.Raise(ctx, raises)
}

// While the boards are away the consumer waits, loses nothing, and makes no
// dead letters.
func TestAConsumerWaitsForTheBoards(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Real(t))
	q := p.stream()
	defer q.Close()
	p.append(q, p.update(1, 5), p.update(2, 6))
	away := &failing{Entries: p.boards}
	p.run(p.consumer(q, away))
	testenv.Eventually(t, "it tries again", func() bool {
		away.mu.Lock()
		defer away.mu.Unlock()
		return away.tries > 2
	})
	if lag, err := q.Lag(t.Context()); err != nil || lag.Messages != 2 {
		t.Errorf("lag %+v, %v", lag, err)
	}
	away.mu.Lock()
	away.back = true
	away.mu.Unlock()
	p.drained(q)
	if got := p.scores(); len(got) != 2 || got[1] != 5 || got[2] != 6 {
		t.Errorf("the board holds %v", got)
	}
	if deadLetters, err := (&ingest.DeadLetters{Store: p.deadLetters, Targets: p.targets(), Entries: p.boards, Records: testenv.Numbers{}}).List(t.Context(), ingest.DeadLetterQuery{Limit: 10}); err != nil || len(deadLetters) != 0 {
		t.Errorf("dead letters %v, %v", deadLetters, err)
	}
}

// Messages that can't be applied become dead letters, once, and block no
// others.
func TestInvalidMessagesBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env)
	q := p.stream()
	defer q.Close()
	gone := p.update(3, 1)
	gone.Bucket = "20200101"
	tooMuch := p.update(4, 1)
	tooMuch.Score = 200_000
	early := p.update(5, 1)
	early.ReachedAt = 0
	p.append(q, p.update(1, 5), gone, tooMuch, early, p.update(2, 6))
	for _, values := range []any{map[string]any{"n": 1, "c": 6, "u": "garbage"}, map[string]any{"x": "y"}} {
		if err := env.Redis.XAdd(t.Context(), &redis.XAddArgs{Stream: env.Keys.IngestStream(), Values: values}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p.append(q, p.update(7, 7))
	stop := p.run(p.consumer(q, p.boards))
	p.drained(q)
	stop()
	if got := p.scores(); len(got) != 3 || got[1] != 5 || got[2] != 6 || got[7] != 7 {
		t.Errorf("the board holds %v", got)
	}
	service := &ingest.DeadLetters{Store: p.deadLetters, Targets: p.targets(), Entries: p.boards, Records: testenv.Numbers{}}
	deadLetters, err := service.List(t.Context(), ingest.DeadLetterQuery{Limit: 10})
	if err != nil || len(deadLetters) != 5 {
		t.Fatalf("dead letters %+v, %v", deadLetters, err)
	}
	shown := make(map[models.UserID]models.QueuedUpdate)
	for _, l := range deadLetters {
		if l.Update != nil {
			shown[l.Update.User] = *l.Update
		}
		if l.Reason == "" || l.Position == "" || l.QueuedAt.IsZero() || !l.FailedAt.Equal(testenv.Noon) {
			t.Errorf("letter %+v", l)
		}
		if err := service.Replay(t.Context(), l.ID, false); models.CodeOf(err) != models.CodeValidationFailed {
			t.Errorf("replayed %q: %v", l.Reason, err)
		}
	}
	if u := shown["3"]; len(shown) != 3 || u.Bucket != gone.Bucket || u.Board != gone.Board || u.Score != 1 || u.ReachedAt != gone.ReachedAt {
		t.Errorf("updates %+v", shown)
	}
	checkSelection(t, service, gone.Bucket)
	// Its bucket appears: then it can be applied, once.
	old := *p.bucket
	old.Name, old.StartsAt, old.ColdAt = "20200101", p.bucket.StartsAt.Add(-time.Hour), p.bucket.ColdAt
	if err := env.Gorm.Create(&old).Error; err != nil {
		t.Fatal(err)
	}
	var replayed int
	for _, l := range deadLetters {
		if err := service.Replay(t.Context(), l.ID, false); err == nil {
			replayed++
		}
	}
	rest, err := service.List(t.Context(), ingest.DeadLetterQuery{Limit: 10})
	if err != nil || replayed != 1 || len(rest) != 4 {
		t.Errorf("%d replayed, %d left, %v", replayed, len(rest), err)
	}
	for _, l := range rest {
		if err := service.Delete(t.Context(), l.ID, false); err != nil {
			t.Error(err)
		}
	}
	if err := service.Replay(t.Context(), rest[0].ID, false); models.CodeOf(err) != models.CodeNotFound {
		t.Errorf("replayed a deleted dead letter: %v", err)
	}
}

// checkSelection selects among five dead letters that can't be applied, one of the bucket
// and two of the board's other bucket.
func checkSelection(t *testing.T, service *ingest.DeadLetters, bucket string) {
	t.Helper()
	list := func(q ingest.DeadLetterQuery) []models.DeadLetter {
		t.Helper()
		q.Limit = 10
		return testenv.Must(service.List(t.Context(), q))
	}
	one := list(ingest.DeadLetterQuery{Board: "steps", Bucket: bucket})
	if len(one) != 1 || one[0].Bucket != bucket {
		t.Fatalf("of the bucket: %+v", one)
	}
	same := list(ingest.DeadLetterQuery{Reason: one[0].Reason})
	if len(same) != 1 || len(list(ingest.DeadLetterQuery{Board: "steps"})) != 3 || len(list(ingest.DeadLetterQuery{Board: "other"})) != 0 {
		t.Errorf("with the reason: %+v", same)
	}
	all := list(ingest.DeadLetterQuery{})
	for _, dryRun := range []bool{true, false} {
		h, err := service.ReplaySelected(t.Context(), ingest.DeadLetterQuery{Limit: 2}, dryRun)
		if want := (ingest.HandledDeadLetters{Failed: 2, Last: all[1].ID}); h != want || err != nil {
			t.Errorf("replayed %+v, %v, want %+v", h, err, want)
		}
	}
	h, err := service.DeleteSelected(t.Context(), ingest.DeadLetterQuery{Before: all[1].ID, Limit: 10}, true)
	if want := (ingest.HandledDeadLetters{Done: 3}); h != want || err != nil || len(list(ingest.DeadLetterQuery{})) != 5 {
		t.Errorf("would delete %+v, %v, want %+v", h, err, want)
	}
	if err := service.Delete(t.Context(), all[0].ID, true); err != nil {
		t.Error(err)
	}
	if err := service.Delete(t.Context(), all[0].ID+100, true); models.CodeOf(err) != models.CodeNotFound {
		t.Errorf("would delete one that does not exist: %v", err)
	}
}

// Dead letters are applied and deleted together, and each replay can be tried first.
func TestDeadLettersOfAFilter(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		service := &ingest.DeadLetters{Store: f.deadLetters, Targets: f.targets(), Entries: f.boards, Records: testenv.Numbers{}}
		var written []models.DeadLetter
		for user := models.RowID(1); user <= 5; user++ {
			u := f.update(user, 10*int64(user))
			if user > 3 {
				u.Bucket = "20200101"
			}
			written = append(written, models.DeadLetter{
				Position: string(rune('a' + user)), Reason: "r", Board: u.Board, Bucket: u.Bucket, Payload: u.AppendTo(nil),
				QueuedAt: testenv.Noon, FailedAt: testenv.Noon,
			})
		}
		if err := f.deadLetters.Write(t.Context(), written); err != nil {
			t.Fatal(err)
		}
		all := ingest.DeadLetterQuery{Board: "steps", Limit: 10}
		for _, dryRun := range []bool{true, false} {
			if got := len(f.scores()); got != 0 {
				t.Fatalf("the board holds %d scores", got)
			}
			h, err := service.ReplaySelected(t.Context(), all, dryRun)
			if want := (ingest.HandledDeadLetters{Done: 3, Failed: 2}); h != want || err != nil {
				t.Errorf("replayed %+v, %v, want %+v", h, err, want)
			}
		}
		if got := f.scores(); len(got) != 3 || got[1] != 10 || got[3] != 30 {
			t.Errorf("the board holds %v", got)
		}
		all.Bucket, all.Limit = "20200101", 1
		h, err := service.DeleteSelected(t.Context(), all, false)
		if rest := testenv.Must(service.List(t.Context(), ingest.DeadLetterQuery{Limit: 10})); h.Done != 1 || h.Last == 0 || err != nil || len(rest) != 1 {
			t.Errorf("deleted %+v, %v, left %v", h, err, rest)
		}
		all.Before = h.Last
		h, err = service.DeleteSelected(t.Context(), all, false)
		if want := (ingest.HandledDeadLetters{Done: 1}); h != want || err != nil {
			t.Errorf("deleted %+v, %v, want %+v", h, err, want)
		}
	})
}

// A consumer that died is taken over from.
func TestWhatADeadConsumerHeldIsTakenOver(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Real(t))
	p.options.ClaimAfter = time.Millisecond
	dead := p.stream()
	p.append(dead, p.update(1, 5))
	if d, err := dead.Receive(t.Context(), 10); err != nil {
		t.Fatal(err)
	} else if len(d.Messages) == 0 { // the group was made
		if d, err = dead.Receive(t.Context(), 10); err != nil || len(d.Messages) != 1 {
			t.Fatalf("received %v, %v", d, err)
		}
	}
	q := p.stream()
	defer q.Close()
	p.run(p.consumer(q, p.boards))
	p.drained(q)
	if got := p.scores(); got[1] != 5 {
		t.Errorf("the board holds %v", got)
	}
	dead.Close()
}

// A stream takes only so much, and says so.
func TestAFullStreamRefuses(t *testing.T) {
	t.Parallel()
	p := newFixture(t, testenv.Real(t))
	p.options.MaxUpdates = 3
	q := p.stream()
	defer q.Close()
	p.append(q, p.update(1, 1), p.update(2, 1), p.update(3, 1))
	errs := q.Append(t.Context(), []ingest.Update{p.update(4, 1)})
	if len(errs) != 1 || errs[0] == nil {
		t.Fatalf("a full stream answered %v", errs)
	}
	w := ingest.Queued(q, func(store ingest.Store) ingest.Store { return store })
	defer w.Close()
	entry := models.Entry{User: 4, Composite: 1 << 30}
	errs = w.Raise(t.Context(), []models.Raise{{Bucket: p.bucket, Entry: entry}})
	if len(errs) != 1 || models.CodeOf(errs[0]) != models.CodeUnavailable {
		t.Errorf("the upload is answered %v", errs)
	}
}

// A Redis that was emptied, or has restarted, gets every update again.
func TestReplayAfterALoss(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env)
	q := p.stream()
	defer q.Close()
	recovery := p.recovery(q, p.boards)
	recoverOnce := func() {
		t.Helper()
		if _, err := recovery.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	recoverOnce() // a Redis that was never seen
	p.append(q, p.update(1, 5), p.update(2, 6))
	stop := p.run(p.consumer(q, p.boards))
	p.drained(q)
	stop()
	recoverOnce()

	forget := func() {
		t.Helper()
		if err := env.Redis.Del(t.Context(), env.Keys.Board(p.bucket, 0)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	recoverOnce()
	if got := p.scores(); len(got) != 0 {
		t.Errorf("the same server gets %v again", got)
	}
	// Another server says so by its run id.
	if err := env.Redis.HSet(t.Context(), env.Keys.LossCheckpoint("queue", 0), "server", "another").Err(); err != nil {
		t.Fatal(err)
	}
	recoverOnce()
	if got := p.scores(); len(got) != 2 || got[1] != 5 || got[2] != 6 {
		t.Errorf("after a restart the board holds %v", got)
	}
	forget()
	if err := env.Redis.Del(t.Context(), env.Keys.LossCheckpoint("queue", 0)).Err(); err != nil {
		t.Fatal(err)
	}
	recoverOnce()
	if got := p.scores(); len(got) != 2 {
		t.Errorf("after a flush the board holds %v", got)
	}
}
