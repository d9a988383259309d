package competitions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm/clause"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/corrections"
)

// expected describes the standing of a competition as the rule says, from one score after the other.
func (f *fixture) expected(c models.Competition) string {
	f.t.Helper()
	var hidden []models.RowID
	if err := f.env.Gorm.Raw("SELECT user_id FROM users WHERE hidden").Scan(&hidden).Error; err != nil {
		f.t.Fatal(err)
	}
	type sum struct {
		score, days, counted int64
		rose, least          models.Timestamp
		present              int
	}
	type key struct {
		user  models.RowID
		group models.GroupRow
	}
	persons, byTeam := make(map[key]*sum), make(map[models.GroupRow]*sum)
	for g := range models.GroupRow(groups) {
		byTeam[g+1] = new(sum)
	}
	now := testenv.Must(f.o.Catalog.Definitions.Board("steps")).Today(f.clock.Now())
	for _, m := range testenv.Must(f.o.Calls.Members(f.t.Context(), c.Row)) {
		if f.erased.Has(m.User) {
			continue
		}
		p := persons[key{m.User, m.Group}]
		if p == nil {
			p = new(sum)
			persons[key{m.User, m.Group}] = p
		}
		if m.Last == nil {
			p.present++
			byTeam[m.Group].present++
		}
		for day := c.First; day <= min(c.Last, now); day++ {
			if day < m.First || m.Last != nil && day > *m.Last {
				continue
			}
			byTeam[m.Group].counted++
			points, at, ok := f.of(m.User, day)
			if !ok || slices.Contains(hidden, m.User) {
				continue
			}
			if c.Measure == models.MeasureGoalDays {
				points = min(points/c.Goal, 1)
			} else if c.Cap > 0 {
				points = min(points, c.Cap)
			}
			for _, s := range []*sum{p, byTeam[m.Group]} {
				s.score += points
				s.days++
				if points > 0 {
					s.rose = max(s.rose, at)
				}
				if s.least == 0 || at < s.least {
					s.least = at
				}
			}
		}
	}
	mean := func(s *sum) *big.Rat {
		if c.Team == models.TeamSum || s.counted == 0 {
			return big.NewRat(s.score, 1)
		}
		return new(big.Rat).Mul(big.NewRat(s.score, s.counted), big.NewRat(int64(min(c.Last, now)-c.First+1), 1))
	}
	var lines []string
	var order []models.GroupRow
	for g := range byTeam {
		order = append(order, g)
	}
	slices.SortFunc(order, func(a, b models.GroupRow) int {
		return cmp.Or(mean(byTeam[b]).Cmp(mean(byTeam[a])), cmp.Compare(byTeam[a].rose, byTeam[b].rose), cmp.Compare(a, b))
	})
	for _, g := range order {
		whole := new(big.Int).Quo(mean(byTeam[g]).Num(), mean(byTeam[g]).Denom())
		lines = append(lines, fmt.Sprintf("%c %v of %d", 'a'+rune(g-1), whole, byTeam[g].present))
	}
	var listed []key
	for k, p := range persons {
		if p.days > 0 && p.present > 0 {
			if p.score == 0 {
				p.rose = p.least
			}
			listed = append(listed, k)
		}
	}
	slices.SortFunc(listed, func(a, b key) int {
		return cmp.Or(cmp.Compare(persons[b].score, persons[a].score), cmp.Compare(persons[a].rose, persons[b].rose),
			strings.Compare(strconv.Itoa(int(b.user)), strconv.Itoa(int(a.user))))
	})
	for _, k := range listed {
		lines = append(lines, fmt.Sprintf("%d in %c: %d on %d days", k.user, 'a'+rune(k.group-1), persons[k].score, persons[k].days))
	}
	return strings.Join(lines, "\n")
}

// shown describes the standing of a competition as a backend is shown it.
func (f *fixture) shown(c models.Competition) string {
	f.t.Helper()
	var lines []string
	q := Query{ID: c.ID, Limit: 2}
	for {
		page := testenv.Must(f.Teams(f.t.Context(), q))
		for i, l := range page.Entries {
			if want := len(lines) + 1; int(l.Rank) != want {
				f.t.Errorf("line %d of the page has rank %d, want %d", i, l.Rank, want)
			}
			lines = append(lines, fmt.Sprintf("%s %d of %d", l.Group, *l.Score, l.Members))
		}
		if page.NextCursor == nil {
			break
		}
		q.Cursor = *page.NextCursor
	}
	q.Cursor = ""
	rank := int64(0)
	for {
		page := testenv.Must(f.People(f.t.Context(), q))
		for _, l := range page.Entries {
			if rank++; l.Rank != rank {
				f.t.Errorf("rank %d, want %d", l.Rank, rank)
			}
			lines = append(lines, fmt.Sprintf("%s in %s: %d on %d days", l.User, l.Group, l.Score, l.Days))
		}
		if page.NextCursor == nil {
			return strings.Join(lines, "\n")
		}
		q.Cursor = *page.NextCursor
	}
}

// world changes what a competition is made of.
type world struct {
	*fixture
	random  *rand.Rand
	running []models.Competition
	applied []int64       // corrections that hold
	waiting []models.Hold // released totals that the writer has not taken
}

func (w *world) user() models.RowID { return models.RowID(1 + w.random.IntN(people)) }

// day returns a day that still takes uploads.
func (w *world) day() models.Date {
	b := testenv.Must(w.o.Catalog.Definitions.Board("steps"))
	return b.Today(w.clock.Now()) - models.Date(w.random.IntN(2))
}

func (w *world) step() {
	w.t.Helper()
	w.clock.Advance(time.Duration(1+w.random.IntN(5)) * time.Minute)
	switch n := w.random.IntN(100); {
	case n < 50:
		for range 6 {
			w.clock.Advance(time.Duration(w.random.IntN(2)) * time.Second)
			w.upload(w.user(), w.day(), int64(w.random.IntN(5)*2500))
		}
	case n < 65:
		c, today := w.running[w.random.IntN(len(w.running))], w.day()
		w.join(c, w.user(), models.GroupRow(w.random.IntN(groups+1)), today)
	case n < 72:
		w.exec("UPDATE users SET hidden = NOT hidden WHERE user_id = ?", w.user())
	case n < 82:
		w.correct()
	case n < 85:
		w.erase(w.user())
	default:
		w.nextDay()
	}
}

// correct makes or lifts a correction.
func (w *world) correct() {
	w.t.Helper()
	if len(w.applied) > 0 && w.random.IntN(3) == 0 {
		id := w.applied[0]
		w.applied = w.applied[1:]
		testenv.Must(w.corrections.Lift(w.t.Context(), corrections.Lifting{ID: id, Reason: "again", Actor: "op"}))
		return
	}
	day := w.day() - models.Date(w.random.IntN(4))
	r := corrections.Request{
		Board: "steps", Date: &day, User: models.UserID(strconv.Itoa(int(w.user()))), Kind: models.CorrectionExclude, Reason: "it was", Actor: "op",
	}
	if w.random.IntN(2) == 0 {
		r.Kind, r.Score = models.CorrectionSet, new(int64(w.random.IntN(3000)))
	}
	if made, err := w.corrections.Create(w.t.Context(), r); err == nil {
		w.applied = append(w.applied, made.ID)
	} else if models.CodeOf(err) == models.CodeUnavailable {
		w.t.Fatal(err)
	}
}

// meddle does what an operator does at any moment, also while standings are computed.
func (w *world) meddle() {
	switch n := w.random.IntN(4); {
	case n < 2:
		w.correct()
	case n == 2:
		w.releaseOne()
	default:
		w.writeReleased()
	}
}

// release releases a total that was held, which the writer takes later.
func (w *world) release(bucket *models.Bucket, user models.RowID, score int64) {
	w.t.Helper()
	h := models.Hold{
		Board: "steps", Bucket: bucket.Name, Day: bucket.Day, Row: user, Score: score, ReachedAt: models.TimestampOf(w.clock.Now()).Time(),
		HeldAt: w.clock.Now(), State: models.HoldReleased, DecidedAt: new(w.clock.Now()), DecidedBy: "op", Reason: "a test",
	}
	if w.env.Gorm.WithContext(w.t.Context()).Clauses(clause.OnConflict{DoNothing: true}).Create(&h).RowsAffected > 0 {
		w.waiting = append(w.waiting, h)
	}
}

// releaseOne releases a total of one of the last days.
func (w *world) releaseOne() {
	w.t.Helper()
	day, user := w.day()-models.Date(w.random.IntN(5)), w.user()
	b := testenv.Must(w.o.Catalog.Definitions.Board("steps"))
	bucket, err := w.o.Catalog.Buckets.Find(w.t.Context(), b, day)
	if !errors.Is(err, catalog.ErrNoBucket) && !w.erased.Has(user) {
		w.release(testenv.Must(bucket, err), user, int64(20_000+w.random.IntN(20_000)))
	}
}

// writeReleased does what the writer of released totals does.
func (w *world) writeReleased() {
	w.t.Helper()
	for _, h := range w.waiting {
		w.upload(h.Row, h.Day, h.Score)
		w.exec("UPDATE held_scores SET written_at = ? WHERE id = ?", w.clock.Now(), h.ID)
	}
	w.waiting = nil
}

// archive archives whatever is due.
func (w *world) archive() {
	w.t.Helper()
	for _, bucket := range testenv.Must(w.o.Archive.Due(w.t.Context())) {
		testenv.Must(w.o.Archive.Archive(w.t.Context(), bucket, func(int64) {}))
	}
}

// erase ends that a user exists, for competitions.
func (w *world) erase(user models.RowID) {
	w.t.Helper()
	w.erased.Add(user)
	testenv.Must(w.o.Jobs.Erase(w.t.Context(), user))
	if n := testenv.Must(w.o.Jobs.Erase(w.t.Context(), user)); n != 0 {
		w.t.Errorf("a second erasure has changed %d", n)
	}
}

// Every standing is what the rule makes of that moment's scores and of who counted when, and one that was
// lost comes back. A final one has whatever operators have done before, also while it was computed, and stays.
func TestStandingsFollowTheRule(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		testenv.Each(t, func(t *testing.T, env *testenv.Env) {
			w := &world{fixture: newFixture(t, env), random: rand.New(rand.NewPCG(seed, 1))}
			w.simulate()
		})
	}
}

func (w *world) simulate() {
	w.t.Helper()
	for i, c := range []models.Competition{
		{Measure: models.MeasureScore, Team: models.TeamMean, First: today - 1, Last: today + 6},
		{Measure: models.MeasureScore, Team: models.TeamSum, Cap: 6000, First: today + 1, Last: today + 4},
		{Measure: models.MeasureGoalDays, Goal: 5000, Team: models.TeamMean, First: today, Last: today + 3},
	} {
		c.ID, c.Name = models.CompetitionID(fmt.Sprint("c", i)), "Spring"
		c = w.define(c)
		w.running = append(w.running, c)
		for user := range models.RowID(people) {
			if group := models.GroupRow(w.random.IntN(groups + 1)); group != 0 {
				w.join(c, user+1, group, c.First)
			}
		}
	}
	finals := make(map[models.CompetitionID]string)
	meddles := false
	w.o.Rest = func(context.Context, time.Time, int) error {
		var made int64 // what operators do after that is not in them
		if meddles && w.random.IntN(6) == 0 && w.env.Gorm.Raw("SELECT count(*) FROM competitions WHERE revision > 0").Scan(&made).Error == nil && made == int64(len(finals)) {
			w.meddle()
		}
		return nil
	}
	for step := range 160 {
		w.step()
		if w.random.IntN(3) == 0 {
			w.meddle()
		}
		final := len(finals)
		if meddles = w.random.IntN(2) == 0; meddles { // between what the archive does and what the job does, or within that
			if w.random.IntN(2) == 0 {
				w.archive()
			}
			w.meddle()
			w.clock.Advance(time.Duration(w.random.IntN(3)) * time.Minute)
			testenv.Must(w.Run(w.t.Context()))
		} else {
			w.run()
		}
		settled := !meddles
		meddles = false
		w.clock.Advance(lookAgain)
		for _, c := range w.running {
			view := testenv.Must(w.Get(w.t.Context(), "", c.ID))
			if view.State == Final {
				if finals[c.ID] == "" {
					finals[c.ID] = w.shown(c)
				} else if view.Revision != 1 {
					w.t.Errorf("step %d: revision %d", step, view.Revision)
				}
				continue
			}
			if !settled {
				continue
			}
			if got, want := w.shown(c), w.expected(c); got != want {
				w.t.Fatalf("step %d, competition %s of %s %s:\n%s\nwant\n%s", step, c.ID, c.Measure, c.Team, got, want)
			}
		}
		if len(finals) > final { // whatever was left to be archived of its days would change it
			w.writeReleased()
			w.archive()
			for _, c := range w.running {
				if view := testenv.Must(w.Get(w.t.Context(), "", c.ID)); view.State == Final && view.AsOf.After(w.clock.Now().Add(-time.Minute)) {
					if want := w.expected(c); finals[c.ID] != want {
						w.t.Fatalf("step %d, competition %s is final as\n%s\nand its archived days say\n%s", step, c.ID, finals[c.ID], want)
					}
				}
			}
		}
		if w.random.IntN(10) == 0 {
			w.exec("DELETE FROM standings WHERE revision = 0")
		}
	}
	if len(finals) != len(w.running) {
		w.t.Errorf("%d competitions are final", len(finals))
	}
}
