package browser

import (
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// The page sends the offset of the visitor's clock, so that a board whose days are each
// user's own shows the visitor's today, and names that day.
func TestLocalDays(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.returns("GET /v1/boards", map[string]any{"boards": []any{
		map[string]any{"name": "steps-local", "kind": "daily", "time_zone": "local", "current": map[string]any{"date": fakeDay}},
	}})
	ranking := rankingFrom(1, 2, 3, 1)
	f.ranks(ranking) // of the screen that opens first
	f.handle("GET /v1/boards/steps-local/top", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("utc_offset") != "+05:45" {
			refuse(w, http.StatusUnprocessableEntity, "utc_offset_required")
			return
		}
		respond(w, http.StatusOK, ranking)
	})
	p := newPage(t, phone)
	_, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
	p.must(err)
	p.signIn(f.URL, fakeToken())
	p.goTo("#/boards/steps-local/top")
	p.until("the ranking is there", rankingShown)
	p.until("the board says which day it is", "document.querySelector('.about-text p').textContent.includes('own calendar day · ') && document.querySelector('.about-text p').textContent.includes('20')")
	p.checkLayout("local days")
}
