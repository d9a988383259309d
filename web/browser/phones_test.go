package browser

import (
	"bytes"
	"image"
	"image/png"
	"os/exec"
	"regexp"
	"strconv"
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
	address := p.makeAddress(base)
	p.until("it says that a phone can't reach it", "document.querySelector('main .page > .wrong')?.textContent.includes('Only this machine')")
	p.click("main details summary")
	p.until("the QR code is there", "document.querySelector('.qr path')?.getAttribute('d').length > 1000")
	p.eventually("the QR code says the address", func() bool { return p.readQR() == address })
	for n := range 4 {
		p.click(".how details:nth-of-type(" + strconv.Itoa(n+1) + ") summary")
		p.checkLayout("phones")
	}
	p.checkAccess("phones")
	p.screenshot("phones-390")

	p.sendSteps(address, "7961", *rankingOf(t, base, people[0].Token, "").Date)
	p.until("the steps have come", "!!document.querySelector('.person:last-child .label')?.textContent.includes('7,961')")
	p.click(".person:last-child .person-actions .button")
	p.click("dialog .danger")
	p.until("the address is gone", "document.querySelectorAll('.person').length === 1 && document.querySelector('dialog') === null")
	if requests := p.requestsTo("sb_"); len(requests) > 0 {
		t.Errorf("the page has asked for %q", requests)
	}
}

// makeAddress makes an upload address and returns it.
func (p *page) makeAddress(base string) string {
	p.t.Helper()
	p.until("the form is there", "document.querySelector('#phone') !== null")
	p.typeIn("#phone", "My phone")
	p.click("form.ask .strong")
	p.until("the address is there", "!!document.querySelector('#invite')?.value.startsWith('"+base+"/v1/in/sb_')")
	return eval[string](p, "document.querySelector('#invite').value")
}

// sendSteps sends steps to an address, with the words of the page but for their number and day.
func (p *page) sendSteps(address, steps, day string) {
	p.t.Helper()
	words := eval[string](p, "document.querySelector('.how details:last-of-type li:nth-child(2)').textContent")
	sample := regexp.MustCompile(`(steps=)\d+(&date=)[\d-]+`)
	if !sample.MatchString(words) {
		p.t.Fatalf("the page says %q", words)
	}
	body := sample.ReplaceAllString(sample.FindString(words), "${1}"+steps+"${2}"+day)
	if out, err := exec.CommandContext(p.t.Context(), "curl", "-sS", "--fail", "-d", body, address).CombinedOutput(); err != nil {
		p.t.Errorf("%v: %s", err, out)
	}
}

// readQR returns what the QR code on the screen says, and nothing if it can't be read, such as while the page moves.
func (p *page) readQR() string {
	p.t.Helper()
	eval[any](p, "document.querySelector('.qr').scrollIntoView({ block: 'center' })")
	p.waitForAnimations()
	shot := testenv.Must(png.Decode(bytes.NewReader(testenv.Must(chromedp.Run(p.ctx, chromedp.CaptureScreenshot())))))
	// Of the whole screen the reader now and then finds no code.
	at := eval[struct{ Left, Top, Right, Bottom, Scale float64 }](p, `(() => {
		const { left, top, right, bottom } = document.querySelector('.qr').getBoundingClientRect();
		return { left, top, right, bottom, scale: devicePixelRatio };
	})()`)
	code := shot.(interface {
		SubImage(image.Rectangle) image.Image
	}).SubImage(image.Rect(
		int(at.Left*at.Scale), int(at.Top*at.Scale), int(at.Right*at.Scale), int(at.Bottom*at.Scale)))
	bitmap := testenv.Must(gozxing.NewBinaryBitmapFromImage(code))
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	if err != nil {
		return ""
	}
	return found.GetText()
}
