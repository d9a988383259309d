package handlers_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
	"stepboard/services/rankings/stream"
)

// changing is a ranking whose total grows with every poll, up to last if that is
// not 0. After fail polls, every poll fails.
type changing struct {
	polls, last, fail atomic.Int64
	query             atomic.Pointer[ranking.Query]
}

func (r *changing) Group(ctx context.Context, q ranking.Query, _ models.GroupID) (*models.Ranking, error) {
	return r.Friends(ctx, q)
}

func (r *changing) Friends(_ context.Context, q ranking.Query) (*models.Ranking, error) {
	r.query.Store(&q)
	n := r.polls.Add(1)
	if fail := r.fail.Load(); fail > 0 && n > fail {
		return nil, errUnknown
	}
	if last := r.last.Load(); last > 0 {
		n = min(n, last)
	}
	return &models.Ranking{Board: q.Board, Source: "hot", Total: n, Entries: []models.RankedEntry{}}, nil
}

// watch opens a stream of an API with a real stream.Service on a real server,
// and returns the answer and its lines. Headers are given as name and value in turn.
func watch(t *testing.T, source *changing, limits stream.Limits, token, query string, headers ...string) (*http.Response, *bufio.Scanner, *stream.Service) {
	t.Helper()
	service := stream.New(source, nil, limits)
	server := httptest.NewServer(newAPI(t, handlers.Config{Streams: service}))
	t.Cleanup(server.Close)
	t.Cleanup(service.Close) // before the server, which waits for its requests
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/boards/steps/friends/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	})
	return response, bufio.NewScanner(response.Body), service
}

// expect reads lines until one has the prefix.
func expect(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			return lines.Text()
		}
	}
	t.Fatalf("the stream ended without %q: %v", prefix, lines.Err())
	return ""
}

func TestStream(t *testing.T) {
	t.Parallel()
	source := &changing{}
	response, lines, service := watch(t, source, stream.Limits{PollInterval: time.Millisecond}, "1001", "?limit=7") //nolint:bodyclose // watch closes it at the end of the test
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" || response.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("answered %d %v", response.StatusCode, response.Header)
	}
	if !lines.Scan() || lines.Text() != "event: ranking" {
		t.Errorf("the stream begins with %q", lines.Text())
	}
	expect(t, lines, `data: {"board":"steps","date":null,"source":"hot","final":false,"total":1,`)
	expect(t, lines, `data: {"board":"steps",`) // one that has changed
	if q := source.query.Load(); q.Board != "steps" || q.Viewer != "1001" || q.Limit != 7 {
		t.Errorf("the service is asked for %+v", q)
	}
	service.Close()
	for lines.Scan() {
		if lines.Text() == "event: error" {
			t.Error("a service that stops is reported as an error")
		}
	}
}

func TestStreamHeartbeat(t *testing.T) {
	t.Parallel()
	_, lines, _ := watch(t, &changing{}, stream.Limits{PollInterval: time.Hour, Heartbeat: time.Millisecond}, "1001", "") //nolint:bodyclose // watch closes it at the end of the test
	expect(t, lines, ": still here")
}

// Heartbeats go on after an update.
func TestStreamHeartbeatAfterAnUpdate(t *testing.T) {
	t.Parallel()
	source := &changing{}
	source.last.Store(2)
	_, lines, _ := watch(t, source, stream.Limits{PollInterval: time.Millisecond, Heartbeat: 20 * time.Millisecond}, "1001", "") //nolint:bodyclose // watch closes it at the end of the test
	expect(t, lines, `data: {"board":"steps","date":null,"source":"hot","final":false,"total":2,`)
	expect(t, lines, ": still here")
}

func TestStreamEndsAfterItsDuration(t *testing.T) {
	t.Parallel()
	_, lines, _ := watch(t, &changing{}, stream.Limits{PollInterval: time.Hour, MaxDuration: time.Millisecond}, "1001", "") //nolint:bodyclose // watch closes it at the end of the test
	// The stream lasts until the server ends it.
	for lines.Scan() {
		if lines.Text() == "event: error" {
			t.Error("the end of a stream is reported as an error")
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

func TestStreamEndsWhenItsTokenExpires(t *testing.T) {
	t.Parallel()
	_, lines, _ := watch(t, &changing{}, stream.Limits{PollInterval: time.Hour}, "expired", "") //nolint:bodyclose // watch closes it at the end of the test
	expect(t, lines, "event: ranking")
	expect(t, lines, "event: error")
	if data := expect(t, lines, "data: "); !strings.Contains(data, `"status":401,`) || !strings.Contains(data, `"code":"unauthenticated"`) {
		t.Errorf("the error is %s", data)
	}
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("%q follows the error", lines.Text())
		}
	}
}

func TestStreamEndsWithAnError(t *testing.T) {
	t.Parallel()
	source := &changing{}
	source.fail.Store(1)
	_, lines, _ := watch(t, source, stream.Limits{PollInterval: time.Millisecond}, "1001", "") //nolint:bodyclose // watch closes it at the end of the test
	expect(t, lines, "event: error")
	if data := expect(t, lines, "data: "); !strings.Contains(data, `"code":`) || !strings.Contains(data, `"request_id":"`) || strings.Contains(data, "secret") {
		t.Errorf("the error is %s", data)
	}
	for lines.Scan() {
		if lines.Text() != "" {
			t.Errorf("%q follows the error", lines.Text())
		}
	}
}

// refusing is a fake handlers.StreamService that refuses every subscriber.
type refusing struct{ *recorder }

func (s refusing) Subscribe(_ context.Context, q stream.Query, address string) (*stream.Subscriber, error) {
	err := s.record("Subscribe", q, "from "+address)
	if err == nil {
		err = errors.New("this fake always fails")
	}
	return nil, err
}

func (s refusing) Limits() stream.Limits { return stream.Limits{} }

func TestStreamIsRefused(t *testing.T) {
	t.Parallel()
	const request = "GET /v1/boards/steps/friends/stream"
	config := func(r *recorder) handlers.Config { return handlers.Config{Streams: refusing{r}} }
	subscribed := []string{"Subscribe {Board:steps Viewer:1001 Group: Offset: Limit:50 Likes:false} from "}
	runCases(t, config, []testCase{
		{"too many streams", "1001", request, "", models.Errorf(models.CodeRateLimited, "enough"), subscribed, "429 rate_limited: enough"},
		{"the store is away", "1001", request, "", errUnavailable, subscribed, wantUnavailable},
		{"an unknown error", "1001", request, "", errUnknown, subscribed, wantInternal},
		{"a service for a user", "service", request + "?user_id=1001&limit=7&include=likes", "", errUnavailable, []string{"Subscribe {Board:steps Viewer:1001 Group: Offset: Limit:7 Likes:true} from "}, wantUnavailable},
		{"at an offset", "1001", request + "?utc_offset=-03:30", "", errUnavailable,
			[]string{"Subscribe {Board:steps Viewer:1001 Group: Offset:-03:30 Limit:50 Likes:false} from "}, wantUnavailable},
		{"at no offset", "1001", request + "?utc_offset=3", "", nil, nil, "422 validation_failed: query.utc_offset: …"},
		{"a service for nobody", "service", request, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"with something else", "1001", request + "?include=friends", "", nil, nil, "422 validation_failed: query.include: …"},
		{"too large a page", "1001", request + "?limit=201", "", nil, nil, "422 validation_failed: query.limit: …"},
		{"a day", "1001", request + "?date=2026-11-20", "", nil, nil, "422 validation_failed: query.date: …"},
	})
}
