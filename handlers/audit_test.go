package handlers_test

import (
	"context"
	"fmt"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/operations/audit"
)

// auditLog is a fake handlers.AuditLog with the entries 3, 2 and 1. The third concerns
// nothing and has not ended. err is the error that Begin returns.
type auditLog struct {
	*recorder
	err error
}

func (l auditLog) Begin(_ context.Context, e audit.Entry) (func(error), error) {
	if e.RequestID == "" {
		l.calls = append(l.calls, "an entry without the request's id")
	}
	e.RequestID = ""
	l.calls = append(l.calls, "Begin "+e.Actor+" "+e.Action+" board="+e.Board+" bucket="+e.Bucket+
		" target="+e.Target+" reason="+e.Reason)
	return func(err error) {
		outcome := "done"
		if err != nil {
			outcome = string(models.CodeOf(err))
		}
		l.calls = append(l.calls, "finish "+outcome)
	}, l.err
}

func (l auditLog) List(_ context.Context, q audit.Query) (list []audit.Entry, err error) {
	if err := l.record("List", q); err != nil {
		return nil, err
	}
	for id := int64(3); id >= 1; id-- {
		if q.Before != 0 && id >= q.Before || len(list) == q.Limit {
			continue
		}
		e := audit.Entry{AuditEntry: models.AuditEntry{ID: id, At: noon, Actor: "alice", Action: "startArchiveRun"}}
		if id < 3 {
			e.User, e.Nickname = "a|b", "Ann"
			e.Board, e.Bucket, e.Target, e.Reason, e.RequestID, e.Outcome = "steps", "20261120", "7", "late", "r1", "done"
		}
		list = append(list, e)
	}
	return list, nil
}

// The log has a change before it begins and its outcome after it; it has nothing of a call
// that only asks. Nothing is changed without an entry.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	config := func(begin error) func(*recorder) handlers.Config {
		return func(r *recorder) handlers.Config {
			return handlers.Config{Audit: auditLog{r, begin}, DeadLetters: deadLetters{r}, Reviews: reviewed{r}}
		}
	}
	const discard = "DELETE /v1/admin/dead-letters/3"
	const dismiss = "POST /v1/admin/reviews/3/dismiss"
	begun := "Begin alice deleteDeadLetter board= bucket= target=3 reason="
	runCases(t, config(nil), []testCase{
		{"a change", "admin", discard, "", nil, []string{begun, "Delete 3 false", "finish done"}, "204"},
		{"a change that fails", "admin", discard, "", errUnavailable, []string{begun, "Delete 3 false", "finish unavailable"}, wantUnavailable},
		{"a change with a reason", "admin", dismiss, `{"reason":"a marathon"}`, errUnavailable, []string{
			"Begin alice dismissReview board= bucket= target=3 reason=a marathon", "Dismiss 3 alice a marathon -1 false", "finish unavailable",
		}, wantUnavailable},
		{"a reason with an escape sequence", "admin", dismiss, `{"reason":"a\u001b[31mb"}`, nil, nil, "422 validation_failed: body.reason: is plain text, without control characters and line breaks"},
		{"a call that only asks", "admin", dismiss + "?dry_run=true", "{}", errUnavailable, []string{"Dismiss 3 alice  -1 true"}, wantUnavailable},
		{"a token without a sub", "admin without a sub", discard, "", nil, nil, "403 forbidden: …"},
		{"a user's token", "1", discard, "", nil, nil, "403 forbidden: this token may not make this call"},
	})
	runCases(t, config(errUnavailable), []testCase{
		{"the log can't be written", "admin", discard, "", nil, []string{begun}, wantUnavailable},
	})
}

// listed is the call of AuditLog.List.
func listed(q audit.Query) string { return fmt.Sprintf("List %+v", q) }

func TestAudit(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Audit: auditLog{r, nil}} }
	const list = "GET /v1/admin/audit"
	entry := func(id, rest string) string {
		return `{"id":"` + id + `","at":"2026-11-20T04:00:00.000Z","actor":"alice","action":"startArchiveRun",` + rest + `}`
	}
	const nothing = `"board":null,"bucket":null,"user_id":null,"nickname":"","target":null,"reason":null,"request_id":null,"outcome":null`
	const all = `"board":"steps","bucket":"20261120","user_id":"a|b","nickname":"Ann","target":"7","reason":"late","request_id":"r1","outcome":"done"`
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, []string{listed(audit.Query{Limit: 51})},
			`200 {"entries":[` + entry("3", nothing) + "," + entry("2", all) + "," + entry("1", all) + `],"next_cursor":null}`},
		{"list with filters", "admin", list + "?actor=bob&action=defineBoard&user_id=a%7Cb&limit=2", "", nil,
			[]string{listed(audit.Query{Actor: "bob", Action: "defineBoard", User: "a|b", Limit: 3})}, `200 {"entries":[…`},
		{"list by another list's cursor", "admin", list + "?cursor=" + cursor(3, 1, "archives"), "", nil, nil, "400 invalid_cursor: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, the store is away", "admin", list, "", errUnavailable, []string{listed(audit.Query{Limit: 51})}, wantUnavailable},
	})
	checkPages(t, config, "admin", "GET /v1/admin/audit?limit=1", []string{
		listed(audit.Query{Limit: 2}), listed(audit.Query{Before: 3, Limit: 2}), listed(audit.Query{Before: 2, Limit: 2}),
	})
}
