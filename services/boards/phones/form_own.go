package phones

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"stepboard/models"
)

// ownTotal is a total in the form of POST /v1/boards/{board}/scores.
type ownTotal struct {
	Date  string `json:"date"`
	Score number `json:"score"`
}

// own reads the form of uploads: {"date","score"}, or {"scores":[…]}. As there, the best total of a day
// counts.
func (r *reader) own(whole jsontext.Value) error {
	var body struct {
		ownTotal
		Scores []ownTotal `json:"scores"`
	}
	if err := decode(whole, &body); err != nil {
		return err
	}
	list := body.Scores
	if body.Score.known {
		list = append(list, body.ownTotal)
	}
	for _, item := range list {
		if !item.Score.known {
			continue
		}
		date, err := r.day(item.Date)
		if err != nil {
			return err
		}
		if err := r.add(date, item.Score.steps, false); err != nil {
			return err
		}
	}
	return nil
}

// knownError returns the error for a person that a decoder's error wraps, or nil.
func knownError(err error) error {
	var known *models.Error
	if errors.As(err, &known) {
		return known
	}
	return nil
}
