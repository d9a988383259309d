package ranking_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
	"stepboard/services/rankings/ranking"
)

const (
	explainSteps = 70
	explainUsers = 3
)

// explainWorld is a world of a few users and days, in which anything happens in any order.
type explainWorld struct {
	*fixture

	rng         *rand.Rand
	corrections *corrections.Service
	ranking     *ranking.Service
	first, last models.Date
	// reported is the best of what was reported, by day and user.
	reported map[models.Date]map[models.RowID]ranking.TimedScore
	holds    []corrections.Entry
}

// An explanation agrees with what me, the history and the rankings show, and with what was reported and
// decided, also while a day is due or is to be archived again.
func TestExplanationsAgree(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, f *fixture) {
		w := newExplainWorld(f)
		for step := range explainSteps {
			w.step()
			if w.check(); t.Failed() {
				t.Fatalf("step %d", step)
			}
		}
		for len(w.holds) > 0 { // they would hold in the next world
			w.lift()
		}
		for day := w.first; day <= w.last; day++ {
			w.env.Clock.Set(day.UTC().Add(6 * 24 * time.Hour))
			w.archiveDay(day)
			w.check()
			for user := range models.RowID(explainUsers) {
				if e := w.explain(day, user+1); e.Changes {
					t.Errorf("after the last run of %v something is pending: %+v", day, e)
				}
			}
		}
	})
}

func newExplainWorld(f *fixture) *explainWorld {
	seed := rand.Uint64()
	f.t.Logf("seed %d", seed)
	w := &explainWorld{
		fixture: f, rng: rand.New(rand.NewPCG(seed, 0)), first: f.day(), last: f.day(),
		reported: make(map[models.Date]map[models.RowID]ranking.TimedScore),
	}
	o := f.options()
	w.corrections = corrections.New(corrections.Options{
		Store: corrections.NewStore(f.env.Gorm, f.env.Gorm, nil), Rules: f.rules, Catalog: f.catalog, Entries: f.boards, Archive: f.archive,
		Directory: f.users, Clock: f.env.Clock.Now, Log: f.env.Log,
	})
	o.Corrections = w.corrections
	w.ranking = ranking.New(o)
	f.befriend(1, 2, 3)
	return w
}

func (w *explainWorld) anyDay() models.Date {
	return w.first + models.Date(w.rng.IntN(int(w.last-w.first)+1))
}

func (w *explainWorld) anyUser() models.RowID { return models.RowID(1 + w.rng.IntN(explainUsers)) }

// step lets something happen.
func (w *explainWorld) step() {
	w.env.Clock.Advance(time.Minute)
	switch n := w.rng.IntN(20); {
	case n < 9:
		w.report(w.anyDay(), w.anyUser())
	case n < 13:
		w.correct(w.anyDay(), w.anyUser())
	case n < 15:
		w.lift()
	case n < 17:
		if w.last-w.first < 6 {
			w.last++
			w.env.Clock.Set(w.last.UTC().Add(4 * time.Hour))
		}
	default:
		w.archiveDay(w.anyDay())
	}
}

// report is what reaches a board, as late as it may be.
func (w *explainWorld) report(day models.Date, user models.RowID) {
	at := day.UTC().Add(time.Duration(w.rng.IntN(86_400)) * time.Second)
	if now := w.env.Clock.Now(); at.After(now) {
		at = now
	}
	s := ranking.TimedScore{Score: int64(w.rng.IntN(50)), ReachedAt: models.TimestampOf(at)}
	w.raise(day, user, s.Score, at)
	if w.reported[day] == nil {
		w.reported[day] = make(map[models.RowID]ranking.TimedScore)
	}
	before, ok := w.reported[day][user]
	if !ok || s.Score > before.Score || s.Score == before.Score && s.ReachedAt < before.ReachedAt {
		w.reported[day][user] = s
	}
}

func (w *explainWorld) correct(day models.Date, user models.RowID) {
	r := corrections.Request{Board: "steps", User: id(user), Kind: models.CorrectionExclude, Reason: "r", Message: "m", Actor: "ann"}
	switch w.rng.IntN(4) {
	case 0: // from today on
	case 1:
		r.Date = &day
	default:
		r.Date, r.Kind, r.Score = &day, models.CorrectionSet, new(int64(w.rng.IntN(50)))
	}
	c, err := w.corrections.Create(w.t.Context(), r)
	switch models.CodeOf(err) {
	case "":
		w.holds = append(w.holds, c)
	case models.CodeCorrectionExists, models.CodeCorrectionRaises, models.CodeNotFound:
	default:
		w.t.Fatal(err)
	}
}

func (w *explainWorld) lift() {
	if len(w.holds) == 0 {
		return
	}
	i := w.rng.IntN(len(w.holds))
	if _, err := w.corrections.Lift(w.t.Context(), corrections.Lifting{ID: w.holds[i].ID, Reason: "r", Actor: "ann"}); err != nil {
		w.t.Fatal(err)
	}
	w.holds = append(w.holds[:i], w.holds[i+1:]...)
}

func (w *explainWorld) archiveDay(day models.Date) {
	b := testenv.Must(w.catalog.Definitions.Board("steps"))
	bucket, err := w.catalog.Buckets.Find(w.t.Context(), b, day)
	if err == nil {
		_, err = w.archive.Archive(w.t.Context(), bucket, func(int64) {})
	}
	var known *models.Error
	if err != nil && (!errors.As(err, &known) || known.Code != models.CodeBucketHot) && len(w.reported[day]) > 0 {
		w.t.Fatal(err)
	}
}

func (w *explainWorld) explain(day models.Date, user models.RowID) *ranking.Explanation {
	w.t.Helper()
	q := query(user)
	q.Date = &day
	return testenv.Must(w.ranking.Explain(w.t.Context(), q))
}

// check compares the explanations of a user's scores with what is shown, and with what is known.
func (w *explainWorld) check() {
	w.t.Helper()
	user := w.anyUser()
	history := make(map[models.Date]ranking.TimedScore)
	h := testenv.Must(w.ranking.History(w.t.Context(), ranking.HistoryQuery{Board: "steps", Viewer: id(user), User: id(user), From: &w.first}))
	for _, d := range h.Days {
		history[d.Date] = ranking.TimedScore{Score: d.Score, ReachedAt: d.ReachedAt}
	}
	for day := w.first; day <= w.last; day++ {
		e := w.explain(day, user)
		shown := w.shown(day, user)
		if past, ok := history[day]; ok != (e.Score != nil) || ok && past != *e.Score {
			w.t.Errorf("%v of %v: the history has %v, and %+v is explained", day, user, past, e.Score)
		}
		if diff := cmp.Diff(shown, textOf(e)); diff != "" {
			w.t.Errorf("%v of %v: shown -, explained +:\n%s", day, user, diff)
		}
		w.checkKnown(e, day, user)
	}
}

// shown returns what me and the rankings say of a user's score, in the form of textOf.
func (w *explainWorld) shown(day models.Date, user models.RowID) string {
	w.t.Helper()
	q := query(user)
	q.Date = &day
	me := testenv.Must(w.ranking.Me(w.t.Context(), q))
	list := testenv.Must(w.ranking.Friends(w.t.Context(), q))
	if (list.Me == nil) != (me.Score == nil) || list.Me != nil && (list.Me.Score != *me.Score || list.Me.ReachedAt != *me.ReachedAt) {
		w.t.Errorf("%v of %v: me is %+v, and the ranking has %+v", day, user, me, list.Me)
	}
	text := "none"
	if me.Score != nil {
		text = fmt.Sprintf("%d at %v", *me.Score, *me.ReachedAt)
	}
	if me.Correction != nil {
		text += " " + string(*me.Correction)
	}
	return fmt.Sprintf("%s, final %t, archived %t", text, list.Final, list.Source == models.SourceArchive)
}

func textOf(e *ranking.Explanation) string {
	text := "none"
	if e.Score != nil {
		text = fmt.Sprintf("%d at %v", e.Score.Score, e.Score.ReachedAt)
	}
	switch {
	case e.Correction == nil:
	case e.Correction.Kind == models.CorrectionExclude:
		text += " excluded"
	default:
		text += " set"
	}
	return fmt.Sprintf("%s, final %t, archived %t", text, e.Final, e.Archived)
}

// checkKnown compares an explanation with what was reported and decided.
func (w *explainWorld) checkKnown(e *ranking.Explanation, day models.Date, user models.RowID) {
	w.t.Helper()
	var reported, next *ranking.TimedScore
	if s, ok := w.reported[day][user]; ok {
		reported, next = &s, &s
	}
	var held *corrections.Entry
	for i, c := range w.holds {
		if c.UserID == id(user) && (c.Day == day || c.Bucket == nil && day >= c.Day) {
			held = &w.holds[i]
		}
	}
	b := testenv.Must(w.catalog.Definitions.Board("steps"))
	if _, err := w.catalog.Buckets.Find(w.t.Context(), b, day); errors.Is(err, catalog.ErrNoBucket) {
		held = nil
	}
	if held != nil {
		next = nil
		if held.Score != nil {
			next = &ranking.TimedScore{Score: *held.Score, ReachedAt: models.TimestampOf(*held.ReachedAt)}
		}
	}
	if (e.Correction == nil) != (held == nil) || held != nil && (e.Correction.ID != held.ID || e.Correction.Message != "m") {
		w.t.Errorf("%v of %v: %+v holds, and %+v is explained", day, user, held, e.Correction)
	}
	got := e.Reported
	if got == nil {
		got = e.Score
	}
	if diff := cmp.Diff(reported, got); diff != "" {
		w.t.Errorf("%v of %v: reported -, explained +:\n%s", day, user, diff)
	}
	got = e.Score
	if e.Changes {
		got = e.Next
	}
	if diff := cmp.Diff(next, got); diff != "" {
		w.t.Errorf("%v of %v: to count -, explained +:\n%s", day, user, diff)
	}
}

// A day in the future and a board without days are refused; a day or a user that does not exist has no
// score.
func TestExplainNothing(t *testing.T) {
	t.Parallel()
	eachStores(t, func(t *testing.T, f *fixture) {
		w := newExplainWorld(f)
		q := query(1)
		q.Date = new(w.last + 1)
		if _, err := w.ranking.Explain(t.Context(), q); models.CodeOf(err) != models.CodeDateInFuture {
			t.Errorf("tomorrow: %v", err)
		}
		for _, day := range []models.Date{w.last, w.last - 400} {
			e := w.explain(day, 1)
			open := day == w.last
			if e.Score != nil || e.Reported != nil || e.Changes || e.Correction != nil || !e.Exists || e.Final == open || e.Date != day {
				t.Errorf("%v: %+v", day, e)
			}
			// Midnight in Shanghai, behind the days that are open.
			if until := (day + 3).UTC().Add(-8 * time.Hour); !e.OpenUntil.Equal(until) {
				t.Errorf("%v is open until %v, want %v", day, e.OpenUntil, until)
			}
		}
		q = query(1)
		q.Viewer = "nobody"
		if e := testenv.Must(w.ranking.Explain(t.Context(), q)); e.Exists || e.Score != nil {
			t.Errorf("nobody: %+v", e)
		}
	})
}
