package archive_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// archiveWorld is an archive whose process may die, and a model of what it must show of one day.
type archiveWorld struct {
	t      *testing.T
	rng    *rand.Rand
	bucket *models.Bucket
	db     *gorm.DB
	clock  *testenv.Clock
	// open returns the service of a new process, which may die or not; raise and remove are what the
	// hot store does.
	open   func(mayDie bool) *archive.Service
	raise  func(entries ...models.Entry)
	remove func(user models.RowID)
	// local is nil if the hot store is Redis. Then nothing dies.
	local *localFixture

	service  *archive.Service // may die
	other    *archive.Service // of a process that does not
	archived bool
	// reported has the largest composite that each user has reported, and held the corrections
	// that hold. nobodies are the composites of users who were erased after the day was archived.
	reported map[models.RowID]models.Composite
	held     map[models.RowID]models.Composite
	pending  map[models.RowID]bool
	erased   map[models.RowID]bool
	erasing  models.RowID // whose erasure has begun during a run; 0 if there is none
	nobodies []models.Composite
	runs     int
}

// entry returns an entry of one of few users, with one of few scores and moments.
func (w *archiveWorld) entry() models.Entry {
	for {
		user := models.RowID(1 + w.rng.Int64N(60)*w.rng.Int64N(7))
		if !w.erased[user] {
			return entry(w.t, w.bucket, user, w.bucket.Score(models.Points(w.rng.Int64N(6))), w.bucket.StartsAt.Add(time.Duration(w.rng.IntN(2))*time.Second))
		}
	}
}

func (w *archiveWorld) report(n int) {
	entries := make([]models.Entry, n)
	for i := range entries {
		entries[i] = w.entry()
		w.reported[entries[i].User] = max(w.reported[entries[i].User], entries[i].Composite)
	}
	w.raise(entries...)
}

// correct makes a correction of a user who has none.
func (w *archiveWorld) correct() {
	user := w.entry().User
	best, known := w.reported[user]
	if _, corrected := w.held[user]; corrected || !known {
		return
	}
	points, at := score.Of(w.bucket).Decode(best)
	before := at.Time()
	c := models.Correction{
		Board: w.bucket.Board, Bucket: &w.bucket.Name, Day: w.bucket.Day, User: user, Kind: models.CorrectionExclude,
		BeforePoints: &points, BeforeAt: &before, CreatedAt: w.clock.Now(), Hot: !w.complete(),
	}
	w.held[user] = 0
	if w.rng.IntN(2) == 0 {
		set := models.Points(w.rng.Int64N(int64(points) + 1))
		c.Kind, c.Points, c.ReachedAt = models.CorrectionSet, &set, &before
		w.held[user] = entry(w.t, w.bucket, user, w.bucket.Score(set), before).Composite
	}
	w.exec(w.db.Create(&c))
	w.pend(user)
}

// complete reports whether the bucket is archived at this moment, also during a run.
func (w *archiveWorld) complete() bool {
	return testenv.Must(w.open(false).Complete(w.t.Context(), w.bucket))
}

// pend records that the archive has to apply a correction of a user.
func (w *archiveWorld) pend(user models.RowID) {
	if !w.complete() {
		return
	}
	w.pending[user] = true
	w.exec(w.db.Exec(`INSERT INTO pending_corrections (board, bucket, correction_id)
		SELECT board, bucket, max(id) FROM corrections WHERE user_id = ? GROUP BY board, bucket ON CONFLICT DO NOTHING`, user))
}

func (w *archiveWorld) lift() {
	for user := range w.held {
		w.exec(w.db.Exec(`UPDATE corrections SET lifted_at = ? WHERE user_id = ? AND lifted_at IS NULL`, w.clock.Now(), user))
		delete(w.held, user)
		w.pend(user)
		return
	}
}

// beginErasing begins the erasure of a user without a correction.
func (w *archiveWorld) beginErasing() (user models.RowID) {
	user = w.entry().User
	if _, corrected := w.held[user]; corrected || w.pending[user] || w.erasing != 0 {
		return 0
	}
	w.exec(w.db.Exec(`INSERT INTO erasures (row_id, user_hash, begun_at, finished_at, sweeps, removed, requests_sent, hidings, moved)
		VALUES (?, ?, ?, ?, 0, 0, 0, 0, ?)`, user, fmt.Append(nil, user), w.clock.Now(), w.clock.Now(), false))
	w.erased[user] = true
	delete(w.reported, user)
	return user
}

// sweep is a sweep of an erasure. It returns false if another one has to follow.
func (w *archiveWorld) sweep(user models.RowID, erase func() (int64, error)) (done bool) {
	has := func() models.Composite {
		return testenv.Must(w.other.Composites(w.t.Context(), w.bucket, []models.RowID{user}))[0]
	}
	w.remove(user)
	before := has()
	changed, err := erase()
	w.exec(w.db.Exec(`DELETE FROM reported_scores WHERE user_id = ?`, user))
	if before > 0 && has() == 0 {
		w.nobodies = append(w.nobodies, before)
	}
	return changed == 0 && err == nil
}

// erase erases a user: it repeats its sweeps until nothing is left.
func (w *archiveWorld) erase() {
	user := w.beginErasing()
	if user == 0 {
		return
	}
	for crash := w.crashAt(); ; crash = 0 {
		done := w.sweep(user, func() (int64, error) {
			return w.mayDie(crash, nil, func() (int64, error) { return w.service.Erase(w.t.Context(), user) })
		})
		if done {
			return
		}
		if w.local != nil && w.local.count(`SELECT count(*) FROM archive_versions WHERE state = 'building'`) > 0 {
			w.archive() // a run that was cut off is begun anew
		}
	}
}

// meanwhile happens during a run.
func (w *archiveWorld) meanwhile() {
	switch w.rng.IntN(4) {
	case 0:
		w.correct()
	case 1:
		w.lift()
	case 2:
		if w.erasing == 0 {
			w.erasing = w.beginErasing()
		}
		if w.erasing != 0 {
			w.sweep(w.erasing, func() (int64, error) { return w.other.Erase(w.t.Context(), w.erasing) })
		}
	default:
		w.report(3)
	}
}

// crashAt returns the number of an operation at which the process dies, or 0.
func (w *archiveWorld) crashAt() int {
	if w.local == nil || w.rng.IntN(3) == 0 {
		return 0
	}
	return 1 + w.rng.IntN(60)
}

// mayDie calls fn in a process that may die at one of its operations. before is called before one
// operation. Another process takes its place.
func (w *archiveWorld) mayDie(crashAt int, before func(), fn func() (int64, error)) (n int64, err error) {
	if w.local == nil {
		return fn()
	}
	w.local.db.arm(crashAt, before)
	n, err = fn()
	w.local.db.arm(0, nil)
	if err != nil {
		if !errors.Is(err, errCrash) && crashAt == 0 {
			w.t.Fatal(err)
		}
		w.service = w.open(true)
	}
	return n, err
}

// archive makes runs until one does not die, and checks what is shown then.
func (w *archiveWorld) archive() {
	w.t.Helper()
	for crash := w.crashAt(); ; crash = 0 {
		at, passed := 1+w.rng.IntN(60), 0
		meanwhile := func() {
			if passed++; passed == at {
				w.meanwhile()
			}
		}
		shown, nobodies := w.shown(), len(w.nobodies)
		_, err := w.mayDie(crash, meanwhile, func() (int64, error) {
			run, err := w.service.Archive(w.t.Context(), w.bucket, func(int64) {})
			if err == nil {
				w.runs = run.Run
			}
			return run.Moved, err
		})
		if err == nil {
			break
		}
		if len(w.nobodies) == nobodies {
			w.checkNothingIsLost(shown)
		}
	}
	if w.erasing != 0 {
		testenv.Eventually(w.t, "nothing of the erased user is left", func() bool {
			return w.sweep(w.erasing, func() (int64, error) { return w.other.Erase(w.t.Context(), w.erasing) })
		})
		w.erasing = 0
	}
	// What was reported and corrected during the run is archived, too.
	run, err := w.service.Archive(w.t.Context(), w.bucket, func(int64) {})
	if err != nil {
		w.t.Fatal(err)
	}
	w.runs = run.Run
	w.archived = true
	clear(w.pending)
	w.check()
}

// expected returns the rows that the archive must have. Those of nobody have user 0.
func (w *archiveWorld) expected() (rows []models.Entry) {
	for user, c := range w.reported {
		if set, corrected := w.held[user]; corrected {
			c = set
		}
		if c > 0 {
			rows = append(rows, models.Entry{User: user, Composite: c})
		}
	}
	for _, c := range w.nobodies {
		rows = append(rows, models.Entry{Composite: c})
	}
	return rows
}

func (w *archiveWorld) shown() []models.Entry {
	w.t.Helper()
	return testenv.Must(w.other.Window(w.t.Context(), w.bucket, board.Top, 0, 10_000)).Behind
}

// check compares what is shown and stored with the model.
func (w *archiveWorld) check() {
	w.t.Helper()
	shown := w.shown()
	if !slices.IsSortedFunc(shown, models.Entry.Compare) {
		w.t.Errorf("not in the order of ranks: %v", shown)
	}
	got := slices.Clone(shown)
	for i := range got {
		if got[i].User >= models.FirstNobody {
			got[i].User = 0
		}
	}
	want := w.expected()
	slices.SortFunc(got, models.Entry.Compare)
	slices.SortFunc(want, models.Entry.Compare)
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
		w.t.Fatalf("rows (-want +got):\n%s", diff)
	}
	var run models.ArchiveRun
	w.exec(w.db.Order("run DESC").Take(&run, "board = ? AND bucket = ?", w.bucket.Board, w.bucket.Name))
	if hash := archive.HashOf(w.bucket, shown); run.Hash != hash || run.Entries != int64(len(shown)) {
		w.t.Errorf("run %+v, want hash %d of %d rows", run, hash, len(shown))
	}
	for _, e := range shown[:min(3, len(shown))] {
		days := testenv.Must(w.service.Days(w.t.Context(), w.bucket.Board, e.User, w.bucket.Day, w.bucket.Day))
		points, at := score.Of(w.bucket).Decode(e.Composite)
		if rank := int64(slices.Index(shown, e) + 1); days[0].Rank != rank || days[0].Points != points || days[0].ReachedAt != at {
			w.t.Errorf("the history has %+v, want rank %d, %d at %v", days[0], rank, points, at)
		}
	}
	if due := testenv.Must(w.service.Due(w.t.Context())); len(due) > 0 {
		w.t.Errorf("due: %v", due)
	}
	if w.local != nil {
		n := int64(len(shown))
		for query, want := range map[string]int64{
			`SELECT count(*) FROM hot_scores`: 0, `SELECT count(*) FROM archive_versions`: 1,
			`SELECT count(*) FROM archived_scores`: n, `SELECT count(*) FROM archived_ranks`: n,
			`SELECT count(*) FROM archived_scores s JOIN archived_ranks r USING (version, rank, user_id)`: n,
		} {
			if got := w.local.count(query); got != want {
				w.t.Errorf("%s: %d, want %d", query, got, want)
			}
		}
	}
}

// checkNothingIsLost checks, after a process has died, that readers see what they have seen before
// or all of a new run, and that the next run will find everything.
func (w *archiveWorld) checkNothingIsLost(before []models.Entry) {
	w.t.Helper()
	now := w.shown()
	if complete := testenv.Must(w.service.Complete(w.t.Context(), w.bucket)); complete {
		var run models.ArchiveRun
		w.exec(w.db.Order("run DESC").Take(&run, "state = 'complete'"))
		if hash := archive.HashOf(w.bucket, now); run.Hash != hash || run.Entries != int64(len(now)) {
			w.t.Errorf("after a crash %d rows are shown, of a run of %d", len(now), run.Entries)
		}
		if run.Run > w.runs || !w.archived {
			w.archived, w.runs = true, max(w.runs, run.Run)
			clear(w.pending) // the run has applied them
		} else if !slices.Equal(before, now) {
			w.t.Errorf("after a crash %v are shown, before %v", now, before)
		}
	} else if len(now) > 0 {
		w.t.Errorf("%d rows of a run that was cut off are shown", len(now))
	}
	if !slices.Equal(withoutNobodies(now), w.withoutNobodies()) {
		if due := testenv.Must(w.service.Due(w.t.Context())); len(due) != 1 {
			w.t.Errorf("something is missing, but due is %v", due)
		}
	}
}

func withoutNobodies(rows []models.Entry) []models.Entry {
	rows = slices.DeleteFunc(slices.Clone(rows), func(e models.Entry) bool { return e.User == 0 || e.User >= models.FirstNobody })
	slices.SortFunc(rows, models.Entry.Compare)
	return rows
}

func (w *archiveWorld) withoutNobodies() []models.Entry { return withoutNobodies(w.expected()) }

func (w *archiveWorld) exec(db *gorm.DB) {
	w.t.Helper()
	if db.Error != nil {
		w.t.Fatal(db.Error)
	}
}

// play takes random steps, and archives the day at the end.
func (w *archiveWorld) play(steps int) {
	w.reported, w.held = make(map[models.RowID]models.Composite), make(map[models.RowID]models.Composite)
	w.pending, w.erased = make(map[models.RowID]bool), make(map[models.RowID]bool)
	w.service, w.other = w.open(true), w.open(false)
	w.report(w.rng.IntN(80))
	w.clock.Set(w.bucket.ColdAt.Add(time.Hour))
	for range steps {
		switch w.rng.IntN(7) {
		case 0, 1:
			w.report(1 + w.rng.IntN(20))
		case 2:
			w.correct()
		case 3:
			w.lift()
		case 4:
			w.erase()
		default:
			w.archive()
		}
	}
	w.archive()
}

// Whatever is reported, corrected, lifted and erased, and wherever a run dies, the archive shows
// what a simple model does, complete and in order, and leaves nothing behind.
func TestSoakTheArchiveEqualsAModel(t *testing.T) {
	t.Parallel()
	seed, seeds := uint64(time.Now().UnixNano()), uint64(testenv.Rounds(10, 300))
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		for i := range seeds {
			t.Run(fmt.Sprint(seed+i), func(t *testing.T) {
				order := []models.Order{models.OrderHigh, models.OrderLow}[(seed+i)%2]
				f := newOrderedFixture(t, t.TempDir(), "&_pragma=synchronous(off)", order)
				steady := &localDB{writer: f.db.writer, reader: f.db.reader}
				w := &archiveWorld{t: t, rng: rand.New(rand.NewPCG(seed+i, 1)), bucket: f.bucket, db: steady.gorm(), clock: f.clock, local: f}
				w.open = func(mayDie bool) *archive.Service {
					if !mayDie {
						return f.openSmall(w.db)
					}
					return f.openSmall(f.db.gorm())
				}
				w.raise = func(entries ...models.Entry) { f.raise(f.bucket, entries...) }
				w.remove = func(user models.RowID) { w.exec(w.db.Exec(`DELETE FROM hot_scores WHERE user_id = ?`, user)) }
				w.play(25)
			})
		}
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		testenv.Each(t, func(t *testing.T, env *testenv.Env) {
			if seed%2 == 1 {
				env.Config.Boards[0].Order = string(models.OrderLow)
			}
			f := newFixture(t, env, 2)
			w := &archiveWorld{t: t, rng: rand.New(rand.NewPCG(seed, 2)), bucket: f.today(), db: env.Gorm, clock: env.Clock}
			w.open = func(bool) *archive.Service { return f.archiveOver(f.boards) }
			w.raise = func(entries ...models.Entry) { f.raise(w.bucket, entries...) }
			w.remove = func(user models.RowID) {
				testenv.Must(f.boards.Remove(t.Context(), []*models.Bucket{w.bucket}, []models.RowID{user}))
			}
			w.play(25)
		})
	})
}
