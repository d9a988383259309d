package catalog

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// ErrNoBucket says that nothing was ever written to a bucket: a reader answers
// an empty list.
var ErrNoBucket = errors.New("no such bucket")

// Store keeps definitions and buckets in the tables boards and board_buckets.
// Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore makes a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// define inserts the definitions, in one transaction. Those that exist are
// brought up to date, or left as they are. A board's kind can't change: its
// buckets would lie.
func (s *Store) define(ctx context.Context, boards []models.Board, update bool) error {
	onConflict := clause.OnConflict{DoNothing: true}
	if update {
		onConflict = clause.OnConflict{
			Columns:   []clause.Column{{Name: "name"}},
			DoUpdates: clause.AssignmentColumns([]string{"time_zone", "max_score", "shards", "global", "updated_at"}),
		}
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for i := range boards {
			b := boards[i]
			err := tx.Clauses(onConflict).Create(&b).Error
			if err != nil {
				return err
			}
			var stored models.Board
			if err := tx.First(&stored, "name = ?", b.Name).Error; err != nil {
				return err
			}
			if stored.Kind != b.Kind {
				return fmt.Errorf("board %s is %s and can't become %s; choose another name", b.Name, stored.Kind, b.Kind)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store boards: %w", err)
	}
	return nil
}

// boards reads every definition.
func (s *Store) boards(ctx context.Context) ([]models.Board, error) {
	var boards []models.Board
	if err := s.db.WithContext(ctx).Order("name").Find(&boards).Error; err != nil {
		return nil, fmt.Errorf("read boards: %w", err)
	}
	return boards, nil
}

// bucket reads one bucket; ErrNoBucket where it was never written to.
func (s *Store) bucket(ctx context.Context, board, name string) (*models.Bucket, error) {
	var bucket models.Bucket
	err := s.db.WithContext(ctx).Where("board = ? AND bucket = ?", board, name).Take(&bucket).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, ErrNoBucket
	}
	if err != nil {
		return nil, fmt.Errorf("read bucket %s of board %s: %w", name, board, err)
	}
	return &bucket, nil
}

// ensure inserts the proposed bucket unless it exists, and reads what stands
// there: with several writers, all get the same.
func (s *Store) ensure(ctx context.Context, proposed models.Bucket) (*models.Bucket, error) {
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&proposed).Error
	if err != nil {
		return nil, fmt.Errorf("store bucket %s of board %s: %w", proposed.Name, proposed.Board, err)
	}
	return s.bucket(ctx, proposed.Board, proposed.Name)
}
