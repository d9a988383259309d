package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/ranking"
)

// DayInput picks a board's day on somebody's behalf.
type DayInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	Date  string `query:"date" doc:"The day, YYYY-MM-DD in the board's zone; today where it is left out. Event and rolling boards take none" example:"2026-11-20"`
	OnBehalf
}

// query is what the services are asked for a viewer, who is found or not.
func (in *DayInput) query(viewer models.UserID, err error) (ranking.Query, error) {
	q := ranking.Query{Board: in.Board, Viewer: viewer}
	if err != nil {
		return q, err
	}
	q.Date, err = optionalDate("query.date", in.Date)
	return q, err
}

// pageInput picks a page of a ranking.
type pageInput struct {
	DayInput
	Paging
}

func (in *pageInput) query(viewer models.UserID, err error) (ranking.Query, error) {
	q, err := in.DayInput.query(viewer, err)
	q.Limit, q.Cursor = in.Limit, in.Cursor
	return q, err
}

type rankingOutput struct {
	Body *models.Ranking
}

// ranked answers what a service answered.
func ranked(r *models.Ranking, err error) (*rankingOutput, error) {
	if err != nil {
		return nil, err
	}
	return &rankingOutput{Body: r}, nil
}

func (a *api) friendsRanking(ctx context.Context, in *pageInput) (*rankingOutput, error) {
	q, err := in.query(in.user(ctx))
	if err != nil {
		return nil, err
	}
	return ranked(a.Ranking.Friends(ctx, q))
}

func (a *api) topRanking(ctx context.Context, in *pageInput) (*rankingOutput, error) {
	if err := a.mayReadGlobal(ctx, in.Board); err != nil {
		return nil, err
	}
	q, err := in.query(in.userIfAny(ctx))
	if err != nil {
		return nil, err
	}
	return ranked(a.Ranking.Top(ctx, q))
}

type aroundInput struct {
	DayInput
	Radius int `query:"radius" minimum:"1" maximum:"50" default:"5" doc:"Neighbours on either side"`
}

func (a *api) aroundRanking(ctx context.Context, in *aroundInput) (*rankingOutput, error) {
	if err := a.mayReadGlobal(ctx, in.Board); err != nil {
		return nil, err
	}
	q, err := in.query(in.user(ctx))
	if err != nil {
		return nil, err
	}
	return ranked(a.Ranking.Around(ctx, q, in.Radius))
}

// mayReadGlobal refuses a board's lists of strangers to those that its
// definition keeps them from.
func (a *api) mayReadGlobal(ctx context.Context, board string) error {
	b, err := a.Catalog.Definitions.Board(board)
	if err != nil {
		return err
	}
	if b.Global == models.AudienceService && !callerFrom(ctx).Service {
		return models.Errorf(models.CodeForbidden, "this board shows its global lists to services only")
	}
	return nil
}

// standingAnswer is where a user stands; without a score its own fields are
// null.
type standingAnswer struct {
	Score        *int64            `json:"score" doc:"The user's score"`
	ReachedAt    *models.Timestamp `json:"reached_at" format:"date-time" doc:"When it was reached"`
	GlobalRank   *int64            `json:"global_rank" doc:"Place among everybody"`
	GlobalTotal  int64             `json:"global_total" doc:"How many have a score"`
	FriendsRank  *int64            `json:"friends_rank" doc:"Place among oneself and one's friends"`
	FriendsTotal int64             `json:"friends_total" doc:"How many of these have a score"`
	Percentile   *float64          `json:"percentile" doc:"100 × others below ÷ others, rounded down to 0.1; 100 for who is alone"`
}

type standingOutput struct {
	Body standingAnswer
}

func (a *api) standing(ctx context.Context, in *DayInput) (*standingOutput, error) {
	q, err := in.query(in.user(ctx))
	if err != nil {
		return nil, err
	}
	s, err := a.Ranking.Me(ctx, q)
	if err != nil {
		return nil, err
	}
	return &standingOutput{Body: standingAnswer(*s)}, nil
}
