package likes

import (
	"context"
	"iter"

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

// Receivers returns who is told of a like by Web Push.
func (p payload) Receivers() iter.Seq2[models.RowID, any] {
	return func(yield func(models.RowID, any) bool) { yield(p.To, p) }
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
	read := func(ctx context.Context, p *payload) (from, to models.PublicRecord, err error) {
		if from, to, err = p.Read(ctx, records); err != nil {
			return from, to, err
		}
		apart, err := choices.Apart(ctx, []models.RowID{p.To}, []models.RowID{p.From})
		if err == nil && (from.Hidden || len(apart) > 0) {
			err = outcomes.ErrHidden
		}
		return from, to, err
	}
	render := func(ctx context.Context, p *payload) (any, error) {
		from, to, err := read(ctx, p)
		return data{p.Board, p.Date, from.User, to.User}, err
	}
	notice := func(ctx context.Context, p payload) (outcomes.Notice, error) {
		from, _, err := read(ctx, &p)
		return outcomes.Notice{
			Board: p.Board, Date: p.Date, People: []outcomes.Person{outcomes.PersonOf(&from)}, URL: outcomes.DayURL(p.Date),
		}, err
	}
	return outcomes.WithNotices(outcomes.NewTopic(models.OutcomeLikeGiven, render, (*payload).Without), notice)
}
