package erasure

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/column"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/people/directory"
	"stepboard/services/platform/cursor"
)

// errNotStored means that there is no such user.
var errNotStored = errors.New("no such user")

// Store keeps erasures in table erasures, and their key in erasure_keys. Safe for
// concurrent use.
type Store struct {
	db, reads *gorm.DB
}

// NewStore returns a store over the database. Exports use reads; both may be the same.
func NewStore(db, reads *gorm.DB) *Store { return &Store{db: db, reads: reads} }

// Key returns the key of hashes, and makes it if there is none. One query, and two
// statements the first time.
func (s *Store) Key(ctx context.Context) ([]byte, error) {
	key, err := lists.Secret(s.db.WithContext(ctx), "erasure_keys", func() []byte {
		made := make([]byte, sha256.Size)
		_, _ = rand.Read(made) // it never fails
		return made
	})
	return key, models.Wrap("read the key of erasures", err)
}

// Operators knows operators, and who has brought whom. Implemented by sessions.Service.
type Operators interface {
	// Leaves returns CodeLastOperator if no operator would be left without the users.
	Leaves(ctx context.Context, users ...models.UserID) error
	// Leave is Leaves in the transaction that erases a user.
	Leave(tx *gorm.DB, user models.UserID) error
	// Branch returns a user and all who came by their invitations, or by those of whom they have brought, the user first.
	Branch(ctx context.Context, user models.UserID) ([]models.UserID, error)
}

// leaving returns an error if a user must stay, in the transaction that erases them.
type leaving = func(tx *gorm.DB, user models.UserID) error

// begin takes a user id from its row and records the erasure, or returns the one of this
// user id that is under way. errNotStored if there is no such user, CodeRateLimited if it is
// one more than limit within erasurePeriod; 0 means no limit. If leave is given, it may keep the user. In a dry run it
// changes nothing.
func (s *Store) begin(
	ctx context.Context, user models.UserID, secret []byte, now time.Time, limit int, dryRun bool,
	leave leaving,
) (e models.Erasure, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		u, err := lists.First[models.User](tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("external_id = ?", user))
		if err != nil {
			return fmt.Errorf("lock the user: %w", err)
		}
		if u == nil {
			e, err = lists.Take[models.Erasure](tx.Where("user_id = ? AND finished_at IS NULL", user).Order("id DESC"), errNotStored)
			return models.Wrap("look for an erasure", err)
		}
		e = models.Erasure{
			Row: u.Row, User: &user, Hash: hashOf(secret, user, u.Row), BegunAt: now, IDHash: directory.IDHash(secret, user),
			RequestsSent: u.RequestsSent, RequestsUntil: u.RequestsUntil, Hidings: u.Hidings, HidingsUntil: u.HidingsUntil,
		}
		former, err := directory.FormerIDs(tx, e.Row)
		if err != nil {
			return err
		}
		for _, id := range former {
			e.Hash = append(e.Hash, hashOf(secret, id, e.Row)...)
		}
		if limit > 0 {
			if err := checkLimit(tx, &e, limit); err != nil {
				return err
			}
		}
		if leave != nil {
			if err := leave(tx, user); err != nil {
				return err
			}
		}
		if dryRun {
			return nil
		}
		if err := directory.Remove(tx, u.Row); err != nil {
			return err
		}
		return models.Wrap("record the erasure", tx.Create(&e).Error)
	})
	return e, err
}

// checkLimit returns CodeRateLimited if the user id of an erasure was erased too often before it.
func checkLimit(tx *gorm.DB, e *models.Erasure, limit int) error {
	var begun []time.Time
	err := tx.Model(e).Where("id_hash = ? AND begun_at > ?", e.IDHash, e.BegunAt.Add(-erasurePeriod)).
		Order("id DESC").Limit(limit).Pluck("begun_at", &begun).Error
	if err != nil {
		return fmt.Errorf("count erasures: %w", err)
	}
	if len(begun) < limit {
		return nil
	}
	return &models.Error{
		Code: models.CodeRateLimited, Wait: begun[limit-1].Add(erasurePeriod).Sub(e.BegunAt),
		Message: fmt.Sprintf("this user id was erased %d times within a day; wait as long as Retry-After says", limit),
	}
}

// unfinished returns the erasures that are not finished, oldest first.
func (s *Store) unfinished(ctx context.Context) ([]models.Erasure, error) {
	return s.oldest(ctx, -1, "finished_at IS NULL")
}

// oldest returns the erasures for which a condition holds, oldest first: at most limit of them, or
// all if it is -1.
func (s *Store) oldest(ctx context.Context, limit int, condition string, args ...any) (list []models.Erasure, err error) {
	err = s.db.WithContext(ctx).Where(condition, args...).Order("id").Limit(limit).Find(&list).Error
	return list, models.Wrap("list erasures", err)
}

// swept records a sweep of an erasure that began at a time. The user's ids go with the last
// one.
func (s *Store) swept(ctx context.Context, e *models.Erasure, began time.Time, removed int64, finished bool) error {
	values := map[string]any{"swept_at": began, "removed": removed, "sweeps": gorm.Expr("sweeps + 1")}
	if finished {
		values["finished_at"], values["user_id"] = began, nil
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if finished {
			if err := directory.RemoveFormerIDs(tx, e.Row); err != nil {
				return err
			}
		}
		return tx.Model(&models.Erasure{}).Where("id = ? AND finished_at IS NULL", e.ID).Updates(values).Error
	})
	return models.Wrap("record a sweep", err)
}

// finishedSince returns the finished erasures that began since a time.
func (s *Store) finishedSince(ctx context.Context, since time.Time) ([]models.Erasure, error) {
	return s.oldest(ctx, -1, "begun_at >= ? AND finished_at IS NOT NULL", since)
}

// hotBuckets returns the buckets of which Redis may have entries: those that are not
// archived, and those that turned cold within guardTime, to which updates may come late.
func (s *Store) hotBuckets(ctx context.Context, now time.Time) (buckets []*models.Bucket, err error) {
	err = s.db.WithContext(ctx).Table("bucket_states").Where("cold_at >= ? OR NOT archived", now.Add(-guardTime)).
		Order("day, board").Find(&buckets).Error
	return buckets, models.Wrap("list buckets in Redis", err)
}

// list returns a page of erasures, newest first.
func (s *Store) list(ctx context.Context, before int64, limit int) ([]models.Erasure, error) {
	return cursor.Newest[models.Erasure](s.db.WithContext(ctx), "id", before, limit)
}

const (
	// exportRows is how many rows a page of an export has.
	exportRows = 500
	// pageTimeout bounds the reading of a page.
	pageTimeout = 20 * time.Second
)

// each calls fn with each row of a section, without holding a connection meanwhile.
func (s *Store) each(ctx context.Context, one models.ExportSection, row models.RowID, fn func(item any) error) error {
	for after := []any(nil); ; {
		page, last, err := s.page(ctx, one, row, after)
		if err != nil {
			return err
		}
		for _, fields := range page {
			if err := fn(fields); err != nil {
				return err
			}
		}
		if len(page) < exportRows {
			return nil
		}
		after = last
	}
}

// pageQuery returns the query of a page of a section, whose columns begin with the key.
func (s *Store) pageQuery(one models.ExportSection, first bool) string {
	names, columns := make([]string, len(one.Key)), make([]string, len(one.Key))
	for i, column := range one.Key {
		column = keyColumn(s.db, column)
		names[i] = "key" + strconv.Itoa(i)
		columns[i] = column + " AS " + names[i]
	}
	key := strings.Join(names, ", ")
	query := "SELECT * FROM (SELECT " + strings.Join(columns, ", ") + ", " + strings.TrimPrefix(strings.TrimSpace(one.Query), "SELECT ") + ") AS page"
	if !first {
		query += " WHERE (" + key + ") > (" + strings.Join(slices.Repeat([]string{"?"}, len(names)), ", ") + ")"
	}
	return query + " ORDER BY " + key + " LIMIT ?"
}

// page returns the rows of a section behind a key, which is nil for the first page, and the key
// of the last of them.
func (s *Store) page(ctx context.Context, one models.ExportSection, row models.RowID, after []any) (page []map[string]any, last []any, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	args := slices.Concat(slices.Repeat([]any{row}, strings.Count(one.Query, "?")), after, []any{exportRows})
	rows, err := s.reads.WithContext(ctx).Raw(s.pageQuery(one, after == nil), args...).Rows()
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, nil, err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return nil, nil, err
		}
		last = last[:0]
		fields := make(map[string]any, len(columns))
		for i, column := range columns {
			value := *values[i].(*any)
			if i < len(one.Key) {
				last = append(last, value)
				continue
			}
			if number, ok := value.(int64); ok && column.DatabaseTypeName() == "BOOLEAN" {
				value = number != 0 // SQLite stores numbers
			}
			fields[column.Name()] = shown(column.Name(), value)
		}
		showScores(fields, one.Points)
		page = append(page, fields)
	}
	return page, last, rows.Err()
}

// add stores erasures of row ids that are neither a user's nor erased.
func (s *Store) add(ctx context.Context, list []models.Erasure) error {
	var users []models.RowID
	rows := column.Of(list, func(e models.Erasure) models.RowID { return e.Row })
	db := s.db.WithContext(ctx)
	err := db.Table("users").Where("user_id IN ?", rows).Pluck("user_id", &users).Error
	list = slices.DeleteFunc(list, func(e models.Erasure) bool { return slices.Contains(users, e.Row) })
	if err == nil && len(list) > 0 {
		err = db.Clauses(clause.OnConflict{DoNothing: true}).Create(&list).Error
	}
	return models.Wrap("add erasures", err)
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
	return page, models.Wrap("list users", err)
}

// hashOf returns the hash by which the erasure of a user is found in a database of an
// earlier time. Somebody who came later under the same user id has another row id, and so
// another hash.
func hashOf(secret []byte, user models.UserID, row models.RowID) []byte {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%d %s", row, user)
	return mac.Sum(nil)
}
