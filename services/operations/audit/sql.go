package audit

import (
	"context"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/platform/cursor"
)

// Store keeps the log in table audit_log. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// row is a row of the table.
type row struct {
	models.AuditEntry
	User *models.RowID `gorm:"column:user_id"`
}

func (row) TableName() string { return "audit_log" }

// insert stores an entry, and sets its id. A user of 0 is none.
func (s *Store) insert(ctx context.Context, e *models.AuditEntry, user models.RowID) error {
	r := row{AuditEntry: *e}
	if user != 0 {
		r.User = &user
	}
	err := s.db.WithContext(ctx).Create(&r).Error
	e.ID = r.ID
	return err
}

func (s *Store) setOutcome(ctx context.Context, id int64, outcome string) error {
	return s.db.WithContext(ctx).Model(&row{}).Where("id = ?", id).Update("outcome", outcome).Error
}

// List returns a page of the log, newest first. One query. CodeUnavailable.
func (s *Service) List(ctx context.Context, q Query) ([]Entry, error) {
	db := s.store.db.WithContext(ctx).Table("audit_log AS a").
		Select("a.*, coalesce(u.external_id, '') AS external_id, coalesce(u.nickname, '') AS nickname").Joins("LEFT JOIN users u ON u.user_id = a.user_id").
		Where(&models.AuditEntry{Actor: q.Actor, Action: q.Action})
	if q.User != "" {
		db = db.Where("u.external_id = ?", q.User)
	}
	page, err := cursor.Newest[Entry](db, "a.id", q.Before, q.Limit)
	return page, models.Public("read the audit log", err)
}
