package phones

import "github.com/go-json-experiment/json/jsontext"

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
	if body.Score.known || body.Score.err != nil {
		list = append(list, body.ownTotal)
	}
	for _, item := range list {
		if err := r.add(r.day(item.Date), item.Score, false, ""); err != nil {
			return err
		}
	}
	return nil
}
