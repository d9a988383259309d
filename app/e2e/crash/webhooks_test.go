package crash_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// target is a backend that receives webhooks. Until it is calm, it behaves badly at random.
type target struct {
	*httptest.Server
	mu    sync.Mutex
	calm  bool
	ids   map[string]map[string]bool // the ids under which each body was accepted
	ended chan struct{}
}

func newTarget(t *testing.T) *target {
	t.Helper()
	b := &target{ids: make(map[string]map[string]bool), ended: make(chan struct{})}
	verifier := testenv.Must(standardwebhooks.NewWebhook(webhookSecret))
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // its sender was killed
		}
		if err := verifier.Verify(body, r.Header); err != nil {
			t.Errorf("%s: %v", body, err)
		}
		b.receive(w, r, body)
	}))
	t.Cleanup(func() {
		close(b.ended)
		b.Close()
	})
	return b
}

// receive notes a webhook, unless it behaves badly.
func (b *target) receive(w http.ResponseWriter, r *http.Request, body []byte) {
	b.mu.Lock()
	behaviour := 0
	if !b.calm {
		behaviour = rand.N(7)
	}
	b.mu.Unlock()
	switch behaviour {
	case 1:
		w.WriteHeader(http.StatusInternalServerError)
	case 2: // garbage
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_, _ = io.WriteString(conn, "SMTP/9 garbage\r\n\r\n")
			_ = conn.Close()
		}
	case 3: // a reset
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = conn.Close()
		}
	case 4: // no answer, until its sender is killed or gives up
		select {
		case <-r.Context().Done():
		case <-b.ended:
		}
	default:
		if behaviour == 5 { // a slow answer
			select {
			case <-time.After(300 * time.Millisecond):
			case <-b.ended:
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.ids[string(body)] == nil {
			b.ids[string(body)] = make(map[string]bool)
		}
		b.ids[string(body)][r.Header.Get("webhook-id")] = true
	}
}

func (b *target) calmDown() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm = true
}

// flags returns the flags of a service that has the target, and an event that ended two hours
// ago.
func (b *target) flags() []string {
	end := time.Now().Add(-2 * time.Hour).UTC()
	return []string{
		fmt.Sprintf(`--webhooks=[{url: %q, secrets: [%s], private_network: true}]`, b.URL, webhookSecret),
		fmt.Sprintf(`--boards=[{`+harness.Steps+`}, {name: gifts, kind: event, start: %q, end: %q}]`,
			end.AddDate(0, 0, -30).Format(time.RFC3339), end.Format(time.RFC3339)),
	}
}

// outcomesRun is a service whose outcomes are compared with what has happened.
type outcomesRun struct {
	t      *testing.T
	env    *testenv.Env
	target *target
	flags  []string
	next   int // the next user who asks for a friendship
}

// newOutcomesRun returns a service with a day that is due to be archived and an event that
// has ended.
func newOutcomesRun(t *testing.T) *outcomesRun {
	t.Helper()
	o := &outcomesRun{t: t, env: harness.Real(t), target: newTarget(t)}
	o.flags = o.target.flags()
	past := o.env.Config
	past.Clock.Offset = -6 * 24 * time.Hour
	p := testenv.Serve(t, past, append(o.flags, "--webhooks=[]")...)
	day := time.Now().Add(past.Clock.Offset).In(testenv.Must(time.LoadLocation(testenv.Morning))).Format(time.DateOnly)
	for user := range 120 {
		score := fmt.Sprintf(`{"user_id":"walker%d","date":%q,"score":%d}`, user, day, 100+user%7)
		o.service(p, "POST", "/v1/boards/steps/scores/batch", `{"scores":[`+score+`]}`)
	}
	for user := range 5 {
		gift := fmt.Sprintf(`{"user_id":"walker%d","delta":%d,"event_id":"gift%d"}`, user, 1+user, user)
		o.service(p, "POST", "/v1/boards/gifts/increments", gift)
	}
	o.service(p, "PUT", "/v1/users/star", `{"nickname":"Star"}`)
	p.Stop()
	return o
}

// service makes a call as a backend, which must succeed.
func (o *outcomesRun) service(p *testenv.Process, method, path, body string) {
	o.t.Helper()
	token := harness.Token(o.t, "1", "service")
	status, text, err := harness.Request(o.t.Context(), http.DefaultClient, token, method, p.URL+path, body)
	if err != nil || status != http.StatusOK {
		o.t.Fatalf("%s: %d %s %v", path, status, text, err)
	}
}

// befriend lets new users ask for friendships, and has some of them accepted, who then like a
// score, until enough is true or the service does not answer.
func (o *outcomesRun) befriend(p *testenv.Process, enough func() bool) {
	o.t.Helper()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	star := harness.Token(o.t, "star", "")
	call := func(token, method, path, body string) error {
		_, _, err := harness.Request(o.t.Context(), client, token, method, p.URL+path, body)
		return err
	}
	if call(star, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":100}`, harness.Today())) != nil {
		return
	}
	for !enough() {
		id := fmt.Sprintf("fan%d", o.next)
		fan := harness.Token(o.t, models.UserID(id), "")
		o.next++
		err := call(fan, "POST", "/v1/friends/requests", `{"user_id":"star"}`)
		if err == nil && o.next%2 == 0 {
			if err = call(star, "POST", "/v1/friends/requests/"+id+"/accept", ""); err == nil {
				err = call(fan, "PUT", "/v1/boards/steps/likes/star?date="+harness.Today(), "")
			}
		}
		if err != nil {
			return
		}
	}
}

// finish delivers what is left to the target, which is calm by now, and compares everything
// that it has received with what has happened.
func (o *outcomesRun) finish() {
	o.t.Helper()
	o.target.calmDown()
	cfg := o.env.Config
	cfg.Clock.Offset = time.Hour // what a dead process has taken is free by now
	p := testenv.Serve(o.t, cfg, o.flags...)
	testenv.Eventually(o.t, "the day is archived, the event announced, and everything delivered", func() bool {
		// Late in the evening a process stores the next day's bucket as well, so a day
		// without scores can be due too.
		var waiting, results, due int64
		err := o.env.Gorm.Raw(`SELECT (SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting'),
			(SELECT count(*) FROM board_results),
			(SELECT count(*) FROM board_buckets WHERE CASE WHEN from_ledger THEN ends_at ELSE cold_at END <= ?)`,
			time.Now().Add(cfg.Clock.Offset)).Row().Scan(&waiting, &results, &due)
		return err == nil && waiting == 0 && results == due
	})
	p.Stop()
	want := o.happened()
	got := make(map[string]int)
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	for body, ids := range o.target.ids {
		var m struct {
			Type string
			Data json.RawMessage
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			o.t.Fatal(err)
		}
		got[m.Type+" "+string(m.Data)] += len(ids)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		o.t.Errorf("outcomes by the number of their ids (-happened +received):\n%s", diff)
	}
}

// happened returns everything that the database says has happened, each with one id.
func (o *outcomesRun) happened() map[string]int {
	o.t.Helper()
	want := make(map[string]int)
	query := func(each func(text string), statement string) {
		o.t.Helper()
		var list []string
		if err := o.env.Gorm.Raw(statement).Scan(&list).Error; err != nil {
			o.t.Fatal(err)
		}
		for _, text := range list {
			each(text)
		}
	}
	query(func(fan string) { want[`friend.requested {"from":"`+fan+`","to":"star"}`]++ }, `
		SELECT u.external_id FROM users u WHERE u.external_id LIKE 'fan%' AND (
			EXISTS (SELECT FROM friend_requests r WHERE r.user_id = u.user_id AND NOT r.incoming)
			OR EXISTS (SELECT FROM friendships f WHERE f.user_id = u.user_id))`)
	query(func(fan string) { want[`friend.accepted {"from":"`+fan+`","to":"star"}`]++ }, `
		SELECT u.external_id FROM users u JOIN friendships f ON f.user_id = u.user_id WHERE u.external_id LIKE 'fan%'`)
	query(func(data string) { want["like.given "+data]++ }, `
		SELECT '{"board":"steps","date":"' || l.day || '","from":"' || u.external_id || '","to":"star"}'
		FROM likes l JOIN users u ON u.user_id = l.liked_by`)
	const lines = `coalesce(string_agg('{"rank":' || rank || ',"user_id":"' || external_id || '","nickname":"","avatar_url":"","score":' || score ||
		',"reached_at":"' || to_char(reached_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || '"}', ',' ORDER BY rank) FILTER (WHERE rank <= 100), '')`
	query(func(data string) { want["board.final "+data]++ }, `
		SELECT '{"board":"steps","kind":"daily","date":"' || b.day || '","revision":1,"total":' || a.entries || ',"score_sum":' || a.score_sum ||
			',"top":[' || `+lines+` || ']}'
		FROM board_archives a JOIN board_buckets b ON b.board = a.board AND b.bucket = a.bucket
		LEFT JOIN archived_scores s ON s.board = b.board AND s.day = b.day LEFT JOIN users u ON u.user_id = s.user_id
		WHERE a.board = 'steps' AND a.run = 1 GROUP BY b.day, a.entries, a.score_sum`)
	query(func(data string) { want["board.final "+data]++ }, `
		SELECT '{"board":"gifts","kind":"event","date":null,"revision":1,"total":' || count(*) || ',"score_sum":' || sum(score) ||
			',"top":[' || `+lines+` || ']}'
		FROM (SELECT *, row_number() OVER (ORDER BY score DESC) AS rank FROM score_totals WHERE board = 'gifts') s
		JOIN users u ON u.user_id = s.user_id`)
	return want
}

// At whatever step of writing and delivering outcomes the process is killed, everything that
// has happened is received under one id, and nothing else is.
func TestSoakOutcomesKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for round := range testenv.Rounds(1, 5) {
		for _, step := range testenv.Forms(t, 1, testenv.Failpoints(t, "outcomes")) {
			if !strings.HasPrefix(step, "outcomes.result_") && !strings.HasPrefix(step, "outcomes.event_") {
				step += fmt.Sprintf("#%d", 1+rand.N(5))
			}
			t.Run(fmt.Sprintf("%d/%s", round, step), func(t *testing.T) {
				t.Parallel()
				o := newOutcomesRun(t)
				p := testenv.ServeUntil(t, step, o.env.Config, o.flags...)
				o.befriend(p, func() bool { return o.next >= 300 })
				p.Killed()
				o.finish()
			})
		}
	}
}
