package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
)

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
	rows, err := s.rows(tx, bucket)
	if err != nil {
		return err
	}
	for i := range rows {
		if rows[i].UserID == user {
			rows[i].UserID = fresh
		}
	}
	slices.SortFunc(rows, func(a, b archivedScore) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), a.ReachedAt.Compare(b.ReachedAt), b.UserID.CompareText(a.UserID))
	})
	var stored totals
	for i := range rows {
		rows[i].Rank = int64(i + 1)
		stored.add(rows[i].row())
	}
	if err := tx.Where("board = ? AND day = ?", bucket.Board, bucket.Day).Delete(&archivedScore{}).Error; err != nil {
		return err
	}
	if err := tx.CreateInBatches(rows, sqliteRows).Error; err != nil {
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
