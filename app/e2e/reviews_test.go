package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// shownReview is a review in an answer.
type shownReview struct {
	ID            string           `json:"id"`
	Board         string           `json:"board"`
	Date          *string          `json:"date"`
	UserID        models.UserID    `json:"user_id"`
	Nickname      string           `json:"nickname"`
	Score         int64            `json:"score"`
	ReachedAt     models.Timestamp `json:"reached_at"`
	FirstSeenAt   models.Timestamp `json:"first_seen_at"`
	DismissedAt   *string          `json:"dismissed_at"`
	DismissedBy   *string          `json:"dismissed_by"`
	DismissReason *string          `json:"dismiss_reason"`
}

// reviewed returns the open reviews as "board date user score nickname", newest first.
func (s *server) reviewed(query string) (list []string, ids []string) {
	s.t.Helper()
	var page struct {
		Reviews    []shownReview `json:"reviews"`
		NextCursor *string       `json:"next_cursor"`
	}
	s.want(s.admin("GET", "/v1/admin/reviews"+query, nil), http.StatusOK, &page)
	for _, r := range page.Reviews {
		date := "none"
		if r.Date != nil {
			date = *r.Date
		}
		list, ids = append(list, strings.TrimSpace(fmt.Sprint(r.Board, " ", date, " ", r.UserID, " ", r.Score, " ", r.Nickname))), append(ids, r.ID)
	}
	return list, ids
}

// An upload above review_above appears on the list of operators, by itself and in the
// metrics, until somebody has looked at it.
func TestReviews(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, func(c *config.Config) { c.Boards[0].ReviewAbove = 60_000 })
	upload := func(user models.UserID, score int) {
		t.Helper()
		body := fmt.Sprintf(`{"date":"2026-11-20","score":%d}`, score)
		s.want(s.as(user, "POST", "/v1/boards/steps/scores", body), http.StatusOK, nil)
	}
	find := func() {
		t.Helper()
		if _, err := s.app.Reviews.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	upload("1", 60_000)
	upload("a|b", 98_800)
	find()
	list, ids := s.reviewed("?board=steps")
	if want := "[steps 2026-11-20 a|b 98800]"; fmt.Sprint(list) != want {
		t.Fatalf("the list is %v, want %s", list, want)
	}
	s.wantMetric(`stepboard_reviews_open{board="steps"} 1`)
	if list, _ := s.reviewed("?board=private"); len(list) != 0 {
		t.Errorf("the list of another board is %v", list)
	}

	path := "/v1/admin/reviews/" + ids[0] + "/dismiss"
	s.want(s.admin("POST", path+"?dry_run=true", nil), http.StatusOK, nil)
	s.wantMetric(`stepboard_reviews_open{board="steps"} 1`)
	var dismissed shownReview
	carol := harness.Token(t, "carol@example.com", auth.ScopeAdmin)
	s.want(s.call(carol, "POST", path, `{"reason":"a marathon"}`), http.StatusOK, &dismissed)
	by, why := dismissed.DismissedBy, dismissed.DismissReason
	if by == nil || *by != "carol@example.com" || why == nil || *why != "a marathon" {
		t.Errorf("dismissed: %+v", dismissed)
	}
	s.wantMetric(`stepboard_reviews_open{board="steps"} 0`)
	var audit struct {
		Entries []struct {
			ID, At, Actor, Action, Target, Reason, Outcome, Nickname string
			Board, Bucket                                            any
			UserID                                                   any `json:"user_id"`
			RequestID                                                any `json:"request_id"`
		}
		NextCursor any `json:"next_cursor"`
	}
	s.want(s.admin("GET", "/v1/admin/audit", nil), http.StatusOK, &audit)
	if len(audit.Entries) != 1 {
		t.Fatalf("the audit log has %v", audit.Entries)
	}
	e := audit.Entries[0]
	if got := []string{e.Actor, e.Action, e.Target, e.Reason, e.Outcome}; !slices.Equal(got, []string{
		"carol@example.com", "dismissReview", ids[0], "a marathon", "done",
	}) {
		t.Errorf("the audit log has %q", got)
	}
	find()
	if list, _ := s.reviewed(""); len(list) != 0 {
		t.Errorf("a dismissed score is on the list: %v", list)
	}
	upload("a|b", 98_801)
	find()
	if list, _ := s.reviewed(""); fmt.Sprint(list) != "[steps 2026-11-20 a|b 98801]" {
		t.Errorf("a score that rose further: %v", list)
	}
	s.want(s.admin("POST", "/v1/admin/reviews/9000/dismiss", nil), http.StatusNotFound, nil)
	s.want(s.admin("POST", path, `{"reason":"\u0000"}`), http.StatusUnprocessableEntity, nil)
}

// wantMetric checks that /metrics has a line.
func (s *server) wantMetric(line string) {
	s.t.Helper()
	if text := string(s.call("", "GET", "/metrics", nil).body); !strings.Contains(text, "\n"+line+"\n") {
		s.t.Errorf("the metrics have no line %s", line)
	}
}

// The job runs in a process with the role jobs, and the command line shows and dismisses
// what it has found.
func TestReviewsByCommand(t *testing.T) {
	t.Parallel()
	env := harness.RealConfig(t)
	boards := `--boards=[{` + harness.Steps + `, review_above: 60000}]`
	p := testenv.Serve(t, env.Config, "--postgres.auto_migrate", boards, "--only=api")
	body := fmt.Sprintf(`{"date":%q,"score":98800}`, harness.Today())
	status, text, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "1", ""), "POST", p.URL+"/v1/boards/steps/scores", body)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %s %v", status, text, err)
	}
	run := func(args ...string) string {
		t.Helper()
		return mustRun(t, append(append([]string{"reviews"}, args...), append(testenv.Flags(env.Config), boards)...)...)
	}
	if found := run("list"); found != "" {
		t.Errorf("without the job the list is %q", found)
	}
	testenv.Serve(t, env.Config, boards, "--only=jobs")
	var list string
	testenv.Eventually(t, "the job has found the score", func() bool {
		list = run("list", "--board=steps")
		return list != ""
	})
	fields := strings.Split(list, "\t")
	if len(fields) != 6 || fields[1] != "steps" || fields[3] != "1" || fields[4] != "98800" {
		t.Fatalf("the list is %q", list)
	}
	if out := run("dismiss", fields[0], "--actor=carol", "--reason=a marathon"); !strings.HasPrefix(out, "dismissed by carol at ") {
		t.Errorf("dismissed: %q", out)
	}
	if left := run("list"); left != "" {
		t.Errorf("the list is %q", left)
	}
	for _, args := range [][]string{{"dismiss", fields[0]}, {"dismiss", "x", "--actor=carol"}, {"dismiss", "9000", "--actor=carol"}} {
		args = append(append([]string{"reviews"}, args...), append(testenv.Flags(env.Config), boards)...)
		if _, stderr, status := testenv.Run(t, args...); status != 1 || stderr == "" {
			t.Errorf("%v: status %d: %s", args, status, stderr)
		}
	}
}
