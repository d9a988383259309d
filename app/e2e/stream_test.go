package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
	"stepboard/services/rankings/stream"
)

// streamServer is a service that listens on a port and polls in short
// intervals.
type streamServer struct {
	*server
	stop  func()
	ended chan error
}

func newStreamServer(t *testing.T, env *testenv.Env, limits stream.Limits) *streamServer {
	t.Helper()
	if limits.PollInterval == 0 {
		limits.PollInterval = 2 * time.Millisecond
	}
	a, err := app.Build(t.Context(), app.Options{
		Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log, StreamLimits: limits,
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)}), Roles: app.AllRoles(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var config net.ListenConfig
	listener := testenv.Must(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	ctx, stop := context.WithCancel(context.Background())
	s := &streamServer{
		server: &server{t: t, env: env, app: a, url: "http://" + listener.Addr().String()},
		stop:   stop, ended: make(chan error, 1),
	}
	go func() { s.ended <- a.Run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := testenv.Receive(t, "Run returns", s.ended); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Logf("close: %v", err) // the test may have closed a store
		}
		http.DefaultClient.CloseIdleConnections()
	})
	s.want(s.service("PUT", "/v1/users/1/friends", `{"friend_ids":["2","3"]}`), http.StatusOK, nil)
	return s
}

// events is a stream as its client reads it.
type events struct {
	t     testing.TB
	lines *bufio.Scanner
	close func()
}

// open opens a stream and returns its status and content type.
func (s *streamServer) open(user models.UserID, query string) (e *events, status int, kind string) {
	s.t.Helper()
	return s.openWith(harness.Token(s.t, user, ""), query)
}

// openWith is open with a token.
func (s *streamServer) openWith(token, query string) (e *events, status int, kind string) {
	s.t.Helper()
	return s.openFrom("", token, query)
}

// openFrom is openWith behind a proxy that names the client's address.
func (s *streamServer) openFrom(address, token, query string) (e *events, status int, kind string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	r := testenv.Must(http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/boards/steps/friends/stream"+query, nil))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Forwarded-For", address)
	res, err := http.DefaultClient.Do(r) //nolint:bodyclose // events.close does
	if err != nil {
		cancel()
		s.t.Fatal(err)
	}
	body := res.Body
	e = &events{t: s.t, lines: bufio.NewScanner(body), close: func() {
		cancel()
		body.Close() // it may have ended
	}}
	s.t.Cleanup(e.close)
	return e, res.StatusCode, res.Header.Get("Content-Type")
}

// subscribe opens a stream that must begin.
func (s *streamServer) subscribe(user models.UserID) *events {
	s.t.Helper()
	e, status, kind := s.open(user, "")
	if status != http.StatusOK || kind != "text/event-stream" {
		s.t.Fatalf("status %d, %s", status, kind)
	}
	return e
}

// next reads the next event or comment; ok is false at the end of the stream.
func (e *events) next() (name, data string, ok bool) {
	e.t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if comment, is := strings.CutPrefix(line, ": "); is {
			name = "comment"
			data = comment
		}
		if text, is := strings.CutPrefix(line, "event: "); is {
			name = text
		}
		if text, is := strings.CutPrefix(line, "data: "); is {
			data = text
		}
		if line == "" {
			return name, data, true
		}
	}
	return "", "", false
}

// ranking reads the next event, which must be a ranking.
func (e *events) ranking() (r models.Ranking) {
	e.t.Helper()
	name, data, ok := e.next()
	if !ok || name != "ranking" {
		e.t.Fatalf("%v, %s: %s, %v", ok, name, data, e.lines.Err())
	}
	if err := json.Unmarshal([]byte(data), &r); err != nil {
		e.t.Fatal(err)
	}
	return r
}

// scores returns the entries of a ranking as "user:score" pairs.
func scores(r models.Ranking) string {
	var b strings.Builder
	for _, e := range r.Entries {
		fmt.Fprintf(&b, "%v:%d ", e.User, e.Score)
	}
	return strings.TrimSpace(b.String())
}

// upload uploads a user's steps of the day.
func (s *streamServer) upload(user models.UserID, steps int) {
	s.t.Helper()
	s.want(s.as(user, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":"2026-11-20","score":%d}`, steps)), http.StatusOK, nil)
}

// A stream with likes goes on with each of them.
func TestStreamOfLikes(t *testing.T) {
	t.Parallel()
	s := newStreamServer(t, testenv.Local(t), stream.Limits{LikesInterval: 2 * time.Millisecond})
	s.upload("2", 100)
	e, status, _ := s.open("1", "?include=likes")
	if r := e.ranking(); status != http.StatusOK || *r.Entries[0].Likes != 0 || *r.Entries[0].Liked {
		t.Errorf("%d, %+v", status, r)
	}
	s.want(s.as("1", "PUT", "/v1/boards/steps/likes/2", nil), http.StatusNoContent, nil)
	if r := e.ranking(); *r.Entries[0].Likes != 1 || !*r.Entries[0].Liked {
		t.Errorf("after a like: %+v", r)
	}
}

// A stream begins with the ranking and goes on with each change, and with
// nothing else.
func TestStream(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testStream)
}

func testStream(t *testing.T, env *testenv.Env) {
	t.Helper()
	s := newStreamServer(t, env, stream.Limits{})
	e := s.subscribe("1")
	if r := e.ranking(); r.Total != 0 || r.Me != nil || *r.Date != "2026-11-20" {
		t.Errorf("it begins with %+v", r)
	}
	s.upload("2", 100)
	if got := scores(e.ranking()); got != "2:100" {
		t.Errorf("a friend's steps: %s", got)
	}
	// Uploads of a stranger and smaller totals change nothing: the next event is
	// the next change.
	s.upload("9", 500)
	s.upload("2", 50)
	s.upload("1", 200)
	r := e.ranking()
	if got := scores(r); got != "1:200 2:100" || r.Me == nil || r.Me.Rank != 1 {
		t.Errorf("own steps: %s, %+v", got, r.Me)
	}
	var page models.Ranking
	s.want(s.as("1", "GET", "/v1/boards/steps/friends", nil), http.StatusOK, &page)
	if got, want := string(r.AppendJSON(nil)), string(page.AppendJSON(nil)); got != want {
		t.Errorf("streamed %s, answered %s", got, want)
	}
	// Two clients of the same ranking see the same; a shorter page is another
	// stream.
	also := s.subscribe("1")
	short, _, _ := s.open("1", "?limit=1")
	if a, b := scores(also.ranking()), scores(short.ranking()); a != "1:200 2:100" || b != "1:200" {
		t.Errorf("late: %s; short: %s", a, b)
	}
	s.upload("3", 300)
	if a, b, c := scores(e.ranking()), scores(also.ranking()), scores(short.ranking()); a != "3:300 1:200 2:100" || b != a || c != "3:300" {
		t.Errorf("%s; %s; %s", a, b, c)
	}
	// Friends come and go.
	s.want(s.as("1", "DELETE", "/v1/friends/3", nil), http.StatusNoContent, nil)
	if got := scores(e.ranking()); got != "1:200 2:100" {
		t.Errorf("without 3: %s", got)
	}
}

func TestStreamIsRefused(t *testing.T) {
	t.Parallel()
	s := newStreamServer(t, testenv.Local(t), stream.Limits{PerUser: 2, Total: 3})
	const path = "/v1/boards/steps/friends/stream"
	s.refuse(s.call("", "GET", path, nil), http.StatusUnauthorized, models.CodeUnauthenticated)
	s.refuse(s.as("1", "GET", "/v1/boards/nope/friends/stream", nil), http.StatusNotFound, models.CodeBoardNotFound)
	s.refuse(s.as("1", "GET", path+"?limit=0", nil), http.StatusUnprocessableEntity, models.CodeValidationFailed)
	s.refuse(s.as("1", "GET", path+"?user_id=2", nil), http.StatusForbidden, models.CodeForbidden)

	first := s.subscribe("1")
	s.subscribe("1")
	a := s.as("1", "GET", path, nil)
	s.refuse(a, http.StatusTooManyRequests, models.CodeRateLimited)
	if a.header.Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
	s.subscribe("2")
	s.refuse(s.as("3", "GET", path, nil), http.StatusTooManyRequests, models.CodeRateLimited)
	// When a client disconnects, another one may connect.
	first.close()
	testenv.Eventually(t, "the place is free", func() bool { return s.app.Streams.Subscribers() == 2 })
	s.subscribe("3")
}

// An address, or an IPv6 network, has a share of the streams. Backends have none.
func TestStreamsOfAnAddress(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	env.Config.Limits.StreamsPerAddress = 2
	env.Config.HTTP.TrustedProxies = []string{"127.0.0.0/8"}
	s := newStreamServer(t, env, stream.Limits{})
	want := func(status int, address, token, query string) *events {
		t.Helper()
		e, got, _ := s.openFrom(address, token, query)
		if got != status {
			t.Errorf("from %s%s: %d, want %d", address, query, got, status)
		}
		return e
	}
	user := func(number int) string { return harness.Token(t, testenv.ID(number), "") }
	for _, network := range []string{"203.0.113.7", "2001:db8::"} {
		open := s.app.Streams.Subscribers()
		first := want(http.StatusOK, network, user(1), "")
		want(http.StatusOK, network, user(2), "")
		want(http.StatusTooManyRequests, network, user(3), "")
		want(http.StatusOK, network, harness.Token(t, "1", auth.ScopeService), "?user_id=3")
		first.close()
		testenv.Eventually(t, "the place is free", func() bool { return s.app.Streams.Subscribers() == open+2 })
		want(http.StatusOK, network, user(3), "")
	}
	want(http.StatusTooManyRequests, "2001:db8::ff", user(4), "")
	want(http.StatusOK, "203.0.113.8", user(4), "")
}

// Streams end without an error when the service stops.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	s := newStreamServer(t, env, stream.Limits{})
	streams := []*events{s.subscribe("1"), s.subscribe("1"), s.subscribe("2")}
	for _, e := range streams {
		e.ranking()
	}
	s.stop()
	for _, e := range streams {
		if name, data, ok := e.next(); ok || !errors.Is(errors.Join(e.lines.Err(), io.EOF), io.EOF) || e.lines.Err() != nil {
			t.Errorf("after the stop: %s %s, %v", name, data, e.lines.Err())
		}
	}
	if n := s.app.Streams.Subscribers(); n != 0 {
		t.Errorf("%d watch on", n)
	}
	if err := testenv.Receive(t, "Run returns", s.ended); err != nil {
		t.Error(err)
	}
	s.ended <- nil
}
