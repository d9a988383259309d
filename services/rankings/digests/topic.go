package digests

import (
	"context"
	"iter"
	"slices"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
)

// readPeople is how many people of a digest are read at once when it is sent. As after every read
// for a digest, the work pauses then.
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
	Leader *outcomes.Person `json:"leader"`
	Likes  int64            `json:"likes"`
}

// Receivers returns the users of the lines, who are told by Web Push of their own.
func (p payload) Receivers() iter.Seq2[models.RowID, any] {
	return func(yield func(models.RowID, any) bool) {
		for _, line := range p.Users {
			if !yield(line.User, payload{p.Board, p.Date, []models.DigestLine{line}}) {
				return
			}
		}
	}
}

// Topic returns what the outcomes of digests look like. They leave out users who do not exist any
// more, and do not name leaders who hide from everybody or from the user who is told.
func Topic(records models.Records, choices *privacy.Store) outcomes.Topic {
	// It has room for one: digests name so many people that several at once would take the stores'
	// time from rankings.
	rendering := make(chan struct{}, 1)
	one := func(ctx context.Context, p *payload) (told data, err error) {
		select {
		case rendering <- struct{}{}:
			defer func() { <-rendering }()
			return render(ctx, p, records, choices)
		case <-ctx.Done():
			return told, ctx.Err()
		}
	}
	webhook := func(ctx context.Context, p *payload) (any, error) { return one(ctx, p) }
	notice := func(ctx context.Context, p payload) (outcomes.Notice, error) {
		told, err := one(ctx, &p)
		if err != nil {
			return outcomes.Notice{}, err
		}
		return noticeOf(told), nil
	}
	return outcomes.WithNotices(outcomes.NewTopic(models.OutcomeDigestReady, webhook, (*payload).without), notice)
}

// noticeOf returns the notice of a digest of one user. A user who leads is no person in it.
func noticeOf(told data) outcomes.Notice {
	line := told.Users[0]
	n := outcomes.Notice{
		Board: told.Board, Date: told.Date, People: []outcomes.Person{}, Rank: line.Rank, Total: line.Total, Score: line.Score,
		URL: outcomes.DayURL(told.Date),
	}
	if line.Leader != nil && line.Leader.UserID != line.UserID {
		n.People = append(n.People, *line.Leader)
	}
	return n
}

// render returns what is told of a payload. It pauses after each read of people.
func render(ctx context.Context, p *payload, records models.Records, choices *privacy.Store) (told data, err error) {
	rows := make([]models.RowID, 0, 2*len(p.Users))
	var users, leaders []models.RowID
	for _, line := range p.Users {
		rows = append(rows, line.User, line.Leader)
		users, leaders = append(users, line.User), append(leaders, line.Leader)
	}
	slices.Sort(leaders)
	apart, err := choices.Apart(ctx, users, slices.Compact(leaders))
	if err != nil {
		return told, err
	}
	people := make([]models.PublicRecord, 0, len(rows))
	for chunk := range slices.Chunk(rows, readPeople) {
		began := time.Now()
		some, err := records.RecordsMany(ctx, chunk)
		if err != nil {
			return told, err
		}
		people = append(people, some...)
		if err := pause.After(ctx, began, restTimes); err != nil {
			return told, err
		}
	}
	told.Board, told.Date = p.Board, p.Date
	for i, line := range p.Users {
		user, first := people[2*i], people[2*i+1]
		if user.User == "" {
			continue
		}
		one := userData{UserID: user.User, Rank: line.Rank, Total: line.Total, Score: line.Score, Likes: line.Likes}
		shown := !first.Hidden && !apart[privacy.Apart{ViewerID: line.User, UserID: line.Leader}]
		if first.User != "" && (shown || line.Leader == line.User) {
			leader := outcomes.PersonOf(&first)
			one.Leader = &leader
		}
		told.Users = append(told.Users, one)
	}
	if len(told.Users) == 0 {
		return told, outcomes.ErrErased
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
