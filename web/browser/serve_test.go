package browser

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

const secret = "a secret for tests, 32 bytes or more"

// hostile holds names that try to break the page: markup, characters that change
// the text direction or end an isolate, emoji, and names that are too long or too
// high. The API refuses some of them, but a database may have them.
var hostile = map[models.UserID]string{
	"2":                                    `<script>document.title='x'</script><img src=x onerror=alert(1)>`,
	"auth0|5f7c8ec7c33c6c004bbafe82":       "\u202eevil\u2066 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
	"c56a4180-65aa-42ec-a945-5fd21dec0538": "\u2069\u2069\u202c👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 Zoë",
	"a/b":                                  strings.Repeat("W", 64),
	`'<b>&amp;`:                            strings.Repeat("x\u0300\u0301\u0302\u0300", 12),
	"{7}":                                  "王小明",
	"8":                                    "' onmouseover='alert(1)' & \" &amp; {n} ${1}",
}

func sign(t testing.TB, user models.UserID, scope string) string {
	t.Helper()
	text, err := auth.SignToken([]byte(secret), user, scope, "", "", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startService starts `serve` on real stores. The users have the hostile names and
// are all friends of user 1. today is the current date of the board steps.
func startService(t *testing.T) (service *testenv.Process, flags []string, today string) {
	t.Helper()
	env := testenv.Real(t)
	cfg := env.Config
	cfg.Auth.HS256Secret = secret
	cfg.Boards[0].TimeZone = testenv.Morning
	flags = testenv.Flags(cfg)
	service = testenv.Serve(t, cfg)
	var boards struct {
		Boards []struct{ Current struct{ Date string } }
	}
	backend := sign(t, "1", auth.ScopeService)
	callAPI(t, backend, http.MethodGet, service.URL+"/v1/boards", nil, &boards)
	today = boards.Boards[0].Current.Date
	for id, name := range hostile {
		err := env.Gorm.Exec("INSERT INTO users (external_id, nickname, avatar_url, created_at) VALUES (?, ?, 'https://example.com/tracker.png', now())", id, name).Error
		if err != nil {
			t.Fatal(err)
		}
	}
	callAPI(t, backend, http.MethodPut, service.URL+"/v1/users/1", map[string]string{"nickname": "Ann"}, nil)
	callAPI(t, backend, http.MethodPut, service.URL+"/v1/users/1/friends", map[string]any{"friend_ids": slices.Collect(maps.Keys(hostile))}, nil)
	return service, flags, today
}

func uploadSteps(t testing.TB, base, today string, user models.UserID, steps int) {
	t.Helper()
	callAPI(t, sign(t, user, ""), http.MethodPost, base+"/v1/boards/steps/scores", map[string]any{"date": today, "score": steps}, nil)
}

// tokenRefused is true once the page says why a token was refused, and asks for another.
const tokenRefused = "(document.querySelector('.wrong')?.textContent ?? '') !== '' && document.querySelector('#token') !== null"

func (p *page) signIn(base, token string) {
	p.t.Helper()
	p.open(base)
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	eval[any](p, "void document.querySelector('#token').closest('details')?.setAttribute('open', '')")
	p.typeIn("#token", token)
	p.click("form:has(#token) .strong")
}

// On real stores the page shows what the API returns, follows changes, and treats
// every name as text.
func TestServe(t *testing.T) {
	t.Parallel()
	service, _, today := startService(t)
	base := service.URL
	for i, id := range slices.Sorted(maps.Keys(hostile)) {
		uploadSteps(t, base, today, id, 1000*(i+2))
	}
	p := newPage(t, narrow)
	p.signIn(base, "no.token.atall")
	p.until("the token is refused", tokenRefused)
	p.waitForAnswers()
	p.ignoreFaults("401")
	p.screenshot("sign-in-320")

	p.signIn(base, sign(t, "1", ""))
	p.until("the ranking is there", rankingShown)
	shows := func(what string) {
		t.Helper()
		want := rowsOf(rankingOf(t, base, sign(t, "1", ""), ""))
		testenv.Eventually(t, what, func() bool { return cmp.Equal(want, p.rows()) })
	}
	shows("the list is the API's, with the exact names")
	if eval[bool](p, "document.title === 'x' || document.querySelector('script:not([src]), .ranking img') !== null") {
		t.Error("a name was treated as markup")
	}
	for _, v := range []viewport{narrow, desktop} {
		p.emulate(v)
		p.until("the window has its size", "innerWidth === "+strconv.Itoa(int(v.width)))
		p.checkLayout("hostile names")
		p.screenshot("hostile-" + strconv.Itoa(int(v.width)))
		// Each name stays inside its row, on one line, left of the score.
		if bad := eval[[]string](p, `[...document.querySelectorAll('.ranking > li')].filter((li) => {
			const [row, name, score] = [li, li.querySelector('.name'), li.querySelector('.score')].map((e) => e.getBoundingClientRect());
			return name.right > score.left + 0.5 || name.height > 32 || row.height !== document.querySelector('.ranking > li').getBoundingClientRect().height;
		}).map((li) => li.dataset.user)`); len(bad) > 0 {
			t.Errorf("names of %v break the layout at %d", bad, v.width)
		}
	}
	p.emulate(narrow)

	// Without a score the viewer has no row. With one, the row is marked and moves
	// like the others.
	if eval[bool](p, "document.querySelector('.ranking .own') !== null") {
		t.Error("the viewer has a row without a score")
	}
	uploadSteps(t, base, today, "1", 3500)
	p.until("the viewer's row appears", "document.querySelector('.ranking .own')?.dataset.user === '1'")
	shows("the viewer's row is in its place")
	uploadSteps(t, base, today, "2", 90_000)
	p.until("the other user leads", "document.querySelector('.ranking > li').dataset.user === '2'")
	uploadSteps(t, base, today, "1", 95_000)
	p.until("the viewer leads", "document.querySelector('.ranking > li').classList.contains('own') && document.querySelector('.hero .big').textContent === '1st'")
	shows("all rows have moved")
	p.checkLayout("after moves")

	// The token is only in memory.
	if eval[bool](p, "Object.keys(localStorage).some((key) => !['places', 'ranking', 'seen-likes'].includes(key)) || JSON.stringify({ ...localStorage }).includes('eyJ') || sessionStorage.length > 0 || document.cookie !== '' || location.href.includes('ey')") {
		t.Error("the page stores more than places, likes that were seen, and the last ranking")
	}
	p.goTo("#/me")
	p.click(".page > .button")
	p.until("the viewer is signed out", "document.querySelector('#token')?.value === ''")

	// If the service stops, the page says so and keeps the ranking that it has.
	p.signIn(base, sign(t, "1", ""))
	p.until("the ranking is there again", rankingShown)
	service.Kill()
	p.until("the page says that it is offline", "document.querySelector('.banner') !== null && document.querySelector('.pill.lost') !== null && "+rankingShown)
	p.screenshot("offline-320")
	p.ignoreFaults("ERR_")
	p.ignoreFaults("fetching the script") // the browser looks for another worker
}

// Days in Postgres are shown as the API returns them.
func TestServePast(t *testing.T) {
	t.Parallel()
	service, flags, today := startService(t)
	base := service.URL
	const days = 20
	// The day that turns cold at this midnight is imported, but not shown for an hour.
	const waiting = 4
	text := strings.Builder{}
	text.WriteString("user_id,date,steps\n")
	for ago := 1; ago <= days+1; ago++ {
		if ago == waiting {
			continue
		}
		for i, user := range append(slices.Sorted(maps.Keys(hostile)), "1") {
			fmt.Fprintf(&text, "%q,%s,%d\n", user, daysAgo(t, today, ago), 1000+((i+1)*7919+ago*104729)%9000)
		}
	}
	file := filepath.Join(t.TempDir(), "steps.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, status := testenv.Run(t, append([]string{"import", "steps", file}, flags...)...); status != 0 {
		t.Fatalf("import: %d %s", status, said)
	}
	me := sign(t, "1", "")
	day := daysAgo(t, today, 10)
	want := rankingOf(t, base, me, "?date="+day)
	if want.Source != models.SourceArchive || !want.Final || want.Total != 8 {
		t.Fatalf("%s is %+v", day, want)
	}
	p := newPage(t, viewport{width: 390, height: 844, language: "zh-CN"})
	p.signIn(base, me)
	p.until("today is empty", "document.querySelector('.notice') !== null")
	p.screenshot("empty-390-zh")
	p.click(`.strip a[href="#/day/` + day + `"]`)
	p.until("the day is final", "document.querySelector('.hero .pill.final')?.textContent === '已定榜' && "+rankingShown)
	if diff := cmp.Diff(rowsOf(want), p.rows()); diff != "" {
		t.Errorf("-API +page:\n%s", diff)
	}
	p.goTo("#/history")
	p.until("the days are shown", "document.querySelectorAll('.past li').length === "+strconv.Itoa(days))
	type score struct {
		Date  string
		Score int64
	}
	var history struct{ Entries []score }
	callAPI(t, me, http.MethodGet, base+"/v1/boards/steps/history", nil, &history)
	shown := eval[[]score](p, `[...document.querySelectorAll('.past li')].map((li) => ({
		Date: li.querySelector('a')?.getAttribute('href').slice(-10) ?? '', Score: Number(li.querySelector('.score').textContent.replace(/,/g, '')) }))`)
	if diff := cmp.Diff(history.Entries, shown); diff != "" {
		t.Errorf("the history: -API +page:\n%s", diff)
	}
	p.until("the chart is drawn", "document.querySelector('.plot canvas') !== null")
	p.goTo("#/day/" + daysAgo(t, today, 300))
	p.until("a day without steps says so", "document.querySelector('.list .notice h2')?.textContent === '这一天没有数据'")
}
