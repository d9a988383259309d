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

// TopEntry is one of the first entries of a result; its rank is its position.
type TopEntry struct {
	User      models.RowID     `json:"user"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

var (
	// errErased reports that an outcome is about a person who does not exist any more.
	errErased = errors.New("a person in it does not exist any more")
	// errHidden reports that an outcome names somebody who hides by now from the person who
	// would be told.
	errHidden = errors.New("a person in it is not shown to the other any more")
)

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

// renderer makes the bodies of deliveries of what is known when they are sent.
type renderer struct {
	records Records
	// apart returns which of the users are not shown to which of the viewers because of a
	// choice of either.
	apart func(ctx context.Context, viewers, users []models.RowID) (map[shownTo]bool, error)
}

// render returns the body of a delivery, with people as they are now. errErased or errHidden if
// nobody is to be told of it any more.
func (r renderer) render(ctx context.Context, d *models.Delivery) ([]byte, error) {
	var (
		data any
		err  error
	)
	switch d.Type {
	case models.OutcomeFriendRequested, models.OutcomeFriendAccepted:
		data, err = renderPair(ctx, r.records, d.Payload)
	case models.OutcomeLikeGiven:
		data, err = r.renderLike(ctx, d.Payload)
	case models.OutcomeDigestReady:
		data, err = r.renderDigest(ctx, d.Payload)
	case models.OutcomeBoardFinal:
		data, err = renderFinal(ctx, r.records, d.Payload)
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
	from, to, err := p.read(ctx, records)
	return pairData{from.User, to.User}, err
}

// read returns the records of both. errErased if there is no such user any more.
func (p pair) read(ctx context.Context, records Records) (from, to models.PublicRecord, err error) {
	users, err := records.RecordsMany(ctx, []models.RowID{p.From, p.To})
	if err == nil && (users[0].User == "" || users[1].User == "") {
		err = errErased
	}
	if err != nil {
		return from, to, err
	}
	return users[0], users[1], nil
}

type likeData struct {
	Board string `json:"board"`
	Date  string `json:"date"`
	pairData
}

// renderLike returns errHidden if the person who is liked is not shown the other any more.
func (r renderer) renderLike(ctx context.Context, payload string) (any, error) {
	var p likePayload
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return nil, err
	}
	from, to, err := p.read(ctx, r.records)
	if err != nil {
		return nil, err
	}
	apart, err := r.apart(ctx, []models.RowID{p.To}, []models.RowID{p.From})
	if err == nil && (from.Hidden || apart[shownTo{p.To, p.From}]) {
		err = errHidden
	}
	return likeData{p.Board, p.Date, pairData{from.User, to.User}}, err
}

type finalData struct {
	Final
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
	if err := json.Unmarshal([]byte(payload), &data.Final); err != nil {
		return nil, err
	}
	rows := make([]models.RowID, len(data.Final.Top))
	for i, entry := range data.Final.Top {
		rows[i] = entry.User
	}
	people, err := records.RecordsMany(ctx, rows)
	if err != nil {
		return nil, err
	}
	data.Top = make([]topLine, len(rows))
	for i, entry := range data.Final.Top {
		line := topLine{Rank: i + 1, Score: entry.Score, ReachedAt: entry.ReachedAt, Anonymous: true}
		if person := people[i]; person.User != "" && !person.Hidden {
			line.UserID, line.Nickname, line.AvatarURL, line.Anonymous = &person.User, person.Nickname, person.AvatarURL.String(), false
		}
		data.Top[i] = line
	}
	return data, nil
}
