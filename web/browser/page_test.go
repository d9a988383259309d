package browser

import (
	"testing"
)

// Numbers of any length stay on one line, with names beside them.
func TestLongRanks(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks("steps", rankingFrom(19_671, 2, 3, 1, 4))
	f.returns("GET /v1/boards/steps/around", rankingFrom(1_234_567, 2, 3, 1, 4))
	p := newPage(t, viewport{width: 320, height: 640})
	p.signIn(f.URL, fakeToken())
	for _, hash := range []string{"#/", "#/boards/steps/around"} {
		p.goTo(hash)
		p.until("the ranking is there", "location.hash === '"+hash+"' && document.querySelector('main h1') && "+rankingShown)
		p.checkLayout(hash)
		if bad := eval[[]string](p, `[...document.querySelectorAll('.row .rank, .row .score')].filter((e) => {
			const text = document.createRange();
			text.selectNodeContents(e);
			const lines = new Set([...text.getClientRects()].map((r) => r.top));
			return lines.size !== 1 || e.matches('.rank') && text.getBoundingClientRect().right > e.closest('.row').querySelector('.who').getBoundingClientRect().left;
		}).map((e) => e.textContent)`); len(bad) > 0 {
			t.Errorf("%s: %q break or overlap", hash, bad)
		}
		if narrow := eval[float64](p, "Math.min(...[...document.querySelectorAll('.row .name')].map((e) => e.getBoundingClientRect().width))"); narrow < 40 {
			t.Errorf("%s: a name has %.0f pixels", hash, narrow)
		}
	}
	p.screenshot("long-ranks-320")
}
