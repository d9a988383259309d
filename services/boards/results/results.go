// Package results writes the final results of days and events to the outbox, again with the next
// revision if they change later.
package results

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"stepboard/models"
)

// TopEntries is how many of the first entries a result has at most.
const TopEntries = 100

// Result is the final result of a day or an event.
type Result struct {
	// Total is the number of entries, and ScoreSum the sum of their scores.
	Total, ScoreSum int64
	// Top holds the first entries, at most TopEntries, best first.
	Top []TopEntry
}

// TopEntry is one of the first entries of a result; its rank is its position.
type TopEntry struct {
	User      models.RowID     `json:"user"`
	Score     int64            `json:"score"`
	ReachedAt models.Timestamp `json:"reached_at"`
}

// hash returns a hash by which equal results are recognized. It is stored, so the names in the JSON
// stay as they are.
func (r *Result) hash() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode result: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
