package holds

import (
	"context"

	"stepboard/models"
)

// Subject returns what is stored of held totals.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "holds", Tables: []string{"held_scores"}, Erase: s.erase,
		Export: []models.ExportSection{{Name: "held_scores", Key: []string{"id"}, Query: `
			SELECT board, day AS date, score, reached_at, held_at, state, decided_at, reason, message FROM held_scores WHERE user_id = ?`}},
	}
}

// erase removes the held totals of a user who was erased.
func (s *Store) erase(ctx context.Context, user models.RowID) (int64, error) {
	return s.delete(ctx, "user_id = ?", user)
}
