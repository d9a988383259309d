package handlers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/rankings/ranking"
)

// rankings is a fake handlers.RankingService that returns an empty ranking, or
// the place of a user.
type rankings struct {
	*recorder
	summary ranking.Standing
}

func (s rankings) page(method string, q ranking.Query, more ...any) (*models.Ranking, error) {
	date := "today" + q.Offset.String()
	if q.Date != nil {
		date = q.Date.String()
	}
	if q.Span != nil {
		date = q.Span.From.String() + " to " + date
		if q.Span.To != nil {
			date = q.Span.From.String() + " to " + q.Span.To.String()
		}
	}
	query := fmt.Sprintf("%s %s viewer=%v limit=%d cursor=%q", q.Board, date, q.Viewer, q.Limit, q.Cursor)
	if q.Current {
		query += " with every write"
	}
	if err := s.record(method, append([]any{query}, more...)...); err != nil {
		return nil, err
	}
	return &models.Ranking{Board: q.Board, Source: "hot", Entries: []models.RankedEntry{}}, nil
}

func (s rankings) Friends(_ context.Context, q ranking.Query) (*models.Ranking, error) {
	return s.page("Friends", q)
}

func (s rankings) Group(_ context.Context, q ranking.Query, group models.GroupID) (*models.Ranking, error) {
	return s.page("Group", q, group)
}

func (s rankings) Top(_ context.Context, q ranking.Query) (*models.Ranking, error) {
	return s.page("Top", q)
}

func (s rankings) Around(_ context.Context, q ranking.Query, radius int) (*models.Ranking, error) {
	return s.page("Around", q, radius)
}

func (s rankings) Me(_ context.Context, q ranking.Query) (*ranking.Standing, error) {
	_, err := s.page("Me", q)
	return &s.summary, err
}

// boards is a fake handlers.BoardService and finds their buckets.
type boards struct {
	*recorder
	list []*catalog.Board
}

func (s boards) Board(name string) (*catalog.Board, error) {
	for _, b := range s.list {
		if b.Name == name {
			return b, nil
		}
	}
	return nil, models.Errorf(models.CodeBoardNotFound, "no board %s", name)
}

func (s boards) Boards() []*catalog.Board { return s.list }

func (s boards) Add(_ context.Context, def models.Board, dryRun bool) (*catalog.Board, error) {
	call := "Add"
	if dryRun {
		call = "try Add"
	}
	args := []any{
		def.Name, def.Kind, def.TimeZone, def.OpenDays, def.MaxScore, def.Order, def.Shards, def.Global,
		def.StartsAt, def.EndsAt, def.WindowHours, def.ChangeStream, def.ReviewAbove,
	}
	if def.Unit != "" {
		args = append(args, def.Unit)
	}
	if def.Uploads != models.AudienceUsers {
		args = append(args, def.Uploads)
	}
	if err := s.record(call, args...); err != nil {
		return nil, err
	}
	return catalog.NewBoard(def)
}

func (s boards) MoveEnd(_ context.Context, name string, end time.Time, dryRun bool) (*catalog.Board, error) {
	call := "MoveEnd"
	if dryRun {
		call = "try MoveEnd"
	}
	if err := s.record(call, name, end); err != nil {
		return nil, err
	}
	return s.Board(name)
}

// newBoard returns a board of days in Shanghai, changed by change.
func newBoard(t *testing.T, name string, change func(*models.Board)) *catalog.Board {
	t.Helper()
	def := models.Board{
		Name: name, Kind: models.KindDaily, TimeZone: "Asia/Shanghai", OpenDays: 2, MaxScore: 100_000, Shards: 1, Global: models.AudienceUsers,
		CreatedAt: noon.Add(-time.Hour),
	}
	if change != nil {
		change(&def)
	}
	b, err := catalog.NewBoard(def)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRankings(t *testing.T) {
	t.Parallel()
	secret := newBoard(t, "secret", func(b *models.Board) { b.Global = models.AudienceService })
	config := func(r *recorder) handlers.Config {
		return handlers.Config{
			Rankings: rankings{recorder: r},
			Boards:   boards{recorder: r, list: []*catalog.Board{newBoard(t, "steps", nil), secret}},
		}
	}
	const (
		friends = "GET /v1/boards/steps/friends"
		top     = "GET /v1/boards/steps/top"
		around  = "GET /v1/boards/steps/around"
		empty   = `200 {"board":"steps","date":null,"source":"hot","final":false,"total":0,"me":null,"champion":null,"entries":[],"next_cursor":null}`
	)
	calls := func(call string) []string { return []string{call} }
	today := calls(`Friends steps today viewer=1001 limit=50 cursor=""`)
	topToday := calls(`Top steps today viewer=1001 limit=50 cursor=""`)
	aroundToday := calls(`Around steps today viewer=1001 limit=0 cursor="" 5`)
	forbidden := "403 forbidden: this board shows its global lists to services only"
	runCases(t, config, []testCase{
		{"friends", "1001", friends, "", nil, today, empty},
		{"friends, a page of a past day", "1001", friends + "?date=2026-11-19&limit=2&cursor=abc", "", nil,
			calls(`Friends steps 2026-11-19 viewer=1001 limit=2 cursor="abc"`), empty},
		{"friends, a service for a user", "service", friends + "?user_id=1001", "", nil, today, empty},
		{"friends, a service for nobody", "service", friends, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"friends of another", "1001", friends + "?user_id=1002", "", nil, nil, "403 forbidden: a user acts only for oneself"},
		{"friends on no date", "1001", friends + "?date=today", "", nil, nil, "422 validation_failed: query.date: …"},
		{"friends, too large a page", "1001", friends + "?limit=201", "", nil, nil, "422 validation_failed: query.limit: …"},
		{"friends, the store is away", "1001", friends, "", errUnavailable, today, wantUnavailable},
		{"friends, an unknown error", "1001", friends, "", errUnknown, today, wantInternal},

		{"friends, a span", "1001", friends + "?from=2026-11-16&to=2026-11-22&limit=2", "", nil,
			calls(`Friends steps 2026-11-16 to 2026-11-22 viewer=1001 limit=2 cursor=""`), empty},
		{"friends, a span up to today", "1001", friends + "?from=2026-11-16", "", nil,
			calls(`Friends steps 2026-11-16 to today viewer=1001 limit=50 cursor=""`), empty},
		{"friends, a span without its first day", "1001", friends + "?to=2026-11-22", "", nil, nil,
			"422 validation_failed: query.from: a span needs its first day"},
		{"friends, a span from no date", "1001", friends + "?from=x", "", nil, nil, "422 validation_failed: query.from: …"},
		{"friends, a span to no date", "1001", friends + "?from=2026-11-16&to=x", "", nil, nil, "422 validation_failed: query.to: …"},
		{"friends, too large a span", "1001", friends + "?from=2026-11-16", "", models.Errorf(models.CodeSpanTooLarge, "fewer days"),
			calls(`Friends steps 2026-11-16 to today viewer=1001 limit=50 cursor=""`), "422 span_too_large: fewer days"},
		{"group, a span", "1001", "GET /v1/boards/steps/groups/team?from=2026-11-16&to=2026-11-22", "", nil,
			calls(`Group steps 2026-11-16 to 2026-11-22 viewer=1001 limit=50 cursor="" team`), empty},
		{"top, a span", "1001", top + "?from=2026-11-16", "", nil, nil, "422 validation_failed: query.from: …"},
		{"friends at an offset", "1001", friends + "?utc_offset=+08:00", "", nil,
			calls(`Friends steps today+08:00 viewer=1001 limit=50 cursor=""`), empty},
		{"friends at no offset", "1001", friends + "?utc_offset=8", "", nil, nil, "422 validation_failed: query.utc_offset: …"},
		{"friends without the offset that they need", "1001", friends, "", models.Errorf(models.CodeOffsetRequired, "send utc_offset"), today,
			"422 utc_offset_required: send utc_offset"},
		{"top at an offset", "1001", top + "?utc_offset=-12:00", "", nil, calls(`Top steps today-12:00 viewer=1001 limit=50 cursor=""`), empty},
		{"around at an offset", "1001", around + "?utc_offset=-12:00", "", nil,
			calls(`Around steps today-12:00 viewer=1001 limit=0 cursor="" 5`), empty},
		{"top", "1001", top, "", nil, topToday, empty},
		{"top, a page of a past day", "1001", top + "?date=2026-11-19&limit=2&cursor=abc", "", nil,
			calls(`Top steps 2026-11-19 viewer=1001 limit=2 cursor="abc"`), empty},
		{"top, a service for nobody", "service", top, "", nil, calls(`Top steps today viewer= limit=50 cursor=""`), empty},
		{"top, an operator", "admin", top, "", nil, calls(`Top steps today viewer= limit=50 cursor=""`), empty},
		{"top for another", "1001", top + "?user_id=1002", "", nil, nil, "403 forbidden: a user acts only for oneself"},
		{"top on no date", "1001", top + "?date=x", "", nil, nil, "422 validation_failed: query.date: …"},
		{"top of an unknown board", "1001", "GET /v1/boards/nix/top", "", nil, nil, "404 board_not_found: no board nix"},
		{"top of a board for services, a user", "1001", "GET /v1/boards/secret/top", "", nil, nil, forbidden},
		{"top of a board for services, a service", "service", "GET /v1/boards/secret/top", "", nil,
			calls(`Top secret today viewer= limit=50 cursor=""`), `200 {"board":"secret",…`},
		{"top, an unknown error", "1001", top, "", errUnknown, topToday, wantInternal},

		{"around", "1001", around, "", nil, aroundToday, empty},
		{"around, more on a past day", "1001", around + "?date=2026-11-19&radius=9", "", nil,
			calls(`Around steps 2026-11-19 viewer=1001 limit=0 cursor="" 9`), empty},
		{"around, too many", "1001", around + "?radius=51", "", nil, nil, "422 validation_failed: query.radius: …"},
		{"around nobody", "service", around, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"around on no date", "1001", around + "?date=x", "", nil, nil, "422 validation_failed: query.date: …"},
		{"around on an unknown board", "1001", "GET /v1/boards/nix/around", "", nil, nil, "404 board_not_found: no board nix"},
		{"around on a board for services, a user", "1001", "GET /v1/boards/secret/around", "", nil, nil, forbidden},
		{"around, an unknown error", "1001", around, "", errUnknown, aroundToday, wantInternal},
	})
}

func TestMe(t *testing.T) {
	t.Parallel()
	score, reached, rank, percentile := int64(5), models.TimestampOf(noon), int64(2), 50.5
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Rankings: rankings{r, ranking.Standing{
			Score: &score, ReachedAt: &reached, GlobalRank: &rank, GlobalTotal: 3, FriendsRank: nil, FriendsTotal: 1, Percentile: &percentile,
		}}}
	}
	const request = "GET /v1/boards/steps/me"
	today := []string{`Me steps today viewer=1001 limit=0 cursor=""`}
	runCases(t, config, []testCase{
		{"a user", "1001", request, "", nil, today, `200 {"score":5,"reached_at":"2026-11-20T04:00:00.000Z","global_rank":2,"global_total":3,` +
			`"friends_rank":null,"friends_total":1,"percentile":50.5,"correction":null,"held":null}`},
		{"a past day", "1001", request + "?date=2026-11-19", "", nil, []string{`Me steps 2026-11-19 viewer=1001 limit=0 cursor=""`}, "200 …"},
		{"a service for nobody", "service", request, "", nil, nil,
			"422 validation_failed: query.user_id: a service token must name the user that it acts for"},
		{"no date", "1001", request + "?date=x", "", nil, nil, "422 validation_failed: query.date: …"},
		{"an unknown parameter", "1001", request + "?day=x", "", nil, nil, "422 validation_failed: query.day: …"},
		{"the store is away", "1001", request, "", errUnavailable, today, wantUnavailable},
	})
}
