package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"stepboard/internal/testenv"
)

const addShown = "document.querySelector('.side [data-action=add]') !== null"

// takesTotals lets a fake service have a board with an order that takes uploads of users, or of others.
func (f *fakeService) takesTotals(uploads, order string) {
	f.returns("GET /v1/boards", map[string]any{"boards": []any{map[string]any{
		"name": "steps", "kind": "daily", "time_zone": "Asia/Shanghai", "uploads": uploads, "order": order, "open_days": 2, "max_score": 100_000,
		"unit": "steps", "current": map[string]any{"date": fakeDay},
	}}})
}

// sentTotal is what the page has sent.
type sentTotal struct {
	Date  string
	Score int64
}

// totals lets a fake service accept totals, of which it has some already, and returns them.
func (f *fakeService) totals(counts map[string]int64, held bool) <-chan sentTotal {
	sent := make(chan sentTotal, 1)
	f.handle("POST /v1/boards/steps/scores", func(w http.ResponseWriter, r *http.Request) {
		var total sentTotal
		if err := json.NewDecoder(r.Body).Decode(&total); err != nil {
			refuse(w, http.StatusBadRequest, "invalid_request")
			return
		}
		sent <- total
		respond(w, http.StatusOK, map[string]any{
			"accepted": []any{map[string]any{"date": total.Date, "score": total.Score, "held": held}}, "rejected": []any{},
			"me": map[string]any{"score": max(total.Score, counts[total.Date])},
		})
	})
	return sent
}

// typeTotal types a total into the dialog and sends it.
func (p *page) typeTotal(text string) {
	p.t.Helper()
	p.set("#total", text)
	p.click("dialog .strong")
}

// wantSent waits until the page has sent a total and says so.
func (p *page) wantSent(sent <-chan sentTotal, want sentTotal, message string) {
	p.t.Helper()
	if got := testenv.Receive(p.t, "a total is sent", sent); got != want {
		p.t.Errorf("the page has sent %+v, want %+v", got, want)
	}
	p.until("it says "+message, fmt.Sprintf("%s && document.querySelector('.message').textContent.includes(%q)", dialogClosed, message))
}

// The viewer types the total of a day that is open, by the keyboard. More than twice the own best is asked about, since it
// can't be taken back. Nothing that was typed is lost by an error, without a connection, or at midnight.
func TestAddTotal(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	f.takesTotals("users", "high")
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{
		map[string]any{"date": fakeDay, "score": 3150}, map[string]any{"date": dayBefore, "score": 6000},
	}})
	sent := f.totals(map[string]int64{fakeDay: 3150, dayBefore: 6000}, false)
	p := newPage(t, phone)
	p.signIn(f.URL, fakeToken())
	p.until("the button is there", addShown)
	eval[any](p, "document.querySelector('[data-action=add]').focus()")
	p.press(kb.Enter)
	p.until("it says what is there", "document.activeElement.id === 'total' && !!document.querySelector('#total-hint')?.textContent.includes('So far: 3,150')")
	if days := eval[string](p, "[...document.querySelector('#total-day').options].map((day) => day.value).join()"); days != fakeDay+","+dayBefore+",2026-11-18" {
		t.Errorf("the open days are %s", days)
	}
	p.checkLayout("add")
	p.checkAccess("add")
	p.screenshot("add-390")
	for _, wrong := range []string{"", "0", "7.5", "1,00", "-5", "many", "100,001"} {
		p.typeTotal(wrong)
		p.until(wrong+" is refused", "document.querySelector('#total-wrong').textContent.includes('from 1 to 100,000')")
		p.screenshot("add-wrong-390")
		p.set("#total", "")
	}
	p.typeTotal("12.001")
	p.until("it asks", "document.activeElement.matches('dialog .buttons .button:first-child') && document.querySelector('dialog p').textContent.startsWith('12,001 is more than twice your best of the last days, 6,000.')")
	p.checkAccess("add-question")
	p.screenshot("add-question-390")
	p.press(kb.Enter)
	p.until("the total can be changed", "document.activeElement.id === 'total' && document.activeElement.value === '12.001'")
	p.press(kb.Enter)
	p.click("dialog .danger")
	p.wantSent(sent, sentTotal{fakeDay, 12_001}, "12,001 steps sent for Friday, November 20.")
	if !eval[bool](p, "document.activeElement.matches('[data-action=add]')") {
		t.Error("after the dialog another control has the focus")
	}

	addForDayBefore := func() {
		p.click("[data-action=add]")
		p.set("#total-day", dayBefore)
		p.until("it knows the best", "!!document.querySelector('#total-hint')?.textContent.includes('So far: 6,000')")
	}
	addForDayBefore()
	p.typeTotal("5 000")
	p.wantSent(sent, sentTotal{dayBefore, 5000}, "Thursday, November 19 has 6,000 steps already.")

	addForDayBefore()
	f.leave(true)
	p.typeTotal("7000")
	p.until("it says that there is no connection", "document.querySelector('#total-wrong').textContent.startsWith('No connection') && document.querySelector('#total').value === '7000'")
	f.leave(false)
	f.refuses("POST /v1/boards/steps/scores", http.StatusUnprocessableEntity, "date_closed")
	p.click("dialog .strong")
	p.until("it says that the day is closed", "document.querySelector('#total-wrong').textContent === 'This day no longer takes steps.' && document.querySelector('#total').value === '7000'")
	midnight := rankingFrom(1, 3, 2)
	midnight["date"] = "2026-11-21"
	f.ranks(midnight)
	p.until("the next day has begun", "document.querySelectorAll('.ranking > li').length === 2 && "+addShown)
	if kept := eval[string](p, "document.querySelector('#total')?.value + ' ' + document.querySelector('#total-day')?.value"); kept != "7000 "+dayBefore {
		t.Errorf("at midnight the dialog has %q", kept)
	}
	sent = f.totals(nil, true)
	p.click("dialog .strong")
	p.wantSent(sent, sentTotal{dayBefore, 7000}, "7,000 is unusual and waits")
	p.ignoreFaults("Failed to load resource")
}

// Somebody without a best is asked about the first total.
func TestAddFirstTotal(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3))
	f.takesTotals("users", "high")
	sent := f.totals(nil, false)
	p := newPage(t, viewport{width: 1280, height: 800, dark: true})
	p.signIn(f.URL, fakeToken())
	p.click(".side .yesterday .strong[data-action=add]")
	p.typeTotal("７９６１")
	p.until("it asks", "!!document.querySelector('dialog p')?.textContent.startsWith('7,961, is that right?')")
	p.screenshot("add-first-1280-dark")
	p.click("dialog .danger")
	p.wantSent(sent, sentTotal{fakeDay, 7961}, "7,961 steps sent")
}

// A day that is closed, a board that only services upload to, and one that ranks the lowest score first have no
// button.
func TestNoTotalToAdd(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	p := newPage(t, phone)
	closed := rankingFrom(1, 2, 3)
	closed["final"] = true
	for name, on := range map[string]struct {
		uploads, order string
		ranking        map[string]any
	}{
		"closed": {"users", "high", closed}, "of services": {"service", "high", rankingFrom(1, 2, 3)}, "low": {"users", "low", rankingFrom(1, 2, 3)},
	} {
		f.takesTotals(on.uploads, on.order)
		f.ranks(on.ranking)
		p.signIn(f.URL, fakeToken())
		p.until(name+": what comes later is there", "document.querySelector('.side .yesterday .button') !== null")
		p.waitForAnswers()
		if eval[bool](p, addShown) {
			t.Errorf("%s: there is a button", name)
		}
	}
}

// A visitor of the demo types a total, which is in the ranking.
func TestDemoAddTotal(t *testing.T) {
	t.Parallel()
	base, people := startDemo(t)
	p := newPage(t, phone)
	p.open(base)
	p.click("[data-action=add]")
	p.typeTotal("89,999")
	p.click("dialog .danger")
	p.until("the page shows it", dialogClosed+" && document.querySelector('.own-score')?.textContent.includes('89,999') === true")
	if me := rankingOf(t, base, people[0].Token, "").Me; me == nil || me.Score != 89_999 {
		t.Errorf("the ranking has %+v", me)
	}
}
