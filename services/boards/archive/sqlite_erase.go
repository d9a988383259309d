package archive

import (
	"context"
	"fmt"
	"maps"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
)

// erasedUsers returns the users who were erased.
func erasedUsers(tx *gorm.DB) (map[models.RowID]bool, error) {
	var rows []models.RowID
	if err := tx.Model(&models.Erasure{}).Pluck("row_id", &rows).Error; err != nil {
		return nil, fmt.Errorf("look for erased users: %w", err)
	}
	erased := make(map[models.RowID]bool, len(rows))
	for _, user := range rows {
		erased[user] = true
	}
	return erased, nil
}

// leaveOutErased removes users who were erased from the entries of a run.
func leaveOutErased(tx *gorm.DB, best map[models.RowID]models.Composite) error {
	erased, err := erasedUsers(tx)
	maps.DeleteFunc(best, func(user models.RowID, _ models.Composite) bool { return erased[user] })
	return err
}

// erase implements storage. It replaces the rows of each bucket.
func (s *sqlite) erase(ctx context.Context, user models.RowID, newNobody func() models.RowID) (rows int64, err error) {
	var buckets []*models.Bucket
	err = s.db.WithContext(ctx).Where(`EXISTS (SELECT 1 FROM archived_scores s
		WHERE s.day = board_buckets.day AND s.board = board_buckets.board AND s.user_id = ?)`, user).
		Order("day, board").Find(&buckets).Error
	if err != nil {
		return 0, fmt.Errorf("find archived scores: %w", err)
	}
	for _, bucket := range buckets {
		began := time.Now()
		err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return s.eraseIn(tx, bucket, user, newNobody()) })
		if err != nil {
			return rows, fmt.Errorf("erase archived scores: %w", err)
		}
		rows++
		failpoint.Hit("erasure.archive")
		if err := pause.Rest(ctx, began, 1); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// eraseIn gives a user's row in a bucket a fresh row id.
func (s *sqlite) eraseIn(tx *gorm.DB, bucket *models.Bucket, user, fresh models.RowID) error {
	entries := make(map[models.RowID]models.Composite)
	if err := s.merge(tx, bucket, entries); err != nil {
		return err
	}
	entries[fresh] = entries[user]
	delete(entries, user)
	stored, err := s.replace(tx, bucket, entries)
	if err != nil {
		return err
	}
	err = tx.Exec(`UPDATE board_archives SET hash = ? WHERE board = ? AND bucket = ? AND run = (
		SELECT max(run) FROM board_archives WHERE board = ? AND bucket = ? AND state = ?)`,
		stored.hash, bucket.Board, bucket.Name, bucket.Board, bucket.Name, models.ArchiveComplete).Error
	if err != nil {
		return err
	}
	err = tx.Exec(`UPDATE score_totals SET user_id = ? WHERE board = ? AND user_id = ? AND total = ?`,
		fresh, bucket.Board, user, bucket.Name).Error
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE corrections SET user_id = ?, reason = '', lift_reason = '', before_score = NULL, before_at = NULL
		WHERE board = ? AND bucket = ? AND user_id = ?`, fresh, bucket.Board, bucket.Name, user).Error
}

// runsUnderWay implements storage. A run stores its rows in one transaction, and no other
// transaction runs meanwhile.
func (s *sqlite) runsUnderWay(context.Context) (int64, error) { return 0, nil }
