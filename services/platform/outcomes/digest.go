package outcomes

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"stepboard/internal/pause"
	"stepboard/models"
)

const (
	// readPeople is how many people of a digest are read at once, and restTimes how many times
	// as long as that took the work rests afterwards, in favor of everybody who looks at a
	// ranking when digests are sent.
	readPeople = 200
	restTimes  = 4
)

// digestPayload is the payload of digest.ready.
type digestPayload struct {
	Board string              `json:"board"`
	Date  string              `json:"date"`
	Users []models.DigestLine `json:"users"`
}

type digestData struct {
	Board string       `json:"board"`
	Date  string       `json:"date"`
	Users []digestUser `json:"users"`
}

// digestUser is the part of a digest that one user is told.
type digestUser struct {
	UserID models.UserID `json:"user_id"`
	Rank   int64         `json:"rank"`
	Total  int64         `json:"total"`
	Score  int64         `json:"score"`
	// Leader is nil if the leader hides by now.
	Leader *digestLeader `json:"leader"`
	Likes  int64         `json:"likes"`
}

type digestLeader struct {
	UserID   models.UserID `json:"user_id"`
	Nickname string        `json:"nickname"`
}

// renderDigest leaves out users who do not exist any more, and does not name leaders who hide
// from everybody or from the user who is told.
func (r renderer) renderDigest(ctx context.Context, payload string) (any, error) {
	var p digestPayload
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return nil, err
	}
	rows := make([]models.RowID, 0, 2*len(p.Users))
	var users, leaders []models.RowID
	for _, line := range p.Users {
		rows = append(rows, line.User, line.Leader)
		users, leaders = append(users, line.User), append(leaders, line.Leader)
	}
	slices.Sort(leaders)
	apart, err := r.apart(ctx, users, slices.Compact(leaders))
	if err != nil {
		return nil, err
	}
	people := make([]models.PublicRecord, 0, len(rows))
	for chunk := range slices.Chunk(rows, readPeople) {
		began := time.Now()
		some, err := r.records.RecordsMany(ctx, chunk)
		if err != nil {
			return nil, err
		}
		people = append(people, some...)
		if err := pause.Rest(ctx, began, restTimes); err != nil {
			return nil, err
		}
	}
	data := digestData{Board: p.Board, Date: p.Date}
	for i, line := range p.Users {
		user, first := people[2*i], people[2*i+1]
		if user.User == "" {
			continue
		}
		told := digestUser{UserID: user.User, Rank: line.Rank, Total: line.Total, Score: line.Score, Likes: line.Likes}
		shown := !first.Hidden && !apart[shownTo{line.User, line.Leader}]
		if first.User != "" && (shown || line.Leader == line.User) {
			told.Leader = &digestLeader{first.User, first.Nickname}
		}
		data.Users = append(data.Users, told)
	}
	if len(data.Users) == 0 {
		return nil, errErased
	}
	return data, nil
}
