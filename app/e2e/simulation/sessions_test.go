package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/internal/backups"
	"stepboard/internal/codes"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// signIns decides the steps about people who sign in, so that those of other kinds are the same for a seed as without
// them. These people have no scores, and no friends but each other. After a call of which nobody knows whether it had its
// effect, the database says so.
type signIns struct {
	random  *rand.Rand
	guests  []*guest
	devices []*device
	codes   []*signInCode
	using   *signInCode // that of the step under way
}

// Limits of signing in: after how long without use sessions end, and how many users invitations make in a day.
const (
	sessionTTL = 12 * time.Hour
	newPerDay  = 2
)

// guest is somebody who has signed up.
type guest struct {
	id               models.UserID
	row              models.RowID
	invited          time.Time // the day on which an invitation made them; zero for none
	invitation       string    // the code of theirs, as far as it is known
	operator, erased bool
}

// device is one with a session.
type device struct {
	*guest

	session int64
	cookie  string
	opened  time.Time
	// used is when it surely was used last, and maybe when it may have been.
	used, maybe time.Time
	ended       bool
}

// works reports whether the session gets tokens.
func (d *device) works() bool { return !d.ended && !d.erased }

// idle notes whether a device's session has ended because nobody used it, and reports whether that is unsure.
func (d *device) idle(now time.Time) (unsure bool) {
	d.ended = d.ended || now.Sub(d.maybe) > sessionTTL+slack
	return !d.ended && now.Sub(d.used) > sessionTTL-time.Minute-slack // a use is written once a minute
}

// signInCode is a code for one use, or an invitation that was renewed.
type signInCode struct {
	*guest

	text string
	ends time.Time
	used bool // or ended by the next one
}

// signInSomething takes a step about signing in, or none.
func (w *world) signInSomething() {
	others := w.random
	w.random = w.signIns.random
	defer func() { w.random = others }()
	r := w.replicas[w.random.IntN(len(w.replicas))]
	if w.random.IntN(3) > 0 || r.app == nil || w.failure != nil {
		return
	}
	a := pick(w, []action{
		{"make a card", 2, false, (*world).makeCard},
		{"make a sign-in code", 4, false, (*world).makeSignInCode},
		{"sign in by a code", 6, false, (*world).signInByCode},
		{"sign in by an invitation", 2, false, (*world).signInByInvitation},
		{"use a session", 8, false, (*world).useSession},
		{"end a session", 3, false, (*world).endSession},
		{"make or remove an operator", 3, false, (*world).changeOperator},
		{"erase a guest", 1, false, (*world).eraseGuest},
	}, func(a action) int { return a.weight })
	p := plan{}
	switch w.random.IntN(6) {
	case 0, 1:
		p = w.broken(r, a)
	case 2, 3:
		p = plan{fault: interleave, at: 1 + w.random.IntN(6), act: func() { w.signInWithin(r) }}
	}
	w.signIns.using = nil
	w.take(r, a, p)
}

// signInWithin lets another device use the code of a step in the middle of it.
func (w *world) signInWithin(r *replica) {
	defer func() {
		if found := recover(); found != nil {
			w.failure = fmt.Errorf("%v", found)
		}
	}()
	other, c := w.replicas[w.random.IntN(len(w.replicas))], w.signIns.using
	if c == nil || !w.inside(r, other) || w.failure != nil {
		return
	}
	w.inner++
	w.take(other, action{"sign in by the same code", 1, false, func(w *world, ctx context.Context, r *replica) { w.signInBy(ctx, r, c) }}, plan{})
}

// anyOf returns an element, or the zero value of none.
func anyOf[T any](w *world, list []T) (one T) {
	if len(list) > 0 {
		one = list[w.random.IntN(len(list))]
	}
	return one
}

// workingDevice returns a device whose session works; nil if there is none.
func (w *world) workingDevice() *device {
	return anyOf(w, slices.DeleteFunc(slices.Clone(w.signIns.devices), func(d *device) bool { return !d.works() }))
}

// sessionToken returns a token as that of a session, which is valid by the machine's clock.
func (w *world) sessionToken(d *device, scope string) string {
	return must(auth.SignSession([]byte(harness.Secret), d.id, scope, d.session, "", "", time.Now(), time.Hour))
}

// has reports whether a table has a row.
func (w *world) has(table, condition string, args ...any) bool {
	var n int64
	check(w.truth.Gorm.Table(table).Where(condition, args...).Count(&n).Error)
	return n > 0
}

// lookAtGuests returns those who have signed up since, and expects an outcome for each who has joined somebody.
func (w *world) lookAtGuests() (found []*guest) {
	var rows []struct {
		UserID       models.RowID
		ID, JoinedBy models.UserID
		Invited      bool
		CreatedAt    time.Time
	}
	check(w.truth.Gorm.Raw(`SELECT u.user_id, u.external_id AS id, coalesce(i.external_id, '') AS joined_by,
		n.invited_by IS NOT NULL AS invited, n.created_at
		FROM newcomers n JOIN users u ON u.user_id = n.user_id
		LEFT JOIN friendships f ON f.user_id = n.user_id AND f.friend_id = n.invited_by LEFT JOIN users i ON i.user_id = f.friend_id
		ORDER BY u.user_id`).Scan(&rows).Error)
	for _, row := range rows {
		if slices.ContainsFunc(w.signIns.guests, func(g *guest) bool { return g.id == row.ID }) {
			continue
		}
		g := &guest{id: row.ID, row: row.UserID}
		if row.Invited {
			g.invited = row.CreatedAt.UTC().Truncate(24 * time.Hour)
		}
		w.signIns.guests, found = append(w.signIns.guests, g), append(found, g)
		w.names[string(g.id)] = fmt.Sprintf("guest-%d", len(w.signIns.guests))
		if row.JoinedBy != "" {
			w.model.outcomes[fact("friend.accepted", row.JoinedBy, g.id)]++
		}
	}
	return found
}

// madeCode notes a new code of a guest, which ends the one before.
func (w *world) madeCode(g *guest, text string, ends models.Timestamp) {
	for _, c := range w.signIns.codes {
		c.used = c.used || c.guest == g
	}
	w.signIns.codes = append(w.signIns.codes, &signInCode{guest: g, text: text, ends: ends.Time()})
}

// lookAtCode asks the database whether a code is used, after an answer that nobody knows.
func (w *world) lookAtCode(c *signInCode) {
	code, _ := codes.Parse(c.text)
	c.used = c.used || !w.has("sign_in_codes", "key_hash = ?", codes.HashOf(code))
}

func (w *world) makeCard(ctx context.Context, r *replica) {
	got := w.call(ctx, r, w.token("operator", auth.ScopeAdmin), "POST", "/v1/admin/sign-in-codes", `{"people":[{"nickname":"guest"}]}`)
	found := w.lookAtGuests()
	if got.unknown() {
		return
	}
	made := decode[struct {
		Codes []struct {
			Code string
			Ends models.Timestamp `json:"expires_at"`
		}
	}](w, got.body)
	if got.status != http.StatusCreated || len(found) != 1 || len(made.Codes) != 1 {
		w.failf("status %d, and %d cards for %d new users", got.status, len(made.Codes), len(found))
	}
	w.madeCode(found[0], made.Codes[0].Code, made.Codes[0].Ends)
}

// makeSignInCode makes a code for a further device, or lets an operator do so.
func (w *world) makeSignInCode(ctx context.Context, r *replica) {
	d := w.workingDevice()
	if d == nil {
		return
	}
	token, path, body := w.sessionToken(d, ""), "/v1/me/sign-in-codes", ""
	if w.random.IntN(2) == 0 {
		token, path, body = w.token("operator", auth.ScopeAdmin), fmt.Sprintf("/v1/admin/users/%s/sign-in-codes", d.id), `{"ttl":"24h"}`
	}
	got := w.call(ctx, r, token, "POST", path, body)
	switch {
	case got.unknown():
		for _, c := range w.signIns.codes {
			w.lookAtCode(c)
		}
	case got.status != http.StatusCreated:
		w.failf("a sign-in code is refused")
	default:
		made := decode[struct {
			Code string
			Ends models.Timestamp `json:"expires_at"`
		}](w, got.body)
		w.madeCode(d.guest, made.Code, made.Ends)
	}
}

func (w *world) signInByCode(ctx context.Context, r *replica) {
	if w.signIns.using = anyOf(w, w.signIns.codes); w.signIns.using != nil {
		w.signInBy(ctx, r, w.signIns.using)
	}
}

// signInBy opens a session by a code, which works once, often on a device that has another session, which ends.
func (w *world) signInBy(ctx context.Context, r *replica, c *signInCode) {
	before := &device{guest: c.guest, ended: true}
	if w.random.IntN(3) == 0 && len(w.signIns.devices) > 0 {
		before = anyOf(w, w.signIns.devices)
	}
	left := c.ends.Sub(w.now(r))
	got := w.callOn(ctx, r, "", before.cookie, "POST", "/v1/session", fmt.Sprintf(`{"code":%q}`, c.text))
	before.ended = before.ended || !w.has("sessions", "id = ?", before.session)
	ended := c.used || c.erased
	switch {
	case got.unknown():
		w.lookAtCode(c)
	case got.status == http.StatusNotFound && (ended || left < 2*skewLimit):
	case got.status != http.StatusCreated || ended || left < -2*skewLimit:
		w.failf("a code is answered with %d; it has ended: %v", got.status, ended)
	case !before.ended && !r.gate.wasStruck():
		w.failf("the session before does not end")
	default:
		c.used = true
		w.opened(r, got, c.guest)
	}
}

// opened notes a session that was opened.
func (w *world) opened(r *replica, got reply, g *guest) {
	answer := decode[struct {
		Session  struct{ ID string }
		User     models.UserID `json:"user_id"`
		Operator bool
	}](w, got.body)
	if answer.User != g.id || answer.Operator != g.operator {
		w.failf("the session is of %s, operator: %v", answer.User, answer.Operator)
	}
	session, now := must(strconv.ParseInt(answer.Session.ID, 10, 64)), w.now(r)
	w.signIns.devices = append(w.signIns.devices, &device{guest: g, session: session, cookie: got.cookie, opened: now, used: now, maybe: now})
}

// signInByInvitation lets somebody new join a guest as a friend, unless too many have joined today, and sometimes renews
// the invitation before.
func (w *world) signInByInvitation(ctx context.Context, r *replica) {
	d := w.workingDevice()
	if d == nil {
		return
	}
	got := w.call(ctx, r, w.sessionToken(d, ""), []string{"GET", "GET", "POST"}[w.random.IntN(3)], "/v1/me/invite", "")
	today, joined := w.now(r).UTC().Truncate(24*time.Hour), 0
	for _, g := range w.signIns.guests {
		if g.invited.Equal(today) {
			joined++
		}
	}
	if got.status == http.StatusOK {
		code := decode[struct {
			Code string `json:"invite_code"`
		}](w, got.body).Code
		if d.invitation != "" && d.invitation != code {
			w.signIns.codes = append(w.signIns.codes, &signInCode{guest: d.guest, text: d.invitation, used: true})
		}
		d.invitation, w.names[code] = code, "invitation of "+w.names[string(d.id)]
		got = w.callOn(ctx, r, "", "", "POST", "/v1/session", fmt.Sprintf(`{"code":%q,"nickname":"guest"}`, code))
	}
	found := w.lookAtGuests()
	switch {
	case got.unknown():
	case joined >= newPerDay && got.status == http.StatusTooManyRequests && len(found) == 0:
	case joined >= newPerDay || got.status != http.StatusCreated || len(found) != 1:
		w.failf("status %d, and %d new users after %d on the day", got.status, len(found), joined)
	default:
		w.opened(r, got, found[0])
	}
}

// useSession asks for a token of a session, or makes a call with one. A token of a session that was ended is valid
// until it ends, but for one of scope admin; of somebody erased nothing works, and makes nobody anew.
func (w *world) useSession(ctx context.Context, r *replica) {
	d, now := anyOf(w, w.signIns.devices), w.now(r)
	if d == nil || d.idle(now) {
		return
	}
	d.maybe = now
	got, status := reply{}, http.StatusUnauthorized
	switch kind := w.random.IntN(4); kind {
	case 0:
		got = w.callOn(ctx, r, "", d.cookie, "POST", "/v1/session/token", `{}`)
		if d.works() {
			status = http.StatusOK
		}
		if got.status == http.StatusOK && !r.gate.wasStruck() {
			d.used = now
		}
	case 1, 2:
		if got = w.call(ctx, r, w.sessionToken(d, auth.ScopeAdmin), "GET", "/v1/admin/operators", ""); kind == 1 {
			got = w.callOn(ctx, r, "", d.cookie, "POST", "/v1/session/token", `{"scope":"admin"}`)
		}
		if d.works() && d.operator {
			status = http.StatusOK
		} else if d.works() && kind == 1 {
			status = http.StatusForbidden
		}
	case 3:
		if got = w.call(ctx, r, w.sessionToken(d, ""), "PUT", "/v1/me", `{"nickname":"guest"}`); !d.erased {
			status = http.StatusOK
		} else if w.late(r, d.id) {
			status = got.status
		}
	}
	if !got.unknown() && got.status != status {
		w.failf("%s, operator: %v, erased: %v, session ended: %v: status %d", w.names[string(d.id)], d.operator, d.erased, d.ended, got.status)
	}
	if d.erased && w.has("users", "external_id = ?", d.id) {
		w.failf("%s is made anew", w.names[string(d.id)])
	}
}

func (w *world) endSession(ctx context.Context, r *replica) {
	d := anyOf(w, w.signIns.devices)
	if d == nil || d.erased || d.idle(w.now(r)) {
		return
	}
	var got reply
	if w.random.IntN(2) == 0 {
		got = w.callOn(ctx, r, "", d.cookie, "DELETE", "/v1/session", `{}`)
	} else {
		got = w.call(ctx, r, w.sessionToken(d, ""), "DELETE", fmt.Sprintf("/v1/me/sessions/%d", d.session), "")
	}
	switch {
	case got.unknown():
		d.ended = d.ended || !w.has("sessions", "id = ?", d.session)
	case got.status == http.StatusNoContent, got.status == http.StatusNotFound && d.ended:
		d.ended = true
	default:
		w.failf("a session can't be ended")
	}
}

// lastOperator reports whether a guest is the only operator.
func (w *world) lastOperator(g *guest) bool {
	return g.operator && !slices.ContainsFunc(w.signIns.guests, func(o *guest) bool { return o != g && o.operator && !o.erased })
}

func (w *world) changeOperator(ctx context.Context, r *replica) {
	g := anyOf(w, w.signIns.guests)
	if g == nil || g.erased {
		return
	}
	method, last := "PUT", false
	if w.random.IntN(2) == 0 {
		method, last = "DELETE", w.lastOperator(g)
	}
	got := w.call(ctx, r, w.token("operator", auth.ScopeAdmin), method, "/v1/admin/operators/"+string(g.id), "")
	switch {
	case got.unknown():
		g.operator = w.has("operators", "user_id = ?", g.row)
	case last && got.status == http.StatusConflict:
	case last || got.status != http.StatusNoContent:
		w.failf("status %d; the last operator: %v", got.status, last)
	default:
		g.operator = method == "PUT"
	}
}

func (w *world) eraseGuest(ctx context.Context, r *replica) {
	d := w.workingDevice()
	if d == nil {
		return
	}
	token, path, body := w.sessionToken(d, ""), "/v1/me", `{"confirm":"erase"}`
	if w.random.IntN(2) == 0 {
		token, path, body = w.token("operator", auth.ScopeAdmin), "/v1/admin/users/"+string(d.id), `{"reason":"a test"}`
	}
	last := w.lastOperator(d.guest) && w.has("users", "user_id <> ?", d.row)
	got := w.call(ctx, r, token, "DELETE", path, body)
	w.lookAtErasures()
	d.erased = !w.has("users", "user_id = ?", d.row)
	switch {
	case got.unknown():
	case d.erased == last, last && got.status != http.StatusConflict, !last && got.status != http.StatusAccepted:
		w.failf("status %d, erased: %v; the last operator: %v", got.status, d.erased, last)
	case d.erased:
		w.model.erasures[len(w.model.erasures)-1].knownBy[r.name] = true
	}
}

// restoreSessions restores the folder beside it as of a time. What was ended since then does not work in it.
func (w *world) restoreSessions(at time.Time) {
	ctx, dir := w.t.Context(), w.t.TempDir()
	path := filepath.Join(dir, databaseName)
	check(os.WriteFile(path, nil, 0o600))
	must(backups.Restore(ctx, w.copies.target, path, at, func(backups.Progress) {}))
	r := &replica{name: "restored", gate: newGate(), stores: must(stores.OpenFolder(ctx, dir, w.clock.Now))}
	r.app = must(app.Build(ctx, app.Options{
		Config: w.config(r), Stores: r.stores, Clock: w.clock.Now, Machine: w.clock.Now, Elapsed: w.clock.Now, Log: testenv.Log(), KeepStoredBoards: true,
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)}), Roles: app.AllRoles(),
	}))
	defer func() { check(r.app.Close()) }()
	later := w.truth.Database
	must(r.app.TakeOver(ctx, must(app.ReadReplaced(ctx, &stores.Stores{Database: later, Jobs: later, Reports: later}))))
	for _, d := range w.signIns.devices {
		got := w.callOn(ctx, r, "", d.cookie, "POST", "/v1/session/token", `{}`)
		now := w.clock.Now()
		if !d.idle(now) && d.works() && d.opened.Before(at) && now.Sub(d.opened) < sessionTTL-slack && got.status != http.StatusOK || !d.works() && got.status != http.StatusUnauthorized {
			w.failf("in a restored database: status %d for a session of %v that works: %v", got.status, d.opened, d.works())
		}
		if admin := w.call(ctx, r, w.sessionToken(d, auth.ScopeAdmin), "GET", "/v1/admin/operators", ""); !d.operator && admin.status == http.StatusOK {
			w.failf("in a restored database somebody is an operator again")
		}
	}
	for _, c := range w.signIns.codes {
		if got := w.callOn(ctx, r, "", "", "POST", "/v1/session", fmt.Sprintf(`{"code":%q}`, c.text)); (c.used || c.erased) && got.status != http.StatusNotFound {
			w.failf("in a restored database a code works again: status %d", got.status)
		}
	}
}
