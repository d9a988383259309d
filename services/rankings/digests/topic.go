package digests

import (
	"context"
	"slices"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
)

// readPeople is how many people of a digest are read at once when it is sent. As after every read
// for a digest, the work rests then.
const readPeople = 200

// payload is the payload of digest.ready.
type payload struct {
	Board string              `json:"board"`
	Date  string              `json:"date"`
	Users []models.DigestLine `json:"users"`
}

type data struct {
	Board string     `json:"board"`
	Date  string     `json:"date"`
	Users []userData `json:"users"`
}

// userData is the part of a digest that one user is told.
type userData struct {
	UserID models.UserID `json:"user_id"`
	Rank   int64         `json:"rank"`
	Total  int64         `json:"total"`
	Score  int64         `json:"score"`
	// Leader is nil if the leader hides by now.
	Leader *leaderData `json:"leader"`
	Likes  int64       `json:"likes"`
}

type leaderData struct {
	UserID   models.UserID `json:"user_id"`
	Nickname string        `json:"nickname"`
}

// Topic returns what the outcomes of digests look like. They leave out users who do not exist any
// more, and do not name leaders who hide from everybody or from the user who is told.
func Topic(records models.Records, choices *privacy.Store) outcomes.Topic {
	// It has room for one: digests name so many people that several at once would take the stores'
	// time from rankings.
	rendering := make(chan struct{}, 1)
	render := func(ctx context.Context, p *payload) (any, error) {
		select {
		case rendering <- struct{}{}:
			defer func() { <-rendering }()
			return render(ctx, p, records, choices)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return outcomes.NewTopic(models.OutcomeDigestReady, render, (*payload).without)
}

// render returns what is told of a payload. It rests after each read of people.
func render(ctx context.Context, p *payload, records models.Records, choices *privacy.Store) (any, error) {
	rows := make([]models.RowID, 0, 2*len(p.Users))
	var users, leaders []models.RowID
	for _, line := range p.Users {
		rows = append(rows, line.User, line.Leader)
		users, leaders = append(users, line.User), append(leaders, line.Leader)
	}
	slices.Sort(leaders)
	apart, err := choices.Apart(ctx, users, slices.Compact(leaders))
	if err != nil {
		return nil, err
	}
	people := make([]models.PublicRecord, 0, len(rows))
	for chunk := range slices.Chunk(rows, readPeople) {
		began := time.Now()
		some, err := records.RecordsMany(ctx, chunk)
		if err != nil {
			return nil, err
		}
		people = append(people, some...)
		if err := pause.Rest(ctx, began, restTimes); err != nil {
			return nil, err
		}
	}
	told := data{Board: p.Board, Date: p.Date}
	for i, line := range p.Users {
		user, first := people[2*i], people[2*i+1]
		if user.User == "" {
			continue
		}
		one := userData{UserID: user.User, Rank: line.Rank, Total: line.Total, Score: line.Score, Likes: line.Likes}
		shown := !first.Hidden && !apart[privacy.Apart{ViewerID: line.User, UserID: line.Leader}]
		if first.User != "" && (shown || line.Leader == line.User) {
			one.Leader = &leaderData{first.User, first.Nickname}
		}
		told.Users = append(told.Users, one)
	}
	if len(told.Users) == 0 {
		return nil, outcomes.ErrErased
	}
	return told, nil
}

// without takes out the line of a user, and the name of the leader of others.
func (p *payload) without(user models.RowID) (named, left bool) {
	lines := make([]models.DigestLine, 0, len(p.Users))
	for _, line := range p.Users {
		if line.User == user {
			named = true
			continue
		}
		if line.Leader == user {
			line.Leader, named = 0, true
		}
		lines = append(lines, line)
	}
	p.Users = lines
	return named, len(lines) > 0
}
