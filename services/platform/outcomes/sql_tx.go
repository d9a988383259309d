package outcomes

import (
	"database/sql"
	"errors"

	"gorm.io/gorm"
)

// Tx is a transaction in which outcomes are written.
type Tx interface {
	// exec runs a statement whose parameters are question marks.
	exec(query string, args ...any) error
	// scan runs a statement that returns at most one row of one column. found is false
	// without a row.
	scan(value any, query string, args ...any) (found bool, err error)
}

// InGorm returns a transaction of gorm.
func InGorm(db *gorm.DB) Tx { return gormTx{db} }

type gormTx struct{ db *gorm.DB }

func (t gormTx) exec(query string, args ...any) error { return t.db.Exec(query, args...).Error }

func (t gormTx) scan(value any, query string, args ...any) (found bool, err error) {
	err = t.db.Raw(query, args...).Row().Scan(value)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
