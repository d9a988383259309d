package handlers

import (
	"context"

	"stepboard/models"
	"stepboard/services/ranking"
)

type historyInput struct {
	Board string `path:"board" doc:"The board's name" example:"steps"`
	From  string `query:"from" doc:"The first day, YYYY-MM-DD; 30 days before the last where it is left out" example:"2026-10-21"`
	To    string `query:"to" doc:"The last day; today where it is left out" example:"2026-11-20"`
	For   string `query:"for" doc:"A friend's id; one's own days where it is left out" example:"1002"`
	OnBehalf
}

type historyEntry struct {
	Date        string           `json:"date" doc:"The day, in the board's zone"`
	Score       int64            `json:"score" doc:"Steps, coins or points"`
	ReachedAt   models.Timestamp `json:"reached_at" format:"date-time" doc:"When the user reached this score"`
	GlobalRank  int64            `json:"global_rank" doc:"Place among everybody"`
	GlobalTotal int64            `json:"global_total" doc:"How many had a score"`
	Source      models.Source    `json:"source" enum:"hot,archive" doc:"Where the day is"`
}

type historyOutput struct {
	Body struct {
		Entries []historyEntry `json:"entries" nullable:"false" doc:"Newest first; days without a score are left out"`
		Partial bool           `json:"partial" doc:"True where days are missing that can't be read right now: those of the last days"`
	}
}

func (a *api) history(ctx context.Context, in *historyInput) (*historyOutput, error) {
	viewer, err := in.user(ctx)
	if err != nil {
		return nil, err
	}
	q := ranking.HistoryQuery{Board: in.Board, Viewer: viewer, Of: viewer}
	if q.From, err = optionalDate("query.from", in.From); err != nil {
		return nil, err
	}
	if q.To, err = optionalDate("query.to", in.To); err != nil {
		return nil, err
	}
	if in.For != "" {
		if q.Of, err = models.ParseUserID(in.For); err != nil {
			return nil, models.Invalid("query.for", err.Error())
		}
	}
	h, err := a.Ranking.History(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &historyOutput{}
	out.Body.Partial = h.Partial
	out.Body.Entries = make([]historyEntry, len(h.Days))
	for i, d := range h.Days {
		out.Body.Entries[i] = historyEntry{
			Date: d.Date.String(), Score: d.Score, ReachedAt: d.ReachedAt,
			GlobalRank: d.Rank, GlobalTotal: d.Total, Source: d.Source,
		}
	}
	return out, nil
}
