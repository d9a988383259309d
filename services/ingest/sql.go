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

// letterRows is how many dead letters one statement stores.
const letterRows = 200

// LetterStore keeps dead letters in table dead_letters. Safe for concurrent
// use.
type LetterStore struct {
	db *gorm.DB
}

// NewLetterStore makes a store over the database.
func NewLetterStore(db *gorm.DB) *LetterStore { return &LetterStore{db: db} }

// Keep is part of Letters.
func (s *LetterStore) Keep(ctx context.Context, letters []models.DeadLetter) error {
	for chunk := range slices.Chunk(letters, letterRows) {
		err := s.db.WithContext(ctx).Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "position"}}, DoNothing: true}).Create(&chunk).Error
		if err != nil {
			return fmt.Errorf("store dead letters: %w", err)
		}
	}
	return nil
}

// list reads a page, newest first, behind the given id; 0 begins at the
// newest.
func (s *LetterStore) list(ctx context.Context, before int64, limit int) ([]models.DeadLetter, error) {
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
func (s *LetterStore) find(ctx context.Context, id int64) (models.DeadLetter, error) {
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
func (s *LetterStore) remove(ctx context.Context, id int64) error {
	if err := s.db.WithContext(ctx).Delete(&models.DeadLetter{}, "id = ?", id).Error; err != nil {
		return models.Unavailable("delete a dead letter", err)
	}
	return nil
}
