package outcomes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"stepboard/models"
)

var (
	// ErrErased reports that an outcome is about a person who does not exist any more.
	ErrErased = errors.New("a person in it does not exist any more")
	// ErrHidden reports that an outcome names somebody who hides by now from the person who
	// would be told.
	ErrHidden = errors.New("a person in it is not shown to the other any more")
	// ErrEnded reports that a subscription of Web Push has ended.
	ErrEnded = errors.New("the subscription has ended")
	// ErrOver reports that what an outcome is about is over, so that nobody wants to hear of it.
	ErrOver = errors.New("what it is about is over")
)

// isDropped reports whether an error says that nobody is to be told any more.
func isDropped(err error) bool {
	return errors.Is(err, ErrErased) || errors.Is(err, ErrHidden) || errors.Is(err, ErrOver) || errors.Is(err, ErrEnded)
}

// Topic knows what the outcomes of a type look like. The package that writes them makes it.
type Topic struct {
	outcome models.OutcomeType
	// Render returns the member data of the webhook of a payload, with people as they are now.
	// ErrErased, ErrHidden or ErrOver if nobody is to be told of it any more.
	Render func(ctx context.Context, payload string) (data any, err error)
	// Without reports whether a payload names a user, and returns it without them: empty if it
	// is about them.
	Without func(payload string, user models.RowID) (without string, named bool, err error)
	// Notice returns what a browser is sent of the payload of a notice, with people as they are now,
	// and the user who is told. Its errors are those of Render. nil if no user is told of such
	// outcomes.
	Notice func(ctx context.Context, payload string) (Notice, error)
	// receiver returns the user who is told by the payload of a notice.
	receiver func(payload string) (models.RowID, error)
}

// Named is somebody in the data of a webhook. Of an anonymous person, who hides from everybody or was erased, nothing
// else is set.
type Named struct {
	UserID    *models.UserID `json:"user_id"`
	Nickname  string         `json:"nickname"`
	AvatarURL string         `json:"avatar_url"`
	Anonymous bool           `json:"anonymous,omitempty"`
}

// People returns the people of a list, by position. One call of RecordsMany.
func People[T any](ctx context.Context, records models.Records, list []T, user func(T) models.RowID) ([]Named, error) {
	rows := make([]models.RowID, len(list))
	for i, of := range list {
		rows[i] = user(of)
	}
	found, err := records.RecordsMany(ctx, rows)
	if err != nil {
		return nil, err
	}
	people := make([]Named, len(rows))
	for i := range found {
		if r := &found[i]; r.User == "" || r.Hidden {
			people[i].Anonymous = true
		} else {
			people[i] = Named{UserID: &r.User, Nickname: r.Nickname, AvatarURL: r.AvatarURL.String()}
		}
	}
	return people, nil
}

// NewTopic returns the topic of a type whose payloads are P in JSON. without takes a user out of a
// payload. It reports whether the payload has named the user, and whether it is worth telling
// without them.
func NewTopic[P any](
	outcome models.OutcomeType, render func(context.Context, *P) (any, error), without func(p *P, user models.RowID) (named, left bool),
) Topic {
	return Topic{
		outcome: outcome,
		Render: func(ctx context.Context, payload string) (any, error) {
			var p P
			if err := json.Unmarshal([]byte(payload), &p); err != nil {
				return nil, err
			}
			return render(ctx, &p)
		},
		Without: func(payload string, user models.RowID) (string, bool, error) {
			var p P
			if err := json.Unmarshal([]byte(payload), &p); err != nil {
				return "", false, err
			}
			named, left := without(&p, user)
			if !named || !left {
				return "", named, nil
			}
			text, err := json.Marshal(p)
			return string(text), true, err
		},
	}
}

// WithNotices returns a topic whose outcomes users may also be told of by Web Push. P is the type of
// the payloads, of which notice makes a notice.
func WithNotices[P Receivers](t Topic, notice func(context.Context, P) (Notice, error)) Topic {
	t.Notice = func(ctx context.Context, payload string) (Notice, error) {
		var p P
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			return Notice{}, err
		}
		n, err := notice(ctx, p)
		n.Type = t.outcome
		return n, err
	}
	t.receiver = func(payload string) (models.RowID, error) {
		var p P
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			return 0, err
		}
		for user := range p.Receivers() {
			return user, nil
		}
		return 0, nil
	}
	return t
}

// topic returns the topic of a type.
func (s *Store) topic(outcome models.OutcomeType) (Topic, error) {
	for _, t := range s.topics {
		if t.outcome == outcome {
			return t, nil
		}
	}
	return Topic{}, fmt.Errorf("this version knows no %s", outcome)
}

// types returns the types of all topics.
func (s *Store) types() []models.OutcomeType {
	types := make([]models.OutcomeType, len(s.topics))
	for i, t := range s.topics {
		types[i] = t.outcome
	}
	return types
}

// message is the body of a webhook.
type message struct {
	Type      models.OutcomeType `json:"type"`
	Timestamp models.Timestamp   `json:"timestamp"`
	Data      any                `json:"data"`
}

// render returns the body of a delivery. Its errors are those of Topic.Render.
func (s *Store) render(ctx context.Context, d *models.Delivery) ([]byte, error) {
	t, err := s.topic(d.Type)
	if err != nil {
		return nil, err
	}
	data, err := t.Render(ctx, d.Payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(message{d.Type, models.TimestampOf(d.CreatedAt), data})
}
