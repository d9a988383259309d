package handlers_test

import (
	"context"
	"strings"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
)

// deadLetters is a fake handlers.DeadLetterService with the dead letters 3, 2
// and 1. The first is an update of user "a|b", the second one of a user that does not
// exist, and the third can't be decoded.
type deadLetters struct{ *recorder }

func (s deadLetters) List(_ context.Context, before int64, limit int) ([]models.DeadLetter, error) {
	if err := s.record("List", before, limit); err != nil {
		return nil, err
	}
	var list []models.DeadLetter
	for id := int64(3); id >= 1; id-- {
		if (before == 0 || id < before) && len(list) < limit {
			l := models.DeadLetter{ID: id, Position: "0-1", Reason: "no bucket", Payload: []byte("{}"), QueuedAt: noon, FailedAt: noon}
			if id > 1 {
				l.Update = &models.QueuedUpdate{Board: "steps", Bucket: "20200101", Score: 7, ReachedAt: models.TimestampOf(noon)}
			}
			if id > 2 {
				l.Update.User = "a|b"
			}
			list = append(list, l)
		}
	}
	return list, nil
}

func (s deadLetters) Replay(_ context.Context, id int64) error { return s.record("Replay", id) }

func (s deadLetters) Delete(_ context.Context, id int64) error { return s.record("Delete", id) }

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
	update := func(user string) string {
		return `"board":"steps","bucket":"20200101","user_id":` + user +
			`,"score":7,"reached_at":"2026-11-20T04:00:00.000Z","payload":null`
	}
	const unreadable = `"board":null,"bucket":null,"user_id":null,"score":null,"reached_at":null,"payload":"e30="`
	letters := strings.Join([]string{letter("3", update(`"a|b"`)), letter("2", update("null")), letter("1", unreadable)}, ",")
	listed, replayed, deleted := []string{"List 0 51"}, []string{"Replay 3"}, []string{"Delete 3"}
	runCases(t, config, []testCase{
		{"list", "admin", list, "", nil, listed, `200 {"dead_letters":[` + letters + `],"next_cursor":null}`},
		{"list by another list's cursor", "admin", list + "?cursor=" + cursor(3, 1, "archives"), "", nil, nil, "400 invalid_cursor: …"},
		{"list with a service's token", "service", list, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"list, the store is away", "admin", list, "", errUnavailable, listed, wantUnavailable},
		{"replay", "admin", replay, "", nil, replayed, "204"},
		{"replay one that does not exist", "admin", replay, "", models.Errorf(models.CodeNotFound, "none"), replayed, "404 not_found: none"},
		{"replay no id", "admin", "POST /v1/admin/dead-letters/0/replay", "", nil, nil, "422 validation_failed: path.id: …"},
		{"replay, an unknown error", "admin", replay, "", errUnknown, replayed, wantInternal},
		{"delete", "admin", discard, "", nil, deleted, "204"},
		{"delete no id", "admin", "DELETE /v1/admin/dead-letters/x", "", nil, nil, "422 validation_failed: path.id: …"},
		{"delete with a user's token", "1", discard, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"delete, an unknown error", "admin", discard, "", errUnknown, deleted, wantInternal},
	})
}

func TestPagesOfDeadLetters(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{DeadLetters: deadLetters{r}} }
	checkPages(t, config, "admin", "GET /v1/admin/dead-letters?limit=1", []string{"List 0 2", "List 3 2", "List 2 2"})
}
