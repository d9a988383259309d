package ingest

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/platform/cursor"
)

// deadLetterRows is how many dead letters one statement stores.
const deadLetterRows = 200

// DeadLetterStore stores dead letters in table dead_letters. Safe for
// concurrent use.
type DeadLetterStore struct {
	db *gorm.DB
}

// NewDeadLetterStore returns a store over the database.
func NewDeadLetterStore(db *gorm.DB) *DeadLetterStore { return &DeadLetterStore{db: db} }

// Write stores dead letters. One that is stored already stays as it is.
func (s *DeadLetterStore) Write(ctx context.Context, deadLetters []models.DeadLetter) error {
	for chunk := range slices.Chunk(deadLetters, deadLetterRows) {
		err := s.db.WithContext(ctx).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "position"}}, DoNothing: true}).Create(&chunk).Error
		if err != nil {
			return fmt.Errorf("store dead letters: %w", err)
		}
	}
	return nil
}

// list returns a page, newest first.
func (s *DeadLetterStore) list(ctx context.Context, q DeadLetterQuery) ([]models.DeadLetter, error) {
	db := s.db.WithContext(ctx).Where(&models.DeadLetter{Board: q.Board, Bucket: q.Bucket, Reason: q.Reason})
	page, err := cursor.Newest[models.DeadLetter](db, "id", q.Before, q.Limit)
	return page, models.Public("list dead letters", err)
}

// find returns one dead letter, or CodeNotFound.
func (s *DeadLetterStore) find(ctx context.Context, id int64) (models.DeadLetter, error) {
	deadLetter, err := lists.Take[models.DeadLetter](s.db.WithContext(ctx).Where("id = ?", id),
		models.Errorf(models.CodeNotFound, "there is no dead letter of this id"))
	return deadLetter, models.Public("read a dead letter", err)
}

// remove deletes those of the dead letters that exist.
func (s *DeadLetterStore) remove(ctx context.Context, ids ...int64) error {
	return models.Public("delete dead letters", s.db.WithContext(ctx).Delete(&models.DeadLetter{}, "id IN ?", ids).Error)
}
