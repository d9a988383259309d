package browser

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// The tabs say how many friend requests wait, and how many likes have come since today's ranking was
// seen.
func TestBadges(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 1))
	var likes atomic.Int64
	likes.Store(2)
	f.handle("GET /v1/boards/steps/friends", func(w http.ResponseWriter, _ *http.Request) {
		ranking := rankingFrom(1, 2, 1)
		for _, e := range ranking["entries"].([]any) {
			e.(map[string]any)["likes"], e.(map[string]any)["liked"] = likes.Load(), false
		}
		respond(w, http.StatusOK, ranking)
	})
	request := func(user, direction string) any {
		return map[string]any{"user_id": user, "nickname": "", "avatar_url": "", "direction": direction, "created_at": "2026-11-20T01:00:00Z"}
	}
	f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{request("2", "incoming"), request("3", "outgoing"), request("4", "incoming")}})
	f.handle("DELETE /v1/friends/requests/2", func(w http.ResponseWriter, _ *http.Request) {
		f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{request("4", "incoming")}})
		w.WriteHeader(http.StatusNoContent)
	})
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/history", fakeToken())
	badge := func(tab string) string {
		return "(document.querySelector('.tabs a[href=\"" + tab + "\"] .badge .visually-hidden')?.textContent ?? '')"
	}
	p.goTo("#/")
	p.until("requests are counted", badge("#/friends")+" === '2 friend requests'")
	p.until("the likes are seen", badge("#/")+" === ''")
	p.checkAccess("tabs with a badge")
	p.checkLayout("tabs with a badge")
	p.screenshot("badges-390")

	p.goTo("#/friends")
	likes.Store(5)
	p.until("the requests are there", "document.querySelector('.person-actions .button') !== null")
	p.click(".person-actions .button") // declines
	p.until("one request is left", badge("#/friends")+" === '1 friend request'")
	p.until("new likes are counted", badge("#/")+" === '3 new likes'")
	p.goTo("#/")
	p.until("they are seen", badge("#/")+" === ''")
}
