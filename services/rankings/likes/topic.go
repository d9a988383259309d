package likes

import (
	"context"

	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
)

// payload is the payload of like.given: From likes the score of To.
type payload struct {
	Board string `json:"board"`
	Date  string `json:"date"`
	friends.Pair
}

// Topic returns what the outcomes of likes look like. One is dropped if the person who likes is
// not shown to the other any more.
func Topic(records models.Records, choices *privacy.Store) outcomes.Topic {
	type data struct {
		Board string        `json:"board"`
		Date  string        `json:"date"`
		From  models.UserID `json:"from"`
		To    models.UserID `json:"to"`
	}
	render := func(ctx context.Context, p *payload) (any, error) {
		from, to, err := p.Read(ctx, records)
		if err != nil {
			return nil, err
		}
		apart, err := choices.Apart(ctx, []models.RowID{p.To}, []models.RowID{p.From})
		if err == nil && (from.Hidden || len(apart) > 0) {
			err = outcomes.ErrHidden
		}
		return data{p.Board, p.Date, from.User, to.User}, err
	}
	return outcomes.NewTopic(models.OutcomeLikeGiven, render, (*payload).Without)
}
