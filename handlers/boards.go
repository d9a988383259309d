package handlers

import (
	"context"
	"net/http"
	"time"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/operations/audit"
)

// BoardFinder finds a board by its name.
type BoardFinder interface {
	Board(name string) (*catalog.Board, error)
}

// BoardService lists and defines boards.
type BoardService interface {
	BoardFinder
	Boards() []*catalog.Board
	Add(ctx context.Context, def models.Board, dryRun bool) (*catalog.Board, error)
	MoveEnd(ctx context.Context, name string, end time.Time, dryRun bool) (*catalog.Board, error)
}

// CurrentBuckets returns the bucket of a board that counts at a moment.
type CurrentBuckets interface {
	Current(b *catalog.Board, now time.Time, offset models.UTCOffset) (*models.Bucket, error)
	ExtendableUntil(b *catalog.Board) *time.Time
}

// boardHandlers serves the definitions of boards.
type boardHandlers struct {
	boards  BoardService
	buckets CurrentBuckets
	clock   models.Clock
}

// Board is a board as it is shown to every caller.
type Board struct {
	Name        string            `json:"name" doc:"The board's name"`
	Kind        models.Kind       `json:"kind" enum:"daily,event,rolling" doc:"daily: a total for each day, the best counts; event: increments, from its start to its end; rolling: those of the last hours add up"`
	TimeZone    string            `json:"time_zone" doc:"The zone that fixes its days, or local: each user's own calendar does" example:"Asia/Shanghai"`
	OpenDays    *int              `json:"open_days" doc:"How many days before today take uploads on a daily board; null on other boards"`
	MaxScore    int64             `json:"max_score" doc:"The largest score that is accepted"`
	Unit        string            `json:"unit" doc:"What the scores count, a word for people; empty if the definition has none" example:"steps"`
	TickMS      int64             `json:"tick_ms" enum:"1,1000,60000,3600000" doc:"The resolution of reached_at in milliseconds: of an event, or of a board's next day"`
	Order       models.Order      `json:"order" enum:"high,low" doc:"Which score ranks first, and is the best of a day: the highest or the lowest"`
	Global      models.Audience   `json:"global" enum:"users,service" doc:"Who may read top and around"`
	Uploads     *models.Audience  `json:"uploads" nullable:"true" enum:"users,service" doc:"Whose tokens may upload scores to a daily board; null on other boards, which take increments"`
	WindowHours *int              `json:"window_hours" doc:"How many hours count on a rolling board, including the current one; null on other boards"`
	Current     currentBucket     `json:"current" doc:"The period that counts now: a day, or the whole event"`
	Takes       models.Takes      `json:"takes" enum:"sum,best" doc:"sum: increments add up; best: the best counts"`
	ClosesAt    *models.Timestamp `json:"closes_at" format:"date-time" doc:"When an event takes its last increments, those that say when they occurred; null on other boards"`
	Final       bool              `json:"final" doc:"True once the board accepts no more updates"`
	// For operators.
	Late            *string           `json:"late,omitempty" nullable:"false" example:"48h0m0s" doc:"How long after it occurred an event takes an increment. For operators"`
	ExtendableUntil *models.Timestamp `json:"extendable_until,omitempty" nullable:"false" format:"date-time" doc:"Up to when the end of an event can be moved. For operators"`
}

type currentBucket struct {
	Date     *string           `json:"date" nullable:"true" format:"date" example:"2026-11-20" doc:"Today, in the board's zone or at utc_offset; null if the board has no days, or local ones and no utc_offset was sent"`
	StartsAt *models.Timestamp `json:"starts_at" format:"date-time" nullable:"true" doc:"When it began or begins; null on a rolling board and where the date is unknown. A local day begins at midnight of utc_offset"`
	EndsAt   *models.Timestamp `json:"ends_at" format:"date-time" nullable:"true" doc:"When it ends; null likewise. A local day ends at midnight of utc_offset"`
	ClosesAt *models.Timestamp `json:"closes_at" format:"date-time" nullable:"true" doc:"When it stops accepting updates, from everybody; null likewise"`
}

// of returns the board as it is shown to a caller whose clock has the given offset.
func (h *boardHandlers) of(b *catalog.Board, offset models.UTCOffset) (Board, error) {
	answer := Board{Name: b.Name, Kind: b.Kind, TimeZone: b.TimeZone, MaxScore: b.MaxScore, Unit: b.Unit, TickMS: b.TickMS(), Order: b.Order, Global: b.Global, Takes: b.Takes}
	if b.RequireDays() == nil {
		answer.OpenDays, answer.Uploads = &b.OpenDays, &b.Uploads
	}
	now := h.clock()
	bucket, err := h.buckets.Current(b, now, offset)
	if models.CodeOf(err) == models.CodeOffsetRequired {
		return answer, nil
	}
	if err != nil {
		return Board{}, err
	}
	answer.Final = bucket.Final(now)
	if bucket.Event() {
		answer.ClosesAt, answer.TickMS = timestampIfAny(&bucket.ClosesAt), bucket.TickMS
	}
	answer.Current.Date = dateIfAny(b.Date(bucket))
	if bucket.WindowHours > 0 {
		answer.WindowHours = &bucket.WindowHours
		return answer, nil
	}
	starts, ends := b.Times(bucket, offset)
	answer.Current.StartsAt, answer.Current.EndsAt = timestampIfAny(&starts), timestampIfAny(&ends)
	answer.Current.ClosesAt = timestampIfAny(&bucket.ClosesAt)
	return answer, nil
}

// addForOperators adds what only operators see of a board.
func (h *boardHandlers) addForOperators(answer *Board, b *catalog.Board) {
	if until := h.buckets.ExtendableUntil(b); until != nil {
		late := b.Late.String()
		answer.Late, answer.ExtendableUntil = &late, timestampIfAny(until)
	}
}

var listBoards = operation{
	id:          "listBoards",
	summary:     "List the boards",
	description: "Every board with its limits, its time zone and its current day. A board with time_zone local has a current day at `?utc_offset=+08:00` only.",
}

type boards struct {
	Boards []Board `json:"boards" nullable:"false" doc:"By name"`
}

type boardsInput struct {
	LocalTime
	OnBehalf
}

func (h *boardHandlers) list(ctx context.Context, in *boardsInput) (*output[boards], error) {
	if _, err := in.userIfAny(ctx); err != nil {
		return nil, err
	}
	offset, err := in.offset()
	if err != nil {
		return nil, err
	}
	list := boards{Boards: []Board{}}
	for _, b := range h.boards.Boards() {
		answer, err := h.of(b, offset)
		if err != nil {
			return nil, err
		}
		if callerFrom(ctx).Admin {
			h.addForOperators(&answer, b)
		}
		list.Boards = append(list.Boards, answer)
	}
	return &output[boards]{list}, nil
}

var defineBoard = operation{
	id:      "defineBoard",
	summary: "Define a board",
	description: "Defines a board while the service runs, such as `{\"name\":\"gifts-spring\",\"kind\":\"event\",\"max_score\":10000000,\"start\":\"2026-12-01T12:00:00Z\",\"end\":\"2026-12-24T15:00:00Z\"}`. " +
		"The process that takes the call uses it at once, the others within seconds. The properties of a bucket never change once it exists. " +
		"With `?dry_run=true` the answer, a 200, is the board as it would be.",
	otherStatus: http.StatusCreated,
	errors:      []models.Code{models.CodeBoardExists},
}

// newBoard is the definition of a board.
type newBoard struct {
	Name         string          `json:"name" minLength:"1" maxLength:"40" pattern:"^[a-z0-9-]+$" doc:"The board's name" example:"gifts-spring"`
	Kind         models.Kind     `json:"kind" enum:"daily,event,rolling" doc:"daily, event or rolling"`
	TimeZone     string          `json:"time_zone,omitempty" default:"Asia/Shanghai" doc:"IANA zone that fixes its days, or local: each user's own calendar does; daily boards only" example:"Asia/Shanghai"`
	OpenDays     *int            `json:"open_days,omitempty" minimum:"0" maximum:"30" doc:"How many days before today take uploads; 2 if it is left out; daily boards only"`
	MaxScore     int64           `json:"max_score,omitempty" minimum:"1" default:"100000" doc:"The largest score that is accepted" example:"10000000"`
	Order        models.Order    `json:"order,omitempty" enum:"high,low" default:"high" doc:"Which score ranks first: the highest, or with low the lowest, such as the fastest lap; low on daily boards, and on events that take the best, which then have no review_above"`
	Shards       int             `json:"shards,omitempty" minimum:"1" maximum:"1024" default:"1" doc:"The number of sorted sets that a bucket is split into"`
	Global       models.Audience `json:"global,omitempty" enum:"users,service" default:"users" doc:"Who may read top and around"`
	Uploads      models.Audience `json:"uploads,omitempty" enum:"users,service" default:"users" doc:"Whose tokens may upload scores; daily boards only"`
	ChangeStream *bool           `json:"change_stream,omitempty" doc:"Whether the changes of new buckets are written to streams, so that processes can keep a copy of them; true if it is left out, but never on rolling boards"`
	ReviewAbove  int64           `json:"review_above,omitempty" minimum:"0" doc:"Scores above this are listed by GET /v1/admin/reviews; less than max_score; 0 for none"`
	HoldAbove    int64           `json:"hold_above,omitempty" minimum:"0" doc:"Uploads of totals above this are held, see GET /v1/admin/holds; less than max_score; 0 for none; daily boards with order high only"`
	Unit         string          `json:"unit,omitempty" maxLength:"20" doc:"What the scores count, a word for people, which the page shows" example:"coins"`
	StartsAt     *time.Time      `json:"start,omitempty" format:"date-time" doc:"When an event starts; events only" example:"2026-12-01T12:00:00Z"`
	EndsAt       *time.Time      `json:"end,omitempty" format:"date-time" doc:"When it ends; events only" example:"2026-12-24T15:00:00Z"`
	Takes        models.Takes    `json:"takes,omitempty" enum:"sum,best" doc:"sum: increments add up, the default of events and rolling boards; best: the best result counts, on events and, always, on daily boards"`
	Late         string          `json:"late,omitempty" doc:"How long after it occurred an event takes an increment that says when: 0s to 744h; events only" example:"48h"`
	LatestEnd    *time.Time      `json:"latest_end,omitempty" format:"date-time" doc:"Up to when it is certain that the end can be moved, which may cost resolution; it may be movable further; events only" example:"2027-01-31T15:00:00Z"`
	WindowHours  int             `json:"window,omitempty" minimum:"1" maximum:"168" doc:"How many hours count, including the current one; 24 if it is left out; rolling boards only"`
}

type defineInput struct {
	DryRun
	Body newBoard
}

func (in *defineInput) about(e *audit.Entry) { e.Board = in.Body.Name }

// boardDefinition is a definition with the properties that follow from it.
type boardDefinition struct {
	Board
	Shards       int              `json:"shards" doc:"The number of sorted sets that its next bucket is split into"`
	ChangeStream bool             `json:"change_stream" doc:"Whether the changes of its next bucket are written to streams, so that processes can keep a copy"`
	ReviewAbove  int64            `json:"review_above" doc:"Scores above this are listed by GET /v1/admin/reviews; 0 for none"`
	HoldAbove    int64            `json:"hold_above" doc:"Uploads of totals above this are held; 0 for none"`
	CreatedAt    models.Timestamp `json:"created_at" format:"date-time" doc:"When the board was first defined"`
}

func (h *boardHandlers) definition(b *catalog.Board) (boardDefinition, error) {
	answer, err := h.of(b, models.UTCOffset{})
	h.addForOperators(&answer, b)
	return boardDefinition{
		Board: answer, Shards: b.Shards, ChangeStream: b.ChangeStream, ReviewAbove: b.ReviewAbove, HoldAbove: b.HoldAbove,
		CreatedAt: models.TimestampOf(b.CreatedAt),
	}, err
}

func (h *boardHandlers) define(ctx context.Context, in *defineInput) (*statusOutput[boardDefinition], error) {
	d := in.Body
	openDays := 0
	switch {
	case d.OpenDays != nil:
		openDays = *d.OpenDays
	case d.Kind == models.KindDaily:
		openDays = models.DefaultOpenDays
	}
	changeStream := d.Kind != models.KindRolling
	if d.ChangeStream != nil {
		changeStream = *d.ChangeStream
	}
	late, err := parseLate(d.Late)
	if err != nil {
		return nil, err
	}
	b, err := h.boards.Add(ctx, models.Board{
		Name: d.Name, Kind: d.Kind, TimeZone: d.TimeZone, OpenDays: openDays, MaxScore: d.MaxScore, Order: d.Order, Shards: d.Shards, Global: d.Global, Uploads: d.Uploads,
		StartsAt: d.StartsAt, EndsAt: d.EndsAt, Takes: d.Takes, Late: late, LatestEnd: d.LatestEnd, WindowHours: d.WindowHours, ChangeStream: changeStream, ReviewAbove: d.ReviewAbove, HoldAbove: d.HoldAbove, Unit: d.Unit,
	}, in.isDryRun())
	if err != nil {
		return nil, err
	}
	shown, err := h.definition(b)
	if in.isDryRun() {
		shown.CreatedAt = models.TimestampOf(h.clock())
	}
	return statusOutputOf(in.status(http.StatusCreated), shown, err)
}

// parseLate parses the late of a definition.
func parseLate(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	late, err := time.ParseDuration(text)
	if err != nil {
		return 0, models.Invalid("body.late", "is not a duration, such as 48h")
	}
	return late, nil
}

var moveEnd = operation{
	id:      "moveEnd",
	summary: "Move the end of an event",
	description: "Moves the end of an event to a later time, such as `{\"end\":\"2026-12-31T15:00:00Z\"}`, until it is final, and up to its `extendable_until`. " +
		"Increments are counted up to the new end at once; other processes show it within seconds. Settings that name an earlier end do not move it back. " +
		"With `?dry_run=true` nothing changes, and the answer is the board as it would be.",
	errors: []models.Code{models.CodeBoardNotFound, models.CodeBoardKind, models.CodeEventFinal},
}

type moveEndInput struct {
	DryRun
	Board string `path:"board" doc:"The board's name" example:"gifts-spring"`
	Body  newEnd
}

// newEnd is the end that an event gets.
type newEnd struct {
	End time.Time `json:"end" format:"date-time" doc:"When the event ends" example:"2026-12-31T15:00:00Z"`
}

func (in *moveEndInput) about(e *audit.Entry) { e.Board = in.Board }

func (h *boardHandlers) moveEnd(ctx context.Context, in *moveEndInput) (*output[boardDefinition], error) {
	b, err := h.boards.MoveEnd(ctx, in.Board, in.Body.End, in.isDryRun())
	if err != nil {
		return nil, err
	}
	shown, err := h.definition(b)
	if in.isDryRun() && b.EndsAt != nil { // its bucket still has the former end
		closes := b.EndsAt.Add(b.Late)
		shown.Current.EndsAt, shown.Current.ClosesAt = timestampIfAny(b.EndsAt), timestampIfAny(&closes)
		shown.ClosesAt = shown.Current.ClosesAt
	}
	return outputOf(shown, err)
}

var showBoard = operation{
	id:          "getBoardDefinition",
	summary:     "Show a board's definition",
	description: "The definition as it is stored, with the resolution that follows from it.",
	errors:      []models.Code{models.CodeBoardNotFound},
}

type boardInput struct {
	Board string `path:"board" doc:"The board's name" example:"gifts-spring"`
}

func (h *boardHandlers) show(_ context.Context, in *boardInput) (*output[boardDefinition], error) {
	b, err := h.boards.Board(in.Board)
	if err != nil {
		return nil, err
	}
	return outputOf(h.definition(b))
}
