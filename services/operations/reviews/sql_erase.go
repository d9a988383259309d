package reviews

import (
	"context"
	"fmt"

	"stepboard/models"
)

// Erase removes the reviews of the scores of a user who was erased, and returns their number. It
// may be repeated. One statement.
func (s *Store) Erase(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`DELETE FROM reviews WHERE user_id = ?`, user)
	if result.Error != nil {
		return 0, fmt.Errorf("remove reviews: %w", result.Error)
	}
	return result.RowsAffected, nil
}

// ExportSections returns what an export has of the reviews of a user's scores.
func ExportSections() []models.ExportSection {
	return []models.ExportSection{{Name: "reviews", Key: []string{"id"}, Query: `
		SELECT board, bucket, score, reached_at, first_seen_at, dismissed_at, dismiss_reason FROM reviews WHERE user_id = ?`}}
}
