package friends

import (
	"context"
	"iter"

	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Pair is the payload of an outcome between two users.
type Pair struct {
	From models.RowID `json:"from"`
	To   models.RowID `json:"to"`
}

// Read returns the records of both. outcomes.ErrErased if one of them does not exist any more.
func (p *Pair) Read(ctx context.Context, records models.Records) (from, to models.PublicRecord, err error) {
	users, err := records.RecordsMany(ctx, []models.RowID{p.From, p.To})
	if err == nil && (users[0].User == "" || users[1].User == "") {
		err = outcomes.ErrErased
	}
	if err != nil {
		return from, to, err
	}
	return users[0], users[1], nil
}

// Without reports whether a user is one of the two. Nothing is left without them.
func (p *Pair) Without(user models.RowID) (named, left bool) {
	return p.From == user || p.To == user, false
}

// Receivers returns who is told of a request by Web Push.
func (p Pair) Receivers() iter.Seq2[models.RowID, any] {
	return func(yield func(models.RowID, any) bool) { yield(p.To, p) }
}

// Topics returns what the outcomes of friend requests look like: one user has asked, the other was
// asked. A notice of a request is dropped if the user is not shown the request any more.
func Topics(records models.Records, requests *Store) []outcomes.Topic {
	type data struct {
		From models.UserID `json:"from"`
		To   models.UserID `json:"to"`
	}
	render := func(ctx context.Context, p *Pair) (any, error) {
		from, to, err := p.Read(ctx, records)
		return data{from.User, to.User}, err
	}
	notice := func(ctx context.Context, p Pair) (outcomes.Notice, error) {
		from, _, err := p.Read(ctx, records)
		if err != nil {
			return outcomes.Notice{}, err
		}
		shown, err := requests.isShown(ctx, p)
		if err == nil && !shown {
			err = outcomes.ErrHidden
		}
		return outcomes.Notice{People: []outcomes.Person{outcomes.PersonOf(&from)}, URL: "#/friends"}, err
	}
	return []outcomes.Topic{
		outcomes.WithNotices(outcomes.NewTopic(models.OutcomeFriendRequested, render, (*Pair).Without), notice),
		outcomes.NewTopic(models.OutcomeFriendAccepted, render, (*Pair).Without),
	}
}
