package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/operations/audit"
)

func newService(env *testenv.Env) *audit.Service {
	return audit.New(audit.NewStore(env.Gorm), testenv.Numbers{DB: env.Gorm}, env.Clock.Now, env.Log)
}

// summary is an entry without its id and time.
type summary struct {
	Actor, Action, Board, Bucket string
	User                         models.UserID
	Nickname                     string
	Target, Reason, RequestID    string
	Outcome                      string
}

func list(t *testing.T, s *audit.Service, q audit.Query) (page []summary) {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 10
	}
	for _, e := range testenv.Must(s.List(t.Context(), q)) {
		if !e.At.Equal(testenv.Noon) {
			t.Errorf("entry %d is of %v", e.ID, e.At)
		}
		page = append(page, summary{e.Actor, e.Action, e.Board, e.Bucket, e.User, e.Nickname, e.Target, e.Reason, e.RequestID, e.Outcome})
	}
	return page
}

// Each action is in the log from before it begins, with its outcome once it has ended;
// also if its caller has gone meanwhile.
func TestLog(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		testenv.NumberUsers(t, env, 3)
		if err := env.Gorm.Exec("UPDATE users SET nickname = 'Ann' WHERE external_id = '2'").Error; err != nil {
			t.Fatal(err)
		}
		s := newService(env)
		full := audit.Entry{User: "2", AuditEntry: models.AuditEntry{
			Actor: "mei", Action: "createCorrection", Board: "steps", Bucket: "20261120", Target: "7", Reason: "a shaken phone", RequestID: "r1",
		}}
		first := summary{"mei", "createCorrection", "steps", "20261120", "2", "Ann", "7", "a shaken phone", "r1", ""}
		ctx, cancel := context.WithCancel(t.Context())
		finish, err := s.Begin(ctx, full)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "begun", list(t, s, audit.Query{}), first)
		cancel()
		finish(nil)
		first.Outcome = "done"
		want(t, "done", list(t, s, audit.Query{}), first)

		second := summary{Actor: "tom", Action: "deleteDeadLetter", Target: "9", Outcome: "not_found"}
		testenv.Must(s.Begin(t.Context(), audit.Entry{AuditEntry: models.AuditEntry{Actor: "tom", Action: "deleteDeadLetter", Target: "9"}}))(
			models.Errorf(models.CodeNotFound, "none"))
		third := summary{Actor: "tom", Action: "startArchiveRun", Outcome: "internal"}
		testenv.Must(s.Begin(t.Context(), audit.Entry{User: "nobody", AuditEntry: models.AuditEntry{Actor: "tom", Action: "startArchiveRun"}}))(
			errors.New("secret"))
		want(t, "all, newest first", list(t, s, audit.Query{}), third, second, first)
		want(t, "of one operator", list(t, s, audit.Query{Actor: "tom"}), third, second)
		want(t, "of one action", list(t, s, audit.Query{Action: "startArchiveRun"}), third)
		want(t, "on one user", list(t, s, audit.Query{User: "2"}), first)
		newest := testenv.Must(s.List(t.Context(), audit.Query{Limit: 1}))[0]
		want(t, "the page behind an entry", list(t, s, audit.Query{Before: newest.ID, Limit: 1}), second)

		hostile := audit.Entry{AuditEntry: models.AuditEntry{Actor: "tom", Action: "x", Reason: "\x00\xff" + strings.Repeat("é", 1000)}}
		testenv.Must(s.Begin(t.Context(), hostile))(nil)
		cut := "\uFFFD\uFFFD" + strings.Repeat("é", 499)
		want(t, "text that can't be stored as it is", list(t, s, audit.Query{Action: "x"}), summary{
			Actor: "tom", Action: "x", Reason: cut, Outcome: "done",
		})

		// A user who no longer exists is not named.
		if err := env.Gorm.Exec("UPDATE users SET external_id = 'someone else' WHERE external_id = '2'").Error; err != nil {
			t.Fatal(err)
		}
		want(t, "of a user who is gone", list(t, s, audit.Query{User: "2"}))
	})
}

func want(t *testing.T, what string, got []summary, want ...summary) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// An action that can't be stored is not begun.
func TestBeginWithoutStore(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	if err := env.Gorm.Exec("DROP TABLE audit_log").Error; err != nil {
		t.Fatal(err)
	}
	if _, err := newService(env).Begin(t.Context(), audit.Entry{}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("Begin: %v", err)
	}
	if _, err := newService(env).List(t.Context(), audit.Query{Limit: 1}); models.CodeOf(err) != models.CodeUnavailable {
		t.Errorf("List: %v", err)
	}
}
