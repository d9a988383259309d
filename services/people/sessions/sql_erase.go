package sessions

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/platform/revoked"
)

// Subject returns what is stored of who is signed in. Exports name sessions, without keys.
func (s *Store) Subject(clock models.Clock) models.Subject {
	return models.Subject{
		Name: "sessions", Tables: []string{"sessions", "sign_in_codes", "operators", "newcomers"},
		Erase: func(ctx context.Context, user models.RowID) (n int64, err error) {
			err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				for _, table := range Tables() {
					ended, err := revoked.End(tx, clock().UTC(), table, "user_id = ?", user)
					if err != nil {
						return err
					}
					n += ended
				}
				for _, statement := range []string{
					`DELETE FROM newcomers WHERE user_id = ?`, `UPDATE newcomers SET invited_by = NULL WHERE invited_by = ?`,
				} {
					changed := tx.Exec(statement, user)
					if changed.Error != nil {
						return fmt.Errorf("forget who has signed up: %w", changed.Error)
					}
					n += changed.RowsAffected
				}
				return nil
			})
			return n, err
		},
		Export: []models.ExportSection{
			{Name: "sessions", Key: []string{"id"}, Query: `SELECT id, device, time_zone, created_at, last_used_at FROM sessions WHERE user_id = ?`},
			{Name: "signed_up", Key: []string{"n.user_id"}, Query: `SELECT n.created_at, u.external_id AS invited_by, g.external_id AS invited_to
				FROM newcomers n LEFT JOIN users u ON u.user_id = n.invited_by LEFT JOIN groups g ON g.group_id = n.group_id WHERE n.user_id = ?`},
			{Name: "operator", Key: []string{"created_at"}, Query: `SELECT created_at FROM operators WHERE user_id = ?`},
		},
	}
}
