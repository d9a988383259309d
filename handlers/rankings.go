package handlers

import (
	"context"
	"log/slog"
	"time"

	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// RankingService ranks users on one bucket of a board.
type RankingService interface {
	Friends(ctx context.Context, q ranking.Query) (*models.Ranking, error)
	Group(ctx context.Context, q ranking.Query, group models.GroupID) (*models.Ranking, error)
	Top(ctx context.Context, q ranking.Query) (*models.Ranking, error)
	Around(ctx context.Context, q ranking.Query, radius int) (*models.Ranking, error)
	Me(ctx context.Context, q ranking.Query) (*ranking.Standing, error)
}

// rankingHandlers serves rankings and a user's own place in them.
type rankingHandlers struct {
	rankings RankingService
	boards   BoardFinder
	log      *slog.Logger
}

// DayInput picks a day of a board and the user that the request acts for.
type DayInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	Date  string `query:"date" doc:"The day, YYYY-MM-DD in the board's zone; today if it is left out. Event and rolling boards take none" format:"date"`
	LocalTime
	OnBehalf
}

// query returns the query of a viewer for the picked day.
func (in *DayInput) query(viewer models.UserID) (ranking.Query, error) {
	offset, err := in.offset()
	return ranking.Query{Board: in.Board, Viewer: viewer, Date: optionalDate(in.Date), Offset: offset}, err
}

// dayErrors are the error codes of calls about a day.
func dayErrors(more ...models.Code) []models.Code {
	return append([]models.Code{
		models.CodeBoardNotFound, models.CodeBoardKind, models.CodeDateInFuture, models.CodeOffsetRequired,
	}, more...)
}

// PageInput picks a page of a ranking.
type PageInput struct {
	DayInput
	Paging
}

// query returns the query of a viewer for the page.
func (in *PageInput) query(viewer models.UserID) (ranking.Query, error) {
	q, err := in.DayInput.query(viewer)
	q.Limit, q.Cursor = in.Limit, in.Cursor
	return q, err
}

// CirclePageInput picks a page of a ranking of friends or of a group.
type CirclePageInput struct {
	PageInput
	Include string `query:"include" enum:"likes" doc:"likes: each entry has likes and liked. Daily boards only, and no spans"`
	From    string `query:"from" doc:"The first day of a span, YYYY-MM-DD in the board's zone. A span takes no date, and boards with order low have none" format:"date"`
	To      string `query:"to" doc:"The last day of a span, which may be in the future; today if it is left out" format:"date"`
}

// query returns the query of a viewer for the page.
func (in *CirclePageInput) query(viewer models.UserID) (ranking.Query, error) {
	q, err := in.PageInput.query(viewer)
	if err != nil {
		return q, err
	}
	q.Likes = in.Include != ""
	q.Span, err = in.span()
	return q, err
}

// span returns the span that the request picks; nil for none.
func (in *CirclePageInput) span() (*ranking.Span, error) {
	switch {
	case in.From != "":
		return &ranking.Span{From: dateOf(in.From), To: optionalDate(in.To)}, nil
	case in.To != "":
		return nil, models.Invalid("query.from", "a span needs its first day")
	}
	return nil, nil //nolint:nilnil // most requests pick none
}

var rankFriends = operation{
	id:      "getFriendRanking",
	summary: "Rank oneself among one's friends",
	description: "One page of the user and the user's friends, best first. Users without a score that day are not listed. " +
		"The first page of a past day is `?date=2026-11-19&limit=50`; for the next one, add `&cursor=` with the page's next_cursor. " +
		"With `&include=likes`, entries have their likes. " +
		"An archived day from long before a friendship does not list the friend (setting friends.history_days). " +
		"`?from=2026-11-16&to=2026-11-22` adds up the days of a span, at most 31: entries have the sum as score, and days, the number of days with a score. " +
		"The higher sum is first, and on equal sums the one that was reached first. A span may end in the future. " +
		"Its friends times its days are at most 100,000, and of these at most 40,000 are of days that are not archived.",
	report: ofSpan,
	errors: dayErrors(models.CodeSpanTooLarge),
}

func (h *rankingHandlers) friends(ctx context.Context, q ranking.Query, _ *CirclePageInput) (*output[*models.Ranking], error) {
	return outputOf(h.rankings.Friends(ctx, q))
}

var rankGroup = operation{
	id:      "getGroupRanking",
	summary: "Rank the members of a group",
	description: "One page of the members of a group that the user is in, as GET /v1/boards/{board}/friends answers it. " +
		"Past days show the scores of those who are members now. `?from=&to=` adds up the days of a span, as there.",
	errors: dayErrors(models.CodeNotFound, models.CodeSpanTooLarge),
	report: ofSpan,
}

type groupPageInput struct {
	GroupPath
	CirclePageInput
}

func (h *rankingHandlers) group(ctx context.Context, q ranking.Query, in *groupPageInput) (*output[*models.Ranking], error) {
	return outputOf(h.rankings.Group(ctx, q, in.Group))
}

var rankTop = operation{
	id:      "getGlobalRanking",
	summary: "Rank everybody",
	description: "One page of everybody, best first, with the caller's own entry in me. " +
		"Lines of people who are not shown to the caller have no user_id, and `\"anonymous\":true`. " +
		"The ten best of today are `?limit=10`; for the next ten, add `&cursor=` with the page's next_cursor.",
	errors: dayErrors(),
}

func (h *rankingHandlers) top(ctx context.Context, in *PageInput) (*output[*models.Ranking], error) {
	if err := h.mayReadGlobal(ctx, in.Board); err != nil {
		return nil, err
	}
	viewer, err := in.userIfAny(ctx)
	if err != nil {
		return nil, err
	}
	q, err := in.query(viewer)
	if err != nil {
		return nil, err
	}
	return outputOf(h.rankings.Top(ctx, q))
}

var rankAround = operation{
	id:      "getGlobalNeighbours",
	summary: "Rank one's neighbours among everybody",
	description: "The user with the neighbours above and below: `?radius=2` returns up to five entries. Empty for a user without a score that day. " +
		"Lines of people who are not shown to the user have no user_id, and `\"anonymous\":true`.",
	errors: dayErrors(),
}

type aroundInput struct {
	DayInput
	Radius int `query:"radius" minimum:"1" maximum:"50" default:"5" doc:"Neighbours on either side"`
}

func (h *rankingHandlers) around(ctx context.Context, viewer models.UserID, in *aroundInput) (*output[*models.Ranking], error) {
	if err := h.mayReadGlobal(ctx, in.Board); err != nil {
		return nil, err
	}
	q, err := in.query(viewer)
	if err != nil {
		return nil, err
	}
	return outputOf(h.rankings.Around(ctx, q, in.Radius))
}

// mayReadGlobal returns CodeForbidden if the board shows its global rankings
// to services only and the caller is not one.
func (h *rankingHandlers) mayReadGlobal(ctx context.Context, board string) error {
	b, err := h.boards.Board(board)
	if err != nil {
		return err
	}
	if b.Global == models.AudienceService && !callerFrom(ctx).Service {
		return models.Errorf(models.CodeForbidden, "this board shows its global lists to services only")
	}
	return nil
}

var rankMe = operation{
	id:          "getStanding",
	summary:     "Show one's own place",
	description: "The user's score and places on one day, such as `?date=2026-11-19`. Without a score they are null.",
	errors:      dayErrors(),
}

func (h *rankingHandlers) me(ctx context.Context, q ranking.Query, _ *DayInput) (*output[*ranking.Standing], error) {
	return outputOf(h.rankings.Me(ctx, q))
}

// placePatience is how long the answer to a write waits for the user's place: the write is done, and
// a store that hangs must not hold it up.
const placePatience = 500 * time.Millisecond

// IncludeMe is the parameter that adds the user's place to the answer to a write.
type IncludeMe struct {
	Include string `query:"include" enum:"me" doc:"me: the answer has the user's place after this call in me"`
}

// after returns the place that a query asks for as a write has left it, which has ended; nil if that
// can't be read within placePatience.
func (h *rankingHandlers) after(ctx context.Context, q ranking.Query) *ranking.Standing {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	q.Current = true
	s, err := h.rankings.Me(ctx, q)
	if err != nil {
		h.log.WarnContext(ctx, "a place can't be read after a write; the write stands", "board", q.Board, "error", err)
		return nil
	}
	return s
}

// AbsentService lists those of whom a user is shown no score.
type AbsentService interface {
	AbsentFriends(ctx context.Context, q ranking.Query) (*ranking.Absent, error)
	AbsentMembers(ctx context.Context, q ranking.Query, group models.GroupID) (*ranking.Absent, error)
}

// absentHandlers serves these lists.
type absentHandlers struct {
	service AbsentService
}

var listAbsentFriends = operation{
	id:      "listAbsentFriends",
	summary: "List one's friends without a score",
	description: "One page of those friends who are not in the ranking of the same day: `?limit=50`, then `&cursor=` with the page's next_cursor. " +
		"It does not tell why: they have no score, they hide, or their score does not count. A score of 0 is ranked. " +
		"Muted friends are left out, and so is everybody whom an archived day does not list (setting friends.history_days).",
	errors: dayErrors(),
}

type absentPerson struct {
	UserID    models.UserID `json:"user_id" doc:"The user" example:"1001"`
	Nickname  string        `json:"nickname" doc:"Empty if the user has set none"`
	AvatarURL models.URL    `json:"avatar_url" doc:"Empty if the user has set none"`
}

func absentPersonOf(r models.PublicRecord) absentPerson {
	return absentPerson{UserID: r.User, Nickname: r.Nickname, AvatarURL: r.AvatarURL}
}

type absentPage struct {
	Board      string         `json:"board" doc:"The board's name" example:"steps"`
	Date       *string        `json:"date" nullable:"true" format:"date" example:"2026-11-20" doc:"The day, in the board's zone; null where the board has no days"`
	Total      int            `json:"total" doc:"How many people are absent, on all pages together" example:"3"`
	Entries    []absentPerson `json:"entries" nullable:"false" doc:"This page, in an order that does not change"`
	NextCursor *string        `json:"next_cursor" nullable:"true" doc:"Where the next page begins; null on the last"`
}

func absentOutput(a *ranking.Absent, err error) (*output[absentPage], error) {
	if err != nil {
		return nil, err
	}
	return &output[absentPage]{absentPage{a.Board, a.Date, a.Total, answersOf(a.People, absentPersonOf), a.NextCursor}}, nil
}

func (h *absentHandlers) friends(ctx context.Context, q ranking.Query, _ *PageInput) (*output[absentPage], error) {
	return absentOutput(h.service.AbsentFriends(ctx, q))
}

var listAbsentMembers = operation{
	id:      "listAbsentMembers",
	summary: "List the members of a group without a score",
	description: "One page of the other members of a group that the user is in, as GET /v1/boards/{board}/friends/absent answers it. " +
		"Members whom the user has muted or blocked are left out. Past days have those who are members now.",
	errors: dayErrors(models.CodeNotFound),
}

type absentMembersInput struct {
	GroupPath
	PageInput
}

func (h *absentHandlers) members(ctx context.Context, q ranking.Query, in *absentMembersInput) (*output[absentPage], error) {
	return absentOutput(h.service.AbsentMembers(ctx, q, in.Group))
}
