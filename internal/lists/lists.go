// Package lists passes lists to SQL statements: as arrays, or to SQLite as one JSON text. So
// their length does not change the statement, and is not limited. It also reads the rows that queries
// select, and deletes many.
package lists

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/dialect"
	"stepboard/internal/pause"
)

// Is continues the condition that a column has one of the values. They are numbers or texts.
func Is[T any](db *gorm.DB, values []T) clause.Expr {
	if dialect.Postgres(db) {
		return gorm.Expr("= ANY(?)", &values) // gorm would expand the slice itself
	}
	return gorm.Expr("IN (SELECT value FROM json_each(?))", JSON(values))
}

// Texts is a table of texts, "given", whose columns are text and position.
func Texts(db *gorm.DB, texts []string) clause.Expr {
	if !dialect.Postgres(db) {
		return gorm.Expr("(SELECT value AS text, key + 1 AS position FROM json_each(?)) AS given", JSON(texts))
	}
	return gorm.Expr("unnest(CAST(? AS text[])) WITH ORDINALITY AS given (text, position)", &texts)
}

// Pairs is a table of rows of two numbers, "given", whose columns are a and b.
func Pairs(db *gorm.DB, rows [][2]int64) clause.Expr {
	if !dialect.Postgres(db) {
		return gorm.Expr("(SELECT value ->> 0 AS a, value ->> 1 AS b FROM json_each(?)) AS given", JSON(rows))
	}
	a, b := make([]int64, len(rows)), make([]int64, len(rows))
	for i, row := range rows {
		a[i], b[i] = row[0], row[1]
	}
	return gorm.Expr("unnest(CAST(? AS bigint[]), CAST(? AS bigint[])) AS given (a, b)", &a, &b)
}

// Grouped returns the second column of a query by the first one. Both are numbers. The database
// answers one row for each group: reading a row costs more than finding it.
func Grouped[Key, Value ~int64](db *gorm.DB, query string, args ...any) (map[Key][]Value, error) {
	grouped := make(map[Key][]Value)
	var key int64
	var list string
	err := Each(db.Raw(`WITH found (a, b) AS (`+query+`)
		SELECT a, string_agg(CAST(b AS text), ',') FROM found GROUP BY a`, args...), []any{&key, &list}, func() error {
		values := make([]Value, 0, strings.Count(list, ",")+1)
		for text := range strings.SplitSeq(list, ",") {
			value, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			values = append(values, Value(value))
		}
		grouped[Key(key)] = values
		return nil
	})
	return grouped, err
}

// Each calls do for each row that a query selects, whose columns it has stored in into, until do
// returns an error.
func Each(query *gorm.DB, into []any, do func() error) error {
	rows, err := query.Rows()
	if err != nil {
		return err
	}
	return EachRow(rows, into, do)
}

// EachRow is Each for the rows of a query that gorm does not make. It closes them.
func EachRow(rows *sql.Rows, into []any, do func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ByKey returns the second column of a query by the first one.
func ByKey[Key comparable, Value any](query *gorm.DB) (map[Key]Value, error) {
	found := make(map[Key]Value)
	var key Key
	var value Value
	err := Each(query, []any{&key, &value}, func() error {
		found[key] = value
		return nil
	})
	return found, err
}

// First returns the first row that a query selects, or nil if there is none.
func First[Row any](query *gorm.DB) (*Row, error) {
	var rows []Row
	if err := query.Limit(1).Find(&rows).Error; err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// Take returns the row that a query selects, or the error missing, which may be nil, if there is none.
func Take[Row any](query *gorm.DB, missing error) (row Row, err error) {
	if err = query.Take(&row).Error; errors.Is(err, gorm.ErrRecordNotFound) {
		err = missing
	}
	return row, err
}

// Delete deletes the rows of a table for which a condition holds, and returns their number. key names the columns of
// the primary key. One statement for each chunk (pause.Chunks).
func Delete(ctx context.Context, db *gorm.DB, table, key, condition string, args ...any) (int64, error) {
	return pause.Chunks(ctx, func(limit int) (int64, error) {
		result := db.WithContext(ctx).Exec(`DELETE FROM `+table+` WHERE (`+key+`) IN (
			SELECT `+key+` FROM `+table+` WHERE `+condition+` LIMIT ?)`, append(slices.Clone(args), limit)...)
		return result.RowsAffected, result.Error
	})
}

// Secret returns the only row of a table of keys, which made makes if there is none. One query, and two statements the
// first time.
func Secret(db *gorm.DB, table string, made func() []byte) (secret []byte, err error) {
	read := func() error {
		return Each(db.Raw(`SELECT secret FROM `+table), []any{&secret}, func() error { return nil })
	}
	if err = read(); err != nil || secret != nil {
		return secret, err
	}
	// Another process may be first, so what is stored counts.
	err = db.Exec(`INSERT INTO `+table+` (id, secret) VALUES (1, ?) ON CONFLICT DO NOTHING`, made()).Error
	if err == nil {
		err = read()
	}
	return secret, err
}

// JSON returns the JSON of a list of numbers or texts, or of lists of these.
func JSON(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // it has something else
	}
	if string(text) == "null" { // SQLite would read one null
		return "[]"
	}
	return string(text)
}
