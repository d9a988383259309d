package simulation_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"stepboard/models"
)

// phone is an upload address whose key is known.
type phone struct {
	id, key string
	user    models.UserID
	// row is the user's when the address was made; of one who was erased since, it is another one.
	row models.RowID
	// unsure says that nobody knows whether the address still takes anything, revoked that it takes nothing.
	unsure, revoked bool
}

// phoneSomething takes a step about phones, or none.
func (w *world) phoneSomething() {
	others := w.random
	w.random = w.phoning
	defer func() { w.random = others }()
	r := w.replicas[w.random.IntN(len(w.replicas))]
	if w.random.IntN(4) > 0 || r.app == nil || w.failure != nil {
		return
	}
	a := pick(w, []action{
		{"make an upload address", 2, false, (*world).addPhone},
		{"send from a phone", 6, false, (*world).sendFromPhone},
		{"revoke an upload address", 1, false, (*world).revokePhone},
	}, func(a action) int { return a.weight })
	p := plan{}
	if w.random.IntN(3) == 0 {
		p = w.broken(r, a)
	}
	w.take(r, a, p)
}

func (w *world) addPhone(ctx context.Context, r *replica) {
	user := w.person()
	late := w.late(r, user)
	got := w.call(ctx, r, w.token(user, ""), "POST", "/v1/me/upload-addresses", `{"name":"phone","board":"steps"}`)
	switch {
	case got.unknown() || got.status == http.StatusConflict || late:
		return
	case got.status != http.StatusCreated:
		w.failf("an upload address is refused")
	}
	made := decode[struct{ ID, Key string }](w, got.body)
	w.phones = append(w.phones, &phone{id: made.ID, key: made.Key, user: user, row: w.row(user)})
}

// sendFromPhone sends the total of a day in one of the forms. The address of a user who was erased takes
// nothing, also when the user id has returned.
func (w *world) sendFromPhone(ctx context.Context, r *replica) {
	if len(w.phones) == 0 {
		return
	}
	p := w.phones[w.random.IntN(len(w.phones))]
	now := w.now(r)
	day, v := w.openDay(now), value{w.points(), models.TimestampOf(now)}
	midnight := day.UTC().Add(-8 * time.Hour).Format(time.RFC3339)
	body := []string{
		fmt.Sprintf(`{"date":%q,"score":%d}`, day, v.score),
		fmt.Sprintf(`{"data":{"metrics":[{"name":"step_count","data":[{"date":"%s 00:00:00 +0800","qty":%d.0}]}]}}`, day, v.score),
		fmt.Sprintf(`{"app_version":"1","steps":[{"count":%d,"start_time":%q}]}`, v.score, midnight),
		fmt.Sprintf(`[{"type":"step","value":"%d","date":%q}]`, v.score, day),
		fmt.Sprintf(`steps=%d&date=%s`, v.score, day),
	}[w.random.IntN(5)]
	late := w.late(r, p.user)
	gone := p.revoked || p.row != w.row(p.user)
	if !gone {
		w.sent(p.user, day, v)
	}
	got := w.call(ctx, r, p.key, "POST", "/v1/in", body)
	switch {
	case got.unknown() || late:
	case gone:
		if got.status != http.StatusUnauthorized {
			w.failf("an upload address that has ended takes something")
		}
	case got.status == http.StatusUnauthorized && p.unsure:
		p.revoked = true
	case got.status != w.accepted() || !strings.Contains(string(got.body), `"rejected":[]`):
		w.failf("what a phone sends is refused")
	default:
		w.acknowledged(p.user, day, v)
	}
}

func (w *world) revokePhone(ctx context.Context, r *replica) {
	if len(w.phones) == 0 {
		return
	}
	p := w.phones[w.random.IntN(len(w.phones))]
	if p.row != w.row(p.user) || w.late(r, p.user) {
		return
	}
	got := w.call(ctx, r, w.token(p.user, ""), "DELETE", "/v1/me/upload-addresses/"+p.id, "")
	switch {
	case got.unknown():
		p.unsure = true
	case got.status == http.StatusNoContent, got.status == http.StatusNotFound && (p.revoked || p.unsure):
		p.revoked = true
	default:
		w.failf("an upload address can't be revoked")
	}
}
