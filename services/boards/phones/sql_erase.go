package phones

import (
	"context"
	"time"

	"stepboard/models"
)

// Subject returns what is stored of addresses. Exports name them, without keys.
func (s *Store) Subject(clock models.Clock) models.Subject {
	return models.Subject{
		Name: "upload addresses", Tables: []string{"upload_addresses"},
		Erase: func(ctx context.Context, user models.RowID) (int64, error) {
			return s.end(ctx, clock().UTC().Truncate(time.Microsecond), "user_id = ?", user)
		},
		Export: []models.ExportSection{{
			Name: "upload_addresses", Key: []string{"id"},
			Query: `SELECT id, name, board, time_zone, created_at, last_used_at, last_day, last_score, last_code FROM upload_addresses WHERE user_id = ?`,
		}},
	}
}
