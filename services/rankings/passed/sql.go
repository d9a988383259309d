package passed

import (
	"context"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Store writes notices to the outbox. Safe for concurrent use.
type Store struct {
	db     *gorm.DB
	outbox *outcomes.Outbox
}

// NewStore returns a store over the database.
func NewStore(db *gorm.DB, outbox *outcomes.Outbox) *Store { return &Store{db: db, outbox: outbox} }

// write writes up to some dozens of notices, in one transaction.
func (s *Store) write(ctx context.Context, notices []*notice) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, n := range notices {
			if err := s.outbox.Add(tx, models.OutcomeRankPassed, n); err != nil {
				return err
			}
		}
		failpoint.Hit("passed.noticed")
		return nil
	})
	return models.Wrap("write notices of passing", err)
}
