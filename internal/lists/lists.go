// Package lists passes lists to SQL statements: as arrays, or to SQLite as one JSON text. So
// their length does not change the statement, and is not limited. It also reads the rows of those
// that return many.
package lists

import (
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/dialect"
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
