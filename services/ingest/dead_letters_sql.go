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

// DeadLetterStore keeps dead letters in table dead_letters. Safe for concurrent
// use.
type DeadLetterStore struct {
	db *gorm.DB
}

// NewDeadLetterStore makes a store over the database.
func NewDeadLetterStore(db *gorm.DB) *DeadLetterStore { return &DeadLetterStore{db: db} }

// Write is part of Letters.
func (s *DeadLetterStore) Write(ctx context.Context, letters []models.DeadLetter) error {
	for chunk := range slices.Chunk(letters, deadLetterRows) {
		err := s.db.WithContext(ctx).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "position"}}, DoNothing: true}).Create(&chunk).Error
		if err != nil {
			return fmt.Errorf("store dead letters: %w", err)
		}
	}
	return nil
}

// list reads a page, newest first, behind the given id; 0 begins at the
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

// find reads one; CodeNotFound where there is none.
func (s *DeadLetterStore) find(ctx context.Context, id int64) (models.DeadLetter, error) {
	var letter models.DeadLetter
	err := s.db.WithContext(ctx).Take(&letter, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return letter, models.Errorf(models.CodeNotFound, "there is no dead letter of this id")
	}
	if err != nil {
		return letter, models.Unavailable("read a dead letter", err)
	}
	return letter, nil
}

// remove deletes one, if it is there.
func (s *DeadLetterStore) remove(ctx context.Context, id int64) error {
	if err := s.db.WithContext(ctx).Delete(&models.DeadLetter{}, "id = ?", id).Error; err != nil {
		return models.Unavailable("delete a dead letter", err)
	}
	return nil
}
