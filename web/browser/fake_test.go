package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"stepboard/web"
)

// fakeDay is the current day of the fake service.
const fakeDay = "2026-11-20"

// fakeService serves the page, and answers each call as the test says.
type fakeService struct {
	*httptest.Server
	mu    sync.Mutex
	site  *web.Site
	asked []string                    // paths asked for, in order
	away  bool                        // whether connections are closed without an answer
	slow  bool                        // whether answers come over a slow network
	valid func(*http.Request) bool    // whether a token is accepted; nil accepts all
	calls map[string]http.HandlerFunc // by method and path
	// changed is closed, and replaced, when an answer changes.
	changed chan struct{}
	// line is held while bytes cross the slow network, one answer after another.
	line sync.Mutex
}

// newFakeService starts a service with a daily board, an event and no people.
func newFakeService(t *testing.T, demo bool) *fakeService {
	t.Helper()
	f := &fakeService{site: web.New(web.Files(), web.Options{Demo: demo}), calls: make(map[string]http.HandlerFunc), changed: make(chan struct{})}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		call, valid, site := f.calls[r.Method+" "+r.URL.Path], f.valid, f.site
		away, slow := f.away, f.slow
		f.asked = append(f.asked, r.URL.Path)
		f.mu.Unlock()
		if away {
			panic(http.ErrAbortHandler)
		}
		file, ok := site.Find(r.URL.Path)
		if slow {
			bytes := 1000 // of an answer of the API
			if ok {
				bytes = len(file.Body)
			}
			f.cross(r.Context(), bytes)
		}
		if ok && call == nil {
			w.Header().Set("Content-Security-Policy", file.Policy)
			w.Header().Set("Content-Type", file.ContentType)
			w.Header().Set("Cache-Control", file.CacheControl)
			_, _ = w.Write(file.Body)
			return
		}
		if valid != nil && !valid(r) {
			refuse(w, http.StatusUnauthorized, "unauthenticated")
			return
		}
		if call == nil {
			refuse(w, http.StatusNotFound, "not_found")
			return
		}
		call(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	f.returns("GET /v1/boards", map[string]any{"boards": []any{
		map[string]any{"name": "steps", "kind": "daily", "time_zone": "Asia/Shanghai", "current": map[string]any{
			"date": fakeDay, "ends_at": time.Now().Add(7*time.Hour + 30*time.Minute).UTC().Format(time.RFC3339),
		}},
		map[string]any{"name": "gifts", "kind": "event", "time_zone": "Asia/Shanghai", "current": map[string]any{
			"starts_at": "2020-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z",
		}},
	}})
	f.returns("GET /v1/boards/steps/friends", rankingFrom(1))
	f.returns("GET /v1/boards/steps/friends/absent", absentPeople())
	f.returns("GET /v1/boards/steps/groups/g1/absent", absentPeople())
	f.returns("GET /v1/boards/steps/history", map[string]any{"entries": []any{}, "partial": false})
	f.returns("GET /v1/boards/steps/me", map[string]any{"score": nil, "correction": nil})
	f.returns("GET /v1/me", map[string]any{"user_id": "1", "nickname": "User 1", "avatar_url": ""})
	f.returns("GET /v1/boards/steps/summary", map[string]any{
		"week": 0, "month": 0, "average": nil, "best": nil, "streak": map[string]any{"current": 0, "longest": 0},
	})
	f.returns("GET /v1/me/privacy", map[string]any{"hidden": false})
	for _, list := range []string{"hidden-from", "muted", "blocked"} {
		f.returns("GET /v1/"+list, map[string]any{"users": []any{}, "next_cursor": nil})
	}
	f.returns("GET /v1/groups", map[string]any{"groups": []any{}})
	f.returns("GET /v1/competitions", map[string]any{"competitions": []any{}})
	f.returns("GET /v1/friends/invites/KX7WQ2M5A4TDZBNC", map[string]any{"user_id": "2", "nickname": "User 2", "avatar_url": "", "friends": false})
	f.returns("GET /v1/group-invites/KX7WQ2M5A4TDZBNC", map[string]any{
		"group_id": "g1", "name": "Family", "owner_id": "2", "nickname": "User 2", "avatar_url": "", "members": 12, "member": false,
	})
	f.returns("GET /v1/me/push", map[string]any{"vapid_public_key": nil, "subscriptions": []any{}})
	f.returns("GET /v1/me/invite", map[string]any{"invite_code": "KX7WQ2M5A4TDZBNC"})
	f.returns("GET /v1/friends", map[string]any{"friends": []any{}})
	f.returns("GET /v1/friends/requests", map[string]any{"requests": []any{}})
	return f
}

// absentPeople returns the first page of a list of absent people, all of them.
func absentPeople(users ...int) map[string]any {
	entries := []any{}
	for _, user := range users {
		entries = append(entries, map[string]any{"user_id": strconv.Itoa(user), "nickname": fmt.Sprintf("User %d", user), "avatar_url": ""})
	}
	return map[string]any{"board": "steps", "date": fakeDay, "total": len(users), "entries": entries, "next_cursor": nil}
}

// newFakeDemo starts a demo in which a visitor is user 1.
func newFakeDemo(t *testing.T) *fakeService {
	t.Helper()
	f := newFakeService(t, true)
	f.returns("GET /demo/people", map[string]any{"people": []any{map[string]any{"user_id": "1", "nickname": "User 1", "token": fakeToken()}}})
	return f
}

// handle sets what answers a call, given as method and path.
func (f *fakeService) handle(call string, handler http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call] = handler
	close(f.changed)
	f.changed = make(chan struct{})
}

// install replaces the page by that of another build.
func (f *fakeService) install(site *web.Site) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.site = site
}

// leave lets the service be away, or come back.
func (f *fakeService) leave(away bool) {
	f.mu.Lock()
	f.away = away
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
}

// slowDown lets answers come over a slow network from now on. Chromium can emulate one, but its command for
// that changes from version to version.
func (f *fakeService) slowDown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = true
}

// cross takes the time that an answer of so many bytes needs over slow 4G, as Chromium's tools have it.
func (f *fakeService) cross(ctx context.Context, bytes int) {
	const latency, bytesPerSecond = 562 * time.Millisecond, 180_000
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(latency)
	f.line.Lock()
	defer f.line.Unlock()
	wait(time.Duration(bytes) * time.Second / bytesPerSecond)
}

// paths returns the paths asked for since it was called the last time.
func (f *fakeService) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

// checks sets which calls have a token that is accepted.
func (f *fakeService) checks(valid func(*http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.valid = valid
}

// returns lets a call succeed with a body.
func (f *fakeService) returns(call string, body any) {
	f.handle(call, func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, body) })
}

// refuses lets a call fail.
func (f *fakeService) refuses(call string, status int, code string) {
	f.handle(call, func(w http.ResponseWriter, _ *http.Request) { refuse(w, status, code) })
}

// ranks sets the ranking of board steps among friends, both for a call and for the
// streams, which send it at once.
func (f *fakeService) ranks(ranking map[string]any) {
	f.ranksAmong("friends", ranking)
}

// ranksAmong is ranks, for friends or a group.
func (f *fakeService) ranksAmong(whom string, ranking map[string]any) {
	f.ranksAs(whom, func(*http.Request) map[string]any { return ranking })
}

// ranksAs is ranksAmong for a ranking that is made anew for each call and each stream.
func (f *fakeService) ranksAs(whom string, ranking func(*http.Request) map[string]any) {
	path := "GET /v1/boards/steps/" + whom
	f.handle(path, func(w http.ResponseWriter, r *http.Request) { respond(w, http.StatusOK, ranking(r)) })
	f.handle(path+"/stream", f.stream(ranking))
}

// stream answers with a ranking as an event.
func (f *fakeService) stream(ranking func(*http.Request) map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		text, _ := json.Marshal(ranking(r))
		_, _ = fmt.Fprintf(w, "event: ranking\ndata: %s\n\n", text)
		w.(http.Flusher).Flush()
		// The stream ends with a change; the page connects again.
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// rawDetail is in every error of the fake service. People must not see it.
const rawDetail = "body.raw: DETAIL OF THE API"

func refuse(w http.ResponseWriter, status int, code string) {
	respond(w, status, map[string]any{"status": status, "code": code, "title": rawDetail, "detail": rawDetail})
}

// entry is an entry of a ranking.
func entry(user, rank, score int) map[string]any {
	return map[string]any{
		"user_id": strconv.Itoa(user), "nickname": "User " + strconv.Itoa(user), "avatar_url": "",
		"rank": rank, "score": score, "reached_at": "2026-11-20T01:00:00Z",
	}
}

// rankingFrom returns a ranking of users in this order, from the given rank on. The first
// of them leads. The viewer is user 1.
func rankingFrom(first int, users ...int) map[string]any {
	entries := []any{}
	var me, champion any
	for i, user := range users {
		e := entry(user, first+i, 90_000-10*i)
		if i == 0 {
			champion = map[string]any{"user_id": e["user_id"], "nickname": e["nickname"], "avatar_url": "", "cover_url": ""}
		}
		if user == 1 {
			me = e
		}
		entries = append(entries, e)
	}
	return map[string]any{
		"board": "steps", "date": fakeDay, "source": "hot", "final": false, "total": first + len(users) - 1,
		"entries": entries, "me": me, "champion": champion, "next_cursor": nil,
	}
}

// streams lets the stream of the board steps send the texts that are sent to the channel.
func (f *fakeService) streams() chan<- string {
	texts := make(chan string)
	f.handle("GET /v1/boards/steps/friends/stream", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			w.(http.Flusher).Flush()
			select {
			case text := <-texts:
				_, _ = fmt.Fprint(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
	return texts
}

// rankingEvent returns the event of a stream that brings a ranking.
func rankingEvent(ranking map[string]any) string {
	text, _ := json.Marshal(ranking) // it was made of JSON's own types
	return fmt.Sprintf("event: ranking\ndata: %s\n\n", text)
}

// fakeToken returns a token of user 1 that a fake service accepts.
func fakeToken() string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"1"}`)) + ".x"
}
