package harness

import (
	"fmt"
	"strings"

	"stepboard/models"
)

// IncrementResults is the answer to a list of increments.
type IncrementResults struct {
	Results []IncrementResult `json:"results"`
}

// IncrementResult is the result of one increment.
type IncrementResult struct {
	EventID   string            `json:"event_id"`
	Status    string            `json:"status"`
	Score     *int64            `json:"score"`
	ReachedAt *models.Timestamp `json:"reached_at"`
	Code      models.Code       `json:"code"`
	Detail    string            `json:"detail"`
}

// Brief returns the result as one line: event id, status, and either the score
// and when it was reached or the error code.
func (r IncrementResult) Brief() string {
	if r.Status == "rejected" {
		return r.EventID + " rejected " + string(r.Code)
	}
	return fmt.Sprintf("%s %s %d %v", r.EventID, r.Status, *r.Score, r.ReachedAt.Time().Format("15:04:05.000"))
}

// Brief returns the results as lines.
func (r IncrementResults) Brief() []string {
	list := make([]string, len(r.Results))
	for i, one := range r.Results {
		list[i] = one.Brief()
	}
	return list
}

// IncrementsJSON returns the body of a list of increments.
func IncrementsJSON(items ...string) string {
	return `{"increments":[` + strings.Join(items, ",") + `]}`
}

// IncrementJSON returns the body of one increment.
func IncrementJSON(user, delta int, id string) string {
	return fmt.Sprintf(`{"user_id":"%d","delta":%d,"event_id":%q}`, user, delta, id)
}
