package browser

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// largestMoving is how many bytes the moving picture of the documents may have.
const largestMoving = 700_000

// movingPicture saves what a window shows while a viewer with names overtakes three friends, as
// overtaking.gif. The page's animations stand still at the time of each frame.
func movingPicture(t *testing.T, folder string) {
	t.Helper()
	names := []string{"", "Mei Lin", "Pablo Sato", "Aisha Okafor", "Jonas Berg", "Priya Nair", "Kofi Santos", "Lena Fischer"}
	ranking := func(own int, order ...int) map[string]any {
		r := rankingFrom(1, order...)
		score := 12_480
		for i, e := range r["entries"].([]any) {
			e := e.(map[string]any)
			user := order[i]
			e["nickname"] = names[user]
			if score -= 310 + 170*user%400; user == 1 {
				score = own
			}
			e["score"] = score
		}
		r["champion"].(map[string]any)["nickname"] = names[order[0]]
		return r
	}
	f := newFakeService(t, true)
	f.returns("GET /demo/people", map[string]any{"people": []any{map[string]any{"user_id": "1", "nickname": names[1], "token": fakeToken()}}})
	f.ranks(ranking(9_120, 2, 3, 4, 5, 6, 1, 7))
	p := newPage(t, viewport{width: 390, height: 700})
	p.must(chromedp.Do(p.ctx, chromedp.EmulateViewport(390, 700, chromedp.EmulateScale(1), chromedp.EmulateMobile)))
	p.open(f.URL)
	p.until("the ranking is there", "document.querySelectorAll('.ranking > li').length === 7")
	p.waitForAnimations()
	eval[any](p, `(() => {
		const animate = Element.prototype.animate;
		Element.prototype.animate = function (...how) { const a = animate.apply(this, how); a.pause(); return a; };
	})()`)
	var m moving
	frame := func(shown time.Duration) {
		data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		p.must(err)
		shot, err := png.Decode(bytes.NewReader(data))
		p.must(err)
		m.add(shot, shown)
	}
	frame(1500 * time.Millisecond)
	f.ranks(ranking(11_290, 2, 3, 1, 4, 5, 6, 7))
	p.until("rows move", "document.querySelector('.own').getAnimations().length > 0 && document.querySelector('.own .rank').textContent === '3'")
	const step = 40
	for at := 0; at <= 520; at += step {
		eval[any](p, fmt.Sprintf("document.getAnimations().forEach((a) => { if (a.playState === 'paused') a.currentTime = %d; })", at))
		frame(step * time.Millisecond)
	}
	eval[any](p, "document.getAnimations().forEach((a) => { if (a.playState === 'paused') a.finish(); })")
	frame(2500 * time.Millisecond)
	var out bytes.Buffer
	p.must(gif.EncodeAll(&out, &m.GIF))
	if out.Len() > largestMoving {
		t.Errorf("the moving picture has %d bytes", out.Len())
	}
	p.must(os.WriteFile(filepath.Join(folder, "overtaking.gif"), out.Bytes(), 0o600))
}

// moving makes a moving picture.
type moving struct {
	gif.GIF

	last image.Image
}

// add adds a frame: what differs from the one before it.
func (m *moving) add(shot image.Image, shown time.Duration) {
	changed := shot.Bounds()
	if m.last != nil {
		changed = difference(m.last, shot)
	}
	frame := image.NewPaletted(changed, paletteOf(shot, changed))
	draw.Draw(frame, changed, shot, changed.Min, draw.Src)
	m.Image = append(m.Image, frame)
	m.Delay = append(m.Delay, int(shown/(10*time.Millisecond)))
	m.last = shot
}

// difference returns the smallest rectangle that holds every pixel that differs. It has at least
// one pixel.
func difference(a, b image.Image) image.Rectangle {
	changed := image.Rectangle{Max: image.Pt(1, 1)}
	for y := range b.Bounds().Max.Y {
		for x := range b.Bounds().Max.X {
			if a.At(x, y) == b.At(x, y) {
				continue
			}
			pixel := image.Rect(x, y, x+1, y+1)
			if changed.Max == image.Pt(1, 1) {
				changed = pixel
			}
			changed = changed.Union(pixel)
		}
	}
	return changed
}

// paletteOf returns the 256 most frequent colours of a part of a picture. Colours that differ only
// in the last three bits count as their mean.
func paletteOf(shot image.Image, part image.Rectangle) color.Palette {
	type mean struct{ n, r, g, b int }
	means := map[color.RGBA]mean{}
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			c := color.RGBAModel.Convert(shot.At(x, y)).(color.RGBA)
			key := color.RGBA{c.R >> 3, c.G >> 3, c.B >> 3, 0}
			m := means[key]
			means[key] = mean{m.n + 1, m.r + int(c.R), m.g + int(c.G), m.b + int(c.B)}
		}
	}
	colours := slices.SortedFunc(maps.Values(means), func(a, b mean) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.r, b.r), cmp.Compare(a.g, b.g), cmp.Compare(a.b, b.b))
	})
	palette := color.Palette{}
	for _, m := range colours[:min(len(colours), 256)] {
		palette = append(palette, color.RGBA{uint8(m.r / m.n), uint8(m.g / m.n), uint8(m.b / m.n), 255})
	}
	return palette
}
