package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

const secret = "a secret for tests, 32 bytes or more"

// hostile are names that must not do anything: markup, directions that turn
// what follows, a closed isolate, pictures, and more than fits.
var hostile = map[models.UserID]string{
	2: `<script>document.title='x'</script><img src=x onerror=alert(1)>`,
	3: "\u202eevil\u2066 \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
	4: "\u2069\u2069\u202c👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 Zoë",
	5: strings.Repeat("W", 64),
	6: "a" + strings.Repeat("\u0300\u0301\u0302", 21),
	7: "王小明",
	8: "' onmouseover='alert(1)' & \" &amp; {n} ${1}",
}

func sign(t testing.TB, user models.UserID, scope string) string {
	t.Helper()
	text, err := auth.SignToken([]byte(secret), user, scope, "", "", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// startService starts `serve` on real stores with a few people of whom user 1
// knows all, and answers today's date there.
func startService(t *testing.T) (service *testenv.Process, flags []string, today string) {
	t.Helper()
	cfg := testenv.RealConfig(t).Config
	cfg.Auth.HS256Secret = secret
	flags = testenv.Flags(cfg)
	service = testenv.Serve(t, cfg, "--postgres.auto_migrate=true")
	var boards struct {
		Boards []struct{ Current struct{ Date string } }
	}
	backend := sign(t, 1, auth.ScopeService)
	ask(t, backend, http.MethodGet, service.URL+"/v1/boards", nil, &boards)
	today = boards.Boards[0].Current.Date
	ids := []string{}
	for id, name := range hostile {
		ask(t, backend, http.MethodPut, fmt.Sprintf("%s/v1/users/%v", service.URL, id), map[string]string{"nickname": name, "avatar_url": "https://example.com/tracker.png"}, nil)
		ids = append(ids, id.String())
	}
	ask(t, backend, http.MethodPut, service.URL+"/v1/users/1", map[string]string{"nickname": "Ann"}, nil)
	ask(t, backend, http.MethodPut, service.URL+"/v1/users/1/friends", map[string]any{"friend_ids": ids}, nil)
	return service, flags, today
}

func walk(t testing.TB, base, today string, user models.UserID, steps int) {
	t.Helper()
	ask(t, sign(t, user, ""), http.MethodPost, base+"/v1/boards/steps/scores", map[string]any{"date": today, "score": steps}, nil)
}

func (p *page) signIn(base, token string) {
	p.t.Helper()
	p.open(base)
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	p.typeIn("#token", token)
	p.click(".sign-in .strong")
}

// The page on real stores: what it shows is what the API answers, as it
// changes, and names are text whatever is in them.
func TestServe(t *testing.T) {
	t.Parallel()
	service, _, today := startService(t)
	base := service.URL
	for id := range hostile {
		walk(t, base, today, id, 1000*int(id))
	}
	p := newPage(t, narrow)
	p.signIn(base, "no.token.atall")
	p.until("it is refused", "document.querySelector('.wrong')?.textContent !== '' && document.querySelector('#token') !== null")
	p.expectFaults("401")
	p.shot("sign-in-360")

	p.signIn(base, sign(t, 1, ""))
	p.until("the ranking is there", listed)
	shows := func(what string) {
		t.Helper()
		want := linesOf(rankingOf(t, base, sign(t, 1, ""), ""))
		testenv.Eventually(t, what, func() bool { return cmp.Equal(want, p.lines()) })
	}
	shows("the list is the API's, names to the letter")
	if eval[bool](p, "document.title === 'x' || document.querySelector('script:not([src]), .ranking img') !== null") {
		t.Error("a name has done something")
	}
	for _, v := range []view{narrow, desktop} {
		p.look(v)
		p.until("it is laid out", "innerWidth === "+count(int(v.width)))
		p.holds("hostile names")
		p.shot("hostile-" + count(int(v.width)))
		// Each name stays in its line, on one line, and before the score.
		if bad := eval[[]string](p, `[...document.querySelectorAll('.ranking > li')].filter((li) => {
			const [row, name, score] = [li, li.querySelector('.name'), li.querySelector('.score')].map((e) => e.getBoundingClientRect());
			return name.right > score.left + 0.5 || name.height > 32 || row.height !== document.querySelector('.ranking > li').getBoundingClientRect().height;
		}).map((li) => li.dataset.user)`); len(bad) > 0 {
			t.Errorf("names of %v break the layout at %d", bad, v.width)
		}
	}
	p.look(narrow)

	// Without an own score there is no own line; with one it is marked and
	// moves, as the others do.
	if eval[bool](p, "document.querySelector('.ranking .own') !== null") {
		t.Error("there is an own line without a score")
	}
	walk(t, base, today, 1, 3500)
	p.until("the own line comes", "document.querySelector('.ranking .own')?.dataset.user === '1'")
	shows("the own line is in its place")
	walk(t, base, today, 2, 90_000)
	p.until("the other one leads", "document.querySelector('.ranking > li').dataset.user === '2'")
	walk(t, base, today, 1, 95_000)
	p.until("oneself leads", "document.querySelector('.ranking > li').classList.contains('own') && document.querySelector('.hero .big').textContent === '1st'")
	shows("all have moved")
	p.holds("after moves")

	// The token is nowhere but in memory.
	if eval[bool](p, "localStorage.length + sessionStorage.length > 0 || document.cookie !== '' || location.href.includes('ey')") {
		t.Error("something is stored")
	}
	p.click(".top .button")
	p.until("one is signed out", "document.querySelector('#token')?.value === ''")

	// Where the service goes away the page says so and keeps what it has.
	p.signIn(base, sign(t, 1, ""))
	p.until("the ranking is there again", listed)
	service.Kill()
	p.until("the page says that it is cut off", "document.querySelector('.banner') !== null && document.querySelector('.pill.lost') !== null && "+listed)
	p.shot("offline-360")
	p.expectFaults("ERR_")
}

// Days that are in Postgres.
func TestServePast(t *testing.T) {
	t.Parallel()
	service, flags, today := startService(t)
	base := service.URL
	const days = 20
	text := strings.Builder{}
	text.WriteString("user_id,date,steps\n")
	for ago := 1; ago <= days; ago++ {
		for user := 1; user <= 8; user++ {
			fmt.Fprintf(&text, "%d,%s,%d\n", user, daysAgo(t, today, ago), 1000+(user*7919+ago*104729)%9000)
		}
	}
	file := filepath.Join(t.TempDir(), "steps.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, said, status := testenv.Run(t, append([]string{"import", "steps", file}, flags...)...); status != 0 {
		t.Fatalf("import: %d %s", status, said)
	}
	me := sign(t, 1, "")
	day := daysAgo(t, today, 10)
	want := rankingOf(t, base, me, "?date="+day)
	if want.Source != models.SourceArchive || !want.Final || want.Total != 8 {
		t.Fatalf("%s is %+v", day, want)
	}
	p := newPage(t, view{width: 390, height: 844, language: "zh-CN"})
	p.signIn(base, me)
	p.until("today is empty", "document.querySelector('.notice') !== null")
	p.shot("empty-390-zh")
	p.click(`.strip a[href="#/day/` + day + `"]`)
	p.until("the day is final", "document.querySelector('.hero .pill.final')?.textContent === '已定榜' && "+listed)
	if diff := cmp.Diff(linesOf(want), p.lines()); diff != "" {
		t.Errorf("-API +page:\n%s", diff)
	}
	p.goTo("#/history")
	p.until("the days are listed", "document.querySelectorAll('.past li').length === "+count(days))
	p.until("the chart is drawn", "document.querySelector('.plot canvas') !== null")
	p.goTo("#/day/" + daysAgo(t, today, 300))
	p.until("a day without steps says so", "document.querySelector('.list .notice h3')?.textContent === '这一天没有数据'")
}
