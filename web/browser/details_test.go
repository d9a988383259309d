package browser

import (
	"fmt"
	"testing"

	"stepboard/internal/testenv"
)

// The board that was chosen is in sight among many.
func TestChosenBoardIsInSight(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	boards := []any{map[string]any{"name": "steps", "kind": "daily", "time_zone": "Asia/Shanghai", "current": map[string]any{"date": fakeDay}}}
	for i := range 12 {
		boards = append(boards, map[string]any{"name": fmt.Sprintf("gifts-%02d", i), "kind": "event", "time_zone": "Asia/Shanghai", "current": map[string]any{
			"starts_at": "2020-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
		}})
	}
	f.returns("GET /v1/boards", map[string]any{"boards": boards})
	f.returns("GET /v1/boards/gifts-09/top", rankingFrom(1, 2, 3, 1))
	p := newPage(t, phone)
	p.signIn(f.URL+"/#/boards/gifts-09/top", fakeToken())
	p.until("the chosen board is in sight", `(() => {
		const chip = document.querySelector('.chips [aria-current]')?.getBoundingClientRect();
		return chip !== undefined && chip.left >= 0 && chip.right <= innerWidth;
	})()`)
	p.screenshot("chips-390")
}

// The picture of a day has its whole date, and the button for it is large enough for a thumb.
func TestSharedPictureHasItsDate(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the button is there", "document.querySelector('.share') !== null")
	if size := eval[string](p, "(({ width, height }) => width + 'x' + height)(document.querySelector('.share').getBoundingClientRect())"); size != "44x44" {
		t.Errorf("the button to share has %s pixels", size)
	}
	eval[any](p, `(() => {
		const { fillText } = CanvasRenderingContext2D.prototype;
		window.written = [];
		CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { written.push(text); fillText.call(this, text, ...at); };
	})()`)
	p.click(".share")
	p.until("the picture is drawn", "written.length > 0")
	if cut := eval[[]string](p, "written.filter((text) => text.endsWith('…'))"); len(cut) > 0 {
		t.Errorf("the picture cuts %q", cut)
	}
	p.screenshot("picture-390")
}

// Scores have the unit of their board, in the reader's language if the page knows the word. A board of
// days without one has steps.
func TestUnits(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	for _, tt := range []struct{ unit, day, event, dayChinese, eventChinese string }{
		{"", "steps", "coins", "步", "金币"}, {"s", "s", "s", "s", "s"}, {"points", "points", "points", "积分", "积分"},
	} {
		t.Run("unit "+tt.unit, func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t, false)
			f.ranks(rankingFrom(1, 2, 3, 1))
			f.returns("GET /v1/boards/gifts/top", rankingFrom(1, 2, 3, 1))
			f.returns("GET /v1/boards", map[string]any{"boards": []any{
				map[string]any{"name": "steps", "kind": "daily", "unit": tt.unit, "time_zone": "Asia/Shanghai", "current": map[string]any{"date": fakeDay}},
				map[string]any{"name": "gifts", "kind": "event", "unit": tt.unit, "time_zone": "Asia/Shanghai", "current": map[string]any{
					"starts_at": "2020-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
				}},
			}})
			p := newPage(t, phone)
			p.signIn(f.URL+"/#/boards/gifts/top", fakeToken())
			for _, c := range []struct{ language, day, event string }{{"en", tt.day, tt.event}, {"zh-CN", tt.dayChinese, tt.eventChinese}} {
				p.goTo("#/boards/gifts/top")
				p.speak(c.language)
				p.until("an event's scores have "+c.event, fmt.Sprintf("document.querySelector('.ranking .visually-hidden')?.textContent.endsWith(' %s') === true", c.event))
				p.goTo("#/")
				p.until("the goal has "+c.day, fmt.Sprintf("/ %s(?= |即)/.test(document.querySelector('.hero .goal')?.textContent) === true", c.day))
			}
		})
	}
}
