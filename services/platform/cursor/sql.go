package cursor

import (
	"context"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// keptKeys is how many keys are read: more than any operator adds in a day.
const keptKeys = 100

// Store keeps the keys in table cursor_keys. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// TableName returns the name of the table of keys.
func (Key) TableName() string { return "cursor_keys" }

// keys returns the newest keys, oldest first. One query.
func (s *Store) keys(ctx context.Context) ([]Key, error) {
	var keys []Key
	err := s.db.WithContext(ctx).Order("id DESC").Limit(keptKeys).Find(&keys).Error
	slices.Reverse(keys)
	return keys, models.Wrap("read cursor keys", err)
}

// firstID is the id of the first key. It is given, so that processes that start
// together make one key.
const firstID = 1

// addFirst stores the first key, unless another process has done so.
func (s *Store) addFirst(ctx context.Context, secret []byte) error {
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&Key{ID: firstID, Secret: secret}).Error
	return models.Wrap("store the first cursor key", err)
}

// add stores another key.
func (s *Store) add(ctx context.Context, secret []byte) error {
	err := s.db.WithContext(ctx).Exec(`INSERT INTO cursor_keys (id, secret, created_at)
		SELECT coalesce(max(id), 0) + 1, ?, ? FROM cursor_keys`, secret, s.db.NowFunc()).Error
	return models.Wrap("store a cursor key", err)
}

// Newest reads a page of a list that is ordered by descending id: those of the query's rows,
// at most limit, whose ids are below before; 0 begins at the newest. column is that of the ids.
func Newest[Row any](query *gorm.DB, column string, before int64, limit int) (page []Row, err error) {
	if before != 0 {
		query = query.Where(column+" < ?", before)
	}
	err = query.Order(column + " DESC").Limit(limit).Find(&page).Error
	return page, err
}
