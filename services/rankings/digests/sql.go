package digests

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Store keeps the progress of digests in table digests. Safe for concurrent use.
type Store struct {
	db     *gorm.DB
	outbox *outcomes.Outbox
}

// NewStore returns a store over the database, which writes digests to the outbox.
func NewStore(db *gorm.DB, outbox *outcomes.Outbox) *Store { return &Store{db: db, outbox: outbox} }

// begin stores a digest that begins, unless it is stored.
func (s *Store) begin(ctx context.Context, d models.Digest) error {
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&d).Error
	return models.Wrap("begin a digest", err)
}

// open returns the digests that are not finished, the oldest first.
func (s *Store) open(ctx context.Context) (list []models.Digest, err error) {
	err = s.db.WithContext(ctx).Where("finished_at IS NULL").Order("started_at, board, day").Find(&list).Error
	return list, models.Wrap("list unfinished digests", err)
}

// next returns the next users behind a row. If no webhook wants digests, these are the users who want
// one in a browser.
func (s *Store) next(ctx context.Context, after models.RowID, limit int) (users []models.RowID, err error) {
	db := s.db.WithContext(ctx).Model(&models.User{})
	if !s.outbox.WantsAll(models.OutcomeDigestReady) {
		db = s.db.WithContext(ctx).Model(&models.PushSubscription{}).Distinct().Where("tell_digest")
	}
	err = db.Where("user_id > ?", after).Order("user_id").Limit(limit).Pluck("user_id", &users).Error
	return users, models.Wrap("list users", err)
}

// write writes the lines of a digest to the outbox, if there are any, and its progress.
func (s *Store) write(ctx context.Context, d *models.Digest, lines []models.DigestLine) error {
	err := s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		if len(lines) > 0 {
			if err := s.outbox.Add(db, models.OutcomeDigestReady, payload{d.Board, d.Day.String(), lines}); err != nil {
				return err
			}
		}
		failpoint.Hit("digest.batch_written")
		return db.Model(d).Updates(map[string]any{"last_user": d.LastUser, "users": d.Users}).Error
	})
	return models.Wrap("write a digest", err)
}

// finish stores that a digest is finished.
func (s *Store) finish(ctx context.Context, d *models.Digest, now time.Time) error {
	return models.Wrap("finish a digest", s.db.WithContext(ctx).Model(d).Update("finished_at", now).Error)
}
