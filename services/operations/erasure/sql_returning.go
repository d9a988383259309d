package erasure

import (
	"context"
	"time"

	"stepboard/models"
)

// noteReturned sets the rows to which the ids of erased users have returned, where that is
// missing. The statement that creates a user sets it, unless the user was created and erased by
// others after it has begun. That happens while the erasure is under way, so that its user id is
// still known.
func (s *Store) noteReturned(ctx context.Context) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE erasures
		SET returned_row = (SELECT u.user_id FROM users u WHERE u.external_id = erasures.user_id)
		WHERE finished_at IS NULL AND returned_row IS NULL
			AND EXISTS (SELECT 1 FROM users u WHERE u.external_id = erasures.user_id)`).Error
	return models.Wrap("note users who have returned", err)
}

// returned returns the rows of users whose ids have returned and of whom not everything is moved.
func (s *Store) returned(ctx context.Context) (rows []models.RowID, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT u.user_id FROM erasures e JOIN users u ON u.user_id = e.returned_row
		WHERE e.returned_row IS NOT NULL AND NOT e.moved ORDER BY u.user_id`).Scan(&rows).Error
	return rows, models.Wrap("list users who have returned", err)
}

// former returns the erasures of the user id that has returned to a row of which not everything is
// moved, oldest first. There may be several, if one row was erased before everything was moved to
// it.
func (s *Store) former(ctx context.Context, to models.RowID) (list []models.Erasure, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT e.* FROM erasures l JOIN erasures e ON e.id_hash = l.id_hash
		WHERE l.returned_row = ? AND NOT l.moved AND e.returned_row IS NOT NULL AND NOT e.moved
		ORDER BY e.id`, to).Scan(&list).Error
	return list, models.Wrap("look for erasures of a user id", err)
}

// moved records that everything that was kept was moved to a row, unless that is erased: then
// it may have been too late.
func (s *Store) moved(ctx context.Context, id int64, to models.RowID) error {
	err := s.db.WithContext(ctx).Model(&models.Erasure{}).
		Where("id = ? AND EXISTS (SELECT 1 FROM users WHERE user_id = ?)", id, to).Update("moved", true).Error
	return models.Wrap("record what is moved", err)
}

// hashed returns a page of the finished erasures that have a hash of the user id and have begun
// by a time, behind the given one.
func (s *Store) hashed(ctx context.Context, by time.Time, after int64, limit int) ([]models.Erasure, error) {
	return s.oldest(ctx, limit, "id_hash IS NOT NULL AND finished_at IS NOT NULL AND begun_at <= ? AND id > ?", by, after)
}

// unmoved returns the row ids under which something may be kept of a user id, by its hash.
func (s *Store) unmoved(ctx context.Context, idHash []byte) (rows []models.RowID, err error) {
	err = s.db.WithContext(ctx).Model(&models.Erasure{}).Where("id_hash = ? AND NOT moved", idHash).
		Order("id").Pluck("row_id", &rows).Error
	return rows, models.Wrap("look for erasures of a user id", err)
}

// forget removes the hash of the user id of an erasure, unless the id has returned meanwhile, and
// the limits. Nothing is kept any more.
func (s *Store) forget(ctx context.Context, e *models.Erasure) (forgotten bool, err error) {
	db := s.db.WithContext(ctx).Model(&models.Erasure{}).Where("id = ?", e.ID)
	if e.ReturnedRow == nil {
		db = db.Where("returned_row IS NULL")
	}
	result := db.Updates(map[string]any{
		"id_hash": nil, "requests_sent": 0, "requests_until": nil, "hidings": 0, "hidings_until": nil, "moved": true,
	})
	return result.RowsAffected > 0, models.Wrap("forget a user id", result.Error)
}
