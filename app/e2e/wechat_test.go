package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// The mini programs of these tests. WeChat gives unionids in the first two.
const (
	first, second, apart = "wx1", "wx2", "wx3"
	programSecret        = "the-secret-of-a-mini-program"
)

// program is a service with mini programs, beside a WeChat.
type program struct {
	*server
	wechat *testenv.WeChat
}

// wechatSettings adds the mini programs to the settings.
func wechatSettings(w *testenv.WeChat) func(*config.Config) {
	w.AddApp(first, programSecret, true)
	w.AddApp(second, programSecret, true)
	w.AddApp(apart, programSecret, false)
	return func(c *config.Config) {
		c.Auth.HS256Secret = harness.Secret
		c.WeChat.APIURL = w.URL
		for _, appid := range []string{first, second, apart} {
			c.WeChat.Apps = append(c.WeChat.Apps, config.WeChatApp{AppID: appid, Secret: programSecret, Board: "steps"})
		}
	}
}

func newProgram(t *testing.T, env *testenv.Env, change ...func(*config.Config)) *program {
	t.Helper()
	w := testenv.NewWeChat(t)
	return &program{newServer(t, env, append(change, wechatSettings(w))...), w}
}

// session is what a login gives.
type session struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires_at"`
	User    string    `json:"user_id"`
}

// send sends a code, and login logs a person in.
func (p *program) send(appid, code string) answer {
	p.t.Helper()
	return p.call("", "POST", "/v1/wechat/sessions", fmt.Sprintf(`{"appid":%q,"code":%q}`, appid, code))
}

func (p *program) login(appid, name string) (s session) {
	p.t.Helper()
	p.want(p.send(appid, p.wechat.LogIn(appid, name)), http.StatusOK, &s)
	return s
}

// china returns the begin of a day in China.
func china(day models.Date) time.Time { return day.UTC().Add(-8 * time.Hour) }

// walk returns the document about ann's steps of today.
func (p *program) walk(appid string, steps int64) (data, iv string) {
	today := models.DateOf(p.env.Clock.Now().Add(8 * time.Hour).UTC())
	return p.wechat.RunData(appid, "ann", time.Now(), testenv.StepDay{Timestamp: china(today).Unix(), Step: steps})
}

// upload sends a document.
func (p *program) upload(s session, appid, data, iv string) answer {
	p.t.Helper()
	return p.call(s.Token, "POST", "/v1/wechat/steps", fmt.Sprintf(`{"appid":%q,"encrypted_data":%q,"iv":%q}`, appid, data, iv))
}

// expired wants the answer about a document that can't be read, which is the same for each.
func (p *program) expired(what string, a answer) {
	p.t.Helper()
	var problem struct{ Code, Detail string }
	_ = json.Unmarshal(a.body, &problem)
	const detail = "the WeChat session has expired: log in again and repeat this once"
	if a.status != http.StatusConflict || problem.Code != string(models.CodeWeChatSession) || problem.Detail != detail || a.took < 100*time.Millisecond {
		p.t.Errorf("%s: %d %s after %v", what, a.status, a.body, a.took)
	}
}

// Somebody logs in, uploads what WeChat gives, and is on the board, each day with its largest total. Nothing that
// is secret stands anywhere.
func TestWeChat(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	env := testenv.Real(t)
	w := testenv.NewWeChat(t)
	wechatSettings(w)(&env.Config)
	env.Config.Boards[0].Uploads = "service"
	env.Config.Boards = append(env.Config.Boards, config.Board{Name: "elsewhere", Kind: "daily", TimeZone: "America/New_York", OpenDays: 2, MaxScore: 100_000, Shards: 1, Global: "users"})
	s := newTracedServer(t, env, config.Traces{Endpoint: c.url, Ratio: 1})
	p := &program{s.server, w}
	code := w.LogIn(first, "ann")
	var ann session
	p.want(p.send(first, code), http.StatusOK, &ann)
	if ann.User != testenv.UnionID("ann") || time.Until(ann.Expires) < 23*time.Hour || time.Until(ann.Expires) > 24*time.Hour {
		t.Errorf("the session is %+v", ann)
	}
	data, iv := w.RunData(
		first, "ann", time.Now(),
		testenv.StepDay{Timestamp: china(testDay).Unix(), Step: 900}, testenv.StepDay{Timestamp: china(testDay).Unix() + 60, Step: 9000},
		testenv.StepDay{Timestamp: china(testDay - 1).Unix(), Step: 8000}, testenv.StepDay{Timestamp: china(testDay - 30).Unix(), Step: 1},
	)
	a := p.upload(ann, first, data, iv)
	if a.status != http.StatusOK || !strings.Contains(string(a.body), `"index":0,"date":"2026-10-21","code":"date_closed"`) ||
		strings.Count(string(a.body), `"score":`) != 2 || !strings.Contains(string(a.body), `{"date":"2026-11-20","score":9000,`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	var me struct{ Score int64 }
	p.read(p.call(ann.Token, "GET", "/v1/boards/steps/me", nil), http.StatusOK, &me)
	if me.Score != 9000 {
		t.Errorf("the score is %d", me.Score)
	}
	var other struct{ Score *int64 }
	if p.read(p.call(ann.Token, "GET", "/v1/boards/elsewhere/me", nil), http.StatusOK, &other); other.Score != nil {
		t.Errorf("another board has %d", *other.Score)
	}
	p.refuse(p.call(ann.Token, "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":1}`), http.StatusForbidden, models.CodeForbidden)
	p.refuse(p.send(first, code), http.StatusUnauthorized, models.CodeWeChatCode)
	bad := w.LogIn(first, "ann")
	w.AddApp(first, "another-secret", true)
	p.refuse(p.send(first, bad), http.StatusServiceUnavailable, models.CodeUnavailable)
	w.AddApp(first, programSecret, true)
	away := w.LogIn(first, "ann")
	w.Answer(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	p.refuse(p.send(first, away), http.StatusServiceUnavailable, models.CodeUnavailable)
	p.expired("half a document", p.upload(ann, first, data[:64], iv))
	w.Answer(nil)
	alone := p.login(apart, "ann")

	metrics := string(p.call("", "GET", "/metrics", nil).body)
	export := string(p.call(ann.Token, "GET", "/v1/me/export", nil).body) + string(p.admin("GET", "/v1/admin/users/"+ann.User+"/export", nil).body)
	for _, line := range []string{
		`logins_total{result="ok"} 2`, `logins_total{result="bad_code"} 1`, `logins_total{result="refused"} 1`, `logins_total{result="unavailable"} 1`,
		`documents_total{result="read"} 1`, `documents_total{result="unread"} 1`,
	} {
		if !strings.Contains(metrics, "stepboard_wechat_"+line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if !strings.Contains(export, `"subject":"`+testenv.OpenID(first, "ann")+`"`) {
		t.Errorf("the export lacks the openid: %s", export)
	}
	tables := p.everyValue()
	for key, content := range p.keys() {
		tables += key + content
	}
	s.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bytes) == 0 || !strings.Contains(tables, testenv.OpenID(first, "ann")) || !strings.Contains(s.log.String(), "the appid or the secret is wrong: wx1") {
		t.Error("there are no traces, no mapping, or no line about the wrong secret")
	}
	key := w.Key(first, "ann")
	secrets := map[string]string{
		"secret": programSecret, "code": code, "refused code": bad, "code that was not exchanged": away, "session key": string(key),
		"session key in base64": base64.StdEncoding.EncodeToString(key), "token": ann.Token, "document": data,
	}
	shown := map[string]string{"log": s.log.String(), "metrics": metrics, "traces": string(c.bytes), "export": export, "databases": tables}
	for where, text := range shown {
		for name, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("the %s stands in the %s", name, where)
			}
		}
		for _, id := range []string{testenv.OpenID(first, "ann"), ann.User, alone.User} {
			if where != "databases" && where != "export" && strings.Contains(text, id) {
				t.Errorf("%s stands in the %s", id, where)
			}
		}
	}
	if strings.Contains(export, "session_key") {
		t.Error("the export has a session key")
	}
}

// testDay is the day at testenv.Noon.
var testDay = models.DateOf(testenv.Noon.Add(8 * time.Hour))

// Whatever WeChat answers, the caller is told what to do, and the service goes on.
func TestWeChatMisbehaves(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	var log lines
	env.Log = slog.New(slog.NewJSONHandler(&log, nil))
	p := newProgram(t, env)
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}
	answers := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	const key = "TheSessionKeyOfAnybody=="
	const good = `{"openid":"o","session_key":"` + key + `"}`
	release := make(chan struct{})
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		status int
		code   models.Code
	}{
		"busy":                    {answers(200, `{"errcode":-1,"errmsg":"system error"}`), 503, models.CodeUnavailable},
		"a bad code":              {answers(200, `{"errcode":40029,"errmsg":"invalid code"}`), 401, models.CodeWeChatCode},
		"a bad code, as an error": {answers(400, `{"errcode":40029}`), 401, models.CodeWeChatCode},
		"a blocked person":        {answers(200, `{"errcode":40226}`), 403, models.CodeForbidden},
		"too often":               {answers(200, `{"errcode":45011}`), 429, models.CodeRateLimited},
		"an unknown app":          {answers(200, `{"errcode":40013}`), 503, models.CodeUnavailable},
		"a wrong secret":          {answers(200, `{"errcode":40125}`), 503, models.CodeUnavailable},
		"something new":           {answers(200, `{"errcode":99999}`), 503, models.CodeUnavailable},
		"an error of 0":           {answers(200, `{"errcode":0,`+good[1:]), 200, ""},
		"no type":                 {answers(500, good), 200, ""},
		"garbage":                 {answers(200, `<html>`), 503, models.CodeUnavailable},
		"nothing":                 {answers(200, ``), 503, models.CodeUnavailable},
		"a list":                  {answers(200, `[]`), 503, models.CodeUnavailable},
		"no openid":               {answers(200, `{"session_key":"AAAAAAAAAAAAAAAAAAAAAA=="}`), 503, models.CodeUnavailable},
		"no key":                  {answers(200, `{"openid":"o"}`), 503, models.CodeUnavailable},
		"a short key":             {answers(200, `{"openid":"o","session_key":"AAAA"}`), 503, models.CodeUnavailable},
		"an openid that is no id": {answers(200, `{"openid":"o p","session_key":"AAAAAAAAAAAAAAAAAAAAAA=="}`), 503, models.CodeUnavailable},
		"a unionid that is no id": {answers(200, `{"unionid":"..",`+good[1:]), 503, models.CodeUnavailable},
		"more than 64 KB":         {answers(200, good+strings.Repeat(" ", 64<<10)), 503, models.CodeUnavailable},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, p.wechat.URL+"/elsewhere", http.StatusFound)
		}, 503, models.CodeUnavailable},
		"no answer within seconds": {func(_ http.ResponseWriter, r *http.Request) { wait(r, release) }, 503, models.CodeUnavailable},
		"half an answer": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			answers(200, good)(w, r)
		}, 503, models.CodeUnavailable},
		"a bad redirect": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://%zz"+r.URL.String())
			w.WriteHeader(http.StatusFound)
		}, 503, models.CodeUnavailable},
		"the code for a status":     {func(w http.ResponseWriter, r *http.Request) { raw("HTTP/1.1 "+r.URL.String()+" OK\r\n\r\n")(w, r) }, 503, models.CodeUnavailable},
		"no header":                 {raw(good + "\r\n\r\n"), 503, models.CodeUnavailable},
		"a key for a header":        {raw("HTTP/1.1 200 OK\r\n" + good + "\r\n\r\n"), 503, models.CodeUnavailable},
		"two answers":               {raw(strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(good))+"\r\n\r\n"+good, 2)), 200, ""},
		"the end of the connection": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503, models.CodeUnavailable},
	} {
		p.wechat.Answer(tt.answer)
		if a := p.send(first, "any-code"); a.status != tt.status || tt.code != "" && a.code() != tt.code {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	close(release)
	p.wechat.Answer(nil)
	p.refuse(p.send("wx4", p.wechat.LogIn(first, "ann")), http.StatusUnprocessableEntity, models.CodeValidationFailed)
	p.refuse(p.send(second, p.wechat.LogIn(first, "ann")), http.StatusUnauthorized, models.CodeWeChatCode)
	p.login(first, "ann")
	for _, secret := range []string{programSecret, "any-code", key} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s: %s", secret, log.String())
		}
	}
	if !strings.Contains(log.String(), "there was no answer in time") || !strings.Contains(log.String(), "the answer can't be read") {
		t.Errorf("the log does not say why: %s", log.String())
	}
}

// wait waits until a channel is closed or the caller has gone.
func wait(r *http.Request, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-r.Context().Done():
	}
}

// An address logs in as often as the settings say.
func TestWeChatLoginsAreLimited(t *testing.T) {
	t.Parallel()
	p := newProgram(t, testenv.Real(t), func(c *config.Config) { c.Limits.LoginsPerMinute = 3 })
	a := p.send(first, p.wechat.LogIn(first, "ann"))
	for range 100 { // one more is permitted each 20 seconds
		if a.status == http.StatusOK {
			a = p.send(first, p.wechat.LogIn(first, "ann"))
		}
	}
	p.refuse(a, http.StatusTooManyRequests, models.CodeRateLimited)
	if p.wechat.Asked() < 3 || a.header.Get("Retry-After") == "" {
		t.Errorf("WeChat was asked %d times: %v", p.wechat.Asked(), a.header)
	}
}

// A process exchanges 32 codes at the same time.
func TestWeChatLoginsAtOnce(t *testing.T) {
	t.Parallel()
	p := newProgram(t, testenv.Real(t))
	release := make(chan struct{})
	p.wechat.Answer(func(_ http.ResponseWriter, r *http.Request) { wait(r, release) })
	var calls sync.WaitGroup
	for range 32 {
		calls.Go(func() { p.send(first, "code") })
	}
	testenv.Eventually(t, "32 codes are being exchanged", func() bool { return p.wechat.Asked() == 32 })
	p.refuse(p.send(first, "code"), http.StatusServiceUnavailable, models.CodeUnavailable)
	close(release)
	calls.Wait()
	p.wechat.Answer(nil)
	p.login(first, "ann")
}

// Many log in for the first time, in two mini programs, while the user is erased. The person stays one user, and nothing is
// left of those who were erased.
func TestWeChatPeopleAtOnce(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProgram(t, env)
		for round := range 3 {
			var calls sync.WaitGroup
			for i := range 16 {
				calls.Go(func() { p.login([]string{first, second}[i%2], "ann") })
			}
			if round > 0 {
				calls.Go(func() { p.eraseSelf("u-ann") })
			}
			calls.Go(p.sweep)
			calls.Wait()
		}
		var users int64
		p.finishErasures()
		p.env.Gorm.Raw(`SELECT count(*) FROM users WHERE external_id LIKE 'u-ann%'`).Scan(&users)
		if users > 1 {
			t.Errorf("there are %d users", users)
		}
		p.everyMappingHasAUser()
	})
}

// Somebody who has used two mini programs before they belonged together is two users. Erased as one and back as the other,
// they are excluded and blocked there, with the limits that end later.
func TestWeChatPeopleReturnToAnotherUser(t *testing.T) {
	t.Parallel()
	eitherWay(t, func(t *testing.T, env *testenv.Env, finished bool) {
		p := newProgram(t, env)
		p.login(first, "ann")
		alone := models.UserID(p.login(apart, "ann").User)
		p.wechat.AddApp(apart, programSecret, true)
		p.login(apart, "ann")
		p.nameAll("ben", "cid")
		p.want(p.as(alone, "POST", "/v1/friends/requests", `{"user_id":"cid"}`), http.StatusCreated, nil)
		p.env.Clock.Advance(time.Minute)
		for _, other := range []string{"ben", "cid"} {
			p.want(p.as("u-ann", "POST", "/v1/friends/requests", `{"user_id":"`+other+`"}`), http.StatusCreated, nil)
		}
		p.eraseDecided(alone, finished)
		p.isDecidedAgain(apart)
		var sent int
		p.env.Gorm.Raw(`SELECT requests_sent FROM users WHERE external_id = 'u-ann'`).Scan(&sent)
		if sent != 2 {
			p.t.Errorf("%d requests are counted", sent)
		}
	})
}

// A client that leaves while a good document is read has not failed.
func TestWeChatClientsLeave(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProgram(t, env)
		ann := p.login(first, "ann")
		data, iv := p.walk(first, 7000)
		for i := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(200+25*i)*time.Microsecond)
			_, _, _ = harness.Request(ctx, http.DefaultClient, ann.Token, "POST", p.url+"/v1/wechat/steps",
				fmt.Sprintf(`{"appid":%q,"encrypted_data":%q,"iv":%q}`, first, data, iv))
			cancel()
		}
		testenv.Eventually(t, "nothing counts as a failure", func() bool {
			failures := -1
			p.env.Gorm.Raw(`SELECT failures FROM identities`).Scan(&failures)
			return failures == 0
		})
		p.want(p.upload(ann, first, data, iv), http.StatusOK, nil)
	})
}

// A person is one user in all mini programs with a unionid, whatever the user is called, and an exclusion holds in
// each of them.
func TestWeChatPeople(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProgram(t, env)
		here, there, alone := p.login(first, "ann"), p.login(second, "ann"), p.login(apart, "ann")
		if here.User != "u-ann" || there.User != "u-ann" || alone.User != "o-wx3-ann" {
			t.Errorf("the users are %s, %s and %s", here.User, there.User, alone.User)
		}
		p.want(p.service("POST", "/v1/users/u-ann/rename", `{"to":"ann"}`), http.StatusNoContent, nil)
		p.correct(`{"board":"steps","date":null,"user_id":"ann","kind":"exclude","reason":"a machine"}`)
		here, there = p.login(first, "ann"), p.login(second, "ann")
		if here.User != "ann" || there.User != "ann" {
			t.Errorf("the renamed user is %s and %s", here.User, there.User)
		}
		data, iv := p.walk(second, 7000)
		p.want(p.upload(there, second, data, iv), http.StatusOK, nil)
		p.check("the excluded user", p.ranked("/v1/boards/steps/top"), "")
		// WeChat gives a unionid later: the mini program has joined an account of the open platform.
		p.wechat.AddApp(apart, programSecret, true)
		if again := p.login(apart, "ann"); again.User != "o-wx3-ann" {
			t.Errorf("somebody else has become of the user: %s", again.User)
		}
		if ben := p.login(apart, "ben"); ben.User != "u-ben" || p.login(first, "ben").User != "u-ben" {
			t.Errorf("ben is %s", ben.User)
		}
	})
}

// An erasure removes the session and the mapping. What others have decided holds when the person returns, in
// another mini program, too, and though the user was renamed before.
func TestErasedPeopleOfWeChatReturn(t *testing.T) {
	t.Parallel()
	for _, renamed := range []bool{false, true} {
		eitherWay(t, func(t *testing.T, env *testenv.Env, finished bool) {
			p := newProgram(t, env)
			user := models.UserID(p.login(first, "ann").User)
			if renamed {
				user = "ann"
				p.want(p.service("POST", "/v1/users/u-ann/rename", `{"to":"ann"}`), http.StatusNoContent, nil)
			}
			p.nameAll("ben")
			p.eraseDecided(user, finished)
			back := p.isDecidedAgain(second)
			old, start := p.walk(first, 8000)
			p.finishErasures()
			p.expired("the session of the erased user", p.upload(back, first, old, start))
			again := p.login(first, "ann")
			p.want(p.upload(again, first, old, start), http.StatusOK, nil)
			p.everyMappingHasAUser() // of the first user there are but hashes, as long as what was kept
		})
	}
}

// eraseDecided erases a user whom an operator has excluded and ben blocks.
func (p *program) eraseDecided(user models.UserID, finished bool) {
	p.t.Helper()
	p.correct(`{"board":"steps","date":null,"user_id":%q,"kind":"exclude","reason":"a machine"}`, user)
	p.want(p.as("ben", "PUT", "/v1/blocked/"+string(user), nil), http.StatusNoContent, nil)
	p.eraseSelf(user)
	if finished {
		p.finishErasures()
	}
}

// isDecidedAgain logs ann in, whom eraseDecided has erased, and checks that she is excluded and blocked.
func (p *program) isDecidedAgain(appid string) (back session) {
	p.t.Helper()
	back = p.login(appid, "ann")
	data, iv := p.walk(appid, 7000)
	p.want(p.upload(back, appid, data, iv), http.StatusOK, nil)
	p.check("the user", back.User, "u-ann")
	p.check("the excluded user", p.ranked("/v1/boards/steps/top"), "")
	p.check("whom ben blocks", p.lists("ben", "/v1/blocked"), "u-ann")
	return back
}

// everyMappingHasAUser checks that each mapping is of a user who exists.
func (p *program) everyMappingHasAUser() {
	p.t.Helper()
	orphans := int64(-1)
	p.env.Gorm.Raw(`SELECT count(*) FROM identities w WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = w.user_id)`).Scan(&orphans)
	if orphans != 0 {
		p.t.Errorf("%d mappings are of nobody", orphans)
	}
}

// A key that was replaced locks nobody out: the next login has the new one. With a key that fails, 20 documents are
// decrypted, and no more, also if they come at once.
func TestWeChatSessions(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newProgram(t, env)
		ann := p.login(first, "ann")
		p.expired("somebody without a session", p.upload(session{Token: harness.Token(t, "zed", "")}, first, "AAAA", "AAAA"))
		p.expired("another app", func() answer { data, iv := p.walk(second, 1); return p.upload(ann, second, data, iv) }())
		p.wechat.ReplaceKey(first, "ann")
		data, iv := p.walk(first, 5000)
		p.expired("a key that was replaced", p.upload(ann, first, data, iv))
		ann = p.login(first, "ann")
		for range 25 { // successes give back what they have counted
			p.want(p.upload(ann, first, data, iv), http.StatusOK, nil)
		}
		other, start := p.wechat.RunData(second, "ann", time.Now(), testenv.StepDay{Timestamp: china(testDay).Unix(), Step: 1})
		for i := range 19 {
			bad := [][2]string{{other, start}, {"", iv}, {"*", iv}, {data, "AAAA"}, {data[:88], iv}}[i%5]
			p.expired(fmt.Sprint("bad document ", i), p.upload(ann, first, bad[0], bad[1]))
		}
		p.login(first, "ann") // with the same key, whose failures stay
		var tries sync.WaitGroup
		for range 30 {
			tries.Go(func() { p.expired("many at once", p.upload(ann, first, other, start)) })
		}
		tries.Wait()
		p.expired("the 21st, though it could be read", p.upload(ann, first, data, iv))
		var failures int
		p.env.Gorm.Raw(`SELECT failures FROM identities`).Scan(&failures)
		if failures != 20 {
			t.Errorf("the key has failed %d times", failures)
		}
		p.wechat.ReplaceKey(first, "ann")
		ann = p.login(first, "ann")
		data, iv = p.walk(first, 6000)
		p.want(p.upload(ann, first, data, iv), http.StatusOK, nil)
	})
}

// With another secret, the stored keys can't be decrypted: they have expired.
func TestWeChatWithAnotherSecret(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newProgram(t, env)
	ann := p.login(first, "ann")
	data, iv := p.walk(first, 5000)
	const changed = "another secret for tests, of 32 bytes"
	later := &program{newServer(t, env, wechatSettings(p.wechat), func(c *config.Config) { c.Auth.HS256Secret = changed }), p.wechat}
	later.expired("a key of another secret", later.upload(ann, first, data, iv))
	later.login(first, "ann")
	later.want(later.upload(ann, first, data, iv), http.StatusOK, nil)
	p.expired("a key of the other secret", p.upload(ann, first, data, iv))
}

// config check --connect asks WeChat for the secret of each mini program, on servers and for a data folder.
func TestConfigCheckAsksWeChat(t *testing.T) {
	t.Parallel()
	w := testenv.NewWeChat(t)
	w.AddApp(first, programSecret, false)
	check := func(secret string) harness.Outcome {
		return command("config", "check", "--connect", "--data="+t.TempDir(), "--boards=[{name: steps, time_zone: Asia/Shanghai, uploads: service}]",
			"--wechat.api_url="+w.URL, fmt.Sprintf("--wechat.apps=[{appid: %s, secret: %s, board: steps}]", first, secret))
	}
	check(programSecret).Succeeds(t)
	check("wrong").Fails(t, 1, "wechat.apps[0]: the appid or the secret is wrong")
	w.Answer(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write([]byte(`{"openid":"o","session_key":"AAAAAAAAAAAAAAAAAAAAAA=="}`))
	})
	check(programSecret).Fails(t, 1, "it takes any code")
	w.Close()
	check(programSecret).Fails(t, 1, "connection refused")
}
