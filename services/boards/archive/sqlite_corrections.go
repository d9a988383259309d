package archive

import (
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// sqliteReported is a row of reported_scores.
type sqliteReported struct {
	Board     string
	Bucket    string
	UserID    models.RowID
	Score     int64
	ReachedAt time.Time
}

// TableName returns the name of the table of reported scores.
func (sqliteReported) TableName() string { return "reported_scores" }

// correct applies the bucket's corrections to best, which holds the best entry of each
// user, and stores what users with a correction have reported, as the Postgres twin does.
func (s *sqlite) correct(tx *gorm.DB, bucket *models.Bucket, best map[models.RowID]models.Composite) error {
	var list []models.Correction
	err := tx.Where(`board = ? AND (bucket = ? OR bucket IS NULL)`, bucket.Board, bucket.Name).Order("id").Find(&list).Error
	if err != nil {
		return fmt.Errorf("read corrections: %w", err)
	}
	if err := joinReported(tx, bucket, list, best); err != nil {
		return err
	}
	ofBucket := func() *gorm.DB { return tx.Where("board = ? AND bucket = ?", bucket.Board, bucket.Name) }
	if err := ofBucket().Delete(&sqliteReported{}).Error; err != nil {
		return fmt.Errorf("replace reported scores: %w", err)
	}
	codec := score.Of(bucket)
	for i := range list {
		c := &list[i]
		if c.LiftedAt != nil || !c.Concerns(bucket) {
			continue
		}
		reported := best[c.User]
		if reported == 0 {
			continue
		}
		points, at := codec.Decode(reported)
		row := sqliteReported{Board: bucket.Board, Bucket: bucket.Name, UserID: c.User, Score: points, ReachedAt: at.Time()}
		if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
			return fmt.Errorf("store reported scores: %w", err)
		}
		delete(best, c.User)
		if c.Kind == models.CorrectionSet {
			if best[c.User], err = composite(codec, *c.Score, *c.ReachedAt); err != nil {
				return err
			}
		}
	}
	if err := tx.Exec(`DELETE FROM pending_corrections WHERE board = ? AND bucket = ?`, bucket.Board, bucket.Name).Error; err != nil {
		return fmt.Errorf("complete corrections: %w", err)
	}
	err = tx.Exec(`UPDATE corrections SET hot = false
		WHERE hot AND board = ? AND (bucket = ? OR (bucket IS NULL AND until_day <= ?))`, bucket.Board, bucket.Name, bucket.Day).Error
	if err != nil {
		return fmt.Errorf("complete corrections: %w", err)
	}
	return nil
}

// joinReported joins what was set apart into best: the bucket's reported scores, and the
// entries that users had when corrections were made, unless the users were erased.
func joinReported(
	tx *gorm.DB, bucket *models.Bucket, list []models.Correction, best map[models.RowID]models.Composite,
) error {
	var rows []sqliteReported
	if err := tx.Where("board = ? AND bucket = ?", bucket.Board, bucket.Name).Find(&rows).Error; err != nil {
		return fmt.Errorf("read reported scores: %w", err)
	}
	erased, err := erasedUsers(tx)
	if err != nil {
		return err
	}
	for _, c := range list {
		if c.Concerns(bucket) && c.Day == bucket.Day && c.BeforeScore != nil && !erased[c.User] {
			rows = append(rows, sqliteReported{UserID: c.User, Score: *c.BeforeScore, ReachedAt: *c.BeforeAt})
		}
	}
	for _, r := range rows {
		reported, err := composite(score.Of(bucket), r.Score, r.ReachedAt)
		if err != nil {
			return err
		}
		best[r.UserID] = max(best[r.UserID], reported)
	}
	return nil
}
