package directory

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"gorm.io/gorm"

	"stepboard/models"
)

// sqlite is the embedded database. It runs one writing transaction at a time. Lists are
// passed as one JSON text, so that their length does not change the statement.
type sqlite struct {
	db *gorm.DB
}

// userRow is what is read of a row of users.
type userRow struct {
	UserID     models.RowID
	ExternalID models.UserID
	Nickname   string
	AvatarURL  string
	CoverURL   string
	Hidden     bool
	Version    int64
}

func (r userRow) record() models.Record {
	return models.Record{
		Row: r.UserID, User: r.ExternalID, Hidden: r.Hidden, Version: r.Version,
		Profile: models.Profile{Nickname: r.Nickname, AvatarURL: r.AvatarURL, CoverURL: r.CoverURL},
	}
}

func (s *sqlite) byUser(ctx context.Context, users []string) ([]models.Record, error) {
	return s.selectIn(ctx, "external_id", users)
}

func (s *sqlite) byRow(ctx context.Context, rows []int64) ([]models.Record, error) {
	return s.selectIn(ctx, "user_id", rows)
}

// selectIn returns the records whose column has one of the values.
func (s *sqlite) selectIn(ctx context.Context, column string, values any) ([]models.Record, error) {
	list, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var rows []userRow
	err = s.db.WithContext(ctx).Table("users").Where(column+" IN (SELECT value FROM json_each(?))", string(list)).Find(&rows).Error
	return recordsOf(rows), err
}

func recordsOf(rows []userRow) []models.Record {
	records := make([]models.Record, len(rows))
	for i, row := range rows {
		records[i] = row.record()
	}
	return records
}

func (s *sqlite) insert(ctx context.Context, users []User) ([]models.Record, error) {
	values := make([][4]string, len(users))
	for i, user := range users {
		values[i] = [4]string{string(user.ID), user.Nickname, user.AvatarURL, user.CoverURL}
	}
	list, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var rows []userRow
	err = s.db.WithContext(ctx).Raw(`INSERT INTO users (external_id, nickname, avatar_url, cover_url, created_at)
		SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ? FROM json_each(?) WHERE true ORDER BY key
		ON CONFLICT (external_id) DO NOTHING RETURNING *`, s.db.NowFunc(), string(list)).Scan(&rows).Error
	return recordsOf(rows), err
}

func (s *sqlite) ensure(ctx context.Context, users []string) (rows []models.RowID, created int64, err error) {
	rowOf := make(map[models.UserID]models.RowID, len(users))
	note := func(records []models.Record, err error) error {
		for _, record := range records {
			rowOf[record.User] = record.Row
		}
		return err
	}
	if err := note(s.byUser(ctx, users)); err != nil {
		return nil, 0, err
	}
	var unknown []User
	for _, user := range users {
		if rowOf[models.UserID(user)] == 0 {
			unknown = append(unknown, User{ID: models.UserID(user)})
		}
	}
	if len(unknown) > 0 {
		if err := note(s.insert(ctx, unknown)); err != nil {
			return nil, 0, err
		}
		// Somebody else may have created some meanwhile.
		if err := note(s.byUser(ctx, users)); err != nil {
			return nil, 0, err
		}
	}
	for _, user := range users {
		rows = append(rows, rowOf[models.UserID(user)])
	}
	return rows, int64(len(unknown)), nil
}

// nextVersion is SQLite's nextval('user_versions'). A trigger advances the sequence when a user
// gets the version.
const nextVersion = `(SELECT seq + 1 FROM sqlite_sequence WHERE name = 'user_versions')`

func (s *sqlite) put(ctx context.Context, row models.RowID, p models.Profile) (models.Record, error) {
	var rows []userRow
	err := s.db.WithContext(ctx).Raw(`UPDATE users SET nickname = ?, avatar_url = ?, cover_url = ?, changed_at = ?,
		version = `+nextVersion+` WHERE user_id = ? RETURNING *`,
		p.Nickname, p.AvatarURL, p.CoverURL, s.db.NowFunc(), row).Scan(&rows).Error
	if err != nil {
		return models.Record{}, err
	}
	if len(rows) == 0 {
		return models.Record{}, gorm.ErrRecordNotFound
	}
	return rows[0].record(), nil
}

func (s *sqlite) changedSince(ctx context.Context, since time.Time) ([]models.Record, error) {
	var rows []userRow
	err := s.db.WithContext(ctx).Table("users").Select("user_id", "version").Where("changed_at >= ?", since).Find(&rows).Error
	return recordsOf(rows), err
}

func (s *sqlite) now(context.Context) (time.Time, error) { return s.db.NowFunc(), nil }

func (s *sqlite) counters(ctx context.Context) (c Counters, err error) {
	row := s.db.WithContext(ctx).Raw(`SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0),
		(SELECT seq FROM sqlite_sequence WHERE name = 'user_versions')`).Row()
	return c, row.Scan(&c.Row, &c.Version)
}

func (s *sqlite) gaps(ctx context.Context) (gaps []gap, err error) {
	err = s.db.WithContext(ctx).Table("row_id_gaps").Order("first_id").
		Select("first_id AS first", "last_id AS last").Find(&gaps).Error
	return gaps, err
}

func (s *sqlite) erasedAfter(ctx context.Context, id int64) (list []erasure, err error) {
	err = s.db.WithContext(ctx).Table("erasures").Select("id", "row_id AS row").Where("id > ?", id).Scan(&list).Error
	return list, err
}

// skip has nothing to do: the embedded database is never newer or older than the
// Redis beside it, because both live in one process.
func (s *sqlite) skip(context.Context, Counters) error { return nil }
