package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// heldTotal is what a user is shown of an own total that is held.
type heldTotal struct {
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

// shownHold is a held total in an answer to operators.
type shownHold struct {
	ID        string           `json:"id"`
	Board     string           `json:"board"`
	Date      string           `json:"date"`
	UserID    models.UserID    `json:"user_id"`
	Nickname  string           `json:"nickname"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
	Counting  *int64           `json:"counting"`
	HeldAt    models.Timestamp `json:"held_at"`
	State     models.HoldState `json:"state"`
	Pending   bool             `json:"pending"`
	DecidedAt *string          `json:"decided_at"`
	DecidedBy *string          `json:"decided_by"`
	Reason    *string          `json:"reason"`
	Message   *string          `json:"message"`
}

func withHolds(c *config.Config) { c.Boards[0].HoldAbove = 60_000 }

// held returns the holds of a query, newest first.
func (s *server) held(query string) []shownHold {
	s.t.Helper()
	var page struct {
		Holds      []shownHold `json:"holds"`
		NextCursor *string     `json:"next_cursor"`
	}
	s.want(s.admin("GET", "/v1/admin/holds"+query, nil), http.StatusOK, &page)
	return page.Holds
}

// heldOf returns what a user is shown of today's held total, and the score that counts; 0 for none.
func (s *server) heldOf(user models.UserID) (*heldTotal, int) {
	s.t.Helper()
	a := s.as(user, "GET", "/v1/boards/steps/me", nil)
	var place ownPlace
	if err := json.Unmarshal(a.body, &place); err != nil || a.status != http.StatusOK {
		s.t.Fatalf("%d %s, %v", a.status, a.body, err)
	}
	return place.Held, int(place.Score)
}

func hold(score int64, more string) string {
	return fmt.Sprintf(`{"score":%d,"reason":"seen"%s}`, score, more)
}

// A total above hold_above is shown to its user and to operators, and counts once it is released.
func TestHolds(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env, withHolds)
		const path = "/v1/boards/steps/scores"
		var got accepted
		s.want(s.as("ann", "POST", path, `{"date":"2026-11-20","score":8000}`), http.StatusOK, nil)
		list := `{"scores":[{"date":"2026-11-19","score":60000},{"date":"2026-11-20","score":98800},{"date":"2026-11-20","score":8001}]}`
		answer := s.as("ann", "POST", path+"?include=me", list)
		if err := json.Unmarshal(answer.body, &got); err != nil || len(got.Accepted) != 3 {
			t.Fatalf("%s, %v", answer.body, err)
		}
		s.check("held", fmt.Sprint(got.Accepted[0].Held, got.Accepted[1].Held, got.Accepted[2].Held), "false true false")
		me := included(t, answer)
		for me == nil { // the ranking was not there in time
			answer = answer.again()
			me = included(t, answer)
		}
		held, score := s.heldOf("ann")
		if me.Score != 8001 || score != 8001 || held == nil || *held != *me.Held || *held != (heldTotal{98_800, models.TimestampOf(testenv.Noon)}) {
			t.Errorf("me is %+v, then %+v", me, held)
		}
		s.want(s.as("cho", "POST", path, `{"date":"2026-11-20","score":1}`), http.StatusOK, nil)
		if others, _ := s.heldOf("cho"); others != nil {
			t.Errorf("somebody else's total: %+v", others)
		}
		batch := s.service("POST", path+"/batch", `{"scores":[{"user_id":"ben","date":"2026-11-20","score":1},{"user_id":""},{"user_id":"ben","date":"2026-11-20","score":70000}]}`)
		if !strings.HasPrefix(string(batch.body), `{"accepted":2,"rejected":[{"index":1,`) || !strings.HasSuffix(string(batch.body), `],"held":[2]}`) {
			t.Errorf("the batch: %s", batch.body)
		}
		s.wantMetric(`stepboard_holds_open{board="steps"} 2`)
		s.wantMetric(`stepboard_holds_oldest_seconds{board="steps"} 0`)

		open := s.held("?board=steps")
		if len(open) != 2 || open[0].UserID != "ben" || *open[0].Counting != 1 || open[1].Score != 98_800 || *open[1].Counting != 8001 {
			t.Fatalf("operators see %+v", open)
		}
		s.check("those of filters", fmt.Sprint(len(s.held("?user_id=ben")), len(s.held("?user_id=nobody")), len(s.held("?board=private")), len(s.held("?state=released"))), "1 0 0 0")
		release := "/v1/admin/holds/" + open[1].ID + "/release"
		s.refuse(s.admin("POST", release, hold(98_000, "")), http.StatusConflict, models.CodeHoldChanged)
		s.want(s.admin("POST", release+"?dry_run=true", hold(98_800, "")), http.StatusOK, nil)
		s.check("after a dry run", fmt.Sprint(len(s.held(""))), "2")
		env.Clock.Advance(time.Minute)
		var released shownHold
		s.want(s.admin("POST", release, hold(98_800, `,"message":"well done"`)), http.StatusOK, &released)
		if released.State != models.HoldReleased || released.Pending || *released.Counting != 98_800 || *released.Reason != "seen" || *released.Message != "well done" {
			t.Errorf("released: %+v", released)
		}
		held, score = s.heldOf("ann")
		s.check("of the released one", fmt.Sprint(held, score), "<nil> 98800")
		reject := "/v1/admin/holds/" + open[0].ID + "/reject"
		s.want(s.admin("POST", reject, hold(70_000, "")), http.StatusOK, nil)
		held, score = s.heldOf("ben")
		s.check("of the rejected one", fmt.Sprint(held, score), "<nil> 1")
		s.refuse(s.admin("POST", "/v1/admin/holds/9000/reject", hold(1, "")), http.StatusNotFound, models.CodeNotFound)
		s.wantMetric(`stepboard_holds_open{board="steps"} 0`)
		if log := string(s.admin("GET", "/v1/admin/audit", nil).body); !strings.Contains(log, `"releaseHold"`) || !strings.Contains(log, `"rejectHold"`) {
			t.Errorf("the audit log: %s", log)
		}
	})
}

// Nobody else can tell a held total from one that was never sent: all their answers are the same as
// in a population without it, whatever is decided but a release.
func TestHeldTotalsAreShownToNobody(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	p := newPopulations(t, rand.New(rand.NewPCG(seed, 0)), withHolds)
	today := p.day + 40
	for range 60 {
		walker := p.people[p.random.IntN(len(p.people))]
		s := p.chosen
		total := 60_001 + p.random.IntN(30_000)
		switch p.random.IntN(4) {
		case 0:
			s.want(s.as(walker, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, today, total)), http.StatusOK, nil)
		case 1:
			batch := fmt.Sprintf(`{"scores":[{"user_id":%q,"date":%q,"score":%d}]}`, walker, today, total)
			s.want(s.service("POST", "/v1/boards/steps/scores/batch", batch), http.StatusOK, nil)
		case 2: // a lower total of the same day, in both
			score := 100 * p.random.IntN(9)
			for _, each := range p.both() {
				each.uploadDay(today, map[models.UserID]int{walker: score})
			}
		default:
			if open := s.held(""); len(open) > 0 {
				s.want(s.admin("POST", "/v1/admin/holds/"+open[0].ID+"/reject", hold(open[0].Score, "")), http.StatusOK, nil)
			}
		}
		open := s.held("")
		for _, viewer := range p.people {
			if !slices.ContainsFunc(open, func(h shownHold) bool { return h.UserID == viewer }) {
				p.compare(viewer)
			}
		}
	}
}

// The command line lists and decides, in the process that serves the folder.
func TestHoldsByCommand(t *testing.T) {
	t.Parallel()
	dir, boards := t.TempDir(), "--boards=[{name: steps, hold_above: 60000}]"
	p := testenv.ServeFolder(t, dir, boards)
	token := strings.TrimSpace(onFolder(t, dir, "token", "--user=9").Succeeds(t))
	today := models.DateOf(time.Now().Add(8 * time.Hour).UTC())
	harness.Call(t, p.Process, token, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":98800}`, today), http.StatusOK)
	list := onFolder(t, dir, "holds", "list").Succeeds(t)
	fields := strings.Split(strings.TrimSpace(list), "\t")
	if len(fields) != 8 || strings.Join(slices.Delete(slices.Clone(fields), 5, 6), " ") != fmt.Sprintf("1 steps %v 9 98800 - open", today) {
		t.Fatalf("the list is %q", list)
	}
	onFolder(t, dir, "holds", "list", "--state=all").Fails(t, 1, "query.state")
	onFolder(t, dir, "holds", "release", "1", "--score=1", "--reason=r", "--actor=ann").Fails(t, 1, "look at it again")
	onFolder(t, dir, "holds", "reject", "1", "--score=98800", "--reason=r", "--actor=ann").Succeeds(t)
	if got := onFolder(t, dir, "holds", "release", "1", "--score=98800", "--reason=r", "--actor=ann").Succeeds(t); !strings.HasSuffix(got, "\t98800\treleased\n") {
		t.Errorf("released: %q", got)
	}
	if left := onFolder(t, dir, "holds", "list").Succeeds(t); left != "" {
		t.Errorf("the list is %q", left)
	}
}

// The explanation of a score says what became of a held total, with the message to its user, and to operators the reason.
func TestHoldsAreExplained(t *testing.T) {
	t.Parallel()
	s := newServer(t, testenv.Local(t), withHolds)
	explained := func(a answer) string {
		t.Helper()
		var e struct {
			Score    *int64          `json:"score"`
			Reported json.RawMessage `json:"reported"`
			Held     json.RawMessage `json:"held"`
		}
		s.read(a, http.StatusOK, &e)
		return fmt.Sprint(e.Score == nil, " ", string(e.Reported), " ", string(e.Held))
	}
	own := func() string { return explained(s.as("ann", "GET", "/v1/boards/steps/me/explain", nil)) }
	operators := func() string {
		return explained(s.admin("GET", "/v1/admin/users/ann/explain?board=steps&date=2026-11-20", nil))
	}
	s.want(s.as("ann", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":98800}`), http.StatusOK, nil)
	const at = "2026-11-20T13:00:00.000Z"
	held := func(state, more string) string {
		return `true null {"score":98800,"reached_at":"` + at + `","state":"` + state + `","message":` + more + `}`
	}
	s.check("an open one", own(), held("open", `""`))
	id := s.held("")[0].ID
	s.want(s.admin("POST", "/v1/admin/holds/"+id+"/reject", hold(98_800, `,"message":"a car?"`)), http.StatusOK, nil)
	s.check("a rejected one", own(), held("rejected", `"a car?"`))
	s.check("to operators", operators(), held("rejected", `"a car?","reason":"seen"`))
	s.want(s.admin("POST", "/v1/admin/holds/"+id+"/release", hold(98_800, "")), http.StatusOK, nil)
	s.check("a released one", strings.TrimPrefix(own(), "false"), strings.TrimPrefix(held("released", `""`), "true"))
}
