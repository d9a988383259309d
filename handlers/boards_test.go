package handlers_test

import (
	"testing"
	"time"

	"stepboard/handlers"
	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// buckets is a fake of handlers.CurrentBuckets and handlers.BucketFinder. The
// board "old" ended yesterday, and window is a rolling one.
type buckets struct{ *recorder }

func (s buckets) Current(b *catalog.Board, now time.Time, offset models.UTCOffset) (*models.Bucket, error) {
	day := models.DateOf(now)
	if b.TimeZone == models.LocalZone {
		today, ok := offset.Today(now)
		if !ok {
			return nil, models.Errorf(models.CodeOffsetRequired, "send utc_offset")
		}
		day = today
	}
	if b.Name == "old" {
		day--
	}
	starts := day.UTC().Add(-8 * time.Hour)
	return &models.Bucket{
		Board: b.Name, Name: day.UTC().Format("20060102"), TickMS: 1, WindowHours: b.WindowHours, Day: day,
		StartsAt: starts, EndsAt: starts.Add(24 * time.Hour), ClosesAt: starts.Add(24 * time.Hour),
	}, nil
}

func (s buckets) ExtendableUntil(b *catalog.Board) *time.Time {
	if b.EndsAt == nil {
		return nil
	}
	until := b.EndsAt.Add(24 * time.Hour)
	return &until
}

const (
	stepsBoard = `"name":"steps","kind":"daily","time_zone":"Asia/Shanghai","open_days":2,"max_score":100000,"unit":"","tick_ms":1,"order":"high","global":"users","uploads":"users","window_hours":null,` +
		`"current":{"date":"2026-11-20","starts_at":"2026-11-19T16:00:00.000Z","ends_at":"2026-11-20T16:00:00.000Z","closes_at":"2026-11-20T16:00:00.000Z"},"takes":"best","closes_at":null,"final":false`
	oldBoard = `"name":"old","kind":"daily","time_zone":"Asia/Shanghai","open_days":2,"max_score":100000,"unit":"","tick_ms":1,"order":"high","global":"users","uploads":"users","window_hours":null,` +
		`"current":{"date":"2026-11-19","starts_at":"2026-11-18T16:00:00.000Z","ends_at":"2026-11-19T16:00:00.000Z","closes_at":"2026-11-19T16:00:00.000Z"},"takes":"best","closes_at":null,"final":true`
	windowBoard = `"name":"window","kind":"rolling","time_zone":"Asia/Shanghai","open_days":null,"max_score":100000,"unit":"","tick_ms":1000,"order":"high","global":"service","uploads":null,"window_hours":24,` +
		`"current":{"date":null,"starts_at":null,"ends_at":null,"closes_at":null},"takes":"sum","closes_at":null,"final":false`
)

func TestListBoards(t *testing.T) {
	t.Parallel()
	list := []*catalog.Board{newBoard(t, "old", nil), newBoard(t, "steps", nil), newBoard(t, "window", func(b *models.Board) {
		b.Kind, b.OpenDays, b.WindowHours, b.Global = models.KindRolling, 0, 24, models.AudienceService
	})}
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Boards: boards{r, list}, Buckets: buckets{r}}
	}
	all := `200 {"boards":[{` + oldBoard + `},{` + stepsBoard + `},{` + windowBoard + `}]}`
	runCases(t, config, []testCase{
		{"a user", "1001", "GET /v1/boards", "", nil, nil, all},
		{"a service", "service", "GET /v1/boards", "", nil, nil, all},
		{"an operator", "admin", "GET /v1/boards", "", nil, nil, all},
		{"nobody", "", "GET /v1/boards", "", nil, nil, "401 unauthenticated: send a token: Authorization: Bearer …"},
		{"for another", "1001", "GET /v1/boards?user_id=1002", "", nil, nil, "403 forbidden: a user acts only for oneself"},
	})
}

// A board whose days are each user's own has a current day at an offset only.
func TestListLocalBoards(t *testing.T) {
	t.Parallel()
	local := newBoard(t, "walk", func(b *models.Board) { b.TimeZone = models.LocalZone })
	config := func(r *recorder) handlers.Config {
		return handlers.Config{Boards: boards{r, []*catalog.Board{local}}, Buckets: buckets{r}}
	}
	const (
		board = `200 {"boards":[{"name":"walk","kind":"daily","time_zone":"local","open_days":2,"max_score":100000,"unit":"","tick_ms":1,"order":"high","global":"users","uploads":"users","window_hours":null,`
		none  = board + `"current":{"date":null,"starts_at":null,"ends_at":null,"closes_at":null},"takes":"best","closes_at":null,"final":false}]}`
	)
	runCases(t, config, []testCase{
		{"without an offset", "1001", "GET /v1/boards", "", nil, nil, none},
		{"in the east", "1001", "GET /v1/boards?utc_offset=%2B14:00", "", nil, nil, board + `"current":{"date":"2026-11-20","starts_at":"2026-11-19T10:00:00.000Z","ends_at":"2026-11-20T10:00:00.000Z","closes_at":"2026-11-20T16:00:00.000Z"},"takes":"best","closes_at":null,"final":false}]}`},
		{"a plus that became a space", "1001", "GET /v1/boards?utc_offset=+08:00", "", nil, nil, board + `"current":{"date":"2026-11-20","starts_at":"2026-11-19T16:00:00.000Z","ends_at":"2026-11-20T16:00:00.000Z",…`},
		{"in the west", "1001", "GET /v1/boards?utc_offset=-12:00", "", nil, nil, board + `"current":{"date":"2026-11-19","starts_at":"2026-11-19T12:00:00.000Z","ends_at":"2026-11-20T12:00:00.000Z",…`},
		{"no offset", "1001", "GET /v1/boards?utc_offset=Shanghai", "", nil, nil, "422 validation_failed: query.utc_offset: …"},
		{"too far", "1001", "GET /v1/boards?utc_offset=%2B14:01", "", nil, nil, "422 validation_failed: query.utc_offset: …"},
		{"an operator", "admin", "GET /v1/admin/boards/walk", "", nil, nil, `200 {"name":"walk","kind":"daily","time_zone":"local",…`},
	})
}

func TestListNoBoards(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config { return handlers.Config{Boards: boards{recorder: r}} }
	runCases(t, config, []testCase{{"none", "1001", "GET /v1/boards", "", nil, nil, `200 {"boards":[]}`}})
}

func TestDefineAndShowBoards(t *testing.T) {
	t.Parallel()
	config := func(r *recorder) handlers.Config {
		gifts := newBoard(t, "gifts", func(b *models.Board) {
			ends := noon.Add(48 * time.Hour)
			b.Kind, b.OpenDays, b.StartsAt, b.EndsAt, b.Late = models.KindEvent, 0, &noon, &ends, time.Hour
		})
		return handlers.Config{Boards: boards{r, []*catalog.Board{newBoard(t, "steps", nil), gifts}}, Buckets: buckets{r}}
	}
	const (
		define = "POST /v1/admin/boards"
		show   = "GET /v1/admin/boards/steps"
		steps  = `{"name":"steps","kind":"daily","max_score":100000}`
	)
	add := []string{"Add steps daily Asia/Shanghai 2 100000 high 1 users <nil> <nil> 0 true 0"}
	runCases(t, config, []testCase{
		{"a daily board, with defaults", "admin", define, steps, nil, add,
			`201 {` + stepsBoard + `,"shards":1,"change_stream":true,"review_above":0,"hold_above":0,"created_at":"0001-01-01T00:00:00.000Z"}`},
		{"a dry run", "admin", define + "?dry_run=true", steps, nil, []string{"try " + add[0]},
			`200 {` + stepsBoard + `,"shards":1,"change_stream":true,"review_above":0,"hold_above":0,"created_at":"2026-11-20T04:00:00.000Z"}`},
		{"a daily board that takes today only", "admin", define, `{"name":"steps","kind":"daily","max_score":100000,"open_days":0}`, nil,
			[]string{"Add steps daily Asia/Shanghai 0 100000 high 1 users <nil> <nil> 0 true 0"},
			`201 {"name":"steps","kind":"daily","time_zone":"Asia/Shanghai","open_days":0,…`},
		{"too many open days", "admin", define, `{"name":"a","kind":"daily","max_score":1,"open_days":31}`, nil, nil,
			"422 validation_failed: body.open_days: …"},
		{"negative open days", "admin", define, `{"name":"a","kind":"daily","max_score":1,"open_days":-1}`, nil, nil,
			"422 validation_failed: body.open_days: …"},
		{"a rolling board", "admin", define, `{"name":"window","kind":"rolling","max_score":100000,"window":24,"global":"service"}`, nil,
			[]string{"Add window rolling Asia/Shanghai 0 100000 high 1 service <nil> <nil> 24 false 0"}, `201 {` + windowBoard + `,…`},
		{"a board without a change stream", "admin", define, `{"name":"steps","kind":"daily","max_score":100000,"change_stream":false}`, nil,
			[]string{"Add steps daily Asia/Shanghai 2 100000 high 1 users <nil> <nil> 0 false 0"}, `201 {` + stepsBoard + `,"shards":1,"change_stream":false,…`},
		{"a board with reviews", "admin", define, `{"name":"steps","kind":"daily","max_score":100000,"review_above":60000}`, nil,
			[]string{"Add steps daily Asia/Shanghai 2 100000 high 1 users <nil> <nil> 0 true 60000"},
			`201 {` + stepsBoard + `,"shards":1,"change_stream":true,"review_above":60000,"hold_above":0,…`},
		{"a board with a unit", "admin", define, `{"name":"steps","kind":"daily","max_score":100000,"unit":"步"}`, nil,
			[]string{add[0] + " 步"}, `201 {"name":"steps","kind":"daily","time_zone":"Asia/Shanghai","open_days":2,"max_score":100000,"unit":"步",…`},
		{"a board that ranks the lowest score first", "admin", define, `{"name":"steps","kind":"daily","max_score":100000,"order":"low"}`, nil,
			[]string{"Add steps daily Asia/Shanghai 2 100000 low 1 users <nil> <nil> 0 true 0"},
			`201 {"name":"steps","kind":"daily","time_zone":"Asia/Shanghai","open_days":2,"max_score":100000,"unit":"","tick_ms":1,"order":"low",…`},
		{"another order", "admin", define, `{"name":"a","kind":"daily","max_score":1,"order":"up"}`, nil, nil, "422 validation_failed: body.order: …"},
		{"too long a unit", "admin", define, `{"name":"a","kind":"daily","max_score":1,"unit":"123456789012345678901"}`, nil, nil,
			"422 validation_failed: body.unit: …"},
		{"a negative hold_above", "admin", define, `{"name":"a","kind":"daily","max_score":1,"hold_above":-1}`, nil, nil,
			"422 validation_failed: body.hold_above: …"},
		{"a negative review_above", "admin", define, `{"name":"a","kind":"daily","max_score":1,"review_above":-1}`, nil, nil,
			"422 validation_failed: body.review_above: …"},
		{"no name", "admin", define, `{"kind":"daily","max_score":1}`, nil, nil, "422 validation_failed: body: …"},
		{"another kind", "admin", define, `{"name":"a","kind":"weekly","max_score":1}`, nil, nil, "422 validation_failed: body.kind: …"},
		{"no JSON", "admin", define, `{`, nil, nil, "400 invalid_request: the body is not JSON, or names a key twice"},
		{"no body", "admin", define, "", nil, nil, "422 validation_failed: body: is required"},
		{"one that exists", "admin", define, steps, models.Errorf(models.CodeBoardExists, "it exists"), add, "409 board_exists: it exists"},
		{"an unknown error", "admin", define, steps, errUnknown, add, wantInternal},
		{"a user's token", "1001", define, steps, nil, nil, "403 forbidden: this token may not make this call"},
		{"show a board", "admin", show, "", nil, nil,
			`200 {` + stepsBoard + `,"shards":1,"change_stream":false,"review_above":0,"hold_above":0,"created_at":"2026-11-20T03:00:00.000Z"}`},
		{"move an end", "admin", "PUT /v1/admin/boards/steps", `{"end":"2026-12-24T15:00:00Z"}`, nil,
			[]string{"MoveEnd steps 2026-12-24 15:00:00 +0000 UTC"}, `200 {` + stepsBoard + `,…`},
		{"move an end, dry", "admin", "PUT /v1/admin/boards/steps?dry_run=true", `{"end":"2026-12-24T15:00:00Z"}`, nil,
			[]string{"try MoveEnd steps 2026-12-24 15:00:00 +0000 UTC"}, `200 {` + stepsBoard + `,…`},
		{"move the end of an event, dry", "admin", "PUT /v1/admin/boards/gifts?dry_run=true", `{"end":"2026-12-24T15:00:00Z"}`, nil,
			[]string{"try MoveEnd gifts 2026-12-24 15:00:00 +0000 UTC"}, `200 {"name":"gifts","kind":"event","time_zone":"Asia/Shanghai","open_days":null,"max_score":100000,"unit":"","tick_ms":1,"order":"high","global":"users","uploads":null,"window_hours":null,"current":{"date":null,"starts_at":"2026-11-19T16:00:00.000Z","ends_at":"2026-11-22T04:00:00.000Z","closes_at":"2026-11-22T05:00:00.000Z"},"takes":"sum","closes_at":"2026-11-22T05:00:00.000Z",…`},
		{"move the end of a final event", "admin", "PUT /v1/admin/boards/steps", `{"end":"2026-12-24T15:00:00Z"}`,
			models.Errorf(models.CodeEventFinal, "it is final"), []string{"MoveEnd steps 2026-12-24 15:00:00 +0000 UTC"}, "409 event_final: it is final"},
		{"move an end to nothing", "admin", "PUT /v1/admin/boards/steps", `{}`, nil, nil, "422 validation_failed: body: …"},
		{"move an end as a backend", "service", "PUT /v1/admin/boards/steps", `{"end":"2026-12-24T15:00:00Z"}`, nil, nil,
			"403 forbidden: this token may not make this call"},
		{"late that is no duration", "admin", define, `{"name":"a","kind":"event","max_score":1,"late":"x"}`, nil, nil,
			"422 validation_failed: body.late: …"},
		{"show an unknown board", "admin", "GET /v1/admin/boards/nix", "", nil, nil, "404 board_not_found: no board nix"},
		{"show a board to a user", "1001", show, "", nil, nil, "403 forbidden: this token may not make this call"},
		{"show a board to a service", "service", show, "", nil, nil, "403 forbidden: this token may not make this call"},
	})
}
