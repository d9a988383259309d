package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/ingest"
)

// deadLetters is a fake handlers.DeadLetterService with the dead letters 3, 2
// and 1. The first is an update of user "a|b", the second one of a user that does not
// exist, and the third can't be decoded.
type deadLetters struct{ *recorder }

func (s deadLetters) List(_ context.Context, q ingest.DeadLetterQuery) ([]models.DeadLetter, error) {
	if err := s.record("List", q); err != nil {
		return nil, err
	}
	var list []models.DeadLetter
	for id := int64(3); id >= 1; id-- {
		if (q.Before == 0 || id < q.Before) && len(list) < q.Limit {
			l := models.DeadLetter{ID: id, Position: "0-1", Reason: "no bucket", Payload: []byte("{}"), QueuedAt: noon, FailedAt: noon}
			if id > 1 {
				l.Update = &models.QueuedUpdate{Board: "steps", Bucket: "20200101", Score: 7, ReachedAt: models.TimestampOf(noon)}
			}
			if id > 2 {
				l.Update.User, l.Update.Nickname = "a|b", "Ann"
			}
			list = append(list, l)
		}
	}
	return list, nil
}

func (s deadLetters) Replay(_ context.Context, id int64, dryRun bool) error {
	return s.record("Replay", id, dryRun)
}

func (s deadLetters) Delete(_ context.Context, id int64, dryRun bool) error {
	return s.record("Delete", id, dryRun)
}

// ReplaySelected applies two, fails with one, and has more.
func (s deadLetters) ReplaySelected(_ context.Context, q ingest.DeadLetterQuery, dryRun bool) (ingest.HandledDeadLetters, error) {
	return ingest.HandledDeadLetters{Done: 2, Failed: 1, Last: 7}, s.record("ReplaySelected", q, dryRun)
}

func (s deadLetters) DeleteSelected(_ context.Context, q ingest.DeadLetterQuery, dryRun bool) (ingest.HandledDeadLetters, error) {
	return ingest.HandledDeadLetters{Done: 3}, s.record("DeleteSelected", q, dryRun)
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{DeadLetters: deadLetters{r}} }
	const (
		list    = "GET /v1/admin/dead-letters"
		replay  = "POST /v1/admin/dead-letters/3/replay"
		discard = "DELETE /v1/admin/dead-letters/3"
	)
	letter := func(id, message string) string {
		return `{"id":"` + id + `","position":"0-1","reason":"no bucket",` + message +
			`,"queued_at":"2026-11-20T04:00:00.000Z","failed_at":"2026-11-20T04:00:00.000Z"}`
	}
	update := func(user, name string) string {
		return `"board":"steps","bucket":"20200101","user_id":` + user + `,"nickname":"` + name +
			`","score":7,"reached_at":"2026-11-20T04:00:00.000Z","payload":null`
	}
	const unreadable = `"board":null,"bucket":null,"user_id":null,"nickname":"","score":null,"reached_at":null,"payload":"e30="`
	letters := strings.Join([]string{letter("3", update(`"a|b"`, "Ann")), letter("2", update("null", "")), letter("1", unreadable)}, ",")
	listed, replayed, deleted := []string{"List {Board: Bucket: Reason: Before:0 Limit:51}"}, []string{"Replay 3 false"}, []string{"Delete 3 false"}
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, listed, `200 {"dead_letters":[` + letters + `],"next_cursor":null}`},
		{"list by another list's cursor", "admin", list + "?cursor=" + cursor(3, 1, "archives"), "", nil, nil, "400 invalid_cursor: …"},
		{"list some", "admin", list + "?board=steps&bucket=20200101&reason=no+bucket", "", nil, []string{"List {Board:steps Bucket:20200101 Reason:no bucket Before:0 Limit:51}"}, "200 …"},
		{"list by a board that is none", "admin", list + "?board=A", "", nil, nil, "422 validation_failed: query.board: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, the store is away", "admin", list, "", errUnavailable, listed, wantUnavailable},
		{"replay", "admin", replay, "", nil, replayed, "204"},
		{"replay, a dry run", "admin", replay + "?dry_run=true", "", nil, []string{"Replay 3 true"}, "204"},
		{"delete, a dry run", "admin", discard + "?dry_run=true", "", nil, []string{"Delete 3 true"}, "204"},
		{"replay one that does not exist", "admin", replay, "", models.Errorf(models.CodeNotFound, "none"), replayed, "404 not_found: none"},
		{"replay no id", "admin", "POST /v1/admin/dead-letters/0/replay", "", nil, nil, "422 validation_failed: path.id: …"},
		{"replay, an unknown error", "admin", replay, "", errUnknown, replayed, wantInternal},
		{"delete", "admin", discard, "", nil, deleted, "204"},
		{"delete no id", "admin", "DELETE /v1/admin/dead-letters/x", "", nil, nil, "422 validation_failed: path.id: …"},
		{"delete with a user's token", "1", discard, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"delete, an unknown error", "admin", discard, "", errUnknown, deleted, wantInternal},
	})
	checkPages(t, config, "admin", "GET /v1/admin/dead-letters?limit=1", []string{"List {Board: Bucket: Reason: Before:0 Limit:2}", "List {Board: Bucket: Reason: Before:3 Limit:2}", "List {Board: Bucket: Reason: Before:2 Limit:2}"})
}

func TestDeadLettersOfAFilter(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{DeadLetters: deadLetters{r}} }
	const (
		replay  = "POST /v1/admin/dead-letters/replay"
		discard = "POST /v1/admin/dead-letters/delete"
		some    = `{"filter":{"board":"steps","bucket":"20200101","reason":"no bucket"},"through":"9","reason":"it is back"}`
		all     = `{"filter":{}}`
	)
	runCases(t, config, []testCase{
		{"replay some", "admin", replay, some, nil, []string{"ReplaySelected {Board:steps Bucket:20200101 Reason:no bucket Before:10 Limit:1000} false"},
			`200 {"done":2,"failed":1,"next_through":"6"}`},
		{"replay all", "admin", replay, all, nil, []string{"ReplaySelected {Board: Bucket: Reason: Before:0 Limit:1000} false"}, "200 …"},
		{"replay, a dry run", "admin", replay + "?dry_run=true", all, nil, []string{"ReplaySelected {Board: Bucket: Reason: Before:0 Limit:1000} true"}, "200 …"},
		{"replay without a filter", "admin", replay, `{}`, nil, nil, "422 validation_failed: body: …"},
		{"replay without a body", "admin", replay, "", nil, nil, "422 validation_failed: body: is required"},
		{"replay through no id", "admin", replay, `{"filter":{},"through":"x"}`, nil, nil, "422 validation_failed: body.through: …"},
		{"replay, the store is away", "admin", replay, all, errUnavailable, []string{"ReplaySelected {Board: Bucket: Reason: Before:0 Limit:1000} false"}, wantUnavailable},
		{"delete some", "admin", discard, some, nil, []string{"DeleteSelected {Board:steps Bucket:20200101 Reason:no bucket Before:10 Limit:1000} false"},
			`200 {"done":3,"failed":0,"next_through":null}`},
		{"delete, a dry run", "admin", discard + "?dry_run=true", all, nil, []string{"DeleteSelected {Board: Bucket: Reason: Before:0 Limit:1000} true"}, "200 …"},
		{"delete with a service's token", "service", discard, all, nil, nil, "403 forbidden: this token may not make this call"},
	})
}
