package competitions

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
)

// pages describes all that a user is shown of a competition; an empty user is a backend.
func (f *fixture) pages(c models.Competition, user models.UserID) string {
	f.t.Helper()
	f.clock.Advance(lookAgain)
	var lines []string
	for _, t := range testenv.Must(f.Teams(f.t.Context(), Query{ID: c.ID, Viewer: user, Limit: 100})).Entries {
		score := "-"
		if t.Score != nil {
			score = strconv.FormatInt(*t.Score, 10)
		}
		lines = append(lines, fmt.Sprintf("%d. %s %s of %d", t.Rank, t.Group, score, t.Members))
	}
	for _, group := range []models.GroupID{"", "a", "b", "c"} {
		page, err := f.People(f.t.Context(), Query{ID: c.ID, Viewer: user, Group: group, Limit: 100})
		if models.CodeOf(err) == models.CodeForbidden {
			lines = append(lines, string(group)+": forbidden")
			continue
		}
		if err != nil {
			f.t.Fatal(err)
		}
		text := fmt.Sprintf("%s: %d", group, page.Total)
		for _, p := range page.Entries {
			text += fmt.Sprintf(", %d. %q in %q %d on %d", p.Rank, p.User, p.Group, p.Score, p.Days)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func (f *fixture) want(what, got, want string) {
	f.t.Helper()
	if got, want = strings.TrimSpace(got), strings.TrimSpace(want); got != want {
		f.t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// each puts users into teams from the first day on: as many as in the text, by their letters.
func (f *fixture) each(c models.Competition, in string) {
	f.t.Helper()
	for i, letter := range in {
		f.join(c, models.RowID(i+1), models.GroupRow(letter-'a'+1), c.First)
	}
}

// Whoever hides from everybody looks like one who has not walked, to everybody else and in every sum.
func TestWhoHidesMightAsWellNotHaveWalked(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		for i, rule := range []models.Competition{
			{Measure: models.MeasureScore, Team: models.TeamMean}, {Measure: models.MeasureScore, Team: models.TeamSum},
			{Measure: models.MeasureGoalDays, Goal: 3000, Team: models.TeamMean},
		} {
			rule.ID, rule.Name, rule.First, rule.Last = models.CompetitionID(fmt.Sprint(i)), "Spring", today-1, today+3
			c := f.define(rule)
			f.each(c, "aaabbbcc")
		}
		list := testenv.Must(f.o.Calls.All(t.Context()))
		for user := range models.RowID(7) {
			f.upload(user+1, today, int64(user)*1000)
		}
		describe := func() (text string) {
			f.run()
			for _, c := range list {
				for _, user := range []models.UserID{"", "1", "4", "7"} {
					text += f.pages(c, user) + "\n"
				}
			}
			return text
		}
		before := describe() // user 8 has not walked
		f.exec("UPDATE users SET hidden = true WHERE user_id = 8")
		f.upload(8, today, 90_000)
		f.upload(8, today-1, 20_000)
		f.want("hidden", describe(), before)
		f.exec("UPDATE users SET hidden = false WHERE user_id = 8")
		if describe() == before {
			t.Error("nothing shows who hides no more")
		}
		f.exec("UPDATE users SET hidden = true WHERE user_id = 8")
		var text string
		for _, c := range list { // without another run
			for _, user := range []models.UserID{"", "1", "4", "7"} {
				text += f.pages(c, user) + "\n"
			}
		}
		f.want("hidden again", text, before)
	})
}

// A choice between two people makes a line anonymous and no team tells whose it is. Sums stay. Where
// strangers are shown to nobody, only the own team's people and larger teams' scores are.
func TestWhoIsShown(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		c := f.define(models.Competition{ID: "spring", Name: "Spring", Measure: models.MeasureScore, Team: models.TeamSum, First: today, Last: today})
		f.each(c, "aabbbc")
		for user := range models.RowID(6) {
			f.upload(user+1, today, 1000-int64(user))
		}
		f.run()
		all := `
1. b 2991 of 3
2. a 1999 of 2
3. c 995 of 1
: 6, 1. "1" in "a" 1000 on 1, 2. "2" in "a" 999 on 1, 3. "3" in "b" 998 on 1, 4. "4" in "b" 997 on 1, 5. "5" in "b" 996 on 1, 6. "6" in "c" 995 on 1
a: 2, 1. "1" in "a" 1000 on 1, 2. "2" in "a" 999 on 1
b: 3, 3. "3" in "b" 998 on 1, 4. "4" in "b" 997 on 1, 5. "5" in "b" 996 on 1
c: 1, 6. "6" in "c" 995 on 1`
		f.want("a user", f.pages(c, "1"), all)
		f.want("a backend", f.pages(c, ""), all)
		if err := f.privacy.Choose(t.Context(), "4", models.HiddenFrom, "1"); err != nil {
			t.Fatal(err)
		}
		f.want("whom user 4 hides from", f.pages(c, "1"), strings.NewReplacer(`"4" in "b"`, `"" in ""`).Replace(strings.Replace(
			strings.Replace(all, `b: 3`, `b: 2`, 1), `, 4. "4" in "b" 997 on 1, 5. "5" in "b" 996 on 1
c`, `, 5. "5" in "b" 996 on 1
c`, 1)))
		if err := f.privacy.Undo(t.Context(), "4", models.HiddenFrom, "1"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.People(t.Context(), Query{ID: c.ID, Viewer: "9", Limit: 10}); models.CodeOf(err) != models.CodeNotFound {
			t.Errorf("somebody without a team: %v", err)
		}
		defs := env.Config.BoardDefinitions()
		defs[0].Global, defs[0].OpenDays, defs[0].Shards = models.AudienceService, 2, shards
		if err := f.o.Catalog.Definitions.Define(t.Context(), defs); err != nil {
			t.Fatal(err)
		}
		f.want("where only friends are shown", f.pages(c, "1"), `
1. b 2991 of 3
2. a 1999 of 2
3. c - of 1
: 2, 1. "1" in "a" 1000 on 1, 2. "2" in "a" 999 on 1
a: 2, 1. "1" in "a" 1000 on 1, 2. "2" in "a" 999 on 1
b: forbidden
c: forbidden`)
		f.want("a backend there", f.pages(c, ""), all)
		view := testenv.Must(f.Get(t.Context(), "2", c.ID))
		if view.Me == nil || view.Me.Rank != 2 || view.Me.Score != 999 || !view.Me.IsMe || view.MyTeam == nil || view.MyTeam.Rank != 2 || view.State != Running {
			t.Errorf("%+v %+v %+v", view, view.Me, view.MyTeam)
		}
	})
}

// Who was erased is in no list of a team, before the next standing is computed as after it.
func TestErasedPeopleAreInNoListOfATeam(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		c := f.define(models.Competition{ID: "spring", Name: "Spring", Measure: models.MeasureScore, Team: models.TeamSum, First: today - 1, Last: today + 1})
		f.each(c, "aab")
		for user := range models.RowID(3) {
			f.upload(user+1, today, 100)
		}
		f.run()
		listed := func() (n int) {
			f.clock.Advance(lookAgain)
			page := testenv.Must(f.People(t.Context(), Query{ID: c.ID, Group: "a", Limit: 10}))
			return len(page.Entries)
		}
		if n := listed(); n != 2 {
			t.Errorf("%d are listed", n)
		}
		f.exec("DELETE FROM users WHERE user_id = 1")
		f.erased.Add(1)
		if n := listed(); n != 1 {
			t.Errorf("%d are listed once one was erased", n)
		}
		f.run()
		if n := listed(); n != 1 {
			t.Errorf("%d are listed in the next standing", n)
		}
	})
}

// A competition is final when all its days are archived, once. It stays until an operator asks for more,
// but for the names of people who are erased or hide.
func TestFinal(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		c := f.define(models.Competition{ID: "spring", Name: "Spring", Measure: models.MeasureScore, Team: models.TeamMean, First: today - 1, Last: today + 1})
		if _, err := f.Teams(t.Context(), Query{ID: c.ID, Limit: 10}); models.CodeOf(err) != models.CodeUnavailable {
			t.Errorf("before the first run: %v", err)
		}
		f.each(c, "aabb")
		for user := range models.RowID(4) {
			f.upload(user+1, today, 100*int64(user+1))
		}
		for range 6 {
			f.run()
			f.nextDay()
		}
		f.run()
		final := `
1. b 350 of 2
2. a 150 of 2
3. c 0 of 0
: 4, 1. "4" in "b" 400 on 1, 2. "3" in "b" 300 on 1, 3. "2" in "a" 200 on 1, 4. "1" in "a" 100 on 1
a: 2, 3. "2" in "a" 200 on 1, 4. "1" in "a" 100 on 1
b: 2, 1. "4" in "b" 400 on 1, 2. "3" in "b" 300 on 1
c: 0`
		f.want("final", f.pages(c, ""), final)
		told := func() (revisions []int) {
			var texts []string
			if err := env.Gorm.Raw("SELECT payload FROM webhook_deliveries ORDER BY id").Scan(&texts).Error; err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				data := testenv.Must(Topic(testenv.Numbers{DB: env.Gorm}).Render(t.Context(), text)).(finalData)
				revisions = append(revisions, data.Revision)
				if len(data.Teams) != 3 || len(data.People) != 4 || data.Teams[0].Score != 350 {
					t.Errorf("%+v", data)
				}
			}
			return revisions
		}
		if got := told(); !slices.Equal(got, []int{1}) {
			t.Errorf("revisions %v were told", got)
		}
		day := today
		testenv.Must(f.corrections.Create(t.Context(), corrections.Request{
			Board: "steps", Date: &day, User: "2", Kind: models.CorrectionExclude, Reason: "a car", Actor: "op",
		}))
		says := func(when string, changed bool, told int) {
			t.Helper()
			view := testenv.Must(f.Get(t.Context(), "", c.ID))
			if (view.ChangedAt != nil) != changed || len(f.changed) != told {
				t.Errorf("%s: changed at %v, operators were told of %v", when, view.ChangedAt, f.changed)
			}
		}
		testenv.Must(f.Run(t.Context()))
		says("while a correction is pending", false, 0)
		f.run()
		f.run()
		f.want("after a correction", f.pages(c, ""), final)
		says("after a correction", true, 1)
		if err := f.Recompute(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		f.run()
		f.run()
		final = `
1. b 350 of 2
2. a 50 of 2
3. c 0 of 0
: 3, 1. "4" in "b" 400 on 1, 2. "3" in "b" 300 on 1, 3. "1" in "a" 100 on 1
a: 1, 3. "1" in "a" 100 on 1
b: 2, 1. "4" in "b" 400 on 1, 2. "3" in "b" 300 on 1
c: 0`
		f.want("recomputed", f.pages(c, "1"), final)
		says("recomputed", false, 1)
		f.exec("UPDATE users SET hidden = true WHERE user_id = 3")
		f.exec("DELETE FROM users WHERE user_id = 4")
		f.erased.Add(4)
		if n := testenv.Must(f.o.Jobs.Erase(t.Context(), 4)); n != 3 {
			t.Errorf("%d rows were changed", n)
		}
		f.clock.Advance(lookAgain)
		f.want("without names", f.pages(c, ""), strings.NewReplacer(`"4" in "b"`, `"" in ""`, `"3" in "b"`, `"" in ""`).Replace(final))
		f.want("without names, to a user", f.pages(c, "1"), strings.NewReplacer(`: 3, 1. "4" in "b"`, `: 3, 1. "" in ""`, `, 2. "3" in "b"`, `, 2. "" in ""`,
			`b: 2, 1. "4" in "b" 400 on 1, 2. "3" in "b" 300 on 1`, `b: 0`).Replace(final))
		var bodies []string
		if err := env.Gorm.Raw("SELECT body FROM standings").Scan(&bodies).Error; err != nil || len(bodies) != 2 {
			t.Fatal(len(bodies), err)
		}
		for _, text := range bodies {
			var b body
			if err := json.Unmarshal([]byte(text), &b); err != nil || slices.ContainsFunc(b.Lines, func(l line) bool { return l.User == 4 }) {
				t.Errorf("%s, %v", text, err)
			}
		}
	})
}

// Somebody may be erased, with all scores, after it was read who counts and before the scores are. Such a standing is not
// final: the next one is, without that person's days.
func TestErasedWhileItBecomesFinal(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		c := f.define(models.Competition{ID: "spring", Name: "Spring", Measure: models.MeasureScore, Team: models.TeamMean, First: today, Last: today})
		f.each(c, "aabb")
		for user := range models.RowID(4) {
			f.upload(user+1, today, 100*int64(user+1))
		}
		for range 4 {
			f.nextDay()
		}
		f.o.Rest = func(context.Context, time.Time, int) error {
			if !f.erased.Has(4) {
				f.exec("DELETE FROM users WHERE user_id = 4")
				f.exec("DELETE FROM archived_scores WHERE user_id = 4")
				f.erased.Add(4)
			}
			return nil
		}
		f.run()
		if found := testenv.Must(f.o.Jobs.Find(t.Context(), c.ID)); found.Revision != 0 {
			t.Error("a standing is final though somebody was erased meanwhile")
		}
		f.run()
		f.want("final", f.pages(c, ""), `
1. b 300 of 1
2. a 150 of 2
3. c 0 of 0
: 3, 1. "3" in "b" 300 on 1, 2. "2" in "a" 200 on 1, 3. "1" in "a" 100 on 1
a: 2, 2. "2" in "a" 200 on 1, 3. "1" in "a" 100 on 1
b: 1, 1. "3" in "b" 300 on 1
c: 0`)
	})
}

// A competition is not final while something is left to be archived of its days, whether an operator has done that
// before, or while the standing was computed. What is final is what the archived days say then.
func TestFinalWaits(t *testing.T) {
	t.Parallel()
	exclude := func(w *world) {
		day := today
		testenv.Must(w.corrections.Create(w.t.Context(), corrections.Request{
			Board: "steps", Date: &day, User: "2", Kind: models.CorrectionExclude, Reason: "a car", Actor: "op",
		}))
	}
	release := func(w *world) {
		b := testenv.Must(w.o.Catalog.Definitions.Board("steps"))
		w.release(testenv.Must(w.o.Catalog.Buckets.Find(w.t.Context(), b, today)), 1, 900)
	}
	for name, op := range map[string]func(w *world){
		"a correction is pending":             exclude,
		"a correction is archived":            func(w *world) { exclude(w); w.archive() },
		"a released total waits":              release,
		"a released total was written lately": func(w *world) { release(w); w.writeReleased() },
		"a released total was written": func(w *world) {
			release(w)
			w.writeReleased()
			w.clock.Advance(2 * writtenLately)
		},
	} {
		for _, within := range []bool{false, true} {
			if within && strings.HasSuffix(name, "written") {
				continue // it was written before the standing is computed
			}
			t.Run(fmt.Sprint(name, " ", within), func(t *testing.T) {
				t.Parallel()
				testenv.Each(t, func(t *testing.T, env *testenv.Env) {
					w := &world{fixture: newFixture(t, env)}
					c := w.define(models.Competition{ID: "spring", Name: "Spring", Measure: models.MeasureScore, Team: models.TeamMean, First: today, Last: today})
					w.each(c, "aabb")
					for user := range models.RowID(4) {
						w.upload(user+1, today, 100*int64(user+1))
					}
					for range 4 {
						w.nextDay()
					}
					w.archive()
					if within {
						ops := 0
						w.o.Rest = func(context.Context, time.Time, int) error {
							if ops++; ops == 2 { // after the scores were read
								op(w)
							}
							return nil
						}
					} else {
						op(w)
					}
					testenv.Must(w.Run(t.Context()))
					if found := testenv.Must(w.o.Jobs.Find(t.Context(), c.ID)); found.Revision != 0 && (within || !strings.HasSuffix(name, "archived")) {
						t.Error("it is final")
					}
					w.writeReleased()
					w.clock.Advance(2 * writtenLately)
					testenv.Must(w.Get(t.Context(), "", c.ID)) // which is in memory then
					w.run()
					w.run()
					view := testenv.Must(w.Get(t.Context(), "", c.ID))
					var asOf time.Time
					if err := env.Gorm.Raw("SELECT as_of FROM standings WHERE revision = 1").Scan(&asOf).Error; err != nil {
						t.Fatal(err)
					}
					if got, want := w.shown(c), w.expected(c); view.State != Final || view.Revision != 1 || !view.AsOf.Equal(asOf) || got != want {
						t.Errorf("%+v of %v\n%s\nwant\n%s", view, asOf, got, want)
					}
				})
			})
		}
	}
}

// Four weeks of real steps in teams, against sums of the file.
func TestRealSteps(t *testing.T) {
	t.Parallel()
	file := testenv.Must(os.Open(testenv.RealData(t, "fitbit-hourly-steps.csv")))
	defer file.Close()
	rows := testenv.Must(csv.NewReader(file).ReadAll())[1:]
	steps := make(map[string]map[models.Date]int64)
	var first, last models.Date
	for _, r := range rows {
		at := testenv.Must(time.Parse("2006-1-2 15:04", r[1]))
		day := testenv.Must(models.ParseDate(at.Format(time.DateOnly)))
		if steps[r[0]] == nil {
			steps[r[0]] = make(map[models.Date]int64)
		}
		steps[r[0]][day] += testenv.Must(strconv.ParseInt(r[2], 10, 64))
		if first == 0 || day < first {
			first = day
		}
		last = max(last, day)
	}
	if len(steps) != 33 || last-first < 27 {
		t.Fatalf("%d people on %d days", len(steps), last-first+1)
	}
	const days = 28
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		testenv.NumberUsers(t, env, 33)
		shift := today - first - days/2 // half of the days are over
		c := f.define(models.Competition{ID: "real", Name: "Real", Measure: models.MeasureScore, Team: models.TeamMean, Cap: 12_000,
			First: first + shift, Last: first + shift + days - 1})
		var want [groups]int64
		people := make(map[models.UserID]int64)
		begun := int64(days/2 + 1)
		for i, id := range slices.Sorted(maps.Keys(steps)) {
			user := models.RowID(i + 1)
			f.join(c, user, models.GroupRow(i%groups+1), c.First)
			for day, n := range steps[id] {
				if day >= first && day+shift <= today {
					f.upload(user, day+shift, n)
					want[i%groups] += min(n, 12_000)
					people[models.UserID(fmt.Sprint(user))] += min(n, 12_000)
				}
			}
		}
		f.run()
		for _, team := range testenv.Must(f.Teams(t.Context(), Query{ID: c.ID, Limit: 10})).Entries {
			if n := want[team.Group[0]-'a'] * begun / (begun * 11); *team.Score != n || team.Members != 11 {
				t.Errorf("team %s has %d of %d, want %d", team.Group, *team.Score, team.Members, n)
			}
		}
		page := testenv.Must(f.People(t.Context(), Query{ID: c.ID, Limit: 100}))
		if len(page.Entries) != 33 {
			t.Errorf("%d people", len(page.Entries))
		}
		for _, p := range page.Entries {
			if p.Score != people[p.User] {
				t.Errorf("user %s has %d, want %d", p.User, p.Score, people[p.User])
			}
		}
	})
}
