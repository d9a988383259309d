package browser

import (
	"maps"
	"strings"
	"testing"
)

// The viewer reads why the own score of a day is what it is: what counts, what was sent, what the operators
// have decided and say about it, and until when the day can change.
func TestWhyThisNumber(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	const at = "2026-11-20T13:00:00.000Z"
	corrected := map[string]any{
		"board": "steps", "date": fakeDay, "score": 4000, "reached_at": at, "reported": map[string]any{"score": 98_800, "reached_at": at},
		"pending":    map[string]any{"score": nil, "reached_at": nil},
		"correction": map[string]any{"kind": "set", "since": at, "message": "Ask <us>"}, "open_until": at, "final": true, "archived": true,
	}
	f.returns("GET /v1/boards/steps/me/explain", corrected)
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	says := func(what string, sentences ...string) {
		t.Helper()
		p.until(what+": the dialog is there", "document.querySelector('dialog[open] .why-text p') !== null")
		got := eval[[]string](p, "[...document.querySelectorAll('dialog[open] .why-text p')].map((p) => p.textContent.trim())")
		for i, want := range sentences {
			if len(got) != len(sentences) || !strings.HasPrefix(got[i], strings.TrimSuffix(want, "…")) {
				t.Fatalf("%s: the dialog says %q, want %q", what, got, sentences)
			}
		}
	}
	p.until("the mark is there", "document.querySelector('.hero .why') !== null")
	p.click(".hero .why")
	says("corrected", "What counts: 4,000 steps, …", "What was sent: 98,800 steps, …", "The operators changed the score, …", "Ask <us>",
		"When the day has been ranked anew, no score will count.", "The day took uploads until …")
	p.screenshot("why-390")
	p.emulate(viewport{width: 390, height: 844, dark: true})
	p.screenshot("why-390-dark")
	p.click("dialog[open] .button")
	p.until("the dialog is gone", "document.querySelector('dialog') === null")
	why := maps.Clone(corrected)
	why["reported"], why["pending"], why["correction"], why["final"] = nil, nil, nil, false
	f.returns("GET /v1/boards/steps/me/explain", why)
	p.click(".hero .why")
	says("as it was sent", "What counts: 4,000 steps, …", "It is the highest total …", "The day takes uploads until …")
	p.click("dialog[open] .button")
	p.until("the dialog is gone again", "document.querySelector('dialog') === null")

	f.ranks(rankingFrom(2, 3))
	why = maps.Clone(why)
	why["score"], why["reached_at"] = nil, nil
	f.returns("GET /v1/boards/steps/me/explain", why)
	p.until("the button is there", "document.querySelector('.side .yesterday .button') !== null")
	p.click(".side .yesterday .button")
	says("without a score", "No score counts on this day.", "The day takes uploads until …")
}
