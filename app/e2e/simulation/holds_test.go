package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"stepboard/models"
	"stepboard/services/platform/auth"
)

// holdAbove is the limit of board steps. No other step uploads as much.
const holdAbove = 95_000

// holdings holds what is known of held totals. The database must have what was sent and decided.
type holdings struct {
	// sent are the totals above the limit that were sent, and least is the best of those that were
	// acknowledged as held.
	sent  map[holdKey][]value
	least map[holdKey]*value
	// asked are the states that operators have asked for, by hold.
	asked map[int64][]models.HoldState
	// written are the holds that are known to be with the writer.
	written map[int64]bool
}

type holdKey struct {
	row models.RowID
	day models.Date
}

func newHoldings() holdings {
	return holdings{
		sent: make(map[holdKey][]value), least: make(map[holdKey]*value), asked: make(map[int64][]models.HoldState), written: make(map[int64]bool),
	}
}

// valueOf returns the total of a hold.
func valueOf(h models.Hold) value { return value{h.Score, models.TimestampOf(h.ReachedAt)} }

// holdSomething takes a step about held totals, or none.
func (w *world) holdSomething() {
	others := w.random
	w.random = w.holding
	defer func() { w.random = others }()
	if w.random.IntN(3) > 0 {
		return
	}
	for range 1 + w.random.IntN(3) {
		r := w.replicas[w.random.IntN(len(w.replicas))]
		if r.app == nil || w.failure != nil {
			continue
		}
		a := pick(w, []action{
			{"upload above the limit", 4, false, (*world).uploadHeld},
			{"decide about a held total", 3, false, (*world).decideHeld},
			{"see the own held total", 1, false, (*world).readHeld},
			{"holds", 1, false, func(w *world, ctx context.Context, r *replica) { w.doRound(ctx, r, "holds") }},
		}, func(a action) int { return a.weight })
		p := plan{}
		if w.random.IntN(3) == 0 {
			p = w.broken(r, a)
		}
		w.take(r, a, p)
		w.lookAtHolds()
	}
}

// heldRows returns the holds that the database has.
func (w *world) heldRows() (rows []models.Hold) {
	check(w.truth.Gorm.Order("id").Find(&rows).Error)
	return rows
}

// heldRow returns the hold of a user's day; nil for none.
func (w *world) heldRow(user models.UserID, day models.Date) *models.Hold {
	for _, h := range w.heldRows() {
		if h.Row == w.row(user) && h.Day == day {
			return &h
		}
	}
	return nil
}

func (w *world) uploadHeld(ctx context.Context, r *replica) {
	now, user := w.now(r), w.person()
	day, score := w.openDay(now), holdAbove+1+10*w.random.Int64N(5)
	if h := w.heldRow(user, day); h != nil && h.State == models.HoldReleased {
		w.report(ctx, r, user, []uploaded{{day.String(), score, day}})
		return
	}
	late, v := w.late(r, user), value{score, models.TimestampOf(now)}
	path, token, body := "scores", w.token(user, ""), fmt.Sprintf(`{"date":%q,"score":%d}`, day, score)
	if w.random.IntN(2) == 0 {
		path, token = "scores/batch", w.token("backend", auth.ScopeService)
		body = fmt.Sprintf(`{"scores":[{"user_id":%q,"date":%q,"score":%d}]}`, user, day, score)
	}
	got := w.call(ctx, r, token, "POST", "/v1/boards/steps/"+path, body)
	key := holdKey{w.row(user), day} // the call may have created the user
	w.holds.sent[key] = append(w.holds.sent[key], v)
	if got.unknown() {
		return
	}
	text := string(got.body)
	if got.status != w.accepted() || !strings.Contains(text, `"held":true`) && !strings.Contains(text, `"held":[0]`) {
		w.failf("a total above the limit is not held")
	}
	if least := w.holds.least[key]; !late && (least == nil || v.better(*least)) {
		w.holds.least[key] = &v
	}
}

func (w *world) decideHeld(ctx context.Context, r *replica) {
	if rows := w.heldRows(); len(rows) > 0 {
		w.decide(ctx, r, rows[w.random.IntN(len(rows))])
	}
}

// decide decides about a held total.
func (w *world) decide(ctx context.Context, r *replica, h models.Hold) {
	state, score := models.HoldReleased, h.Score
	if w.random.IntN(2) == 0 {
		state = models.HoldRejected
	}
	if w.random.IntN(4) == 0 {
		score--
	}
	w.decideThat(ctx, r, h, state, score)
}

// decideThat sets the state of a held total that an operator has looked at with some score.
func (w *world) decideThat(ctx context.Context, r *replica, h models.Hold, state models.HoldState, score int64) {
	call, want := map[models.HoldState]string{models.HoldReleased: "release", models.HoldRejected: "reject"}[state], http.StatusOK
	if score != h.Score || h.State == models.HoldReleased && state != h.State {
		want = http.StatusConflict
	}
	user := w.userOf(h.Row)
	if want == http.StatusOK {
		w.holds.asked[h.ID] = append(w.holds.asked[h.ID], state)
		if user != "" && state == models.HoldReleased {
			w.sent(user, h.Day, valueOf(h))
		}
	}
	body := fmt.Sprintf(`{"reason":"a test","score":%d}`, score)
	defer w.deciding()()
	got := w.call(ctx, r, w.token("operator", auth.ScopeAdmin), "POST", fmt.Sprintf("/v1/admin/holds/%d/%s", h.ID, call), body)
	swept := user == "" && got.status == http.StatusNotFound
	if !got.unknown() && got.status != want && !swept {
		w.failf("status %d, want %d", got.status, want)
	}
}

// readHeld compares what a user is shown of an own held total with the database.
func (w *world) readHeld(ctx context.Context, r *replica) {
	user, day := w.person(), w.openDay(w.now(r))
	late := w.late(r, user)
	got := w.call(ctx, r, w.token(user, ""), "GET", "/v1/boards/steps/me?date="+day.String(), "")
	if got.status != http.StatusOK || late {
		return
	}
	shown := decode[struct {
		Held *struct {
			Score int64            `json:"score"`
			At    models.Timestamp `json:"reached_at"`
		} `json:"held"`
	}](w, got.body).Held
	h := w.heldRow(user, day)
	open := h != nil && h.State == models.HoldOpen
	if open != (shown != nil) || open && valueOf(*h) != (value{shown.Score, shown.At}) {
		w.failf("the held total %+v is shown as %+v", h, shown)
	}
}

// lookAtHolds compares the holds of the database with what was sent and decided, and notes what the
// writer has.
func (w *world) lookAtHolds() {
	found := make(map[holdKey]bool)
	for _, h := range w.heldRows() {
		key := holdKey{h.Row, h.Day}
		found[key] = true
		user := w.userOf(h.Row)
		if user == "" {
			continue // was erased, or is known to nobody
		}
		least, v := w.holds.least[key], valueOf(h)
		switch {
		case !slices.Contains(w.holds.sent[key], v):
			w.failf("%v of %s is held, which was never sent", &v, user)
		case least != nil && least.better(v):
			w.failf("%v of %s is held, after %v was", &v, user, least)
		case h.State != models.HoldOpen && !slices.Contains(w.holds.asked[h.ID], h.State):
			w.failf("a total of %s is %s, which nobody has asked for", user, h.State)
		case h.WrittenAt != nil && h.State != models.HoldReleased:
			w.failf("a total of %s is written, and is %s", user, h.State)
		}
		// A day that is cold shows it once the archive has merged it.
		if h.WrittenAt != nil && !w.holds.written[h.ID] && w.clock.Now().Add(time.Hour).Before(coldAt(h.Day)) {
			w.acknowledged(user, h.Day, v)
		}
		w.holds.written[h.ID] = h.WrittenAt != nil
	}
	for key := range w.holds.least {
		if user := w.userOf(key.row); user != "" && !found[key] {
			w.failf("a held total of %s on %v is lost", user, key.day)
		}
	}
}

// writeReleased lets a replica hand over what was released.
func (w *world) writeReleased(r *replica) {
	w.takeRound(r, "holds")
	w.lookAtHolds()
	for _, h := range w.heldRows() {
		if h.State == models.HoldReleased && h.WrittenAt == nil {
			w.failf("a released total is never written")
		}
	}
}
