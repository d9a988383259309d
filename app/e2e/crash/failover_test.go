package crash_test

import (
	"fmt"
	"net/http"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// A replica that has missed corrections, a lifting, an erasure and many uploads takes over.
// The queue brings the uploads back, and corrections and the erasure hold as before. Lifting
// gives back what was uploaded last.
func TestSoakFailoverToAReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	servers := testenv.StartSplit(t)
	r := startLossyRun(t, servers.UseFormer, servers.Former)
	corrections := 0
	correct := func(user models.UserID, kind string) {
		t.Helper()
		for _, board := range r.boards {
			body := fmt.Sprintf(`{"reason":"shaken","board":%q,"date":%q,"user_id":%q,%s}`, board, r.date, user, kind)
			r.call("ops", auth.ScopeAdmin, "POST", "/v1/admin/corrections", body, http.StatusCreated)
			corrections++
		}
	}
	lift := func(id int) {
		t.Helper()
		path := fmt.Sprintf("/v1/admin/corrections/%d/lift", id)
		r.call("ops", auth.ScopeAdmin, "POST", path, `{"reason":"a marathon"}`, http.StatusOK)
	}
	users := []models.UserID{"ann", "low", "out", "free"}
	r.upload(append(users, "zed")...)
	harness.AwaitDrained(t, r.api)
	friends := `{"friend_ids":["low","out","free","zed"]}`
	r.call("ops", auth.ScopeService, "PUT", "/v1/users/ann/friends", friends, http.StatusOK)
	correct("free", `"kind":"exclude"`)
	r.shows("before", r.lines("zed", "out", "low", "ann"))
	zed := harness.Rows(t, r.env.Gorm, []models.UserID{"zed"})[0]

	servers.CutReplica()
	correct("low", `"kind":"set","score":1000`)
	correct("out", `"kind":"exclude"`)
	for id := range len(r.boards) {
		lift(id + 1)
	}
	r.call("zed", "", "DELETE", "/v1/me", `{"confirm":"erase"}`, http.StatusAccepted)
	r.upload(users...)
	right := func() string { return r.lines("free", "ann") + " low:1000" }
	r.shows("the replica is behind", right())
	testenv.Eventually(t, "the master has nothing of the erased user", func() bool { return len(r.entries(zed)) == 0 })
	harness.AwaitDrained(t, r.api)

	servers.FailOver()
	if len(r.entries(zed)) == 0 {
		t.Fatal("the replica has missed nothing")
	}
	r.shows("the replica has taken over", right())
	r.sweep(zed)
	r.upload(users...)
	r.shows("the replica is used", right())
	if left := r.entries(zed); len(left) > 0 {
		t.Errorf("Redis has the erased user in %v", left)
	}
	for id := len(r.boards); id < corrections; id++ {
		lift(id + 1)
	}
	r.shows("lifted", r.lines("free", "out", "low", "ann"))
}
