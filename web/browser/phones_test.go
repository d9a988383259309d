package browser

import (
	"bytes"
	"image/png"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"stepboard/internal/testenv"
)

// A user makes an address on the page, whose QR code a phone can read, sends steps to it as the page
// says, sees that they have come, and revokes it. The key is in the address of no request of the page.
func TestDemoPhones(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	p := newPage(t, phone)
	p.open(base + "/#/me")
	p.until("the link is there", "document.querySelector('a[href=\"#/me/phones\"]') !== null")
	p.click(`a[href="#/me/phones"]`)
	p.typeIn("#phone", "My phone")
	p.click("form.ask .strong")
	p.until("the address is there", "!!document.querySelector('#invite')?.value.startsWith('"+base+"/v1/in/sb_')")
	address := eval[string](p, "document.querySelector('#invite').value")
	p.until("it says that a phone can't reach it", "document.querySelector('main .page > .wrong')?.textContent.includes('Only this machine')")
	p.click("main details summary")
	p.until("the QR code is there", "document.querySelector('.qr path')?.getAttribute('d').length > 1000")
	if got := p.readQR(); got != address {
		t.Errorf("the QR code says %q, want %q", got, address)
	}
	for n := range 4 {
		p.click(".how details:nth-of-type(" + strconv.Itoa(n+1) + ") summary")
		p.checkLayout("phones")
	}
	p.checkAccess("phones")
	p.screenshot("phones-390")

	// The page's own words are the command.
	words := eval[string](p, "document.querySelector('.how details:last-of-type li:nth-child(2)').textContent")
	body := "steps=7961&date=" + rankingDate(t, base, people[0])
	if !strings.Contains(words, "steps=7961&date=") {
		t.Errorf("the page says %q", words)
	}
	if out, err := exec.CommandContext(t.Context(), "curl", "-sS", "--fail", "-d", body, address).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	p.until("the steps have come", "!!document.querySelector('.person .label')?.textContent.includes('7,961')")
	p.click(".person-actions .button")
	p.click("dialog .danger")
	p.until("the address is gone", "document.querySelector('.person') === null && document.querySelector('dialog') === null")
	if requests := p.requestsTo("sb_"); len(requests) > 0 {
		t.Errorf("the page has asked for %q", requests)
	}
}

// rankingDate returns the current day of the board.
func rankingDate(t *testing.T, base string, of person) string {
	t.Helper()
	return *rankingOf(t, base, of.Token, "").Date
}

// readQR returns what the QR code on the screen says.
func (p *page) readQR() string {
	p.t.Helper()
	eval[any](p, "document.querySelector('.qr').scrollIntoView({ block: 'center' })")
	p.waitForAnimations()
	shot := testenv.Must(chromedp.Run(p.ctx, chromedp.CaptureScreenshot()))
	bitmap := testenv.Must(gozxing.NewBinaryBitmapFromImage(testenv.Must(png.Decode(bytes.NewReader(shot)))))
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_TRY_HARDER: true})
	p.must(err)
	return found.GetText()
}
