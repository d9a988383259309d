package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/column"
	"stepboard/internal/dialect"
	"stepboard/internal/lists"
	"stepboard/models"
)

// ErrNoBucket means that nothing was ever written to a bucket. To a reader the
// bucket is empty.
var ErrNoBucket = errors.New("no such bucket")

// Store stores definitions and buckets in the tables boards and board_buckets.
// Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// define stores the definitions of the settings in one transaction. Boards that exist
// are updated if update is true, and left unchanged otherwise.
func (s *Store) define(ctx context.Context, boards []*Board, update bool) error {
	ordered := slices.SortedFunc(slices.Values(boards), func(a, b *Board) int { return strings.Compare(a.Name, b.Name) })
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, b := range ordered {
			if err := defineOne(tx, b, update); err != nil {
				return err
			}
		}
		return nil
	})
	return models.Wrap("store boards", err)
}

// settingColumns are the columns of a definition that settings may change.
var settingColumns = []string{
	"time_zone", "open_days", "max_score", "shards", "global", "starts_at", "ends_at", "takes", "late", "latest_end",
	"window_hours", "change_stream", "review_above", "hold_above", "unit", "uploads", "from_settings",
}

// defineOne stores the definition of one board. An end that was set before stays if it is later.
func defineOne(tx *gorm.DB, b *Board, update bool) error {
	def := b.Board
	def.FromSettings = true
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&def).Error; err != nil {
		return err
	}
	stored, err := lockBoard(tx, b.Name)
	if err != nil {
		return err
	}
	if stored.Kind != b.Kind {
		return fmt.Errorf("board %s is %s and can't become %s; choose another name", b.Name, stored.Kind, b.Kind)
	}
	if !update {
		return nil
	}
	if stored.Order != b.Order {
		return fmt.Errorf("board %s has the order %s and can't change it to %s; choose another name", b.Name, stored.Order, b.Order)
	}
	if err := checkUnchanged(tx, b); err != nil {
		return err
	}
	switch {
	case def.EndsAt == nil || stored.EndsAt == nil:
	case stored.EndsAt.After(*def.EndsAt):
		def.EndsAt = stored.EndsAt
	case def.EndsAt.After(*stored.EndsAt):
		if err := moveEnd(tx, b, *def.EndsAt); err != nil {
			return err
		}
	}
	return tx.Model(&models.Board{}).Where("name = ?", b.Name).Select(settingColumns).Updates(&def).Error
}

// lockBoard returns a definition, whose row it locks.
func lockBoard(tx *gorm.DB, name string) (models.Board, error) {
	var stored models.Board
	err := tx.Clauses(dialect.BucketLock()).Take(&stored, "name = ?", name).Error
	return stored, err
}

// checkUnchanged returns an error if the board's only bucket exists and was made by
// another definition. A new definition applies to new buckets, and such a board
// never has a new one. Its end is not compared.
func checkUnchanged(tx *gorm.DB, b *Board) error {
	only := b.onlyBucket()
	if only == nil {
		return nil
	}
	made, err := lockBucket(tx, only)
	if errors.Is(err, ErrNoBucket) {
		return nil
	}
	if err != nil {
		return err
	}
	if made.StartsAt.Equal(only.StartsAt) && made.MaxScore == only.MaxScore && made.Shards == only.Shards && made.Best == only.Best &&
		made.ClosesAt.Sub(made.EndsAt) == only.ClosesAt.Sub(only.EndsAt) &&
		made.WindowHours == only.WindowHours {
		return nil
	}
	return fmt.Errorf("board %s is under way: its start, takes, late, window, max_score and shards can't change any more; "+
		"another board needs another name", b.Name)
}

// add inserts a definition. It reports false if the board exists. A dry run stores nothing.
func (s *Store) add(ctx context.Context, def models.Board, dryRun bool) (added bool, err error) {
	err = dialect.Try(s.db.WithContext(ctx), dryRun, func(tx *gorm.DB) error {
		result := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&def)
		added = result.RowsAffected > 0
		return result.Error
	})
	return added, models.Wrap("store board "+def.Name, err)
}

// Dropped returns the names of the boards that earlier settings have named and these do not,
// in order, but for events that are over. They are served as before.
func (s *Store) Dropped(ctx context.Context, settings []models.Board, now time.Time) (names []string, err error) {
	named := column.Of(settings, func(def models.Board) string { return def.Name })
	err = s.db.WithContext(ctx).Model(&models.Board{}).Where("from_settings AND (ends_at IS NULL OR ends_at > ?)", now.UTC()).
		Where("name NOT IN ?", named).Order("name").Pluck("name", &names).Error
	return names, models.Wrap("look for boards that the settings no longer name", err)
}

// Later returns the names of the events whose end is later than these settings say, in order: it
// was moved, and only moves to a later time.
func (s *Store) Later(ctx context.Context, settings []models.Board) (names []string, err error) {
	stored, err := s.boards(ctx)
	for _, def := range stored {
		if slices.ContainsFunc(settings, func(set models.Board) bool {
			return set.Name == def.Name && set.EndsAt != nil && def.EndsAt != nil && set.EndsAt.Before(*def.EndsAt)
		}) {
			names = append(names, def.Name)
		}
	}
	return names, err
}

// boards returns all definitions, ordered by name.
func (s *Store) boards(ctx context.Context) ([]models.Board, error) {
	var boards []models.Board
	err := s.db.WithContext(ctx).Order("name").Find(&boards).Error
	return boards, models.Wrap("read boards", err)
}

// bucket returns one bucket, or ErrNoBucket if it does not exist.
func (s *Store) bucket(ctx context.Context, board, name string) (*models.Bucket, error) {
	bucket, err := lists.Take[models.Bucket](s.db.WithContext(ctx).Where("board = ? AND bucket = ?", board, name), ErrNoBucket)
	return &bucket, models.Wrap("read bucket "+name+" of board "+board, err)
}

// names returns the names of all buckets of a board.
func (s *Store) names(ctx context.Context, board string) (map[string]bool, error) {
	names, err := lists.ByKey[string, bool](s.db.WithContext(ctx).Model(&models.Bucket{}).Select("bucket", "true").Where("board = ?", board))
	return names, models.Wrap("read the buckets of board "+board, err)
}

// open returns the buckets of all boards that close after the given time, and the given boards'
// buckets of events.
func (s *Store) open(ctx context.Context, now time.Time, events []string) ([]models.Bucket, error) {
	var buckets []models.Bucket
	err := s.db.WithContext(ctx).Where("closes_at > ?", now.UTC()).Or("bucket = ? AND board IN ?", eventName, events).
		Find(&buckets).Error
	return buckets, models.Wrap("read open buckets", err)
}

// finish makes the events final that have closed, and returns how many. A transaction that counts
// increments keeps an event from it for as long as it lasts. One statement.
func (s *Store) finish(ctx context.Context, now time.Time) (int64, error) {
	db := s.db.WithContext(ctx)
	closed := db.Model(&models.Bucket{}).Select("board").Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Where("bucket = ? AND from_ledger AND final_at IS NULL AND closes_at <= ?", eventName, now.UTC()).Order("board")
	finished := db.Exec(`WITH closed AS (?)
		UPDATE board_buckets SET final_at = ? WHERE bucket = ? AND board IN (SELECT board FROM closed)`, closed, now.UTC(), eventName)
	return finished.RowsAffected, models.Wrap("make events final", finished.Error)
}

// hot returns the buckets of a board that have begun and are not cold at the given time.
func (s *Store) hot(ctx context.Context, board string, now time.Time) ([]models.Bucket, error) {
	var buckets []models.Bucket
	err := s.db.WithContext(ctx).Where("board = ? AND starts_at <= ? AND cold_at > ?", board, now.UTC(), now.UTC()).Find(&buckets).Error
	return buckets, models.Wrap("read hot buckets", err)
}

// ensure inserts the proposed buckets of one board that do not exist, and returns the stored
// ones. Concurrent writers all get the same buckets.
func (s *Store) ensure(ctx context.Context, proposed []models.Bucket) ([]models.Bucket, error) {
	names := column.Of(proposed, func(b models.Bucket) string { return b.Name })
	db, board := s.db.WithContext(ctx), proposed[0].Board
	var stored []models.Bucket
	err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&proposed).Error
	if err == nil {
		err = db.Where("board = ? AND bucket IN ?", board, names).Find(&stored).Error
	}
	if err == nil && len(stored) < len(names) {
		err = gorm.ErrRecordNotFound
	}
	return stored, models.Wrap(fmt.Sprintf("store %d buckets of board %s", len(names), board), err)
}
