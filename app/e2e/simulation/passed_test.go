package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"stepboard/app"
	"stepboard/models"
)

// passing holds what is known of those who want to be told who has passed them.
type passing struct {
	// wants has since when users want to be told, by row.
	wants map[models.RowID]time.Time
	// mayBehind has who may have been behind a user at a look of a day.
	mayBehind map[models.RowID]map[models.UserID]bool
	// behind has who was behind a user for sure at the last look, of which nothing was lost since.
	behind map[models.RowID]map[models.UserID]bool
	day    models.Date // of both
	// first has the same of those who did not want to be told before since something may have been
	// lost.
	first map[models.RowID]time.Time
	// began is the moment of the first look since something may have been lost.
	began time.Time
	// looks are the moments of looks since something may have been lost.
	looks []time.Time
	// told has when users were told, and under which Redis or in which process.
	told map[models.RowID][]telling
	last int64 // the last delivery
	// server and app are those of the last look.
	server int
	app    *app.App
}

type telling struct {
	at     time.Time
	server int
	app    *app.App
}

// slack is how far the clocks of two steps may be apart.
const slack = 2*skewLimit + time.Second

// whereabouts are the time zones of people.
var whereabouts = map[models.UserID]string{
	"ann": "", "ben": "Asia/Shanghai", "cho": "Europe/Berlin", "dee": "America/New_York", "eve": "Pacific/Honolulu",
}

// walk takes some steps, or none: a user wants to be told, walks past everybody, and is passed by a
// friend. Each may meet a fault, and looks of several replicas come between.
func (w *world) walk() {
	others := w.random
	w.random = w.walking
	defer func() { w.random = others }()
	if w.random.IntN(12) > 0 {
		return
	}
	a, b := w.pair()
	var friends []string
	for _, name := range sortedKeys(w.model.facts) {
		words := strings.Fields(name)
		if words[0] == "friends" && w.model.circle(models.UserID(words[1]), "")[models.UserID(words[2])] {
			friends = append(friends, name)
		}
	}
	if len(friends) > 0 {
		words := strings.Fields(friends[w.random.IntN(len(friends))])
		a, b = models.UserID(words[1]), models.UserID(words[2])
	}
	look := action{"passed", 0, true, (*world).lookWhoPassed}
	past := func(user models.UserID) action {
		return action{"walk past", 1, true, func(w *world, ctx context.Context, r *replica) { w.walkPast(ctx, r, user) }}
	}
	for _, step := range []action{
		{"be told", 1, false, func(w *world, ctx context.Context, r *replica) { w.beTold(ctx, r, a) }},
		past(a), look, past(b), look,
		{"passed streams", 0, true, func(w *world, ctx context.Context, r *replica) { _ = w.round(ctx, r, "passed streams") }},
	} {
		if r := w.replicas[w.random.IntN(len(w.replicas))]; r.app != nil && w.failure == nil {
			p := plan{}
			if w.random.IntN(4) == 0 {
				p = w.broken(r, step)
			}
			w.take(r, step, p)
		}
	}
}

// beTold makes a user want to be told, or not any more.
func (w *world) beTold(ctx context.Context, r *replica, user models.UserID) {
	method, body, status := "PUT", fmt.Sprintf(`{"tell":["passed"],"time_zone":%q}`, whereabouts[user]), http.StatusOK
	if w.random.IntN(8) == 0 {
		method, body, status = "DELETE", "", http.StatusNoContent
	}
	got := w.call(ctx, r, w.token(user, ""), method, "/v1/me/push", body)
	if got.status != status && !got.unknown() && !w.late(r) {
		w.failf("status %d", got.status)
	}
	w.lookWhoWants()
}

// lookWhoWants reads who wants to be told.
func (w *world) lookWhoWants() {
	var found []struct {
		UserID    models.RowID
		CreatedAt time.Time
	}
	check(w.truth.Gorm.Raw(`SELECT user_id, created_at FROM push_subscriptions ORDER BY user_id`).Scan(&found).Error)
	wants := make(map[models.RowID]time.Time)
	for _, f := range found {
		wants[f.UserID] = f.CreatedAt
	}
	w.passing.wants = wants
}

// walkPast lets a user go past everybody else.
func (w *world) walkPast(ctx context.Context, r *replica, user models.UserID) {
	day, most := dayOf(w.now(r)), int64(0)
	for _, other := range people {
		for _, v := range w.model.cell(other, day).sent {
			most = max(most, v.score)
		}
	}
	if most < 90_000 {
		w.report(ctx, r, user, []uploaded{{day.String(), most + 10, day}})
	}
}

// values returns what a board may show of a user's score.
func (w *world) values(user models.UserID, day models.Date) (values []value, unsure bool) {
	c := w.model.cell(user, day)
	for _, v := range c.sent {
		if c.sure == nil || v == *c.sure || v.better(*c.sure) {
			values = append(values, v)
		}
	}
	_, ever := w.model.corrected(w.row(user), day)
	return values, ever || w.anybodyErased()
}

// order reports whether a may be ahead of b, whether b may be ahead of a, and whether both have a
// place for sure.
func (w *world) order(a, b models.UserID, day models.Date) (ahead, behind, sure bool) {
	of, other := w.model.cell(a, day), w.model.cell(b, day)
	valuesOf, unsure := w.values(a, day)
	others, alsoUnsure := w.values(b, day)
	if unsure || alsoUnsure {
		return true, true, false
	}
	for _, v := range valuesOf {
		for _, u := range others {
			ahead, behind = ahead || !u.better(v), behind || !v.better(u)
		}
	}
	return ahead, behind, of.sure != nil && other.sure != nil
}

// lookWhoPassed lets a replica look who has passed whom, and compares whom it tells with the model.
func (w *world) lookWhoPassed(ctx context.Context, r *replica) {
	p := &w.passing
	w.lookWhoWants()
	wanted := p.wants
	same, now := w.undisturbed(), w.now(r)
	day := dayOf(now)
	lost := p.server != w.servers || w.store == onFile && p.app != r.app
	if p.day != day || p.mayBehind == nil {
		p.mayBehind, p.day, p.behind = make(map[models.RowID]map[models.UserID]bool), day, nil
	}
	if lost || p.first == nil {
		p.server, p.app, p.behind, p.looks, p.first, p.began = w.servers, r.app, nil, nil, make(map[models.RowID]time.Time), now
		for row := range wanted {
			p.first[row] = time.Time{}
		}
	}
	for row, since := range wanted {
		if _, known := p.first[row]; !known {
			if w.store == onFile && since.Before(p.began.Add(slack)) {
				since = time.Time{} // it may be before the process began, which forgets the rest
			}
			p.first[row] = since
		}
	}
	w.noteBehind()
	err := w.round(ctx, r, "passed")
	w.noteBehind()
	undisturbed := same()
	clean := err == nil && undisturbed && !r.gate.wasStruck() && !r.gate.crashed() && !w.late(r) && !w.model.lossy &&
		dayOf(now.Add(-slack)) == dayOf(now.Add(slack))
	told := w.checkPassed(r, day, wanted, undisturbed)
	if clean {
		w.checkTold(now, wanted, told)
	}
	w.rememberLook(now, clean)
}

// checkPassed checks the notices that are new, and returns whom they tell.
func (w *world) checkPassed(r *replica, day models.Date, wanted map[models.RowID]time.Time, undisturbed bool) map[models.RowID]bool {
	p := &w.passing
	var rows []models.Delivery
	check(w.truth.Gorm.Where("id > ? AND type = ?", p.last, models.OutcomeRankPassed).Order("id").Find(&rows).Error)
	told := make(map[models.RowID]bool)
	for _, row := range rows {
		p.last = row.ID
		n := decode[struct {
			Date string
			User models.RowID
			By   []models.RowID
		}](w, []byte(row.Payload))
		told[n.User] = true
		if undisturbed && wanted[n.User].IsZero() {
			w.failf("row %d is told, and does not want to be", n.User)
		}
		w.checkTime(n.User, row.CreatedAt, wanted[n.User])
		if p.told == nil {
			p.told = make(map[models.RowID][]telling)
		}
		p.told[n.User] = append(p.told[n.User], telling{row.CreatedAt, w.servers, r.app})
		viewer := w.userOf(n.User)
		for _, by := range n.By {
			other := w.userOf(by)
			if !undisturbed || viewer == "" || other == "" || w.late(r) {
				continue
			}
			ahead, _, _ := w.order(other, viewer, day)
			switch {
			case !w.model.circle(viewer, "")[other]:
				w.failf("%s is told of %s, who is not shown", viewer, other)
			case !ahead:
				w.failf("%s is told of %s, who is behind", viewer, other)
			case !p.mayBehind[n.User][other] && !w.anybodyErased():
				w.failf("%s is told of %s, who was never behind", viewer, other)
			}
		}
	}
	return told
}

// checkTime checks that somebody may be told at a moment.
func (w *world) checkTime(row models.RowID, at, since time.Time) {
	user := w.userOf(row)
	if user == "" {
		return
	}
	zone := w.whereabouts(user)
	day := func(at time.Time) string { return at.In(zone).Format(time.DateOnly) }
	awake := func(at time.Time) bool { hour := at.In(zone).Hour(); return hour >= 8 && hour < 22 }
	if !awake(at.Add(-slack)) && !awake(at.Add(slack)) {
		w.failf("%s is told at %v", user, at.In(zone))
	}
	before, today := w.passing.told[row], 1
	for _, t := range before {
		if day(t.at) == day(at) {
			today++
		}
	}
	if len(before) == 0 {
		return
	}
	last := before[len(before)-1]
	lost := last.server != w.servers || w.store == onFile && last.app != w.replicas[0].app
	forgiven := lost && (w.restored || at.Sub(since) <= time.Hour+slack)
	if at.Sub(last.at) < time.Hour-slack && !forgiven {
		w.failf("%s is told at %v and %v", user, last.at, at)
	}
	if today > 5 && !lost && w.store != onFile && w.servers == before[0].server {
		w.failf("%s is told %d times on %s", user, today, day(at))
	}
}

// checkTold checks that those are told who were passed for sure, by a look at a moment.
func (w *world) checkTold(now time.Time, wanted map[models.RowID]time.Time, told map[models.RowID]bool) {
	p := &w.passing
	for _, user := range people {
		row := w.row(user)
		zone := w.whereabouts(user)
		early, late := now.Add(-slack).In(zone).Hour(), now.Add(slack).In(zone).Hour()
		// What was lost before a look counts as a notice at that look, but of those who had only just
		// chosen.
		known := slices.ContainsFunc(p.looks, func(at time.Time) bool {
			long := now.Sub(at) > time.Hour+slack && now.Sub(at) < 48*time.Hour && wanted[row].Before(at.Add(-slack))
			chosen := at.Sub(wanted[row])
			return long || p.first[row].Equal(wanted[row]) && chosen > -slack && chosen < time.Hour-slack
		})
		recent := slices.ContainsFunc(p.told[row], func(t telling) bool { return now.Sub(t.at) < time.Hour+slack })
		if wanted[row].IsZero() || told[row] || early < 8 || late >= 22 || !known || recent || len(p.told[row]) >= 5 {
			continue
		}
		for _, other := range people {
			_, behind, sure := w.order(other, user, p.day)
			if p.behind[row][other] && sure && !behind && w.model.circle(user, "")[other] {
				w.failf("%s is not told of %s", user, other)
			}
		}
	}
}

// noteBehind notes who may be behind whom.
func (w *world) noteBehind() {
	p := &w.passing
	for _, user := range people {
		row := w.row(user)
		if p.mayBehind[row] == nil {
			p.mayBehind[row] = make(map[models.UserID]bool)
		}
		for _, other := range people {
			if _, behind, _ := w.order(other, user, p.day); behind {
				p.mayBehind[row][other] = true
			}
		}
	}
}

// rememberLook notes who was behind whom for sure at a look that has ended, if everything was seen
// and remembered.
func (w *world) rememberLook(now time.Time, clean bool) {
	p := &w.passing
	if p.behind = nil; !clean {
		p.looks = nil
		return
	}
	p.looks = append(p.looks, now)
	p.behind = make(map[models.RowID]map[models.UserID]bool)
	for _, user := range people {
		row := w.row(user)
		p.behind[row] = make(map[models.UserID]bool)
		for _, other := range people {
			ahead, _, sure := w.order(other, user, p.day)
			p.behind[row][other] = !p.wants[row].IsZero() && other != user && sure && !ahead && w.model.circle(user, "")[other]
		}
	}
}

// userOf returns the user of a row; "" if nobody has it.
func (w *world) userOf(row models.RowID) models.UserID {
	i := slices.IndexFunc(people, func(user models.UserID) bool { return w.row(user) == row })
	if i < 0 {
		return ""
	}
	return people[i]
}

// whereabouts returns the time zone where a user is; that of board steps if it is not known.
func (w *world) whereabouts(user models.UserID) *time.Location {
	name := whereabouts[user]
	if name == "" {
		name = "Asia/Shanghai"
	}
	return must(time.LoadLocation(name))
}
