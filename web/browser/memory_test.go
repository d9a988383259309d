package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// A page that stays open all day keeps nothing of the rankings that its stream has brought, in which
// people pass each other.
func TestMemoryOfAnOpenPage(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	const people, events = 20, 10_000
	f := newFakeService(t, false)
	order := make([]int, people)
	for i := range order {
		order[i] = i + 1
	}
	f.ranks(withLikes(rankingFrom(1, order...), 2))
	texts := f.streams()
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	texts <- rankingEvent(withLikes(rankingFrom(1, order...), 2)) // otherwise the page does without the stream
	p.until("the ranking is there", rankingShown)
	sent := 0
	// send sends events until so many were sent. Five hundred come at a time, and the page shows the last.
	send := func(until int) {
		t.Helper()
		for sent < until {
			var text strings.Builder
			for range 500 {
				i := 1 + sent%(people-1)
				order[i-1], order[i] = order[i], order[i-1]
				text.WriteString(rankingEvent(withLikes(rankingFrom(1, order...), sent%1000)))
				sent++
			}
			texts <- text.String()
			p.until(fmt.Sprint(sent, " rankings were shown"), fmt.Sprintf("document.querySelector('.ranking li[data-user=\"2\"]').textContent.includes('%d')", (sent-1)%1000))
		}
	}
	// used returns the bytes and the nodes that the page holds.
	used := func() (bytes, nodes int64) {
		t.Helper()
		_, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
		p.must(err)
		heap, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
		p.must(err)
		dom, err := chromedp.Call(p.ctx, memory.GetDOMCounters, cdp.Empty{})
		p.must(err)
		return int64(heap.UsedSize), dom.Nodes
	}
	send(500)
	bytes, nodes := used()
	send(events)
	moreBytes, moreNodes := used()
	t.Logf("%d bytes and %d nodes, after %d events %d and %d", bytes, nodes, events, moreBytes, moreNodes)
	// A row that stayed with each event would be much more.
	if moreBytes > bytes+2_000_000 || moreNodes > nodes+1500 {
		t.Errorf("the page holds %d bytes and %d nodes, and after %d events %d and %d", bytes, nodes, events, moreBytes, moreNodes)
	}
}
