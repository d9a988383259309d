package holds

import (
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/column"
	"stepboard/internal/dialect"
	"stepboard/internal/lists"
	"stepboard/services/boards/ingest"
)

// given is a table of totals, "given", with the columns bucket, day, user_id and score.
func given(db *gorm.DB, totals []ingest.HeldTotal) clause.Expr {
	rows := column.Of(totals, func(t ingest.HeldTotal) [4]any { return [4]any{t.Bucket, t.Day.String(), t.User, t.Score} })
	if dialect.Postgres(db) {
		return gorm.Expr(`(SELECT value ->> 0 AS bucket, CAST(value ->> 1 AS date) AS day, CAST(value ->> 2 AS bigint) AS user_id,
			CAST(value ->> 3 AS bigint) AS score FROM jsonb_array_elements(CAST(? AS jsonb))) AS given`, lists.JSON(rows))
	}
	return gorm.Expr(`(SELECT value ->> 0 AS bucket, value ->> 1 AS day, value ->> 2 AS user_id, value ->> 3 AS score
		FROM json_each(?)) AS given`, lists.JSON(rows))
}
