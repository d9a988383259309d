package audit

import (
	"context"

	"stepboard/models"
)

// Subject returns what is stored of what operators have done about users.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "audit", Tables: []string{"audit_log"}, Erase: s.erase,
		Export: []models.ExportSection{{Name: "operator_actions", Key: []string{"id"}, Query: `
			SELECT at, action, board, bucket, target, reason, outcome FROM audit_log WHERE user_id = ?`}},
	}
}

// erase removes a user who was erased from what operators have done about them, with the
// texts that may name them. That something was done stays, by whom and when; of the erasure
// itself also why, and whether it was of those whom they had brought, too.
func (s *Store) erase(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`UPDATE audit_log SET user_id = NULL,
		target = CASE WHEN action = ? THEN target ELSE '' END, reason = CASE WHEN action = ? THEN reason ELSE '' END
		WHERE user_id = ?`, models.EraseAction, models.EraseAction, user)
	return result.RowsAffected, result.Error
}
