package directory

import (
	"context"
	"encoding/hex"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/dialect"
	"stepboard/internal/lists"
	"stepboard/models"
)

// This file has what differs between the databases.

// hashed is a table of the row ids of users and the hashes of their user ids.
func hashed(db *gorm.DB, key []byte, ids []string, rows []models.RowID) clause.Expr {
	hashes := make([]string, len(ids))
	for i, id := range ids {
		hashes[i] = hex.EncodeToString(IDHash(key, models.UserID(id)))
	}
	if dialect.Postgres(db) {
		return gorm.Expr(`(SELECT user_id, decode(hash, 'hex') AS id_hash
			FROM unnest(CAST(? AS bigint[]), CAST(? AS text[])) AS list (user_id, hash)) AS given`, &rows, &hashes)
	}
	return gorm.Expr(`(SELECT r.value AS user_id, unhex(h.value) AS id_hash
		FROM json_each(?) r JOIN json_each(?) h ON h.key = r.key) AS given`, lists.JSON(rows), lists.JSON(hashes))
}

// currentTime is the time of the database's clock.
func currentTime(db *gorm.DB) clause.Expr {
	if dialect.Postgres(db) {
		return gorm.Expr("now()")
	}
	return gorm.Expr("?", db.NowFunc())
}

// nextVersion is the next number of the sequence user_versions. In SQLite a trigger advances it
// when a user gets the version.
func nextVersion(db *gorm.DB) clause.Expr {
	if dialect.Postgres(db) {
		return gorm.Expr("nextval('user_versions')")
	}
	return gorm.Expr("(SELECT seq + 1 FROM sqlite_sequence WHERE name = 'user_versions')")
}

// now returns the time of the database's clock.
func (s *Store) now(ctx context.Context) (now time.Time, err error) {
	if !dialect.Postgres(s.db) {
		return s.db.NowFunc(), nil
	}
	err = s.db.WithContext(ctx).Raw(`SELECT now()`).Row().Scan(&now)
	return now, err
}

// handedOutRow is the highest row id that Postgres has handed out: 0 if its sequence was never
// used.
const handedOutRow = `coalesce(pg_sequence_last_value(pg_get_serial_sequence('users', 'user_id')::regclass), 0)`

// counters returns the highest numbers that were handed out. One query.
func (s *Store) counters(ctx context.Context) (c Counters, err error) {
	query := `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0),
		(SELECT seq FROM sqlite_sequence WHERE name = 'user_versions')`
	if dialect.Postgres(s.db) {
		query = `SELECT ` + handedOutRow + `, coalesce(pg_sequence_last_value('user_versions'::regclass), 0)`
	}
	err = s.db.WithContext(ctx).Raw(query).Row().Scan(&c.Row, &c.Version)
	return c, err
}

// skip moves the sequences past the given counters, and stores the row ids between as a gap. The
// lock keeps two processes from storing the same gap.
func (s *Store) skip(ctx context.Context, to Counters) error {
	if !dialect.Postgres(s.db) {
		return s.skipInFile(ctx, to)
	}
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(`LOCK TABLE row_id_gaps IN EXCLUSIVE MODE`).Error; err != nil {
			return err
		}
		err := tx.Exec(`WITH handed_out AS (SELECT `+handedOutRow+` AS row_id), gap AS (
				INSERT INTO row_id_gaps (first_id, last_id)
				SELECT row_id + 1, CAST(? AS bigint) FROM handed_out WHERE row_id < ?
			)
			SELECT setval(pg_get_serial_sequence('users', 'user_id'), ?) FROM handed_out WHERE row_id < ?`,
			to.Row, to.Row, to.Row, to.Row).Error
		if err != nil {
			return err
		}
		return tx.Exec(`SELECT setval('user_versions', ?) WHERE coalesce(pg_sequence_last_value('user_versions'::regclass), 0) < ?`,
			to.Version, to.Version).Error
	})
}

// skipInFile is skip for SQLite, which keeps no sequence of a table that was always empty.
func (s *Store) skipInFile(ctx context.Context, to Counters) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		err := tx.Exec(`INSERT INTO sqlite_sequence (name, seq)
			SELECT 'users', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'users')`).Error
		if err != nil {
			return err
		}
		err = tx.Exec(`INSERT INTO row_id_gaps (first_id, last_id)
			SELECT seq + 1, ? FROM sqlite_sequence WHERE name = 'users' AND seq < ?`, to.Row, to.Row).Error
		if err != nil {
			return err
		}
		return tx.Exec(`UPDATE sqlite_sequence SET seq = max(seq, CASE name WHEN 'users' THEN ? ELSE ? END)
			WHERE name IN ('users', 'user_versions')`, to.Row, to.Version).Error
	})
}
