package browser

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// tokenOf returns a token of a user, with more text to tell it from others.
func tokenOf(user, more string) string {
	claims, _ := json.Marshal(map[string]string{"sub": user})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + "." + more
}

// An app hands a token over in the address. It leaves the address and the history at
// once, is sent only as a header, and a later one continues the session on its screen.
func TestTokenInTheAddress(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	valid := atomic.Pointer[string]{}
	first, second := tokenOf("1", "first"), tokenOf("1", "second")
	valid.Store(&first)
	f.checks(func(r *http.Request) bool {
		if strings.Contains(r.URL.String()+r.Referer(), "e30.") {
			t.Errorf("the token is in %s or its referrer %s", r.URL, r.Referer())
		}
		return r.Header.Get("Authorization") == "Bearer "+*valid.Load()
	})
	p := newPage(t, phone)
	p.open(f.URL + "/#token=" + first)
	p.until("the ranking is there", rankingShown)
	p.until("the own name is shown", "document.querySelector('.self .name').textContent === 'User 1'")
	kept := func() []string {
		history, err := chromedp.Call(p.ctx, cdppage.GetNavigationHistory, cdp.Empty{})
		p.must(err)
		urls := []string{eval[string](p, "location.href"), eval[string](p, "JSON.stringify({ ...localStorage, ...sessionStorage })")}
		for _, e := range history.Entries {
			urls = append(urls, e.URL)
		}
		return urls
	}
	if urls := kept(); strings.Contains(strings.Join(urls, " "), "e30.") {
		t.Errorf("the token is kept in %q", urls)
	}

	// The service refuses the token once it has expired, and ends the stream.
	p.goTo("#/friends")
	p.until("the friends are there", "document.querySelector('#ask') !== null")
	valid.Store(&second)
	p.goTo("#/")
	p.until("the page asks for a token", tokenRefused)
	p.goTo("#/friends")
	eval[any](p, "location.replace('#token="+second+"')")
	p.until("the friends are there again", "document.querySelector('#ask') !== null && location.hash === '#/friends'")
	if urls := kept(); strings.Contains(strings.Join(urls, " "), "e30.") {
		t.Errorf("the token is kept in %q", urls)
	}
	p.ignoreFaults("401")
}

// The session of this device becomes another user's, of which the page learns by its next token. What the user before has
// begun is not done for the other one.
func TestAnotherSession(t *testing.T) {
	t.Parallel()
	f := newFakeService(t, false)
	becomes := func(user, name string) {
		f.returns("GET /v1/me", map[string]any{"user_id": user, "nickname": name, "avatar_url": "", "cover_url": ""})
		f.returns("POST /v1/session/token", map[string]any{"token": tokenOf(user, ""), "user_id": user, "operator": false})
		f.checks(func(r *http.Request) bool {
			return r.URL.Path == "/v1/session/token" || r.Header.Get("Authorization") == "Bearer "+tokenOf(user, "")
		})
	}
	becomes("1", "Ann")
	f.handle("PUT /v1/me", func(w http.ResponseWriter, _ *http.Request) {
		t.Error("the other user is renamed")
		respond(w, http.StatusOK, map[string]any{"user_id": "2", "nickname": "Anna", "avatar_url": ""})
	})
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	p.waitForAnswers()
	eval[any](p, `localStorage.setItem('signed-in', '{"user_id":"1","nickname":"Ann"}')`)
	p.open(f.URL + "/?again#/me")
	p.until("Ann is shown", "document.querySelector('#nickname')?.value === 'Ann'")
	p.waitForAnswers()
	p.set("#nickname", "Anna")
	becomes("2", "Ben")
	p.click(".profile .strong")
	for range 2 {
		p.until("Ben is shown", "document.querySelector('#nickname')?.value === 'Ben' && location.hash === '#/me'")
		p.waitForAnswers()
		p.reload()
	}
	p.ignoreFaults("401")
}

// People see their name and edit their profile; errors are shown beside their field.
func TestProfile(t *testing.T) {
	t.Parallel()
	wrong := map[string]map[string]string{
		"en-US": {
			"nickname": "A name has 1 to 64 characters that can be seen.",
			"avatar":   "This is not the address of a picture, such as https://example.com/me.png.",
			"form":     "The service is not available right now. Trying again.",
		},
		"zh-CN": {
			"nickname": "昵称须有 1 到 64 个可见字符。",
			"avatar":   "这不是图片地址，正确的例子：https://example.com/me.png。",
			"form":     "服务暂时无法响应，正在重试。",
		},
	}
	for _, language := range testenv.Forms(t, 1, []string{"en-US", "zh-CN"}) {
		texts := wrong[language]
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			f := newFakeService(t, false)
			f.ranks(rankingFrom(1, 2, 3, 1))
			profile := map[string]any{"user_id": "1", "nickname": "Ann", "avatar_url": "", "cover_url": "https://example.com/hills.jpg"}
			f.returns("GET /v1/me", profile)
			p := newPage(t, viewport{width: 390, height: 844, language: language})
			p.open(f.URL + "/#token=" + fakeToken())
			p.until("the own name is shown", "document.querySelector('.self .name')?.textContent === 'Ann'")
			p.click(".self")
			p.until("the profile is there", "document.querySelector('#nickname')?.value === 'Ann'")
			for _, field := range []string{"avatar", "cover"} {
				if hint := eval[string](p, "document.querySelector('#"+field+"-hint').textContent"); !strings.Contains(hint, f.URL+"/") {
					t.Errorf("the hint of the %s does not say which addresses are shown: %q", field, hint)
				}
			}

			refuse := func(fields ...string) {
				errs := []any{}
				for _, field := range fields {
					errs = append(errs, map[string]string{"location": "body." + field, "message": rawDetail})
				}
				f.handle("PUT /v1/me", func(w http.ResponseWriter, _ *http.Request) {
					respond(w, 422, map[string]any{"status": 422, "code": "validation_failed", "detail": rawDetail, "errors": errs})
				})
			}
			refuse("nickname", "avatar_url")
			p.click(".profile .strong")
			p.until("both fields are refused", "document.querySelector('#nickname-wrong').textContent === '"+texts["nickname"]+"' && document.querySelector('#avatar-wrong').textContent === '"+texts["avatar"]+"'")
			p.screenshot("profile-errors-390-" + language[:2])
			refuse("avatar_url")
			p.click(".profile .strong")
			p.until("one field is refused", "document.querySelector('#nickname-wrong').textContent === '' && document.querySelector('#avatar-wrong').textContent !== ''")
			f.refuses("PUT /v1/me", http.StatusServiceUnavailable, "unavailable")
			p.click(".profile .strong")
			p.until("the form says why", "[...document.querySelectorAll('.profile > .wrong')].some((e) => e.textContent === '"+texts["form"]+"')")

			f.handle("PUT /v1/me", func(w http.ResponseWriter, r *http.Request) {
				var body map[string]any
				_ = json.NewDecoder(r.Body).Decode(&body)
				if body["cover_url"] != profile["cover_url"] {
					t.Errorf("the page stores %v, without the cover", body)
				}
				body["user_id"] = "1"
				f.returns("GET /v1/me", body)
				respond(w, http.StatusOK, body)
			})
			eval[any](p, "document.querySelector('#nickname').value = ''")
			p.typeIn("#nickname", "Berta")
			p.click(".profile .strong")
			p.until("the new name is shown", "document.querySelector('.self .name').textContent === 'Berta' && document.querySelector('h1').textContent === 'Berta'")
			p.until("a toast says so", "document.querySelector('.message').textContent !== ''")
			p.ignoreFaults("status of")
		})
	}
}

// The language can be switched without losing the session, and is kept.
func TestLanguageSwitch(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.fillScreens()
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the page is in English", "document.documentElement.lang === 'en' && document.querySelector('.language')?.textContent.trim() === '中文'")
	p.signIn(f.URL, fakeToken())
	p.until("the ranking is there", rankingShown)
	for _, s := range []struct{ hash, ready, text string }{
		{"#/", rankingShown, "今天"},
		{"#/history", "document.querySelector('.plot canvas') !== null", "最近 31 天"},
		{"#/friends", "document.querySelectorAll('a.inside').length > 0", "位好友"},
		{"#/boards/gifts/top", "document.querySelector('.about') !== null && " + rankingShown, "金币累计到活动结束"},
		{"#/me", "document.querySelector('#nickname') !== null", "个人资料"},
	} {
		p.goTo(s.hash)
		p.until(s.hash+" is there", s.ready)
		p.click(".top .language")
		p.until(s.hash+" is in Chinese", "document.documentElement.lang === 'zh-CN' && (document.body.textContent + document.title).includes('"+s.text+"')")
		p.click(".top .language")
		p.until(s.hash+" is in English", "document.documentElement.lang === 'en' && !(document.body.textContent + document.title).includes('"+s.text+"')")
	}
	p.click(".top .language")
	p.open(f.URL + "/?again")
	p.until("the page is still in Chinese", "document.documentElement.lang === 'zh-CN' && document.querySelector('.language')?.textContent.trim() === 'English'")
	p.screenshot("sign-in-390-zh")
}

// Browsers take the page as an app that can be installed.
func TestInstallable(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	p := newPage(t, phone)
	p.open(f.URL)
	p.until("the page asks for a token", "document.querySelector('#token') !== null")
	manifest, err := chromedp.Call(p.ctx, cdppage.GetAppManifest, cdppage.GetAppManifestParams{})
	p.must(err)
	if len(manifest.Errors) > 0 || !strings.Contains(manifest.Data, `"Stepboard"`) {
		t.Errorf("the manifest is %+v", manifest)
	}
	reasons, err := chromedp.Call(p.ctx, cdppage.GetInstallabilityErrors, cdp.Empty{})
	p.must(err)
	for _, reason := range reasons.InstallabilityErrors {
		if reason.ErrorID != "in-incognito" { // the window of a test is private
			t.Errorf("not installable: %+v", reason)
		}
	}
}
