package handlers

import (
	"context"

	"stepboard/models"
)

type boardAnswer struct {
	Name     string          `json:"name" doc:"The board's name"`
	Kind     models.Kind     `json:"kind" enum:"daily" doc:"daily: a total for each day, the highest counts"`
	TimeZone string          `json:"time_zone" doc:"The zone that fixes its days" example:"Asia/Shanghai"`
	MaxScore int64           `json:"max_score" doc:"The largest score that is taken"`
	Global   models.Audience `json:"global" enum:"users,service" doc:"Who may read top and around"`
	Current  currentBucket   `json:"current" doc:"The day that it is now"`
	Final    bool            `json:"final" doc:"True once the board takes no more updates"`
}

type currentBucket struct {
	Date     string           `json:"date" doc:"Today, in the board's zone"`
	StartsAt models.Timestamp `json:"starts_at" format:"date-time" doc:"When the day began"`
	EndsAt   models.Timestamp `json:"ends_at" format:"date-time" doc:"When the next day begins"`
	ClosesAt models.Timestamp `json:"closes_at" format:"date-time" doc:"Until when uploads for it are taken"`
}

type boardsOutput struct {
	Body struct {
		Boards []boardAnswer `json:"boards" nullable:"false" doc:"By name"`
	}
}

func (a *api) listBoards(context.Context, *struct{ OnBehalf }) (*boardsOutput, error) {
	now := a.Clock()
	out := &boardsOutput{}
	out.Body.Boards = []boardAnswer{}
	for _, b := range a.Catalog.Boards() {
		day, current := a.Catalog.Current(b, now)
		out.Body.Boards = append(out.Body.Boards, boardAnswer{
			Name: b.Name, Kind: b.Kind, TimeZone: b.TimeZone, MaxScore: b.MaxScore, Global: b.Global,
			Current: currentBucket{
				Date:     day.String(),
				StartsAt: models.TimestampOf(current.StartsAt), EndsAt: models.TimestampOf(current.EndsAt), ClosesAt: models.TimestampOf(current.ClosesAt),
			},
		})
	}
	return out, nil
}
