package browser

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// console is the console of a demo, to which an operator has signed in.
type console struct {
	*page
	base   string
	token  string
	people []person
}

const (
	overviewShown = "document.querySelectorAll('.needs li').length > 0 && document.querySelectorAll('.tally strong').length > 3"
	listShown     = "document.querySelectorAll('.panel .table tbody tr').length > 0"
	dialogClosed  = "document.querySelector('dialog') === null"
	boardShown    = "document.querySelectorAll('.calendar .cell').length > 20"
	standingShown = "document.querySelectorAll('.panel .table').length === 2"
	userShown     = "document.querySelectorAll('.bars button').length === 31 && document.querySelectorAll('.facts dd').length > 5"
)

// openConsole starts a demo and opens its console, which signs in by itself.
func openConsole(t *testing.T, v viewport) *console {
	t.Helper()
	base, people := startDemo(t)
	return openConsoleOf(t, v, base, people)
}

// openConsoleOf opens the console of a demo.
func openConsoleOf(t *testing.T, v viewport, base string, people []person) *console {
	t.Helper()
	c := &console{page: newPage(t, v), base: base, people: people}
	c.open(c.base + "/console")
	c.until("the overview is there", overviewShown)
	var operator struct{ Token string }
	callAPI(t, "", http.MethodGet, c.base+"/demo/operator", nil, &operator)
	c.token = operator.Token
	return c
}

// axe returns the accessibility checker, which the client's packages contain.
func axe(t testing.TB) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "..", "clients", "typescript", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("make client installs the accessibility checker: %v", err)
	}
	return string(script)
}

// checkAccess runs the accessibility checker on what the page shows: the given rules, or all.
func (p *page) checkAccess(where string, rules ...string) {
	p.t.Helper()
	if !eval[bool](p, "'axe' in window") {
		eval[any](p, "void (() => {"+axe(p.t)+"})()")
	}
	only := ""
	if len(rules) > 0 {
		only = "runOnly: ['" + strings.Join(rules, "', '") + "'], "
	}
	eval[any](p, `void (window.found = null, axe.run({ `+only+`resultTypes: ['violations'] }).then((result) => {
		window.found = result.violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).slice(0, 3).join(' ')); }))`)
	p.until("the accessibility checker has ended", "window.found !== null")
	if found := eval[[]string](p, "window.found"); len(found) > 0 {
		p.t.Errorf("%s: the accessibility checker finds\n%s", where, strings.Join(found, "\n"))
	}
}

// act clicks an action, gives a reason if it asks for one, waits for a preview that contains
// text, and does it.
func (c *console) act(selector, preview, reason string) {
	c.t.Helper()
	c.click(selector)
	c.seePreview(preview)
	if reason != "" {
		c.typeIn("#act-reason", reason)
	}
	c.click("dialog form .buttons button:last-child")
	c.until("it is done", dialogClosed)
}

func (c *console) seePreview(text string) {
	c.t.Helper()
	c.until("the preview "+text, fmt.Sprintf("!!document.querySelector('dialog[open] .preview')?.textContent.includes(%q)", text))
}

func (c *console) rowCount() int {
	c.t.Helper()
	return eval[int](c.page, "document.querySelectorAll('.panel .table tbody tr').length")
}

// namesUsers checks that a list names each user by the nickname, which leads to the user's screen, and
// the id.
func (c *console) namesUsers() {
	c.t.Helper()
	bad := eval[[]string](c.page, `[...document.querySelectorAll('.panel td[data-label=User]')].filter((cell) => {
		const [name, id] = [...cell.querySelectorAll('bdi')].map((e) => e.textContent);
		return cell.textContent !== '–' && (!id || name === id || !cell.querySelector('a').href.endsWith(encodeURIComponent(id)));
	}).map((cell) => cell.textContent)`)
	if len(bad) > 0 {
		c.t.Errorf("users are named %q", bad)
	}
}

func (c *console) show(name string) {
	c.t.Helper()
	c.goTo("#/" + name)
	c.until(name, listShown)
}

// The overview says in one sentence how much needs somebody, worst first, each with what is done
// about it, and the navigation has the counts. An action shows what it will do before it is done, and asks for a
// reason where one is stored. One that can't be done is not offered. The audit log has what was done, and the
// overview says that all is well.
func TestConsoleLists(t *testing.T) {
	t.Parallel()
	c := openConsole(t, desktop)
	heading := "document.querySelector('main h1').textContent"
	needs := eval[[]string](c.page, "[...document.querySelectorAll('.needs li a')].map((a) => a.getAttribute('href'))")
	if want := []string{"#/deadLetters", "#/holds", "#/reviews"}; !slices.Equal(needs, want) {
		t.Fatalf("what needs somebody leads to %v, want %v", needs, want)
	}
	if got := eval[string](c.page, heading); got != "3 things need you" {
		t.Errorf("the overview says %q", got)
	}
	if count := eval[string](c.page, "document.querySelector('.console-nav a:nth-child(4) .waits').firstChild.data.trim()"); count == "0" || count == "" {
		t.Errorf("the navigation says that %q wait", count)
	}
	c.show("reviews")
	for before := c.rowCount(); before > 0; before-- {
		c.act("[data-action=dismiss]", "leaves the list", "a marathon")
		c.until("the review is gone", "document.querySelectorAll('.table tbody tr').length === "+strconv.Itoa(before-1))
	}
	c.until("no review is left", "!!document.querySelector('.empty')")
	c.rejectsHold()
	c.until("no total is held", "document.querySelector('.empty') !== null")
	c.show("deadLetters")
	letters := c.rowCount()
	c.act("[data-action=replayAll]", fmt.Sprintf("Handled: 0. Still can’t be applied and stay: %d.", letters), "a test")
	c.until("they have stayed", fmt.Sprintf("document.querySelectorAll('.table tbody tr').length === %d", letters))
	c.click("[data-action=replay]")
	c.until("the reason is there", "document.querySelector('dialog[open] .wrong')?.textContent.includes('still can') === true")
	if !eval[bool](c.page, "document.querySelector('dialog form .buttons button:last-child').disabled") {
		t.Error("a replay that can't be done is offered")
	}
	c.click("dialog .button")
	c.until("the dialog is closed", dialogClosed)
	c.until("boards are chosen from a list", "[...document.querySelectorAll('#filter-board option')].map((o) => o.value).join() === ',active-24h,gifts,laps,steps,steps-local'")
	c.set("#filter-board", "steps")
	c.until("one dead letter is of the board", "document.querySelectorAll('.table tbody tr').length === 1")
	c.act("[data-action=removeAll]", "Handled: 1.", "a test")
	c.until("none is left of the board", "!!document.querySelector('.empty')")
	c.set("#filter-board", "")
	c.until("the other one is there", listShown)
	c.act("[data-action=remove]", "deleted for good", "")
	c.until("no dead letter is left", "!!document.querySelector('.empty')")

	c.goTo("#/")
	c.until("all is well", heading+" === 'All well'")
	c.releasesHold()

	c.show("corrections")
	c.namesUsers()
	lifts := eval[int](c.page, "document.querySelectorAll('[data-action=lift]').length")
	c.act("[data-action=lift]", "counts again", "a marathon")
	c.until("the correction is lifted", "document.querySelectorAll('[data-action=lift]').length === "+strconv.Itoa(lifts-1))

	c.goTo("#/deliveries")
	c.until("nothing failed or waits", "document.querySelector('#filter-state')?.value === 'undelivered' && !!document.querySelector('.empty')")
	c.set("#filter-state", "delivered")
	c.until("what was delivered is there", listShown)
	c.act("[data-action=send]", "with the same id", "")
	c.show("runs")
	c.act("[data-action=archive]", "Nothing is left", "")

	c.show("audit")
	c.until("the log has the changes", `['dismissReview', 'liftCorrection', 'replayWebhookDelivery', 'startArchiveRun',
		'replayDeadLetters', 'deleteDeadLetters', 'deleteDeadLetter'].every((action) =>
		[...document.querySelectorAll('.table tbody tr')].some((row) => row.textContent.includes(action) && row.textContent.includes('done')))`)
	c.set("#filter-action", "liftCorrection")
	c.until("one entry is of this action", "document.querySelectorAll('.table tbody tr').length === 1")
	c.ignoreFaults("422") // of the replay that can't be done
}

// Operators define a board, look at its days, and archive one.
func TestConsoleBoards(t *testing.T) {
	t.Parallel()
	c := openConsole(t, desktop)
	c.goTo("#/boards")
	c.until("the boards are there", "document.querySelectorAll('.board').length > 3")
	c.click("[data-action=define]")
	c.set("#act-name", "steps")
	c.click("dialog .strong")
	c.until("the name is taken", "document.querySelector('dialog .wrong').textContent !== ''")
	c.set("#act-name", "spring")
	c.set("#act-kind", "event")
	c.set("#act-start", "2099-03-01T08:00")
	c.set("#act-end", "2099-03-20T20:00")
	c.set("#act-max_score", "10000000")
	c.set("#act-takes", "best")
	c.set("#act-latest_end", "2099-04-20T20:00")
	c.set("#act-late", "48h")
	c.checkAccess("the form of a board")
	c.screenshot("console-define-1280-en")
	c.click("dialog .strong")
	c.seePreview("spring, Event, takes scores up to 10,000,000")
	c.click("dialog .strong")
	c.until("the board is defined", dialogClosed+" && !!document.querySelector('a[href=\"#/boards/spring\"]')")
	var boards struct{ Boards []struct{ Name string } }
	callAPI(t, c.token, http.MethodGet, c.base+"/v1/boards", nil, &boards)
	if !strings.Contains(fmt.Sprint(boards), "spring") {
		t.Errorf("the boards are %v", boards)
	}
	c.movesAnEnd()

	c.goTo("#/boards/steps")
	c.until("the calendar is there", boardShown)
	states := eval[string](c.page, "[...document.querySelectorAll('.calendar .cell-state')].map((cell) => cell.textContent).join(' ')")
	if !strings.Contains(states, "Open") || !strings.Contains(states, "Archived") {
		t.Errorf("the calendar has the states %s", states)
	}
	c.click(".panel .buttons button:first-child")
	c.until("earlier weeks are there", "!document.querySelector('.panel .buttons button:last-child').disabled")
	c.goTo("#/boards/steps/" + daysAgo(t, *rankingOf(t, c.base, c.people[0].Token, "").Date, 9))
	c.until("its run is there", listShown)
	c.act(".panel > .buttons [data-action=archive]", "Nothing is left", "")
	c.goTo("#/boards/steps/" + *rankingOf(t, c.base, c.people[0].Token, "").Date)
	c.until("today is there", "!!document.querySelector('.state-open')")
	c.click(".panel > .buttons [data-action=archive]")
	c.until("it says that it is too early", "document.querySelector('dialog[open] .wrong')?.textContent.includes('stays in Redis') === true")
	c.ignoreFaults("409")
}

// movesAnEnd looks at the event that was defined, and moves its end.
func (c *console) movesAnEnd() {
	c.t.Helper()
	type event struct {
		Takes    string
		Late     string
		ClosesAt time.Time `json:"closes_at"`
		Until    time.Time `json:"extendable_until"`
	}
	read := func() (e event) {
		callAPI(c.t, c.token, http.MethodGet, c.base+"/v1/admin/boards/spring", nil, &e)
		return e
	}
	before := read()
	if before.Takes != "best" || before.Late != "48h0m0s" || before.Until.Before(time.Date(2099, 4, 20, 0, 0, 0, 0, time.UTC)) {
		c.t.Errorf("the board is %+v", before)
	}
	c.until("the list says when it takes its last increments", "document.querySelectorAll('a[href=\"#/boards/spring\"] time').length === 2")
	c.click("a[href='#/boards/spring']")
	c.until("the event is there", "document.querySelector('.facts')?.textContent.includes('Can be moved until') === true")
	c.click("[data-action=moveEnd]")
	c.set("#act-end", "2099-03-19T20:00:00")
	c.click("dialog .strong")
	c.until("an earlier end is refused", "document.querySelector('dialog .wrong').textContent.includes('later time only')")
	c.set("#act-end", "2099-03-22T20:00:00")
	c.checkAccess("moving an end")
	c.click("dialog .strong")
	c.seePreview("Mar 22")
	c.screenshot("console-move-end-1280-en")
	c.click("dialog .strong")
	c.until("the end is moved", dialogClosed)
	c.until("the screen shows it", "document.querySelector('.facts + .buttons') !== null && /Mar 22/.test(document.querySelector('main').textContent)")
	if after := read(); after.ClosesAt.Sub(before.ClosesAt) != 48*time.Hour {
		c.t.Errorf("it closes at %v instead of %v", after.ClosesAt, before.ClosesAt)
	}
	c.ignoreFaults("422")
}

// Operators find a user by name or id, correct and lift a score, export, and erase the user.
func TestConsoleUsers(t *testing.T) {
	t.Parallel()
	c := openConsole(t, desktop)
	user := c.people[7]
	var made struct{ ID string }
	callAPI(t, user.Token, http.MethodPost, c.base+"/v1/me/upload-addresses", map[string]string{"name": "An old phone", "board": "steps"}, &made)
	c.goTo("#/users")
	c.typeIn("#user", "nobody"+kb.Enter)
	c.until("nobody is found", "!!document.querySelector('.empty')")
	eval[any](c.page, "document.querySelector('#user').select()")
	begins := strings.ToUpper(string([]rune(user.Nickname)[:2]))
	c.typeIn("#user", begins+kb.Enter)
	c.until("the users of the name are there", listShown)
	if wrong := eval[[]string](c.page, fmt.Sprintf(`[...document.querySelectorAll('.table td[data-label=Nickname]')].map((cell) => cell.textContent)
		.filter((name) => !name.toUpperCase().startsWith(%q))`, begins)); len(wrong) > 0 {
		t.Errorf("%s finds %q", begins, wrong)
	}
	c.goTo("#/users")
	c.typeIn("#user", user.Nickname+kb.Enter)
	link := fmt.Sprintf(`.table a[href="#/users/%s"]`, url.PathEscape(user.UserID))
	c.until("the user is found by name", listShown+" && document.querySelector('"+link+"') !== null")
	c.goTo("#/users")
	c.typeIn("#user", user.UserID+kb.Enter)
	c.until("the user is there", userShown)
	c.until("the user is named", fmt.Sprintf("[document.title, ...[...document.querySelectorAll('h1, .user-id')].map((e) => e.textContent)].join() === %q",
		user.Nickname+" · Stepboard,"+user.Nickname+","+user.UserID))
	var shown struct {
		Days []struct {
			Date  string
			Score int64
		}
	}
	callAPI(t, c.token, http.MethodGet, c.base+"/v1/admin/users/"+url.PathEscape(user.UserID)+"?board=steps", nil, &shown)
	c.click(".facts ~ .buttons [data-action=correct]")
	c.until("the dialog has the latest day", fmt.Sprintf("document.querySelector('#act-date').value === %q", shown.Days[0].Date))
	c.until("the dialog has its score", "/: [\\d,]+, place/.test(document.querySelector('dialog .now').textContent)")
	if got, want := eval[string](c.page, "document.querySelector('dialog h2 + p').textContent"), user.Nickname+" · "+user.UserID; got != want {
		t.Errorf("the dialog is about %s, want %s", got, want)
	}
	c.click("dialog .button")
	c.until("the dialog is closed", dialogClosed)
	c.click(".bars li:nth-child(25) button")
	c.until("the day is picked", "document.querySelector('.bars li:nth-child(25) button').ariaPressed === 'true'")
	day := eval[string](c.page, "document.querySelector('.bars ~ [aria-live]').textContent")
	c.click(".bars ~ .buttons [data-action=correct]")
	c.until("the dialog has the day and its score", fmt.Sprintf("document.querySelector('dialog .now').textContent.endsWith(%q)", day))
	c.set("#act-score", "1")
	c.typeIn("#act-reason", "the phone was shaken")
	c.click("dialog .strong")
	c.seePreview("becomes 1 instead of")
	c.screenshot("console-correct-1280-en")
	c.set("#act-score", "99999999")
	c.until("the preview is gone", "document.querySelector('dialog .preview').textContent === ''")
	c.click("dialog .strong")
	c.until("a higher score is refused", "document.querySelector('dialog .wrong').textContent.includes('only lowers')")
	c.set("#act-score", "1")
	c.click("dialog .strong")
	c.seePreview("becomes 1 instead of")
	c.click("dialog .danger")
	c.until("the correction is listed", dialogClosed+" && !!document.querySelector('[data-action=lift]')")
	c.until("it explains the score", "document.querySelector('.bars ~ .facts')?.textContent.includes('the phone was shaken') === true")
	c.act("[data-action=lift]", "counts again", "a marathon")
	c.until("it is lifted", "document.querySelector('[data-action=lift]') === null")
	c.until("the day is explained", "[...document.querySelectorAll('.bars ~ .facts dd')].length > 5")
	c.click("[data-action=export]")
	c.until("the export is downloaded", "document.querySelector('.message').textContent.includes('downloaded')")
	c.act("[data-action=revokeAddress]", "send steps any more", "")
	c.until("the address is gone", "document.querySelector('[data-action=revokeAddress]') === null")
	c.act("[data-action=erase]", "be undone", "asked for by letter")
	c.until("the erasure is shown", "document.querySelector('main').textContent.includes('is being erased')")
	c.show("audit")
	c.until("the log has the changes", `['createCorrection', 'liftCorrection', 'revokeUserUploadAddress', 'eraseUserAsOperator'].every((action) =>
		[...document.querySelectorAll('.table tbody tr')].some((row) => row.textContent.includes(action) && row.textContent.includes('done')))`)
	c.ignoreFaults("404") // of the user who does not exist
	c.ignoreFaults("422") // of the score that was refused
}

// The keyboard alone opens an action and closes it, and the button has the focus again. The key / leads to the
// search of a screen, or to that for users, and is a letter where one types.
func TestConsoleKeyboard(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	c.show("corrections")
	const button = "document.querySelector('[data-action=lift]')"
	eval[any](c.page, button+".focus()")
	c.typeIn("[data-action=lift]", kb.Enter)
	c.seePreview("counts again")
	c.until("the reason has the focus", "document.activeElement?.id === 'act-reason'")
	c.typeIn("#act-reason", kb.Escape)
	c.until("the dialog is closed", dialogClosed+" && document.activeElement === "+button)
	c.typeIn("[data-action=lift]", kb.Enter)
	c.seePreview("counts again")
	c.typeIn("#act-reason", "a marathon"+kb.Enter)
	c.until("the correction is lifted, and the focus is not lost", dialogClosed+" && document.activeElement.tagName === 'H1'")

	const focused = "document.activeElement.id === "
	c.show("audit")
	c.press("/")
	c.until("one searches in the list", focused+"'filter-actor'")
	c.goTo("#/")
	c.until("the overview is there", overviewShown)
	c.press("/")
	c.until("one searches for users", focused+"'user'")
	c.press("/")
	c.until("it is a letter", "document.activeElement.value === '/'")
}

// While the service does not answer, a screen keeps what it has and says so. It goes on by
// itself.
func TestConsoleServiceAway(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	block := func(patterns ...*network.BlockPattern) {
		t.Helper()
		_, err := chromedp.Call(c.ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: patterns})
		c.must(err)
	}
	block(&network.BlockPattern{URLPattern: "*://*:*/v1/admin/*", Block: true})
	c.until("it says so", "!!document.querySelector('.banner') && "+overviewShown)
	c.checkAccess("the overview while the service is away")
	block()
	c.until("it is back", "document.querySelector('.banner') === null && "+overviewShown)
	c.ignoreFaults("ERR_BLOCKED")
}

// Without a tick a session ends with the page, with one it lasts as long as the tab, until the
// operator signs out. A token that is not an operator's is refused.
func TestConsoleSession(t *testing.T) {
	t.Parallel()
	base := startApp(t, func(c *config.Config) { c.Auth.HS256Secret = secret })
	p := newPage(t, phone)
	asked := "document.querySelector('#token') !== null"
	shown := "document.querySelector('.clock') !== null"
	p.open(base + "/console")
	p.until("a token is asked for", asked)
	p.checkAccess("signing in")
	p.typeIn("#token", sign(t, "1", ""))
	p.click(".sign-in .strong")
	p.until("it is refused", "document.querySelector('.wrong').textContent.includes('operator')")
	for _, keep := range []bool{false, true} {
		p.open(base + "/console")
		p.until("a token is asked for", asked)
		if keep {
			p.click("#keep")
		}
		p.typeIn("#token", sign(t, "ops", auth.ScopeAdmin))
		p.click(".sign-in .strong")
		p.until("the overview is there", shown)
		if kept := eval[bool](p, "sessionStorage.length > 0"); kept != keep || eval[bool](p, "JSON.stringify({ ...localStorage }).includes('eyJ') || document.cookie !== ''") {
			t.Errorf("with the tick %v the tab has kept the token: %v", keep, kept)
		}
	}
	p.open(base + "/console")
	p.until("the session goes on", shown)
	p.click(".account .language:last-child")
	p.until("the operator has signed out", asked)
	p.open(base + "/console")
	p.until("the session has ended", asked)
	p.ignoreFaults("403")
}

// releasesHold releases the total that was rejected.
func (c *console) releasesHold() {
	c.t.Helper()
	c.goTo("#/holds/state=rejected")
	c.until("it is rejected", "document.querySelector('.panel td[data-label=State]')?.textContent === 'Rejected'")
	c.click("[data-action=release]")
	c.typeIn("#act-reason", "a marathon")
	c.click("dialog .strong")
	c.seePreview("The total counts")
	c.click("dialog form .buttons button:last-child")
	c.until("it is released", dialogClosed)
	c.goTo("#/holds/state=released")
	c.until("it counts", "document.querySelector('.panel td[data-label=\"Counts now\"]')?.textContent === '99,900'")
}

// rejectsHold rejects the held total, whose user's last days are shown.
func (c *console) rejectsHold() {
	c.t.Helper()
	c.show("holds")
	c.namesUsers()
	c.click("[data-action=reject]")
	c.until("the last days are there", "document.querySelectorAll('dialog .bars button').length === 31")
	c.typeIn("#act-reason", "a car")
	c.click("dialog .strong")
	c.seePreview("stays out")
	c.checkAccess("deciding about a held total")
	c.click("dialog form .buttons button:last-child")
	c.until("it is decided", dialogClosed)
}

// Every time has its zone and its age.
func TestConsoleTimes(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	_, err := chromedp.Call(c.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
	c.must(err)
	c.open(c.base + "/console?again")
	c.until("the overview is there again", overviewShown)
	if clock := eval[string](c.page, "document.querySelector('.clock').textContent"); !regexp.MustCompile(`^\d+ s ago · \d\d:\d\d Shanghai, \d\d:\d\d UTC$`).MatchString(clock) {
		t.Errorf("the overview is of %q", clock)
	}
	for _, name := range []string{"reviews", "audit", "runs"} {
		c.show(name)
		if bad := eval[[]string](c.page, `[...document.querySelectorAll('.panel td[data-label=Time]')].map((cell) => cell.textContent.trim())
			.filter((text) => !/^\w+ \d+, \d\d:\d\d:\d\d Shanghai · \d+ (s|min|h|d) ago$/.test(text))`); len(bad) > 0 {
			t.Errorf("%s has the times %q", name, bad)
		}
	}
}

// A score is corrected from the row of its review, on several boards at once. The review is
// answered by that.
func TestConsoleCorrectsReviews(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	c.show("reviews")
	rows := c.rowCount()
	c.namesUsers()
	user := eval[string](c.page, "document.querySelector('.table td[data-label=User] .label').textContent")
	for rows > 0 { // the user has shaken the phone on two boards, whose days differ
		c.click("[data-action=correct]")
		c.until("its board is chosen", "document.querySelectorAll('dialog .check').length > 1 && document.querySelectorAll('dialog .check input:checked').length === 1")
		c.until("the dialog has the day and its score", "document.querySelector('dialog .now').textContent.includes(': 98,800, place')")
		c.set("#act-score", "10000")
		c.typeIn("#act-reason", "the phone was shaken")
		if rows == 2 {
			chosen := "document.querySelector('dialog .check input:checked').name"
			board := eval[string](c.page, chosen)
			c.click("dialog .check input:checked")
			c.click("dialog .strong")
			c.until("a board is needed", "document.querySelector('dialog .wrong').textContent === 'Choose a board.'")
			c.click("dialog .check input[name='" + board + "']")
			c.click("dialog .check input[name='gifts']")
			c.set("#act-score", "0")
			c.click("dialog .strong")
			c.seePreview("gifts: The score becomes 0")
			c.seePreview(board + ": The score becomes 0 instead of 98,800")
		} else {
			c.click("dialog .strong")
			c.seePreview("becomes 10,000 instead of 98,800")
		}
		c.checkAccess("correcting on boards")
		c.click("dialog .danger")
		rows--
		c.until("the review is answered", fmt.Sprintf("%s && document.querySelectorAll('.panel .table tbody tr').length === %d", dialogClosed, rows))
	}
	var held struct{ Corrections []struct{ Board string } }
	callAPI(t, c.token, http.MethodGet, c.base+"/v1/admin/corrections?active=true&user_id="+url.QueryEscape(user), nil, &held)
	if len(held.Corrections) != 3 {
		t.Errorf("the user has the corrections %+v", held)
	}
	c.show("audit")
	c.namesUsers()
}

// Boards and days of lists lead to their screens. A day shows its ranking, page by page, as the API
// returns it.
func TestConsoleLinks(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	c.show("corrections")
	c.click(".table td a[href='#/boards/steps']")
	c.until("the board is there", boardShown)
	c.show("runs")
	day := daysAgo(t, *rankingOf(t, c.base, c.people[0].Token, "").Date, 9)
	c.click(".table td a[href='#/boards/steps/" + day + "']")
	places := "[...document.querySelectorAll('[aria-label=Ranking] tbody tr')].map((row) => row.textContent)"
	c.until("the day's ranking is there", places+".length === 20")
	var ranking models.Ranking
	callAPI(t, c.token, http.MethodGet, c.base+"/v1/boards/steps/top?limit=40&date="+day, nil, &ranking)
	for _, page := range [][]models.RankedEntry{ranking.Entries[:20], ranking.Entries[20:]} {
		c.until("the page is there", fmt.Sprintf("%s[0]?.startsWith('%d') === true", places, page[0].Rank))
		for i, row := range eval[[]string](c.page, places) {
			if want := string(page[i].User); !strings.Contains(row, want) {
				t.Errorf("place %d is %q, want user %s", i, row, want)
			}
		}
		c.click(".panel:has([aria-label=Ranking]) + .pages .button:last-of-type")
	}
	c.goTo("#/boards/gifts")
	c.until("the event's ranking is there", places+".length > 3")
}

// The overview draws the last hour over an axis of times, with the bounds of alerts, and leads to the
// dashboard. Of the days that are in progress somewhere it shows that on which most people walk.
func TestConsoleLastHour(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	minutes := []any{}
	for n := range 60 {
		minutes = append(minutes, map[string]any{
			"at": fmt.Sprintf("2026-11-20T01:%02d:00Z", n), "calls": 1000 * n, "refused": 60 - n, "latency": []int{}, "p99_ms": 1.25 * float64(n), "queue_ms": 300 * n,
		})
	}
	none := []any{}
	f.returns("GET /v1/admin/status", map[string]any{
		"at": "2026-11-20T01:00:00Z", "version": "1", "stores": none, "degraded": none, "queue": nil, "processes": none, "jobs": none, "work": map[string]any{},
		"last_hour": map[string]any{"minutes": minutes}, "grafana_url": "https://grafana.example.com/d/1",
	})
	now := time.Now()
	day := func(date string, total int, begins, ends time.Duration) any {
		return map[string]any{"date": date, "state": "open", "total": total, "starts_at": now.Add(begins), "ends_at": now.Add(ends)}
	}
	f.returns("GET /v1/admin/boards/gifts/buckets", map[string]any{"buckets": none})
	f.returns("GET /v1/admin/boards/steps/buckets", map[string]any{"buckets": []any{
		day("2026-11-28", 0, -time.Hour, 49*time.Hour), day("2026-11-27", 44, -25*time.Hour, 25*time.Hour), day("2026-11-26", 50, -51*time.Hour, -time.Hour),
	}})
	p := newPage(t, desktop)
	_, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
	p.must(err)
	p.open(f.URL + "/console")
	p.typeIn("#token", "any")
	p.click(".sign-in .strong")
	p.until("the curves are there", "document.querySelectorAll('.curve polyline').length === 4")
	texts := eval[[]string](p, "[...document.querySelectorAll('.curve')].map((curve) => [...curve.querySelectorAll('strong, .label')].map((e) => e.textContent).join(', '))")
	const times = ", 09:0009:3009:59, "
	want := []string{
		"59,000" + times + "At most 59,000", "74 ms" + times + "At most 74 ms, Should stay below 1,000 ms", "1" + times + "At most 60, Should stay below 60",
		"17 s" + times + "At most 17 s, Should stay below 1 min",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("the curves say %q, want %q", texts, want)
	}
	ends := eval[[]string](p, "[...document.querySelectorAll('.curve polyline')].map((line) => line.getAttribute('points').split(' ').at(-1))")
	if want := []string{"100.0,2.0", "100.0,35.3", "100.0,37.4", "100.0,27.4"}; !slices.Equal(ends, want) {
		t.Errorf("the curves end at %v, want %v", ends, want)
	}
	if bounds := eval[string](p, "[...document.querySelectorAll('.curve .bound')].map((line) => line.getAttribute('y1')).join()"); bounds != "2.0,2.0,2.0" {
		t.Errorf("the bounds are drawn at %s", bounds)
	}
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "alerts.yml"))
	p.must(err)
	if !strings.Contains(string(rules), "max(stepboard_ingest_lag_seconds) > 60\n") {
		t.Error("the alert about the queue has another bound than its curve")
	}
	p.until("the day of most people is there", "[...document.querySelectorAll('.tally')].some((e) => e.textContent.replace(/\\s+/g, ' ').includes('44stepsNov 27 · Open'))")
	if link := eval[string](p, "document.querySelector('.curves ~ p a').href"); link != "https://grafana.example.com/d/1" {
		t.Errorf("the dashboard is at %s", link)
	}
}

// Rows are copied and saved as CSV: those that are chosen, or the page. What can be done with one
// can be done with those that are chosen.
func TestConsoleRows(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, desktop)
	c.show("reviews")
	var reviews struct {
		Reviews []struct {
			ID    string
			Score int64
		}
	}
	callAPI(t, c.token, http.MethodGet, c.base+"/v1/admin/reviews", nil, &reviews)
	eval[any](c.page, "void (navigator.clipboard.writeText = async (text) => { window.copied = text; })")
	c.click("[data-action=copy]")
	c.until("the page is copied", "window.copied?.split('\\n').length === 3")
	c.click("tbody tr:nth-child(2) .pick input")
	c.click("[data-action=copy]")
	c.until("the row is copied", "window.copied.split('\\n').length === 2")
	if got, want := eval[string](c.page, "window.copied"), fmt.Sprintf("\n%s\t", reviews.Reviews[1].ID); !strings.Contains(got, want) {
		t.Errorf("%q is copied, want the row %q", got, want)
	}
	c.click(".buttons [data-action=dismiss]")
	c.seePreview("The score leaves the list")
	c.click("dialog .button")
	c.until("the dialog is closed", dialogClosed)
	c.click(".buttons .check input")
	c.until("both are chosen", "document.querySelectorAll('tbody .pick input:checked').length === 2")
	c.act(".buttons [data-action=dismiss]", "2 × The score leaves the list", "a marathon")
	c.until("no review is left", "!!document.querySelector('.empty')")

	user := c.people[3]
	callAPI(t, user.Token, http.MethodPut, c.base+"/v1/me", map[string]string{"nickname": "=1+1, \"a\""}, nil)
	c.goTo("#/users/named/" + url.PathEscape("=1"))
	c.until("the user is there", listShown)
	c.click("[data-action=copy]")
	c.until("a spreadsheet takes nothing for a formula", `window.copied.includes("\t'=1+1, \"a\"\t")`)
	file := c.downloads("users.csv")
	c.click("[data-action=csv]")
	want := "\ufeffuser_id,nickname,avatar_url,friends,created_at\r\n" + user.UserID + `,"'=1+1, ""a""",`
	testenv.Eventually(t, "the file is whole", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.HasPrefix(string(text), want)
	})
	c.ignoreFaults("404") // there is no user of this id
}

// The navigation has five entries, all of which a phone shows at once.
func TestConsoleNavigation(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	c := openConsole(t, narrow)
	for _, v := range []viewport{narrow, desktop} {
		c.emulate(v)
		c.until("the window has its size", "innerWidth === "+strconv.Itoa(int(v.width)))
		out := eval[[]string](c.page, `[...document.querySelectorAll('.console-nav a')].filter((a) => {
			const box = a.getBoundingClientRect();
			return box.left < 0 || box.right > innerWidth || box.height < 44 || a.scrollWidth > a.clientWidth;
		}).map((a) => a.textContent)`)
		if len(out) > 0 {
			t.Errorf("at %d these entries have no room: %v", v.width, out)
		}
	}
	if n := eval[int](c.page, "document.querySelectorAll('.console-nav a').length"); n != 5 {
		t.Errorf("the navigation has %d entries", n)
	}
	for _, name := range []string{"reviews", "audit"} {
		c.show(name)
		if current := eval[int](c.page, "document.querySelectorAll('nav [aria-current=page]').length"); current != 2 {
			t.Errorf("on %s %d links are of the current screen", name, current)
		}
	}
}
