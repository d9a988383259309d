package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
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

// Write is part of DeadLetterWriter.
func (s *DeadLetterStore) Write(ctx context.Context, deadLetters []models.DeadLetter) error {
	for chunk := range slices.Chunk(deadLetters, deadLetterRows) {
		err := s.db.WithContext(ctx).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "position"}}, DoNothing: true}).Create(&chunk).Error
		if err != nil {
			return fmt.Errorf("store dead letters: %w", err)
		}
	}
	return nil
}

// list returns a page, newest first, behind the given id. 0 begins at the
// newest.
func (s *DeadLetterStore) list(ctx context.Context, before int64, limit int) ([]models.DeadLetter, error) {
	db := s.db.WithContext(ctx)
	if before != 0 {
		db = db.Where("id < ?", before)
	}
	var page []models.DeadLetter
	if err := db.Order("id DESC").Limit(limit).Find(&page).Error; err != nil {
		return nil, models.Unavailable("list dead letters", err)
	}
	return page, nil
}

// find returns one dead letter, or CodeNotFound.
func (s *DeadLetterStore) find(ctx context.Context, id int64) (models.DeadLetter, error) {
	var deadLetter models.DeadLetter
	err := s.db.WithContext(ctx).Take(&deadLetter, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return deadLetter, models.Errorf(models.CodeNotFound, "there is no dead letter of this id")
	}
	if err != nil {
		return deadLetter, models.Unavailable("read a dead letter", err)
	}
	return deadLetter, nil
}

// remove deletes one dead letter, if it exists.
func (s *DeadLetterStore) remove(ctx context.Context, id int64) error {
	if err := s.db.WithContext(ctx).Delete(&models.DeadLetter{}, "id = ?", id).Error; err != nil {
		return models.Unavailable("delete a dead letter", err)
	}
	return nil
}
