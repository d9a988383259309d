package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
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
func (s *server) reviewed(query string) (list []string) {
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
		list = append(list, strings.TrimSpace(fmt.Sprint(r.Board, " ", date, " ", r.UserID, " ", r.Score, " ", r.Nickname)))
	}
	return list
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
