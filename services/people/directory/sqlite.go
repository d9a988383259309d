package directory

import (
	"context"
	"encoding/hex"
	"errors"
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

// userRow holds the columns that are read of a row of users.
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

func (s *sqlite) insert(
	ctx context.Context, key []byte, users []User,
) (created []models.Record, returned []models.RowID, err error) {
	values := make([][5]string, len(users))
	for i, user := range users {
		hash := hex.EncodeToString(IDHash(key, user.ID))
		values[i] = [...]string{string(user.ID), user.Nickname, user.AvatarURL, user.CoverURL, hash}
	}
	list, err := json.Marshal(values)
	if err != nil {
		return nil, nil, err
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var rows []userRow
		err := tx.Raw(`INSERT INTO users (external_id, nickname, avatar_url, cover_url, created_at,
				requests_sent, requests_until, hidings, hidings_until)
			SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?,
				coalesce(e.requests_sent, 0), e.requests_until, coalesce(e.hidings, 0), e.hidings_until
			FROM json_each(?) LEFT JOIN erasures e ON e.id = (
				SELECT max(id) FROM erasures WHERE id_hash = unhex(value ->> 4) AND returned_row IS NULL)
			WHERE true ORDER BY key
			ON CONFLICT (external_id) DO NOTHING RETURNING *`, tx.NowFunc(), string(list)).Scan(&rows).Error
		if err != nil {
			return err
		}
		created = recordsOf(rows)
		return tx.Raw(`UPDATE erasures SET returned_row = u.user_id FROM json_each(?) JOIN users u ON u.external_id = value ->> 0
			WHERE erasures.id = (SELECT max(e.id) FROM erasures e WHERE e.id_hash = unhex(value ->> 4) AND e.returned_row IS NULL)
			RETURNING returned_row`, string(list)).Scan(&returned).Error
	})
	return created, returned, err
}

func (s *sqlite) ensure(
	ctx context.Context, key []byte, users []string,
) (rows []models.RowID, created int64, returned []models.RowID, err error) {
	rowOf := make(map[models.UserID]models.RowID, len(users))
	note := func(records []models.Record, err error) error {
		for _, record := range records {
			rowOf[record.User] = record.Row
		}
		return err
	}
	if err := note(s.byUser(ctx, users)); err != nil {
		return nil, 0, nil, err
	}
	var unknown []User
	for _, user := range users {
		if rowOf[models.UserID(user)] == 0 {
			unknown = append(unknown, User{ID: models.UserID(user)})
		}
	}
	if len(unknown) > 0 {
		var records []models.Record
		if records, returned, err = s.insert(ctx, key, unknown); err != nil {
			return nil, 0, nil, err
		}
		// Somebody else may have created some meanwhile.
		if err := note(s.byUser(ctx, users)); err != nil {
			return nil, 0, nil, err
		}
		created = int64(len(records))
	}
	for _, user := range users {
		rows = append(rows, rowOf[models.UserID(user)])
	}
	return rows, created, returned, nil
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

func (s *sqlite) rename(ctx context.Context, key []byte, user, to models.UserID) (r models.Record, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		changed := tx.Exec(`UPDATE users SET external_id = ?, changed_at = ?, version = `+nextVersion+` WHERE external_id = ?`,
			to, tx.NowFunc(), user)
		if errors.Is(changed.Error, gorm.ErrDuplicatedKey) {
			return errTaken
		}
		if changed.Error != nil {
			return changed.Error
		}
		if changed.RowsAffected > 0 {
			err := tx.Exec(`INSERT INTO renames (row_id, former_id, renamed_at)
				SELECT user_id, ?, ? FROM users WHERE external_id = ?`, user, tx.NowFunc(), to).Error
			if err != nil {
				return err
			}
			err = tx.Exec(`UPDATE erasures SET returned_row = (SELECT user_id FROM users WHERE external_id = ?)
				WHERE id = (SELECT max(id) FROM erasures WHERE id_hash = ? AND returned_row IS NULL)`, to, IDHash(key, to)).Error
			if err != nil {
				return err
			}
		}
		var rows []userRow
		if err := tx.Raw(renamedBefore, user, to).Scan(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 {
			return errNotStored
		}
		r = rows[0].record()
		return nil
	})
	return r, err
}

func (s *sqlite) renamesAfter(ctx context.Context, id int64) (list []rename, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT r.id, u.user_id AS row, u.external_id AS user, u.version FROM renames r
		JOIN users u ON u.user_id = r.row_id WHERE r.id > ?`, id).Scan(&list).Error
	return list, err
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
