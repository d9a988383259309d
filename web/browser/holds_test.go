package browser

import (
	"net/http"
	"testing"
)

// Whoever has uploaded an unusually large total is told that it waits, and is shown what counts.
func TestDemoHeldTotal(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	today := rankingOf(t, base, people[0].Token, "")
	callAPI(t, people[0].Token, http.MethodPost, base+"/v1/boards/steps/scores", map[string]any{"date": today.Date, "score": 99_500}, nil)
	p := newPage(t, phone)
	p.open(base)
	p.until("the hint is there", "[...document.querySelectorAll('.yesterday')].some((e) => e.textContent.includes('99,500 is unusual and waits'))")
	if shown := eval[string](p, "document.querySelector('.ranking').textContent"); shown == "" || eval[bool](p, "document.querySelector('.ranking').textContent.includes('99,500')") {
		t.Errorf("the ranking shows the held total: %s", shown)
	}
	p.screenshot("held-390")
}
