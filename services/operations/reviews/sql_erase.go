package reviews

import (
	"context"

	"stepboard/models"
)

// Subject returns what is stored of the reviews of users' scores.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "reviews", Tables: []string{"reviews"}, Erase: s.erase,
		Export: []models.ExportSection{{Name: "reviews", Key: []string{"id"}, Query: `
			SELECT board, bucket, score, reached_at, first_seen_at, dismissed_at, dismiss_reason FROM reviews WHERE user_id = ?`}},
	}
}

// erase removes the reviews of the scores of a user who was erased.
func (s *Store) erase(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`DELETE FROM reviews WHERE user_id = ?`, user)
	return result.RowsAffected, result.Error
}
