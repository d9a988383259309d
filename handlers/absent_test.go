package handlers_test

import (
	"context"
	"testing"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// absent is a fake handlers.AbsentService that returns a page of one person.
type absent struct{ rankings }

func (s absent) list(method string, q ranking.Query, more ...any) (*ranking.Absent, error) {
	if _, err := s.page(method, q, more...); err != nil {
		return nil, err
	}
	date, next := "2026-11-19", "def"
	ben := models.PublicRecord{User: "1002", Nickname: "Ben", AvatarURL: models.URL{Rest: "https://x.example/b"}}
	return &ranking.Absent{Board: q.Board, Date: &date, Total: 7, People: []models.PublicRecord{ben}, NextCursor: &next}, nil
}

func (s absent) AbsentFriends(_ context.Context, q ranking.Query) (*ranking.Absent, error) {
	return s.list("AbsentFriends", q)
}

func (s absent) AbsentMembers(_ context.Context, q ranking.Query, group models.GroupID) (*ranking.Absent, error) {
	return s.list("AbsentMembers", q, group)
}

func TestAbsent(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Absent: absent{rankings{recorder: r}}} }
	const (
		friends = "GET /v1/boards/steps/friends/absent"
		members = "GET /v1/boards/steps/groups/team/absent"
		ben     = `200 {"board":"steps","date":"2026-11-19","total":7,` +
			`"entries":[{"user_id":"1002","nickname":"Ben","avatar_url":"https://x.example/b"}],"next_cursor":"def"}`
	)
	today := []string{`AbsentFriends steps today viewer=1001 limit=50 cursor=""`}
	runCases(t, config, []testCase{
		{"friends", "1001", friends, "", nil, today, ben},
		{"friends, a page of a past day", "1001", friends + "?date=2026-11-19&limit=1&cursor=abc", "", nil,
			[]string{`AbsentFriends steps 2026-11-19 viewer=1001 limit=1 cursor="abc"`}, ben},
		{"friends, a service for a user", "service", friends + "?user_id=1001", "", nil, today, ben},
		{"friends, a service for nobody", "service", friends, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"friends of another", "1001", friends + "?user_id=1002", "", nil, nil, "403 forbidden: a user acts only for oneself"},
		{"friends on no date", "1001", friends + "?date=x", "", nil, nil, "422 validation_failed: query.date: …"},
		{"friends of a span", "1001", friends + "?from=2026-11-19", "", nil, nil, "422 validation_failed: query.from: …"},
		{"friends, the store is away", "1001", friends, "", errUnavailable, today, wantUnavailable},
		{"members at an offset", "1001", members + "?utc_offset=+08:00", "", nil,
			[]string{`AbsentMembers steps today+08:00 viewer=1001 limit=50 cursor="" team`}, ben},
		{"members, too large a page", "1001", members + "?limit=201", "", nil, nil, "422 validation_failed: query.limit: …"},
		{"members, not one of them", "1001", members, "", models.Errorf(models.CodeNotFound, "no member"),
			[]string{`AbsentMembers steps today viewer=1001 limit=50 cursor="" team`}, "404 not_found: no member"},
	})
}
