package outcomes

import (
	"database/sql"
	"errors"

	"gorm.io/gorm"
)

// Tx is a transaction of either database in which outcomes are written.
type Tx interface {
	// Exec runs a statement whose parameters are question marks.
	Exec(query string, args ...any) error
	// Scan runs a statement that returns at most one row of one column. found is false
	// without a row.
	Scan(value any, query string, args ...any) (found bool, err error)
}

// InGorm returns a transaction of gorm.
func InGorm(db *gorm.DB) Tx { return gormTx{db} }

type gormTx struct{ db *gorm.DB }

func (t gormTx) Exec(query string, args ...any) error { return t.db.Exec(query, args...).Error }

func (t gormTx) Scan(value any, query string, args ...any) (found bool, err error) {
	err = t.db.Raw(query, args...).Row().Scan(value)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
