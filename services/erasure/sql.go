package erasure

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// errNotStored means that there is no such user.
var errNotStored = errors.New("no such user")

// Store keeps erasures in table erasures, and their key in erasure_keys. Safe for
// concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// keyRow is the row of erasure_keys.
type keyRow struct {
	ID        int64 `gorm:"primaryKey"`
	Secret    []byte
	CreatedAt time.Time
}

func (keyRow) TableName() string { return "erasure_keys" }

// key returns the key of hashes, and makes it if there is none. One query, and two
// statements the first time.
func (s *Store) key(ctx context.Context) ([]byte, error) {
	db := s.db.WithContext(ctx)
	var rows []keyRow
	if err := db.Limit(1).Find(&rows).Error; err != nil || len(rows) > 0 {
		if err != nil {
			return nil, fmt.Errorf("read the key of erasures: %w", err)
		}
		return rows[0].Secret, nil
	}
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // it never fails
	return s.useKey(ctx, secret)
}

// useKey stores a key, unless there is one, and returns the one that is stored.
func (s *Store) useKey(ctx context.Context, secret []byte) ([]byte, error) {
	db := s.db.WithContext(ctx)
	row := keyRow{ID: 1, Secret: secret}
	if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
		return nil, fmt.Errorf("store the key of erasures: %w", err)
	}
	var stored keyRow
	if err := db.Take(&stored).Error; err != nil {
		return nil, fmt.Errorf("read the key of erasures: %w", err)
	}
	return stored.Secret, nil
}

// begin takes a user id from its row and records the erasure, or returns the one of this
// user id that is under way. errNotStored if there is no such user.
func (s *Store) begin(ctx context.Context, user models.UserID, secret []byte, now time.Time) (e models.Erasure, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var rows []models.RowID
		if err := tx.Raw(`DELETE FROM users WHERE external_id = ? RETURNING user_id`, user).Scan(&rows).Error; err != nil {
			return fmt.Errorf("remove the user: %w", err)
		}
		if len(rows) == 0 {
			var under []models.Erasure
			err := tx.Where("user_id = ? AND finished_at IS NULL", user).Order("id DESC").Limit(1).Find(&under).Error
			if err != nil {
				return fmt.Errorf("look for an erasure: %w", err)
			}
			if len(under) == 0 {
				return errNotStored
			}
			e = under[0]
			return nil
		}
		e = models.Erasure{Row: rows[0], User: &user, Hash: hashOf(secret, user, rows[0]), BegunAt: now}
		if err := tx.Create(&e).Error; err != nil {
			return fmt.Errorf("record the erasure: %w", err)
		}
		return nil
	})
	return e, err
}

// unfinished returns the erasures that are not finished, oldest first.
func (s *Store) unfinished(ctx context.Context) (list []models.Erasure, err error) {
	if err := s.db.WithContext(ctx).Where("finished_at IS NULL").Order("id").Find(&list).Error; err != nil {
		return nil, fmt.Errorf("list erasures: %w", err)
	}
	return list, nil
}

// swept records a sweep that began at a time. The user id goes with the last one.
func (s *Store) swept(ctx context.Context, id int64, began time.Time, removed int64, finished bool) error {
	values := map[string]any{"swept_at": began, "removed": removed, "sweeps": gorm.Expr("sweeps + 1")}
	if finished {
		values["finished_at"], values["user_id"] = began, nil
	}
	err := s.db.WithContext(ctx).Model(&models.Erasure{}).Where("id = ? AND finished_at IS NULL", id).Updates(values).Error
	if err != nil {
		return fmt.Errorf("record a sweep: %w", err)
	}
	return nil
}

// finishedSince returns the finished erasures that began since a time.
func (s *Store) finishedSince(ctx context.Context, since time.Time) (list []models.Erasure, err error) {
	err = s.db.WithContext(ctx).Where("begun_at >= ? AND finished_at IS NOT NULL", since).Order("id").Find(&list).Error
	if err != nil {
		return nil, fmt.Errorf("list erasures: %w", err)
	}
	return list, nil
}

// hotBuckets returns the buckets of which Redis may have entries: those that are not
// archived, and those that turned cold within guardTime, to which updates may come late.
func (s *Store) hotBuckets(ctx context.Context, now time.Time) (buckets []*models.Bucket, err error) {
	err = s.db.WithContext(ctx).
		Where(`cold_at >= ? OR NOT EXISTS (SELECT 1 FROM board_archives a
			WHERE a.board = board_buckets.board AND a.bucket = board_buckets.bucket AND a.state = ?)`,
			now.Add(-guardTime), models.ArchiveComplete).
		Order("day, board").Find(&buckets).Error
	if err != nil {
		return nil, fmt.Errorf("list buckets in Redis: %w", err)
	}
	return buckets, nil
}

// list returns a page of erasures, newest first.
func (s *Store) list(ctx context.Context, before int64, limit int) (page []models.Erasure, err error) {
	db := s.db.WithContext(ctx)
	if before != 0 {
		db = db.Where("id < ?", before)
	}
	return page, db.Order("id DESC").Limit(limit).Find(&page).Error
}

// each calls fn with each row of a query, whose parameters are all the row id.
func (s *Store) each(ctx context.Context, query string, row models.RowID, fn func(fields map[string]any) error) error {
	rows, err := s.db.WithContext(ctx).Raw(query, slices.Repeat([]any{row}, strings.Count(query, "?"))...).Rows()
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return err
		}
		fields := make(map[string]any, len(columns))
		for i, column := range columns {
			value := *values[i].(*any)
			if number, ok := value.(int64); ok && column.DatabaseTypeName() == "BOOLEAN" {
				value = number != 0 // SQLite stores numbers
			}
			fields[column.Name()] = shown(column.Name(), value)
		}
		if err := fn(fields); err != nil {
			return err
		}
	}
	return rows.Err()
}

// archivedQuery selects the archived scores of a user. Postgres looks each day up in the
// primary key.
func (s *Store) archivedQuery() string {
	if s.db.Name() == "postgres" {
		return `SELECT b.board, b.day AS date, a.score, a.reached_at, a.rank FROM board_buckets b
			CROSS JOIN LATERAL (
				SELECT * FROM archived_scores s WHERE s.day = b.day AND s.user_id = ? AND s.board = b.board OFFSET 0
			) AS a ORDER BY b.day, b.board`
	}
	return `SELECT board, day AS date, score, reached_at, rank FROM archived_scores WHERE user_id = ? ORDER BY day, board`
}

// user is a user as ApplyFile reads them.
type user struct {
	Row  models.RowID  `gorm:"column:user_id"`
	User models.UserID `gorm:"column:external_id"`
}

// users returns a page of all users, ordered by row, behind the given row.
func (s *Store) users(ctx context.Context, after models.RowID, limit int) (page []user, err error) {
	err = s.db.WithContext(ctx).Table("users").Select("user_id", "external_id").Where("user_id > ?", after).
		Order("user_id").Limit(limit).Find(&page).Error
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return page, nil
}

// eraseReviews removes the reviews of a user's scores.
func (s *Store) eraseReviews(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`DELETE FROM reviews WHERE user_id = ?`, user)
	if result.Error != nil {
		return 0, fmt.Errorf("remove reviews: %w", result.Error)
	}
	return result.RowsAffected, nil
}

// eraseLikes removes the likes that a user has given and received.
func (s *Store) eraseLikes(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`DELETE FROM likes WHERE user_id = ? OR liked_by = ?`, user, user)
	if result.Error != nil {
		return 0, fmt.Errorf("remove likes: %w", result.Error)
	}
	return result.RowsAffected, nil
}

// eraseAudit removes a user from what operators have done about them, with the texts that
// may name them. That something was done stays, by whom and when; of the erasure itself
// also why.
func (s *Store) eraseAudit(ctx context.Context, user models.RowID) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`UPDATE audit_log SET user_id = NULL, target = '',
		reason = CASE WHEN action = ? THEN reason ELSE '' END WHERE user_id = ?`, models.EraseAction, user)
	if result.Error != nil {
		return 0, fmt.Errorf("empty the audit log: %w", result.Error)
	}
	return result.RowsAffected, nil
}
