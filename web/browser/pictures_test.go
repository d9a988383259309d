package browser

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// largestPicture is how many bytes a picture of the documents may have.
const largestPicture = 150_000

// TestPictures makes the pictures of the documents from the demo, in the folder that PICTURES
// names: make pictures.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		t.Skip("PICTURES names no folder")
	}
	take := func(p *page, name string) {
		p.t.Helper()
		p.waitForAnimations()
		if size := p.picture(folder, name); size > largestPicture {
			p.t.Errorf("%s has %d bytes", name, size)
		}
	}
	t.Run("page", func(t *testing.T) {
		base, _ := startDemo(t)
		p := newPage(t, phone)
		p.must(chromedp.Do(p.ctx, chromedp.EmulateViewport(420, 909, chromedp.EmulateScale(1), chromedp.EmulateMobile)))
		p.open(base)
		p.until("the ranking is there", rankingShown)
		p.goTo("#/history")
		p.until("the history is there", "document.querySelector('.plot canvas') !== null && document.querySelector('.streak b') !== null")
		take(p, "history")
	})
	t.Run("overtaking", func(t *testing.T) { movingPicture(t, folder) })
	t.Run("console", func(t *testing.T) {
		c := openConsole(t, desktop)
		c.must(chromedp.Do(c.ctx, chromedp.EmulateViewport(desktop.width, desktop.height, chromedp.EmulateScale(1))))
		take(c.page, "console-overview")
		c.goTo("#/boards/steps")
		c.until("the calendar is there", boardShown)
		eval[any](c.page, "document.querySelector('.calendar').scrollIntoView({ block: 'center' })")
		take(c.page, "console-board")
		c.goTo("#/users/" + c.people[7].UserID)
		c.until("the user is there", userShown)
		c.click(".bars li:nth-child(25) button")
		c.click(".bars ~ .buttons [data-action=correct]")
		c.set("#act-score", "1")
		c.typeIn("#act-reason", "the phone was shaken")
		c.click("dialog .strong")
		c.seePreview("becomes 1 instead of")
		take(c.page, "console-correct")
	})
}
