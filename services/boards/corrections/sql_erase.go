package corrections

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/models"
)

// Pending reports whether the archive has yet to apply corrections of a user, or their
// lifting. One query.
func (s *Store) Pending(ctx context.Context, user models.RowID) (pending bool, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM corrections c
		JOIN pending_corrections p ON p.correction_id = c.id WHERE c.user_id = ?)`, user).Scan(&pending).Error
	return pending, models.Wrap("look for pending corrections", err)
}

// staysHeld is the condition of corrections that hold again when the id of an erased user returns:
// exclusions, unless they concern only a bucket that is not in Redis any more.
const staysHeld = `kind = 'exclude' AND lifted_at IS NULL AND (bucket IS NULL OR hot)`

// Erase empties the corrections of a user who was erased: they have neither user nor texts
// nor what the user has reported, and hold no more. Exclusions that must hold again when the user
// id returns keep user, reason and validity. It returns how many rows these were. It may be
// repeated. Two statements and a query, and one statement for each correction.
func (s *Store) Erase(ctx context.Context, user models.RowID) (rows int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		emptied := tx.Exec(`UPDATE corrections SET message = '', before_score = NULL, before_at = NULL
			WHERE user_id = ? AND (message <> '' OR before_score IS NOT NULL) AND `+staysHeld, user)
		if emptied.Error != nil {
			return emptied.Error
		}
		n, err := s.empty(tx, tx.Where("user_id = ? AND NOT ("+staysHeld+")", user))
		if err != nil {
			return err
		}
		removed := tx.Exec(`DELETE FROM reported_scores WHERE user_id = ?`, user)
		rows = emptied.RowsAffected + n + removed.RowsAffected
		return removed.Error
	})
	return rows, models.Wrap("empty corrections", err)
}

// empty empties the corrections that a query selects, and returns their number.
func (s *Store) empty(tx, query *gorm.DB) (int64, error) {
	var ids []int64
	if err := query.Model(&models.Correction{}).Order("id").Pluck("id", &ids).Error; err != nil {
		return 0, err
	}
	for _, id := range ids {
		err := tx.Exec(`UPDATE corrections SET user_id = ?, reason = '', message = '', lift_reason = '', before_score = NULL, before_at = NULL,
			lifted_at = coalesce(lifted_at, ?), hot = ? WHERE id = ?`, models.NewNobody(s.random), tx.NowFunc(), false, id).Error
		if err != nil {
			return 0, err
		}
	}
	return int64(len(ids)), nil
}

// Keeps reports whether exclusions of an erased user hold again when the user id returns. One
// query.
func (s *Store) Keeps(ctx context.Context, user models.RowID) (keeps bool, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM corrections WHERE user_id = ? AND `+staysHeld+`)`, user).Scan(&keeps).Error
	return keeps, models.Wrap("look for kept exclusions", err)
}

// Forget empties all corrections of a user who was erased. A query, and a statement for each
// correction.
func (s *Store) Forget(ctx context.Context, user models.RowID) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		_, err := s.empty(tx, tx.Where("user_id = ?", user))
		return err
	})
	return models.Wrap("empty corrections", err)
}

// move moves the exclusions that hold of an erased user to the row under which the user id has
// returned, if that exists, and returns them. One that overlaps a correction of the new row is
// emptied: an operator has decided about the user since. One transaction for each.
func (s *Store) move(ctx context.Context, from, to models.RowID) (moved []models.Correction, err error) {
	var kept []models.Correction
	if err := s.db.WithContext(ctx).Where("user_id = ? AND "+staysHeld, from).Order("id").Find(&kept).Error; err != nil {
		return nil, fmt.Errorf("read kept exclusions: %w", err)
	}
	for _, c := range kept {
		c.User, c.BeforePoints, c.BeforeAt = to, nil, nil
		done := false
		err := s.transact(ctx, false, func(tx *gorm.DB) (err error) {
			done, err = s.moveOne(tx, &c, from)
			return err
		})
		if err != nil {
			return moved, fmt.Errorf("move a kept exclusion: %w", err)
		}
		if done {
			moved = append(moved, c)
		}
	}
	return moved, nil
}

// moveOne moves an exclusion to its user, and reports whether it has.
func (s *Store) moveOne(tx *gorm.DB, c *models.Correction, from models.RowID) (bool, error) {
	archived, err := lock(tx, c)
	if err != nil {
		return false, err
	}
	var user []models.User
	if err := tx.Where("user_id = ?", c.User).Find(&user).Error; err != nil || len(user) == 0 {
		return false, err
	}
	others, err := overlapping(tx, c)
	if err != nil {
		return false, err
	}
	if len(others) > 0 {
		_, err := s.empty(tx, tx.Where("id = ? AND user_id = ?", c.ID, from))
		return false, err
	}
	// If it was lifted meanwhile, nothing holds.
	updated := tx.Exec(`UPDATE corrections SET user_id = ?, before_score = NULL, before_at = NULL
		WHERE id = ? AND user_id = ? AND lifted_at IS NULL`, c.User, c.ID, from)
	if updated.Error != nil || updated.RowsAffected == 0 {
		return false, updated.Error
	}
	if archived, err = archivedSince(tx, c, archived, user[0].CreatedAt); err != nil {
		return false, err
	}
	return true, addPending(tx, c, archived)
}

// clocksApart is more than clocks differ.
const clocksApart = time.Hour

// archivedSince returns those of the archived buckets whose archive may have the user of a
// correction, who was created at a time.
func archivedSince(tx *gorm.DB, c *models.Correction, buckets []string, created time.Time) (since []string, err error) {
	if len(buckets) == 0 {
		return nil, nil
	}
	err = tx.Model(&models.ArchiveRun{}).Distinct("bucket").
		Where("board = ? AND bucket IN ? AND finished_at >= ?", c.Board, buckets, created.Add(-clocksApart)).
		Order("bucket").Pluck("bucket", &since).Error
	return since, models.Wrap("find archived buckets", err)
}

// Subject returns what is stored of the corrections of users' scores.
func (s *Service) Subject() models.Subject {
	store := s.o.Store
	return models.Subject{
		Name: "corrections", Tables: []string{"corrections", "reported_scores"}, AfterCorrections: true,
		Erase: store.Erase, Return: s.Return, Keeps: store.Keeps, Forget: store.Forget,
		Export: []models.ExportSection{
			{Name: "corrections", Key: []string{"c.id"}, Points: []string{"score", "before_score"}, Query: `
			SELECT c.board, c.day AS date, c.kind, c.score, c.reached_at, c.before_score, c.before_at, c.reason, c.message, c.created_at, c.lifted_at,
				c.lift_reason, b.score_order, b.max_score
			FROM corrections c LEFT JOIN board_buckets b ON ` + ofBucket + ` WHERE c.user_id = ?`},
			{Name: "reported_scores", Key: []string{"s.board", "s.bucket"}, Points: []string{"score"}, Query: `
			SELECT s.board, s.bucket, s.score, s.reached_at, b.score_order, b.max_score
			FROM reported_scores s JOIN board_buckets b ON b.board = s.board AND b.bucket = s.bucket WHERE s.user_id = ?`},
		},
	}
}
