package browser

import (
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// Who opens the page, the console or the reference again asks the service for the document and for
// no other file.
func TestWarmLoad(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	f := newFakeService(t, false)
	f.ranks(rankingFrom(1, 2, 3, 1))
	f.returns("GET /openapi.json", map[string]any{"openapi": "3.1.0", "info": map[string]any{"title": "API", "version": "1"}, "paths": map[string]any{}})
	p := newPage(t, phone)
	for document, ready := range map[string]string{
		"/#token=" + fakeToken(): rankingShown,
		"/console":               "document.querySelector('#token') !== null",
		"/docs":                  "document.querySelector('main h1') !== null",
	} {
		path, _, _ := strings.Cut(document, "#")
		var asked []string
		for range 2 {
			p.open("about:blank")
			f.paths()
			p.open(f.URL + document)
			p.until(path+" is shown", ready)
			if path == "/" {
				p.waitForWorker()
			}
			p.waitForAnswers()
			asked = nil
			for _, address := range f.paths() {
				if !strings.HasPrefix(address, "/v1/") && address != "/openapi.json" && address != "/worker.js" {
					asked = append(asked, address)
				}
			}
		}
		if len(asked) != 1 || asked[0] != path {
			t.Errorf("%s loads %q again", path, asked)
		}
	}
}
