package browser

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// A user id may be any visible ASCII characters.
func TestUserIDsAreOpaque(t *testing.T) {
	t.Parallel()
	const id = `a/b?c=%41#<i>"'&;`
	f := newFakeService(t, false)
	ranking := rankingFrom(1, 2, 1)
	strange := ranking["entries"].([]any)[0].(map[string]any)
	strange["user_id"], strange["nickname"] = id, ""
	strange["since"], strange["direction"] = "2026-01-01T00:00:00Z", "incoming"
	f.ranks(ranking)
	f.returns("GET /v1/friends", map[string]any{"friends": []any{strange}, "next_cursor": nil})
	f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{strange}})
	f.returns("GET /v1/me", map[string]any{"user_id": `"own id"`, "nickname": "", "avatar_url": ""})
	asked := atomic.Pointer[url.Values]{}
	f.handle("GET /v1/boards/steps/history", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		asked.Store(&query)
		respond(w, http.StatusOK, map[string]any{"entries": []any{}})
	})
	for _, call := range []string{"POST /v1/friends/requests/" + id + "/accept", "DELETE /v1/friends/" + id, "POST /v1/friends/requests"} {
		f.returns(call, map[string]any{"status": "pending"})
	}
	p := newPage(t, phone)
	p.signIn(f.URL, tokenOf(`"own id"`, "x"))
	p.until("the ranking is there", rankingShown)
	p.click(".ranking > li:not(.own) a")
	p.until("the history is there", "document.querySelector('h1 .name')?.textContent === "+quoted("#"+id))
	p.until("it is empty", "document.querySelector('.notice') !== null")
	if got := asked.Load().Get("for"); got != id {
		t.Errorf("the history is asked for %q", got)
	}
	p.goTo("#/friends")
	p.click(".person-actions .strong")
	p.until("the request is accepted", "document.querySelector('.message').textContent.startsWith('You and')")
	p.click(".person .round")
	p.click("[data-action=remove]")
	p.click("dialog .danger")
	p.until("the friend is removed", "document.querySelector('.message').textContent.endsWith('is removed.')")
	p.typeIn("#ask", "auth0|5f7c-"+strings.Repeat("x", 100))
	p.click("form.ask .strong")
	p.until("the request is sent", "document.querySelector('.message').textContent === 'Request sent.'")
}

// quoted returns a text as a JavaScript string.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `\'`) + "'" }
