package harness

import (
	"fmt"
	"strings"

	"stepboard/models"
)

// IncrementResults is the answer to increments.
type IncrementResults struct {
	Results []IncrementResult `json:"results"`
}

type IncrementResult struct {
	EventID   string            `json:"event_id"`
	Status    string            `json:"status"`
	Score     *int64            `json:"score"`
	ReachedAt *models.Timestamp `json:"reached_at"`
	Code      models.Code       `json:"code"`
	Detail    string            `json:"detail"`
}

// Brief is a result in a few words.
func (r IncrementResult) Brief() string {
	if r.Status == "rejected" {
		return r.EventID + " rejected " + string(r.Code)
	}
	return fmt.Sprintf("%s %s %d %v", r.EventID, r.Status, *r.Score, r.ReachedAt.Time().Format("15:04:05.000"))
}

func (c IncrementResults) Brief() []string {
	list := make([]string, len(c.Results))
	for i, r := range c.Results {
		list[i] = r.Brief()
	}
	return list
}

// IncrementsJSON is a list's body.
func IncrementsJSON(items ...string) string {
	return `{"increments":[` + strings.Join(items, ",") + `]}`
}

func IncrementJSON(user, delta int, id string) string {
	return fmt.Sprintf(`{"user_id":"%d","delta":%d,"event_id":%q}`, user, delta, id)
}
