package e2e_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A demo that can't start names the wrong flag.
func TestDemoFlags(t *testing.T) {
	t.Parallel()
	l := testenv.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = l.Close() })
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nobody", []string{"--users=0"}, "--users 0"},
		{"a negative number", []string{"--users=-1"}, "--users -1"},
		{"more than fit", []string{"--users=1000000"}, "--users 1000000"},
		{"no address", []string{"--addr=nowhere"}, "--addr"},
		{"a graph that is not there", []string{"--graph=nix.txt"}, "nix.txt"},
		{"steps that are not there", []string{"--steps=nix.csv"}, "nix.csv"},
		{"a folder", []string{"--graph", t.TempDir()}, "is a directory"},
		{"a port in use", []string{"--users=1", "--addr=" + l.Addr().String()}, "in use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command(append([]string{"demo"}, tt.args...)...).Fails(t, 1, tt.want)
		})
	}
}

// demo is a running demo with a client.
type demo struct {
	t testing.TB
	*testenv.Command
	client *http.Client
}

func newDemo(t testing.TB, args ...string) *demo {
	t.Helper()
	d := &demo{t: t, Command: testenv.Demo(t, args...), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(d.client.CloseIdleConnections)
	return d
}

// call makes a request as curl does, and decodes the answer into v.
func (d *demo) call(bearer, body, url string, v any) {
	d.t.Helper()
	r := testenv.Must(http.NewRequestWithContext(d.t.Context(), http.MethodGet, url, nil))
	if body != "" {
		r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	res, err := d.client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		d.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d: %s", url, res.StatusCode, text)
	}
	if err := json.Unmarshal(text, v); err != nil {
		d.t.Fatalf("%s: %v: %s", url, err, text)
	}
}

// bearer returns the token that the demo has printed.
func (d *demo) bearer() string {
	d.t.Helper()
	m := regexp.MustCompile(`(?m)^  TOKEN=(\S+)$`).FindStringSubmatch(d.Stdout())
	if m == nil {
		d.t.Fatalf("no token in %s", d.Stdout())
	}
	return m[1]
}

// ranking returns the friend ranking of the token's owner.
func (d *demo) ranking(bearer, query string) models.Ranking {
	d.t.Helper()
	var r models.Ranking
	d.call(bearer, "", d.URL+"/v1/boards/steps/friends"+query, &r)
	return r
}

// wantCleanStop stops the demo and expects status 0 and no error output.
func (d *demo) wantCleanStop() {
	d.t.Helper()
	d.Stop()
	if log := d.Log(); log != "" {
		d.t.Errorf("the demo has logged %s", log)
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	d := newDemo(t, "--users", "300")
	bearer := d.bearer()

	// The printed calls work unchanged.
	calls := regexp.MustCompile(`(?m)^  curl -H "Authorization: Bearer \$TOKEN"(?: -d '([^']+)')? '?([^'\s]+)'?$`).FindAllStringSubmatch(d.Stdout(), -1)
	if len(calls) != 2 {
		t.Fatalf("%d calls are printed: %s", len(calls), d.Stdout())
	}
	var r models.Ranking
	d.call(bearer, calls[0][1], calls[0][2], &r)
	if r.Source != "hot" || len(r.Entries) != 5 || r.Total < 10 || r.Me == nil || r.Entries[0].Nickname == "" {
		t.Errorf("the first call answers %+v", r)
	}
	var taken struct{ Accepted []struct{ Score int64 } }
	d.call(bearer, calls[1][1], calls[1][2], &taken)
	if len(taken.Accepted) != 1 || taken.Accepted[0].Score != 20_000 {
		t.Errorf("the second call answers %+v", taken)
	}
	if me := d.ranking(bearer, "").Me; me == nil || me.Score != 20_000 {
		t.Errorf("after it I have %+v", me)
	}

	var choices struct {
		People []struct {
			UserID   string `json:"user_id"`
			Nickname string
			Token    string
		}
	}
	d.call("", "", d.URL+"/demo/people", &choices)
	seen := make(map[string]bool)
	excluded := 0
	for _, person := range choices.People {
		me := d.ranking(person.Token, "").Me
		if me == nil {
			var own struct{ Correction string }
			d.call(person.Token, "", d.URL+"/v1/boards/steps/me", &own)
			if own.Correction == "excluded" {
				excluded++
				seen[person.UserID] = true
				continue
			}
		}
		if me == nil || string(me.User) != person.UserID || me.Nickname != person.Nickname || seen[person.UserID] {
			t.Errorf("%+v is %+v", person, me)
		}
		seen[person.UserID] = true
	}
	if len(seen) != 20 || excluded != 1 {
		t.Errorf("%d people are offered, and %d of them are not ranked", len(seen), excluded)
	}

	// The people have a history, and there are three more boards.
	var history struct{ Entries []struct{ Source string } }
	d.call(bearer, "", d.URL+"/v1/boards/steps/history", &history)
	if n := len(history.Entries); n < 25 || history.Entries[n-1].Source != "archive" {
		t.Errorf("the history has %d days: %+v", n, history)
	}
	var gift struct{ Coins, Score int64 }
	d.call("", `{"user_id":"`+choices.People[0].UserID+`"}`, d.URL+"/demo/gift", &gift)
	var events models.Ranking
	d.call(bearer, "", d.URL+"/v1/boards/gifts/friends", &events)
	if events.Me == nil || events.Me.Score < gift.Score || gift.Coins < 1 || events.Total < 5 {
		t.Errorf("after a gift of %+v: %+v", gift, events)
	}
	d.call(bearer, "", d.URL+"/v1/boards/active-24h/top", &events)
	// One person's phone was shaken.
	var steps models.Ranking
	d.call(bearer, "", d.URL+"/v1/boards/steps/top?limit=2", &steps)
	if steps.Entries[0].Score != 98_800 || steps.Entries[1].Score > 95_000 {
		t.Errorf("the highest scores are %+v", steps.Entries)
	}
	_, text, err := harness.Request(t.Context(), d.client, "", http.MethodGet, d.URL+"/metrics", "")
	if err != nil || !strings.Contains(text, "\nstepboard_reviews_open{board=\"steps\"} 1\n") {
		t.Errorf("the score is not one to look at: %v", err)
	}
	if !strings.Contains(text, "\nstepboard_holds_open{board=\"steps\"} 1\n") {
		t.Error("no total is held")
	}
	if events.Settling == nil || events.Total < 20 {
		t.Errorf("the rolling board is %+v", events)
	}

	local := make(map[string]models.Ranking)
	for _, offset := range []string{"%2B08:00", "-08:00"} {
		var r models.Ranking
		d.call(bearer, "", d.URL+"/v1/boards/steps-local/top?utc_offset="+offset, &r)
		local[offset] = r
	}
	if west := local["-08:00"]; west.Total < 20 || west.Final {
		t.Errorf("the board of local days is %+v", local)
	}

	before := d.ranking(bearer, "")
	testenv.Eventually(t, "somebody walks", func() bool { return !cmp.Equal(before, d.ranking(bearer, "")) })
	d.wantCleanStop()
}

// A demo of one person works. It refuses a foreign Host, and a gift that is too large.
func TestDemoOfOne(t *testing.T) {
	t.Parallel()
	d := newDemo(t, "--users", "1")
	if r := d.ranking(d.bearer(), ""); r.Total != 1 || r.Me == nil || r.Me.Rank != 1 {
		t.Errorf("the ranking is %+v", r)
	}
	for _, tt := range []struct {
		method, path, host, body string
		want                     int
	}{
		{http.MethodGet, "/demo/people", "localhost:8080", "", http.StatusOK},
		{http.MethodGet, "/demo/people", "pages.example", "", http.StatusMisdirectedRequest},
		{http.MethodPost, "/demo/gift", "", strings.Repeat(" ", 2000) + `{"user_id":"1"}`, http.StatusRequestEntityTooLarge},
	} {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), tt.method, d.URL+tt.path, strings.NewReader(tt.body)))
		r.Host = tt.host
		res, err := d.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != tt.want {
			t.Errorf("%s %s at %s: %d, %v, want %d", tt.method, tt.path, tt.host, res.StatusCode, err, tt.want)
		}
	}
	d.wantCleanStop()
}

// A demo of the real graph and steps has 4,039 people, and user 1 has 347 friends. Three
// of them are not ranked: one hides, one is muted and one is excluded.
func TestDemoFromFiles(t *testing.T) {
	t.Parallel()
	var args []string
	for flag, name := range map[string]string{"--graph": "ego-facebook-edges.txt", "--steps": "fitbit-hourly-steps.csv"} {
		args = append(args, flag, testenv.RealData(t, name))
	}
	d := newDemo(t, args...)
	if !strings.Contains(d.Stdout(), "4039 people and 88234 friendships") {
		t.Errorf("prints %s", d.Stdout())
	}
	bearer := d.bearer()
	before := d.ranking(bearer, "?limit=200")
	if before.Total != 345 {
		t.Errorf("%d are ranked", before.Total)
	}
	testenv.Eventually(t, "somebody walks", func() bool { return !cmp.Equal(before, d.ranking(bearer, "?limit=200")) })
	d.wantCleanStop()
}

// A demo of many people takes a while to start, and can be stopped meanwhile.
func TestDemoIsStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t)))
	c := testenv.Start(t, "demo", "--users", "20000", "--addr", addr)
	testenv.Eventually(t, "the demo listens", func() bool {
		if c.Ended() {
			t.Fatalf("demo did not start: %s", c.Log())
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", addr)
		return err == nil && conn.Close() == nil
	})
	if status := c.Interrupt(); status != 0 || c.Log() != "" || c.Stdout() != "" {
		t.Errorf("status %d: %s%s", status, c.Stdout(), c.Log())
	}
}
