package results

import (
	"context"

	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Final is the payload of board.final.
type Final struct {
	Board string      `json:"board"`
	Kind  models.Kind `json:"kind"`
	// Date is the day of a daily board; nil for an event.
	Date     *string    `json:"date"`
	Revision int        `json:"revision"`
	Total    int64      `json:"total"`
	ScoreSum int64      `json:"score_sum"`
	Top      []TopEntry `json:"top"`
}

type finalData struct {
	*Final
	Top []topLine `json:"top"`
}

// topLine is a line of `top`. Of an anonymous person it has score and time only.
type topLine struct {
	Rank int `json:"rank"`
	outcomes.Named
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

// Topic returns what the outcomes of results look like. They name nobody who hides from everybody
// or was erased.
func Topic(records models.Records) outcomes.Topic {
	render := func(ctx context.Context, final *Final) (any, error) {
		people, err := outcomes.People(ctx, records, final.Top, func(e TopEntry) models.RowID { return e.User })
		if err != nil {
			return nil, err
		}
		data := finalData{final, make([]topLine, len(people))}
		for i, entry := range final.Top {
			data.Top[i] = topLine{i + 1, people[i], entry.Score, entry.ReachedAt}
		}
		return data, nil
	}
	return outcomes.NewTopic(models.OutcomeBoardFinal, render, (*Final).without)
}

// without makes the entries of a user nameless.
func (f *Final) without(user models.RowID) (named, left bool) {
	for i := range f.Top {
		if f.Top[i].User == user {
			f.Top[i].User, named = 0, true
		}
	}
	return named, true
}
