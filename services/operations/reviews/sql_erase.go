package reviews

import "stepboard/models"

// EraseQuery removes the reviews of the scores of a user who was erased.
const EraseQuery = `DELETE FROM reviews WHERE user_id = ?`

// ExportSections returns what an export has of the reviews of a user's scores.
func ExportSections() []models.ExportSection {
	return []models.ExportSection{{Name: "reviews", Key: []string{"id"}, Query: `
		SELECT board, bucket, score, reached_at, first_seen_at, dismissed_at, dismiss_reason FROM reviews WHERE user_id = ?`}}
}
