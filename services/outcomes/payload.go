package outcomes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"stepboard/models"
)

// pair is the payload of an outcome between two users.
type pair struct {
	From models.RowID `json:"from"`
	To   models.RowID `json:"to"`
}

// likePayload is the payload of like.given: from likes the score of to.
type likePayload struct {
	Board string `json:"board"`
	Date  string `json:"date"`
	pair
}

// finalPayload is the payload of board.final.
type finalPayload struct {
	Board string      `json:"board"`
	Kind  models.Kind `json:"kind"`
	// Date is the day of a daily board; nil for an event.
	Date     *string    `json:"date"`
	Revision int        `json:"revision"`
	Total    int64      `json:"total"`
	ScoreSum int64      `json:"score_sum"`
	Top      []TopEntry `json:"top"`
}

// TopEntry is one of the first entries of a result; its rank is its position.
type TopEntry struct {
	User      models.RowID     `json:"user"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

// errErased reports that an outcome is about a person who does not exist any more.
var errErased = errors.New("a person in it does not exist any more")

// Records returns what is known of users. Implemented by directory.Service.
type Records interface {
	// RecordsMany returns the record of each of up to some hundred users, by position;
	// one without a user id if the user does not exist. CodeUnavailable if SQL is away.
	RecordsMany(ctx context.Context, rows []models.RowID) ([]models.PublicRecord, error)
}

// message is the body of a webhook.
type message struct {
	Type      models.OutcomeType `json:"type"`
	Timestamp models.Timestamp   `json:"timestamp"`
	Data      any                `json:"data"`
}

// render returns the body of a delivery, with people as they are now. errErased if it is
// about somebody who does not exist any more.
func render(ctx context.Context, records Records, d *models.Delivery) ([]byte, error) {
	var (
		data any
		err  error
	)
	switch d.Type {
	case models.OutcomeFriendRequested, models.OutcomeFriendAccepted:
		data, err = renderPair(ctx, records, d.Payload)
	case models.OutcomeLikeGiven:
		data, err = renderLike(ctx, records, d.Payload)
	case models.OutcomeDigestReady:
		data, err = renderDigest(ctx, records, d.Payload)
	case models.OutcomeBoardFinal:
		data, err = renderFinal(ctx, records, d.Payload)
	default:
		err = fmt.Errorf("this version knows no %s", d.Type)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(message{d.Type, models.TimestampOf(d.CreatedAt), data})
}

type pairData struct {
	From models.UserID `json:"from"`
	To   models.UserID `json:"to"`
}

func renderPair(ctx context.Context, records Records, payload string) (any, error) {
	var p pair
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return nil, err
	}
	return p.render(ctx, records)
}

// render returns the pair with user ids.
func (p pair) render(ctx context.Context, records Records) (pairData, error) {
	users, err := records.RecordsMany(ctx, []models.RowID{p.From, p.To})
	if err != nil {
		return pairData{}, err
	}
	if users[0].User == "" || users[1].User == "" {
		return pairData{}, errErased
	}
	return pairData{users[0].User, users[1].User}, nil
}

type likeData struct {
	Board string `json:"board"`
	Date  string `json:"date"`
	pairData
}

func renderLike(ctx context.Context, records Records, payload string) (any, error) {
	var p likePayload
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return nil, err
	}
	people, err := p.render(ctx, records)
	return likeData{p.Board, p.Date, people}, err
}

type finalData struct {
	finalPayload
	Top []topLine `json:"top"`
}

// topLine is a line of `top`. Of an anonymous person it has score and time only.
type topLine struct {
	Rank      int              `json:"rank"`
	UserID    *models.UserID   `json:"user_id"`
	Nickname  string           `json:"nickname"`
	AvatarURL string           `json:"avatar_url"`
	Anonymous bool             `json:"anonymous,omitempty"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

func renderFinal(ctx context.Context, records Records, payload string) (any, error) {
	data := finalData{}
	if err := json.Unmarshal([]byte(payload), &data.finalPayload); err != nil {
		return nil, err
	}
	rows := make([]models.RowID, len(data.finalPayload.Top))
	for i, entry := range data.finalPayload.Top {
		rows[i] = entry.User
	}
	people, err := records.RecordsMany(ctx, rows)
	if err != nil {
		return nil, err
	}
	data.Top = make([]topLine, len(rows))
	for i, entry := range data.finalPayload.Top {
		line := topLine{Rank: i + 1, Score: entry.Score, ReachedAt: entry.ReachedAt, Anonymous: true}
		if person := people[i]; person.User != "" && !person.Hidden {
			line.UserID, line.Nickname, line.AvatarURL, line.Anonymous = &person.User, person.Nickname, person.AvatarURL.String(), false
		}
		data.Top[i] = line
	}
	return data, nil
}
