package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// action is one kind of step of a replica.
type action struct {
	name   string
	weight int
	// quiet actions may run while another replica is in the middle of a step.
	quiet bool
	do    func(*world, context.Context, *replica)
}

// round reports whether it is a round of background work.
func (a action) round() bool { return a.weight == 0 }

// operations are the calls of clients.
var operations = []action{
	{"upload", 12, true, (*world).upload},
	{"upload a batch", 4, true, (*world).uploadBatch},
	{"give", 8, true, (*world).give},
	{"give again", 4, true, (*world).giveAgain},
	{"rank friends", 8, true, (*world).rankFriends},
	{"rank a group", 8, true, (*world).rankGroup},
	{"list absent people", 4, true, (*world).listAbsent},
	{"rank everybody", 5, true, (*world).rankTop},
	{"rank the event", 4, true, (*world).rankEvent},
	{"rank oneself", 3, true, (*world).rankMe},
	{"read history", 4, true, (*world).readHistory},
	{"ask why", 3, true, (*world).askWhy},
	{"ask for friendship", 6, false, (*world).ask},
	{"accept", 5, false, (*world).accept},
	{"decline", 2, false, (*world).decline},
	{"unfriend", 3, false, (*world).unfriend},
	{"replace friends", 2, false, (*world).replaceFriends},
	{"list friends", 2, true, (*world).listFriends},
	{"choose", 4, false, (*world).choose},
	{"take back a choice", 4, false, (*world).unchoose},
	{"hide", 4, false, (*world).hide},
	{"create a group", 1, false, (*world).createGroup},
	{"join a group", 3, false, (*world).joinGroup},
	{"leave a group", 2, false, (*world).leaveGroup},
	{"replace members", 2, false, (*world).replaceMembers},
	{"correct", 4, false, (*world).correct},
	{"lift", 3, false, (*world).lift},
	{"name oneself", 1, true, (*world).nameOneself},
	{"like", 5, false, (*world).like},
	{"withdraw a like", 2, false, (*world).unlike},
	{"export", 2, true, (*world).export},
	{"erase", 2, false, (*world).erase},
}

func (w *world) person() models.UserID { return people[w.random.IntN(len(people))] }

func (w *world) pair() (a, b models.UserID) {
	order := w.random.Perm(len(people))
	return people[order[0]], people[order[1]]
}

// openDay returns a day that takes uploads.
func (w *world) openDay(now time.Time) models.Date { return dayOf(now) - models.Date(w.random.IntN(3)) }

// someDay returns a day of this run.
func (w *world) someDay() models.Date {
	return dayOf(w.clock.Now()) - models.Date(w.random.IntN(int(dayOf(w.clock.Now())-w.model.started)+1))
}

// points returns one of few scores, so that many are the same.
func (w *world) points() int64 { return int64(w.random.IntN(30)) * 10 }

// accepted is the status of an accepted upload.
func (w *world) accepted() int {
	if w.queued {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// sent notes a value that is about to be sent.
func (w *world) sent(user models.UserID, day models.Date, v value) {
	c := w.model.cell(user, day)
	c.sent = append(c.sent, v)
}

// acknowledged notes that a value was accepted.
func (w *world) acknowledged(user models.UserID, day models.Date, v value) {
	c := w.model.cell(user, day)
	if c.acknowledged == nil || v.better(*c.acknowledged) {
		c.acknowledged = &v
	}
	if !w.queued {
		c.raise(v, w.clock.Now())
	}
}

// uploaded is a score that a user uploads.
type uploaded struct {
	Date  string `json:"date"`
	Score int64  `json:"score"`
	day   models.Date
}

func (w *world) upload(ctx context.Context, r *replica) {
	now, user := w.now(r), w.person()
	var items []uploaded
	for range 1 + w.random.IntN(2) {
		day := w.openDay(now)
		items = append(items, uploaded{day.String(), w.points(), day})
	}
	w.report(ctx, r, user, items)
}

// report uploads scores of a user.
func (w *world) report(ctx context.Context, r *replica, user models.UserID, items []uploaded) {
	now := w.now(r)
	body, late := string(must(json.Marshal(map[string]any{"scores": items}))), w.late(r, user)
	for _, item := range items {
		w.sent(user, item.day, value{item.Score, models.TimestampOf(now)})
	}
	got := w.call(ctx, r, w.token(user, ""), "POST", "/v1/boards/steps/scores", body)
	if !got.unknown() && (got.status != w.accepted() || !strings.Contains(string(got.body), `"rejected":[]`)) {
		w.failf("an upload is refused")
	}
	for _, item := range items {
		if !got.unknown() && !late {
			w.acknowledged(user, item.day, value{item.Score, models.TimestampOf(now)})
		}
	}
}

func (w *world) uploadBatch(ctx context.Context, r *replica) {
	now := w.now(r)
	type item struct {
		User  models.UserID `json:"user_id"`
		Date  string        `json:"date"`
		Score int64         `json:"score"`
		day   models.Date
	}
	var items []item
	for range 1 + w.random.IntN(5) {
		user, day := w.person(), w.openDay(now)
		items = append(items, item{user, day.String(), w.points(), day})
	}
	body, late := string(must(json.Marshal(map[string]any{"scores": items}))), w.late(r)
	for _, item := range items {
		w.sent(item.User, item.day, value{item.Score, models.TimestampOf(now)})
	}
	got := w.call(ctx, r, w.token("backend", auth.ScopeService), "POST", "/v1/boards/steps/scores/batch", body)
	if !got.unknown() && (got.status != w.accepted() || !strings.Contains(string(got.body), fmt.Sprintf(`"accepted":%d`, len(items)))) {
		w.failf("a batch is refused")
	}
	for _, item := range items {
		if !got.unknown() && !late {
			w.acknowledged(item.User, item.day, value{item.Score, models.TimestampOf(now)})
		}
	}
}

func (w *world) give(ctx context.Context, r *replica) {
	g := &gift{id: fmt.Sprintf("gift-%d", len(w.model.gifts)), user: w.person(), delta: 1 + int64(w.random.IntN(100))}
	w.model.gifts = append(w.model.gifts, g)
	w.send(ctx, r, g)
}

func (w *world) giveAgain(ctx context.Context, r *replica) {
	if len(w.model.gifts) > 0 {
		w.send(ctx, r, w.model.gifts[w.random.IntN(len(w.model.gifts))])
	}
}

// send sends an increment.
func (w *world) send(ctx context.Context, r *replica, g *gift) {
	body := fmt.Sprintf(`{"increments":[{"user_id":%q,"delta":%d,"event_id":%q}]}`, g.user, g.delta, g.id)
	late, counted := w.late(r, g.user), g.counted
	before, _ := w.model.counted(g.user)
	final := w.isFinal("gifts")
	got := w.call(ctx, r, w.token("backend", auth.ScopeService), "POST", "/v1/boards/gifts/increments", body)
	// If a replica is late, who the increment counts for is not known.
	g.gone = g.gone || late && !g.counted
	if got.unknown() {
		return
	}
	answer := decode[struct {
		Results []struct {
			Status string      `json:"status"`
			Score  int64       `json:"score"`
			Code   models.Code `json:"code"`
		} `json:"results"`
	}](w, got.body)
	if got.status != http.StatusOK || len(answer.Results) != 1 {
		w.failf("increments are refused")
	}
	result := answer.Results[0]
	if g.gone && !late && !g.counted && result.Status != "rejected" {
		g.gone = false // it had not counted for the user who was erased
	}
	switch {
	case late:
	case g.gone:
		conflict := result.Code == models.CodeEventIDConflict || result.Code == models.CodeEventNotOpen
		if result.Status != "rejected" || !conflict {
			w.failf("an increment of an erased user is %s %s", result.Status, result.Code)
		}
		g.refused = true
	case result.Status == "rejected" && result.Code == models.CodeEventNotOpen && !g.counted:
		g.refused = true
		if now := w.now(r); !now.Before(w.model.eventStart) && now.Before(w.model.eventEnd) && !w.isFinal("gifts") {
			w.failf("an increment is refused while the event is open")
		}
	// It may have been a duplicate in another replica during this call.
	case result.Status == "applied" && !counted && !g.applied && !g.refused, result.Status == "duplicate" && !g.refused:
		if final && result.Status == "applied" {
			w.failf("an increment is applied after the event has become final")
		}
		g.counted, g.applied = true, g.applied || result.Status == "applied"
		sure, most := w.model.counted(g.user)
		sure = min(sure, before+g.delta) // others may have been counted since
		if result.Status == "applied" && (result.Score < sure || result.Score > most) {
			w.failf("%d to %d are counted, and the answer says %d", sure, most, result.Score)
		}
		// A repetition after the end raises nothing.
		if !r.gate.wasStruck() && w.now(r).Before(w.model.eventEnd) && !w.isFinal("gifts") {
			w.model.shown[g.user], _ = w.model.counted(g.user)
		}
	default:
		w.failf("an increment is %s %s; counted %v, refused %v", result.Status, result.Code, g.counted, g.refused)
	}
}

// list reads all pages of a ranking. ok is false if one of them could not be read.
func (w *world) list(ctx context.Context, r *replica, viewer models.UserID, path string, limit int) (all ranking, ok bool) {
	cursor := ""
	for {
		got := w.call(ctx, r, w.token(viewer, ""), "GET", fmt.Sprintf("%s&limit=%d%s", path, limit, cursor), "")
		if got.status != http.StatusOK {
			if !got.unknown() && !w.late(r, viewer) {
				w.failf("a ranking is refused")
			}
			return ranking{}, false
		}
		page := decode[ranking](w, got.body)
		page.Entries = append(all.Entries, page.Entries...)
		all = page
		if page.Next == nil {
			return all, !w.late(r, viewer)
		}
		cursor = "&cursor=" + url.QueryEscape(*page.Next)
	}
}

// pageSize returns that of a list: small, or enough for everybody.
func (w *world) pageSize(r *replica) int {
	// Pages are read live: between two of them nothing may happen.
	if w.random.IntN(2) == 0 && r.gate.planned() != interleave {
		return 2
	}
	return 200
}

func (w *world) rankFriends(ctx context.Context, r *replica) {
	viewer, day := w.person(), w.someDay()
	same := w.undisturbed()
	if got, ok := w.list(ctx, r, viewer, "/v1/boards/steps/friends?include=likes&date="+day.String(), w.pageSize(r)); ok && same() {
		w.checkCircle(r, viewer, "", day, got, false)
		w.checkLikes(r, viewer, day, got)
	}
}

// undisturbed returns a function that reports whether no other step has begun since, or is
// under way that changes what the model knows. Then an answer may be compared with the model.
func (w *world) undisturbed() func() bool {
	before, inner := w.steps, w.inner
	return func() bool { return w.steps == before && w.inner == inner && w.changing == 0 }
}

func (w *world) rankGroup(ctx context.Context, r *replica) { w.compareGroup(ctx, r, w.undisturbed()) }

// compareGroup compares the ranking of a group with the model if same returns true afterwards.
func (w *world) compareGroup(ctx context.Context, r *replica, same func() bool) {
	group := w.group()
	if group == "" {
		return
	}
	viewer, day := w.person(), w.someDay()
	path := "/v1/boards/steps/groups/" + w.groupIDs[group] + "?date=" + day.String()
	if !w.model.facts["member "+group+" "+string(viewer)] {
		got := w.call(ctx, r, w.token(viewer, ""), "GET", path, "")
		unsure := !same() || got.unknown() || w.oldSets(r) || w.late(r, viewer) || w.changed(r, viewer, viewer, group)
		if got.status != http.StatusNotFound && !unsure {
			w.failf("%s reads a group without being a member", viewer)
		}
		return
	}
	if got, ok := w.list(ctx, r, viewer, path, w.pageSize(r)); ok && same() {
		w.checkCircle(r, viewer, group, day, got, false)
	}
}

func (w *world) rankTop(ctx context.Context, r *replica) {
	viewer, day := w.person(), w.someDay()
	same := w.undisturbed()
	if got, ok := w.list(ctx, r, viewer, "/v1/boards/steps/top?date="+day.String(), w.pageSize(r)); ok && same() {
		w.checkTop(r, viewer, day, got, false)
	}
	w.rankAround(ctx, r, viewer, day, false)
}

// rankAround compares the neighbours of a user, which are all people, with the model.
func (w *world) rankAround(ctx context.Context, r *replica, viewer models.UserID, day models.Date, exact bool) {
	same := w.undisturbed()
	reply := w.call(ctx, r, w.token(viewer, ""), "GET", w.path(day, "around")+"&radius=50", "")
	if reply.status != http.StatusOK {
		if !reply.unknown() && !w.late(r, viewer) {
			w.failf("neighbours are refused")
		}
		return
	}
	got := decode[ranking](w, reply.body)
	switch {
	case w.late(r, viewer) || !same():
	case got.Me != nil:
		w.checkTop(r, viewer, day, got, exact)
	case len(got.Entries) > 0:
		w.failf("%s has no score and %d neighbours", viewer, len(got.Entries))
	default:
		if err := w.allowed(r, viewer, day, nil, false, exact); err != nil {
			w.failf("%v", err)
		}
	}
}

func (w *world) rankEvent(ctx context.Context, r *replica) {
	viewer := w.person()
	same := w.undisturbed()
	if got, ok := w.list(ctx, r, viewer, "/v1/boards/gifts/friends?", w.pageSize(r)); ok && same() {
		w.checkEvent(r, viewer, got, false)
	}
}

func (w *world) rankMe(ctx context.Context, r *replica) {
	w.readMe(ctx, r, w.person(), w.someDay(), false)
}

// readMe compares a user's own score with the model, and returns it.
func (w *world) readMe(ctx context.Context, r *replica, user models.UserID, day models.Date, exact bool) *value {
	same := w.undisturbed()
	got := w.call(ctx, r, w.token(user, ""), "GET", w.path(day, "me"), "")
	if got.status != http.StatusOK {
		if !got.unknown() && !w.late(r, user) {
			w.failf("refused")
		}
		return nil
	}
	shown := decode[line](w, got.body).value()
	if !same() {
		return shown
	}
	if err := w.allowed(r, user, day, shown, false, exact); err != nil {
		w.failf("me: %v", err)
	}
	return shown
}

func (w *world) askWhy(ctx context.Context, r *replica) {
	w.checkWhy(ctx, r, w.person(), w.someDay(), false)
}

// checkWhy compares the explanation of a user's own score with the model. The correction is read from the
// database, so it is the one that holds.
func (w *world) checkWhy(ctx context.Context, r *replica, user models.UserID, day models.Date, exact bool) {
	same := w.undisturbed()
	got := w.call(ctx, r, w.token(user, ""), "GET", "/v1/boards/steps/me/explain?date="+day.String(), "")
	if got.status != http.StatusOK {
		if !got.unknown() && !w.late(r, user) {
			w.failf("refused")
		}
		return
	}
	why := decode[struct {
		line
		Reported   *line `json:"reported"`
		Pending    *line `json:"pending"`
		Correction *struct {
			Kind    models.CorrectionKind `json:"kind"`
			Message string                `json:"message"`
		} `json:"correction"`
		Held *struct {
			Score int64            `json:"score"`
			State models.HoldState `json:"state"`
		} `json:"held"`
	}](w, got.body)
	if !same() || w.late(r, user) {
		return
	}
	if h := w.heldRow(user, day); (h == nil) != (why.Held == nil) || h != nil && (h.Score != why.Held.Score || h.State != why.Held.State) {
		w.failf("why: %+v is held, and %+v is explained", h, why.Held)
	}
	counts := why.value()
	if err := w.allowed(r, user, day, counts, false, exact); err != nil {
		w.failf("why: %v", err)
	}
	held, _ := w.model.corrected(w.row(user), day)
	switch c := why.Correction; {
	case c == nil && held != nil && counts != nil, c != nil && held == nil, c != nil && (c.Kind != held.Kind || c.Message != held.Message):
		w.failf("why: %+v is explained, and %+v holds", c, held)
	}
	reported, next := counts, counts
	if why.Reported != nil {
		reported = why.Reported.value()
	}
	if why.Pending != nil {
		next = why.Pending.value()
	}
	if c := w.model.cell(user, day); exact && !c.allows(reported) {
		w.failf("why: %s on %s: %v was reported, and %v is sure", user, w.named(day), reported, c.sure)
	}
	if err := w.allowed(r, user, day, next, false, exact); err != nil {
		w.failf("why, after the next run: %v", err)
	}
}

func (w *world) readHistory(ctx context.Context, r *replica) {
	w.checkHistory(ctx, r, w.person(), false)
}

// checkHistory compares a user's days with the model, and returns them; false if it could not.
func (w *world) checkHistory(ctx context.Context, r *replica, user models.UserID, exact bool) (shown map[models.Date]*value, ok bool) {
	same := w.undisturbed()
	last := dayOf(w.now(r))
	path := "/v1/boards/steps/history?from=" + w.model.started.String() + "&to=" + last.String()
	got := w.call(ctx, r, w.token(user, ""), "GET", path, "")
	if got.status != http.StatusOK {
		if !got.unknown() && !w.late(r, user) {
			w.failf("refused")
		}
		return nil, false
	}
	answer := decode[struct {
		Entries []struct {
			line
			Date string `json:"date"`
		} `json:"entries"`
		Partial bool `json:"partial"`
	}](w, got.body)
	if !same() || answer.Partial {
		return nil, false
	}
	shown = make(map[models.Date]*value)
	for _, entry := range answer.Entries {
		shown[must(models.ParseDate(entry.Date))] = entry.value()
	}
	for day := w.model.started; day <= last; day++ {
		if err := w.allowed(r, user, day, shown[day], false, exact); err != nil {
			w.failf("history: %v", err)
		}
	}
	return shown, true
}

// change makes a call that changes facts, and compares the database with it.
func (w *world) change(
	ctx context.Context, r *replica, token, method, path, body string, facts func(reply) map[string]bool,
) reply {
	late := w.late(r)
	got := w.call(ctx, r, token, method, path, body)
	changed := facts(got)
	if late {
		w.lateChange(r, changed)
	}
	w.look(!got.unknown() && !late, changed)
	return got
}

// always returns facts whatever the answer, unless the call was refused.
func always(facts map[string]bool) func(reply) map[string]bool {
	return func(got reply) map[string]bool {
		if got.status >= 400 && got.status < 500 {
			return nil
		}
		return facts
	}
}

func friendship(a, b models.UserID, are bool) map[string]bool {
	return map[string]bool{fact("friends", a, b): are, fact("friends", b, a): are}
}

func (w *world) ask(ctx context.Context, r *replica) {
	a, b := w.pair()
	were := w.model.facts[fact("friends", a, b)]
	w.change(ctx, r, w.token(a, ""), "POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, b), func(got reply) map[string]bool {
		if got.status >= 400 && got.status < 500 {
			return nil
		}
		return friendship(a, b, strings.Contains(string(got.body), `"friends"`))
	})
	w.expectAccepted(b, a, were)
}

func (w *world) accept(ctx context.Context, r *replica) {
	a, b := w.pair()
	var pending [][2]models.UserID
	var found []struct{ A, B models.UserID }
	check(w.truth.Gorm.Raw(`SELECT a.external_id AS a, b.external_id AS b FROM friend_requests q
		JOIN users a ON a.user_id = q.user_id JOIN users b ON b.user_id = q.other_id
		WHERE incoming AND declined_at IS NULL ORDER BY 1, 2`).Scan(&found).Error)
	for _, f := range found {
		pending = append(pending, [2]models.UserID{f.A, f.B})
	}
	if len(pending) > 0 {
		chosen := pending[w.random.IntN(len(pending))]
		a, b = chosen[0], chosen[1]
	}
	were := w.model.facts[fact("friends", a, b)]
	got := w.change(ctx, r, w.token(a, ""), "POST", "/v1/friends/requests/"+string(b)+"/accept", "", always(friendship(a, b, true)))
	w.expectAccepted(b, a, were)
	if len(pending) > 0 && got.status >= 400 && got.status < 500 && !w.late(r, a, b) {
		w.failf("a pending request can't be accepted")
	}
}

// expectAccepted expects an outcome if two users have become friends.
func (w *world) expectAccepted(asking, asked models.UserID, were bool) {
	if !were && w.model.facts[fact("friends", asking, asked)] {
		w.model.outcomes[fact("friend.accepted", asking, asked)]++
	}
}

func (w *world) decline(ctx context.Context, r *replica) {
	a, b := w.pair()
	w.change(ctx, r, w.token(a, ""), "DELETE", "/v1/friends/requests/"+string(b), "", always(nil))
}

func (w *world) unfriend(ctx context.Context, r *replica) {
	a, b := w.pair()
	w.change(ctx, r, w.token(a, ""), "DELETE", "/v1/friends/"+string(b), "", always(friendship(a, b, false)))
}

func (w *world) replaceFriends(ctx context.Context, r *replica) {
	user := w.person()
	facts, friends := make(map[string]bool), []models.UserID{}
	for _, other := range people {
		if other == user {
			continue
		}
		if w.model.facts[fact("blocked", user, other)] || w.model.facts[fact("blocked", other, user)] {
			return // who blocks whom decides what the list may have
		}
		chosen := w.random.IntN(2) == 0
		facts[fact("friends", user, other)], facts[fact("friends", other, user)] = chosen, chosen
		if chosen {
			friends = append(friends, other)
		}
	}
	body := string(must(json.Marshal(map[string]any{"friend_ids": friends})))
	w.change(ctx, r, w.token("backend", auth.ScopeService), "PUT", "/v1/users/"+string(user)+"/friends", body, always(facts))
}

func (w *world) listFriends(ctx context.Context, r *replica) {
	user := w.person()
	same := w.undisturbed()
	got := w.call(ctx, r, w.token(user, ""), "GET", "/v1/friends?limit=200", "")
	if got.status != http.StatusOK || !same() || w.late(r) {
		return
	}
	for _, other := range people {
		if listed := strings.Contains(string(got.body), fmt.Sprintf(`"user_id":%q`, other)); listed != w.model.facts[fact("friends", user, other)] {
			w.failf("%s is a friend of %s: %v, listed: %v", other, user, !listed, listed)
		}
	}
}

// choicePaths are the calls of each kind of choice.
var choicePaths = map[string]string{"hidden_from": "hidden-from", "muted": "muted", "blocked": "blocked"}

func (w *world) choose(ctx context.Context, r *replica) {
	a, b := w.pair()
	kind := []string{"hidden_from", "muted", "blocked"}[w.random.IntN(3)]
	facts := map[string]bool{fact(kind, a, b): true}
	if kind == "blocked" {
		facts[fact("friends", a, b)], facts[fact("friends", b, a)] = false, false
	}
	w.change(ctx, r, w.token(a, ""), "PUT", "/v1/"+choicePaths[kind]+"/"+string(b), "", always(facts))
}

func (w *world) unchoose(ctx context.Context, r *replica) {
	a, b := w.pair()
	kind := []string{"hidden_from", "muted", "blocked"}[w.random.IntN(3)]
	var chosen []string
	for _, name := range sortedKeys(w.model.facts) {
		if word, _, _ := strings.Cut(name, " "); choicePaths[word] != "" {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) > 0 {
		words := strings.Fields(chosen[w.random.IntN(len(chosen))])
		kind, a, b = words[0], models.UserID(words[1]), models.UserID(words[2])
	}
	w.change(ctx, r, w.token(a, ""), "DELETE", "/v1/"+choicePaths[kind]+"/"+string(b), "", always(map[string]bool{fact(kind, a, b): false}))
}

// hide makes a user hide from everybody, or not. Who has just read a group sees that at once.
func (w *world) hide(ctx context.Context, r *replica) {
	w.rankGroup(ctx, r)
	user, before := w.person(), w.steps
	hidden := !w.model.facts["hidden "+string(user)]
	w.change(ctx, r, w.token(user, ""), "PUT", "/v1/me/privacy", fmt.Sprintf(`{"hidden":%v}`, hidden),
		always(map[string]bool{"hidden " + string(user): hidden}))
	w.compareGroup(ctx, r, func() bool { return w.steps == before })
}

// group returns a group with members; "" if there is none.
func (w *world) group() string {
	var groups []string
	for _, name := range sortedKeys(w.model.facts) {
		if words := strings.Fields(name); words[0] == "member" && !slices.Contains(groups, words[1]) {
			groups = append(groups, words[1])
		}
	}
	if len(groups) == 0 {
		return ""
	}
	return groups[w.random.IntN(len(groups))]
}

func (w *world) createGroup(ctx context.Context, r *replica) {
	user := w.person()
	w.change(ctx, r, w.token(user, ""), "POST", "/v1/groups", `{"name":"walkers"}`, func(reply) map[string]bool {
		facts := make(map[string]bool)
		for name := range w.facts() {
			words := strings.Fields(name)
			if words[0] == "member" && words[2] == string(user) && !w.model.facts[name] {
				facts[name] = true
			}
		}
		return facts
	})
}

func (w *world) joinGroup(ctx context.Context, r *replica) {
	var groups []struct{ ExternalID, InviteCode string }
	check(w.truth.Gorm.Raw(`SELECT external_id, invite_code FROM groups WHERE invite_code IS NOT NULL ORDER BY group_id`).Scan(&groups).Error)
	if len(groups) == 0 {
		return
	}
	steps, user, chosen := w.steps, w.person(), groups[w.random.IntN(len(groups))]
	got := w.change(ctx, r, w.token(user, ""), "POST", "/v1/groups/join", fmt.Sprintf(`{"invite_code":%q}`, chosen.InviteCode),
		always(map[string]bool{"member " + w.names[chosen.ExternalID] + " " + string(user): true}))
	if got.status != http.StatusOK && !got.unknown() && w.steps == steps {
		w.failf("a group can't be joined")
	}
}

func (w *world) leaveGroup(ctx context.Context, r *replica) {
	group := w.group()
	if group == "" {
		return
	}
	user := w.person()
	path := "/v1/groups/" + w.groupIDs[group] + "/members/" + string(user)
	w.change(ctx, r, w.token(user, ""), "DELETE", path, "", always(map[string]bool{"member " + group + " " + string(user): false}))
}

func (w *world) replaceMembers(ctx context.Context, r *replica) {
	facts, members := make(map[string]bool), []models.UserID{}
	for _, user := range people {
		chosen := w.random.IntN(2) == 0
		facts["member team "+string(user)] = chosen
		if chosen {
			members = append(members, user)
		}
	}
	body := string(must(json.Marshal(map[string]any{"member_ids": members})))
	w.change(ctx, r, w.token("backend", auth.ScopeService), "PUT", "/v1/groups/team/members", body, always(facts))
}

func (w *world) correct(ctx context.Context, r *replica) {
	w.correctDay(ctx, r, w.person(), w.someDay())
}

func (w *world) correctDay(ctx context.Context, r *replica, user models.UserID, day models.Date) {
	body := map[string]any{"board": "steps", "user_id": user, "kind": "exclude", "reason": "a test", "message": "about " + string(user), "date": day.String()}
	switch w.random.IntN(4) {
	case 0:
		delete(body, "date")
	case 1, 2:
		body["kind"], body["score"] = "set", w.points()
	}
	before := len(w.model.corrections)
	defer w.deciding()()
	got := w.call(ctx, r, w.token("operator", auth.ScopeAdmin), "POST", "/v1/admin/corrections", string(must(json.Marshal(body))))
	w.lookAtCorrections()
	made := len(w.model.corrections) - before
	switch {
	case got.status == http.StatusCreated && made != 1, got.status >= 400 && got.status < 500 && made != 0, made > 1:
		w.failf("status %d, and %d corrections were made", got.status, made)
	case got.status == http.StatusCreated:
		w.model.knownBy[r.name+fmt.Sprint(w.model.corrections[before].ID)] = true
	}
}

func (w *world) lift(ctx context.Context, r *replica) {
	var held []int
	for i := range w.model.corrections {
		if c := w.model.corrections[i]; c.LiftedAt == nil && w.exists(c.User) {
			held = append(held, i)
		}
	}
	if len(held) == 0 {
		return
	}
	i := held[w.random.IntN(len(held))]
	defer w.deciding()()
	path := fmt.Sprintf("/v1/admin/corrections/%d/lift", w.model.corrections[i].ID)
	got := w.call(ctx, r, w.token("operator", auth.ScopeAdmin), "POST", path, `{"reason":"a test"}`)
	w.lookAtCorrections()
	if got.unknown() || !w.exists(w.model.corrections[i].User) {
		return
	}
	if lifted := w.model.corrections[i].LiftedAt != nil; got.status != http.StatusOK || !lifted {
		w.failf("status %d, lifted %v", got.status, lifted)
	}
}

func (w *world) nameOneself(ctx context.Context, r *replica) {
	user := w.person()
	got := w.call(ctx, r, w.token(user, ""), "PUT", "/v1/me", fmt.Sprintf(`{"nickname":"%s %d"}`, user, w.random.IntN(100)))
	if got.status != http.StatusOK && !got.unknown() {
		w.failf("refused")
	}
}
