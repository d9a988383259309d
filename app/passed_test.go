package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ingest"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/ranking"
)

// walkers is a random world of people who want to be told who has passed them.
type walkers struct {
	t      *testing.T
	env    *testenv.Env
	app    *app.App
	rounds map[string]func(context.Context) error
	random *rand.Rand
	people []models.UserID                  // those who were not erased
	zones  map[models.UserID]*time.Location // nil where it is not known
	// sights are all looks so far, by board and user, and told when each user was told.
	sights map[string][]walkerSight
	told   map[models.UserID][]time.Time
	last   int64            // the last delivery
	held   []int64          // corrections
	walked map[string]int64 // the totals by board, user and day
}

// walkerSight is a look at the ranking of a user, by the ranking that the user reads.
type walkerSight struct {
	day           string
	own           *models.RankedEntry // nil without a place
	ahead, behind []models.UserID
	told          bool
}

// passedNotice is what the outbox has of a notice.
type passedNotice struct {
	Board, Date string
	User        models.RowID
	Rank, Was   int
	By          []models.RowID
}

func newWalkers(t *testing.T, env *testenv.Env) *walkers {
	t.Helper()
	env.Config.Webhooks = []config.Webhook{{URL: "http://127.0.0.1:9/", Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}}
	own := env.Config.Boards[0]
	own.Name, own.TimeZone = "own", models.LocalZone
	env.Config.Boards = append(env.Config.Boards, own)
	people := testenv.IDs(1, 2, 3, 4, 5, 6)
	testenv.NumberUsers(t, env, len(people))
	a := build(t, env)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &walkers{
		t: t, env: env, app: a, rounds: a.StartByRounds(t.Context()), random: rand.New(rand.NewPCG(3, 1)),
		people: people, zones: make(map[models.UserID]*time.Location), sights: make(map[string][]walkerSight), told: make(map[models.UserID][]time.Time),
		walked: make(map[string]int64),
	}
	for i, zone := range []string{"", "Europe/Berlin", "Pacific/Honolulu", "Asia/Shanghai", "America/St_Johns", ""} {
		user := people[i]
		w.must(a.Notices.Put(t.Context(), user, notices.Choice{Tell: []models.Tell{models.TellPassed}, TimeZone: zone}))
		if zone != "" {
			w.zones[user] = testenv.Must(time.LoadLocation(zone))
		}
		w.befriend(user)
	}
	return w
}

func (w *walkers) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *walkers) must(_ any, err error) { w.t.Helper(); w.check(err) }

// befriend makes a user the friend of everybody whom it is possible to befriend.
func (w *walkers) befriend(user models.UserID) {
	w.t.Helper()
	others := slices.DeleteFunc(slices.Clone(w.people), func(other models.UserID) bool { return other == user })
	w.check(w.app.Friends.Replace(w.t.Context(), user, others))
}

// zone returns where a user is, on a board.
func (w *walkers) zone(user models.UserID, board string) *time.Location {
	if zone := w.zones[user]; zone != nil {
		return zone
	}
	return testenv.Must(w.app.Catalog.Definitions.Board(board)).Zone()
}

// day returns the day of a user on a board.
func (w *walkers) day(user models.UserID, board string) models.Date {
	if board == "steps" {
		return testenv.Must(w.app.Catalog.Definitions.Board(board)).Today(w.env.Clock.Now())
	}
	return models.DateOf(w.env.Clock.Now().In(w.zone(user, board)))
}

// act does something at random.
func (w *walkers) act() {
	w.t.Helper()
	ctx, a := w.t.Context(), w.app
	order := w.random.Perm(len(w.people))
	user, other := w.people[order[0]], w.people[order[1]]
	board := []string{"steps", "steps", "own"}[w.random.IntN(3)]
	switch w.random.IntN(24) {
	case 0:
		w.check(a.Privacy.SetHidden(ctx, user, w.random.IntN(3) == 0))
	case 1:
		kind := []models.ChoiceKind{models.HiddenFrom, models.Muted, models.Blocked}[w.random.IntN(3)]
		w.check(a.Privacy.Choose(ctx, user, kind, other))
	case 2, 3, 4:
		for _, kind := range []models.ChoiceKind{models.HiddenFrom, models.Muted, models.Blocked} {
			w.check(a.Privacy.Undo(ctx, user, kind, other))
		}
		w.befriend(user)
	case 5:
		w.correct(user, board)
	case 6:
		if len(w.held) > 0 {
			w.must(a.Corrections.Lift(ctx, corrections.Lifting{ID: w.held[0], Reason: "a test", Actor: "a test"}))
			w.held = w.held[1:]
		}
	default:
		day := w.day(user, board)
		walked := fmt.Sprint(board, user, day)
		w.walked[walked] += int64(w.random.IntN(10)) * 100
		_, _, err := a.Ingest.Accept(ctx, board, []ingest.Upload{{User: user, Date: day, Score: w.walked[walked]}})
		w.check(err)
	}
}

// correct lowers a score, or excludes its user for the day.
func (w *walkers) correct(user models.UserID, board string) {
	w.t.Helper()
	day, score := w.day(user, board), int64(w.random.IntN(10))*100
	r := corrections.Request{Board: board, Date: &day, User: user, Kind: models.CorrectionSet, Score: &score, Reason: "a test", Actor: "a test"}
	if w.random.IntN(3) == 0 {
		r.Kind, r.Score = models.CorrectionExclude, nil
	}
	made, err := w.app.Corrections.Create(w.t.Context(), r)
	switch models.CodeOf(err) {
	case models.CodeCorrectionExists, models.CodeCorrectionRaises, models.CodeNotFound:
	default:
		w.check(err)
		w.held = append(w.held, made.ID)
	}
}

// expected looks at the rankings that users read, and returns who must be told, by the definition.
func (w *walkers) expected() (want []passedNotice) {
	w.t.Helper()
	now := w.env.Clock.Now()
	for i, user := range w.people {
		for _, board := range []string{"own", "steps"} { // in the order of definitions
			day, key := w.day(user, board), board+" "+string(user)
			r, err := w.app.Ranking.Friends(w.t.Context(), ranking.Query{Board: board, Date: &day, Viewer: user, Limit: 200})
			w.check(err)
			s := walkerSight{day: day.String(), own: r.Me}
			for _, e := range r.Entries {
				switch {
				case r.Me == nil || e.User == user:
				case e.Rank < r.Me.Rank:
					s.ahead = append(s.ahead, e.User)
				default:
					s.behind = append(s.behind, e.User)
				}
			}
			w.sights[key] = append(w.sights[key], s)
			sights := w.sights[key]
			by := walkersWhoPassed(sights)
			if len(by) == 0 || !w.may(user, now.In(w.zone(user, board))) {
				continue
			}
			n := passedNotice{Board: board, Date: day.String(), User: models.RowID(i + 1), Rank: int(r.Me.Rank)}
			for _, other := range by[:min(3, len(by))] {
				n.By = append(n.By, testenv.Must(models.ParseRowID(string(other))))
			}
			before := len(sights) - 2
			for !sights[before].told && len(walkersWhoPassed(sights[:before+1])) > 0 {
				before--
			}
			n.Was = int(sights[before].own.Rank)
			want = append(want, n)
			sights[len(sights)-1].told = true
			w.told[user] = append(w.told[user], now)
		}
	}
	return want
}

// walkersWhoPassed is the definition: those who are ahead at the last of some sights, and were behind
// at an earlier one since the user was told last; in between they had a place of the same day, and the
// user's own score did not fall.
func walkersWhoPassed(sights []walkerSight) (passed []models.UserID) {
	now := len(sights) - 1
	for _, user := range sights[now].ahead {
		for k := now - 1; k >= 0; k-- {
			s, next := sights[k], sights[k+1]
			fell := s.own == nil || next.own == nil || next.own.Score < s.own.Score ||
				next.own.Score == s.own.Score && next.own.ReachedAt > s.own.ReachedAt
			if s.day != next.day || fell {
				break
			}
			if slices.Contains(s.behind, user) {
				passed = append(passed, user)
				break
			}
			if s.told || !slices.Contains(s.ahead, user) {
				break
			}
		}
	}
	return passed
}

// may reports whether a user may be told at a time where the user is.
func (w *walkers) may(user models.UserID, local time.Time) bool {
	today := 0
	for _, at := range w.told[user] {
		if local.Sub(at) < time.Hour {
			return false
		}
		if at.In(local.Location()).Format(time.DateOnly) == local.Format(time.DateOnly) {
			today++
		}
	}
	return today < 5 && local.Hour() >= 8 && local.Hour() < 22
}

// got returns the notices in the outbox that are new.
func (w *walkers) got() (list []passedNotice) {
	w.t.Helper()
	var rows []models.Delivery
	w.check(w.env.Gorm.Where("id > ? AND type = ?", w.last, models.OutcomeRankPassed).Order("id").Find(&rows).Error)
	for _, row := range rows {
		var n passedNotice
		w.check(json.Unmarshal([]byte(row.Payload), &n))
		list, w.last = append(list, n), row.ID
	}
	return list
}

// Whatever people do, each is told of whom the definition says, by the rankings that they read: with
// people who hide, mute, block and end friendships, with corrections and erasures, on days that end
// and in several time zones.
func TestWhoIsToldOfPassing(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		w := newWalkers(t, env)
		looks := 80
		if env.Pool == nil {
			looks = 160
		}
		notices, names := 0, 0
		for look := range looks {
			for range w.random.IntN(25) {
				w.act()
			}
			if look == looks*3/4 {
				w.must(w.app.Erasure.Begin(t.Context(), "6", false))
				w.check(w.rounds["erase"](t.Context()))
				w.people = w.people[:5]
			}
			want := w.expected()
			w.check(w.rounds["passed"](t.Context()))
			got := w.got()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("look %d at %v (-want +got):\n%s", look, env.Clock.Now(), diff)
			}
			notices += len(got)
			for _, n := range got {
				names += len(n.By)
			}
			env.Clock.Advance([]time.Duration{10 * time.Minute, 10 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour}[w.random.IntN(6)])
		}
		if notices < looks/10 || names == notices {
			t.Errorf("only %d notices with %d names", notices, names)
		}
		t.Logf("%d notices, %d names", notices, names)
	})
}
