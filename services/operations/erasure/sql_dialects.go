package erasure

import (
	"strings"

	"gorm.io/gorm"

	"stepboard/internal/dialect"
)

// keyColumn returns what a column of a key is compared by. In SQLite, the text of a day that was
// read is not that which is stored.
func keyColumn(db *gorm.DB, column string) string {
	if !dialect.Postgres(db) && strings.HasSuffix(column, "day") {
		return "CAST(strftime('%Y%m%d', " + column + ") AS INTEGER)"
	}
	return column
}
