package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// branchErasure is the answer to an operator's erasure.
type branchErasure struct {
	ErasureID  *string `json:"erasure_id"`
	Done, Left int
}

// signUp makes users who came by the invitation of another one; of nobody if by is empty.
func (s *server) signUp(by models.UserID, users ...models.UserID) {
	s.t.Helper()
	rows := testenv.Must(s.app.Directory.EnsureMany(s.t.Context(), users))
	newcomers := make([]models.Newcomer, len(rows))
	for i, row := range rows {
		newcomers[i] = models.Newcomer{User: row, CreatedAt: s.env.Clock.Now()}
		if by != "" {
			newcomers[i].InvitedBy = new(testenv.Must(s.app.Directory.FindOne(s.t.Context(), by)))
		}
	}
	if err := s.env.Gorm.Create(&newcomers).Error; err != nil {
		s.t.Fatal(err)
	}
}

// left returns those of some users who are there.
func (s *server) left(users ...models.UserID) string {
	s.t.Helper()
	var there []string
	for _, user := range users {
		if testenv.Must(s.app.Directory.FindOne(s.t.Context(), user)) != 0 {
			there = append(there, string(user))
		}
	}
	return strings.Join(there, " ")
}

// Of two operators who erase themselves at once one stays, as long as somebody else is there.
func TestTheLastTwoOperatorsLeave(t *testing.T) {
	t.Parallel()
	testenv.LocalOrEach(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		s.signUp("", "zoe")
		var stayed models.UserID
		for round := range 20 {
			both := []models.UserID{models.UserID(fmt.Sprintf("ann-%d", round)), models.UserID(fmt.Sprintf("bob-%d", round))}
			s.signUp("", both...)
			for _, user := range both {
				if err := s.app.Sessions.AddOperator(t.Context(), user, "test", false); err != nil {
					t.Fatal(err)
				}
			}
			if stayed != "" {
				s.eraseSelf(stayed)
			}
			var leaving sync.WaitGroup
			for _, user := range both {
				leaving.Go(func() { s.as(user, "DELETE", "/v1/me", `{"confirm":"erase"}`) })
			}
			leaving.Wait()
			stayed = models.UserID(s.left(both...))
			if !slices.Contains(both, stayed) {
				t.Fatalf("round %d: %q are left", round, stayed)
			}
		}
	})
}

// An operator erases a user with all whom they have brought, by as many calls as it takes: the user last. The last operator
// is not erased so, and nobody with them.
func TestErasingABranch(t *testing.T) {
	t.Parallel()
	testenv.LocalOrEach(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env)
		guests := make([]models.UserID, 230)
		for i := range guests {
			guests[i] = models.UserID(fmt.Sprintf("guest-%d", i))
		}
		s.signUp("", "ann", "zoe")
		s.signUp("ann", "bob", "cat")
		s.signUp("bob", "dan")
		s.signUp("dan", guests...)
		const path, body = "/v1/admin/users/bob", `{"reason":"strangers","with_invited":true}`
		erase := func(query string, status int) (e branchErasure) {
			t.Helper()
			s.want(s.admin("DELETE", path+query, body), status, &e)
			return e
		}
		if err := s.app.Sessions.AddOperator(t.Context(), guests[7], "test", false); err != nil {
			t.Fatal(err)
		}
		for _, query := range []string{"", "?dry_run=true"} {
			s.refuse(s.admin("DELETE", path+query, body), http.StatusConflict, models.CodeLastOperator)
		}
		if err := s.app.Sessions.AddOperator(t.Context(), "zoe", "test", false); err != nil {
			t.Fatal(err)
		}
		if e := erase("?dry_run=true", http.StatusOK); e.ErasureID != nil || e.Done != 0 || e.Left != 232 {
			t.Errorf("a dry run: %+v", e)
		}
		for i, want := range []branchErasure{{Done: 50, Left: 182}, {Done: 50, Left: 132}, {Done: 50, Left: 82}, {Done: 50, Left: 32}, {Done: 32}} {
			if i == 1 { // what was stored of the first ones goes meanwhile
				testenv.Must(s.app.Erasure.Run(t.Context()))
			}
			e := erase("", http.StatusAccepted)
			if e.Done != want.Done || e.Left != want.Left || (e.ErasureID != nil) != (want.Left == 0) {
				t.Errorf("call %d: %+v, want %+v", i+1, e, want)
			}
			there, gone := "bob dan", "ann cat zoe"
			if want.Left == 0 {
				there = ""
			}
			if got := s.left("bob", "dan"); got != there {
				t.Errorf("after call %d there are %s, want %s", i+1, got, there)
			}
			if got := s.left("ann", "cat", "zoe"); got != gone {
				t.Errorf("after call %d there are %s, want %s", i+1, got, gone)
			}
		}
		if got := s.left(guests...); got != "" {
			t.Errorf("of those whom they have brought there are %s", got)
		}
		if e := erase("", http.StatusAccepted); e.ErasureID == nil || e.Left != 0 {
			t.Errorf("repeated: %+v", e)
		}
		s.refuse(s.admin("DELETE", "/v1/admin/users/nobody", body), http.StatusNotFound, models.CodeUserNotFound)
		var e branchErasure
		s.want(s.admin("DELETE", "/v1/admin/users/ann", `{"reason":"asked for"}`), http.StatusAccepted, &e)
		if e.Done != 1 || e.Left != 0 || e.ErasureID == nil || s.left("ann", "cat") != "cat" {
			t.Errorf("alone: %+v, and there is %s", e, s.left("ann", "cat"))
		}
		var log struct {
			Entries []struct{ Target, Reason, Outcome *string }
		}
		testenv.Must(s.app.Erasure.Run(t.Context()))
		if a := s.admin("GET", "/v1/admin/audit?action="+models.EraseAction, nil); json.Unmarshal(a.body, &log) != nil {
			t.Fatalf("the log is %s", a.body)
		}
		var done int
		for _, entry := range log.Entries {
			if entry.Target != nil && *entry.Target == "with_invited" && *entry.Reason == "strangers" && *entry.Outcome == "done" {
				done++
			}
		}
		if done != 6 {
			t.Errorf("%d calls are in the log as done, want 6: %+v", done, log)
		}
	})
}
