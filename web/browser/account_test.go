package browser

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"stepboard/internal/testenv"
)

// downloads lets the browser save files, and returns the path of the one that it saves
// under a name.
func (p *page) downloads(name string) string {
	p.t.Helper()
	folder := p.t.TempDir()
	_, err := chromedp.Call(p.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: folder,
		BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID,
	})
	p.must(err)
	return filepath.Join(folder, name)
}

// typeWord types into the dialog that asks before everything is deleted.
func (p *page) typeWord(word string) {
	p.t.Helper()
	p.set("#delete-word", "")
	p.typeIn("#delete-word", word)
}

const storedKeys = "Object.keys(localStorage).sort().join()"

const canDelete = "document.querySelector('dialog .danger')?.disabled === false"

// A person saves everything that is stored about them, and deletes it. What could not be saved or deleted is not
// shown as if it were. After the deletion the visitor is signed out.
func TestAccount(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	const export, erase = "GET /v1/me/export", "DELETE /v1/me"
	f.refuses(export, http.StatusServiceUnavailable, "unavailable")
	f.refuses(erase, http.StatusServiceUnavailable, "unavailable")
	p := newPage(t, viewport{width: 320, height: 640, language: "zh-CN"})
	file := p.downloads("stepboard-export.json")
	p.signIn(f.URL, fakeToken())
	p.until("the code of places is there", "document.querySelector('.share') !== null")
	p.goTo("#/me")
	p.click("#download")
	p.until("the error is shown", "[...document.querySelectorAll('.privacy .wrong')].some((e) => e.textContent.includes('暂时无法响应'))")
	p.checkLayout("an export that failed")
	// An answer that ends too early is no document.
	f.handle(export, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"user_id":"1","friends":[`))
	})
	p.click("#download")
	p.until("the error is another one", "[...document.querySelectorAll('.privacy .wrong')].some((e) => e.textContent !== '' && !e.textContent.includes('暂时无法响应'))")
	if _, err := os.Stat(file); err == nil || eval[string](p, "document.querySelector('.message').textContent") != "" {
		t.Error("half a document was saved")
	}
	f.refuses(export, http.StatusNotFound, "user_not_found")
	p.click("#download")
	p.until("the page says that there is nothing", "[...document.querySelectorAll('.privacy .wrong')].some((e) => e.textContent === '没有与你有关的数据。')")
	f.returns(export, map[string]any{"user_id": "1"})
	p.click("#download")
	p.says("stepboard-export.json")
	testenv.Eventually(t, "the file is whole", func() bool {
		var saved map[string]string
		text, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(text, &saved) == nil && saved["user_id"] == "1"
	})

	p.click("#delete")
	p.until("the page asks for a word", "document.querySelector('dialog label b')?.textContent === '删除'")
	p.typeWord("删")
	if eval[bool](p, canDelete) {
		t.Error("the word need not be typed whole")
	}
	p.typeWord("删除")
	p.until("the button can be used", canDelete)
	p.click("dialog .danger")
	p.until("the error is shown", "document.querySelector('dialog .wrong').textContent.includes('暂时无法响应') && "+canDelete)
	p.screenshot("delete-error-320-zh")
	if eval[bool](p, "document.querySelector('.tabs') === null") {
		t.Error("the visitor is signed out though nothing was deleted")
	}
	p.ignoreFaults("503")
	p.ignoreFaults("404")

	f.handle(erase, func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusAccepted, map[string]any{"erasure_id": "1"})
	})
	eval[any](p, `Object.entries({ goal: '5000', language: 'zh-CN', 'seen-likes': '1 2026-11-20 2' }).forEach(([key, text]) => localStorage.setItem(key, text))`)
	if stored := eval[string](p, storedKeys); stored != "goal,language,places,ranking,seen-likes" {
		t.Errorf("the page has stored %s", stored)
	}
	p.click("dialog .danger")
	p.until("the page says so", "document.querySelector('main h1')?.textContent === '正在删除你的数据' && document.querySelector('.tabs') === null")
	p.until("the heading has the focus", "document.activeElement === document.querySelector('main h1')")
	p.click("main .button")
	p.until("the visitor is signed out", "document.querySelector('#token')?.value === ''")
	if stored := eval[string](p, storedKeys); stored != "language" {
		t.Errorf("after the deletion the page still stores %s", stored)
	}
}
