package browser

import (
	"testing"
)

// Who leads is at the top of the ranking, on their cover if the page's own server has it, and
// otherwise on a gradient. Without scores there is no header.
func TestChampion(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	led := func(cover string) map[string]any {
		ranking := rankingFrom(1, 2, 1, 3)
		ranking["champion"].(map[string]any)["cover_url"] = cover
		return ranking
	}
	f.ranks(led(f.URL + f.site.Assets + "page/icon-512.png"))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	const cover = "document.querySelector('.champion .cover')"
	p.until("the cover is there", cover+"?.naturalWidth > 0")
	if alt := eval[string](p, cover+".alt"); alt != "Cover picture of User 2" {
		t.Errorf("the cover is described as %q", alt)
	}
	if text := eval[string](p, "document.querySelector('.champion').innerText.replace(/\\s+/g, ' ')"); text != "U2 Leading User 2 90,000" {
		t.Errorf("the header says %q", text)
	}
	p.screenshot("champion-390")
	for _, address := range []string{"https://example.com/hills.jpg", f.URL + "/missing.png", ""} {
		f.ranks(led(f.URL + f.site.Assets + "page/icon-512.png"))
		p.until("the cover is there", cover+" !== null")
		f.ranks(led(address))
		p.until("the cover "+address+" is not shown", "document.querySelector('.champion') !== null && "+cover+" === null")
	}
	p.ignoreFaults("/missing.png")
	if calls := p.requestsTo("example.com"); len(calls) > 0 {
		t.Errorf("the page calls %q", calls)
	}
	f.ranks(rankingFrom(1))
	p.until("there is no header", "document.querySelector('.notice') !== null && document.querySelector('.champion') === null")
}
