package audit

import (
	"context"
	"fmt"

	"stepboard/models"
)

// Erase removes a user who was erased from what operators have done about them, with the texts
// that may name them. That something was done stays, by whom and when; of the erasure itself
// also why. It returns how many entries it has changed. It may be repeated. One statement.
func (s *Store) Erase(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`UPDATE audit_log SET user_id = NULL, target = '',
		reason = CASE WHEN action = ? THEN reason ELSE '' END WHERE user_id = ?`, models.EraseAction, user)
	if result.Error != nil {
		return 0, fmt.Errorf("empty the audit log: %w", result.Error)
	}
	return result.RowsAffected, nil
}

// ExportSections returns what an export has of what operators have done about a user.
func ExportSections() []models.ExportSection {
	return []models.ExportSection{{Name: "operator_actions", Key: []string{"id"}, Query: `
		SELECT at, action, board, bucket, target, reason, outcome FROM audit_log WHERE user_id = ?`}}
}
