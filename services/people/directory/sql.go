package directory

import (
	"context"
	"errors"
	"slices"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/lists"
	"stepboard/models"
)

var (
	errNotStored = errors.New("there is no such user")
	errTaken     = errors.New("somebody has this user id")
)

// Store keeps users in table users, and their former ids in renames. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db} }

// recordColumns are the columns of models.Record.
const recordColumns = `user_id, external_id, nickname, avatar_url, cover_url, hidden, version`

// each calls do with each of the records that a query selects, whose columns are recordColumns.
func (s *Store) each(ctx context.Context, do func(r models.Record), query string, args ...any) error {
	var r models.Record
	columns := []any{&r.Row, &r.User, &r.Nickname, &r.AvatarURL, &r.CoverURL, &r.Hidden, &r.Version}
	return lists.Each(s.db.WithContext(ctx).Raw(query, args...), columns, func() error {
		do(r)
		return nil
	})
}

// byUser returns the records of those users that exist. One query.
func (s *Store) byUser(ctx context.Context, users []string) (map[models.UserID]models.Record, error) {
	records := make(map[models.UserID]models.Record, len(users))
	return records, s.each(ctx, func(r models.Record) { records[r.User] = r },
		`SELECT `+recordColumns+` FROM users WHERE external_id ?`, lists.Is(s.db, users))
}

// byRow returns the records of those users that exist. One query.
func (s *Store) byRow(ctx context.Context, rows []models.RowID) (map[models.RowID]models.Record, error) {
	records := make(map[models.RowID]models.Record, len(rows))
	return records, s.each(ctx, func(r models.Record) { records[r.Row] = r },
		`SELECT `+recordColumns+` FROM users WHERE user_id ?`, lists.Is(s.db, rows))
}

// create creates users, none of whom existed a moment ago, and returns the records of all of
// them. One whose id was erased takes over the limits that were kept; returned has the rows of
// these. key is that of IDHash.
//
// One transaction of two statements, or up to four if something is kept of anybody, and a query if
// another process has created some meanwhile. Ascending ids avoid deadlocks between processes.
// Looking first avoids gaps: an insert that meets an existing row has taken a row id already.
func (s *Store) create(
	ctx context.Context, key []byte, users []string,
) (records map[models.UserID]models.Record, returned []models.RowID, err error) {
	users = slices.Compact(slices.Sorted(slices.Values(users)))
	records = make(map[models.UserID]models.Record, len(users))
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		returned, err = (&Store{tx}).insert(ctx, key, users, records)
		return err
	})
	if err == nil && len(records) < len(users) {
		records, err = s.byUser(ctx, users)
	}
	return records, returned, err
}

// insert is create in a transaction, for distinct users, ascending. It adds the records of those whom it has created.
func (s *Store) insert(
	ctx context.Context, key []byte, users []string, records map[models.UserID]models.Record,
) (returned []models.RowID, err error) {
	err = s.each(ctx, func(r models.Record) { records[r.User] = r },
		`INSERT INTO users (external_id, created_at) SELECT given.text, ? FROM ?
		WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.external_id = given.text) ORDER BY given.position
		ON CONFLICT (external_id) DO NOTHING RETURNING `+recordColumns, currentTime(s.db), lists.Texts(s.db, users))
	if err != nil {
		return nil, err
	}
	ids, rows := make([]string, 0, len(records)), make([]models.RowID, 0, len(records))
	for _, r := range records {
		ids, rows = append(ids, string(r.User)), append(rows, r.Row)
	}
	return takeBack(s.db, key, ids, rows)
}

// find returns the row ids of those users that exist. One query.
func (s *Store) find(ctx context.Context, users []string) (map[models.UserID]models.RowID, error) {
	rows := make(map[models.UserID]models.RowID, len(users))
	var user models.UserID
	var row models.RowID
	query := s.db.WithContext(ctx).Raw(`SELECT u.external_id, u.user_id FROM ? JOIN users u ON u.external_id = given.text`, lists.Texts(s.db, users))
	return rows, lists.Each(query, []any{&user, &row}, func() error {
		rows[user] = row
		return nil
	})
}

// takeBack gives users who were created, by their ids and rows, the limits that were kept if
// their ids had been erased, and returns the rows of these. Three statements if there are any.
func takeBack(tx *gorm.DB, key []byte, ids []string, rows []models.RowID) ([]models.RowID, error) {
	returned, err := noteReturned(tx, key, ids, rows)
	if err != nil || len(returned) == 0 {
		return nil, err
	}
	return returned, restoreLimits(tx, returned)
}

// restoreLimits gives users who have returned the limits that were kept, unless they have others that end later. Two
// statements.
func restoreLimits(tx *gorm.DB, returned []models.RowID) error {
	for _, limit := range [][2]string{{"requests_sent", "requests_until"}, {"hidings", "hidings_until"}} {
		n, until := limit[0], limit[1]
		err := tx.Exec(`UPDATE users SET `+n+` = e.`+n+`, `+until+` = e.`+until+` FROM erasures e
			WHERE e.returned_row = users.user_id AND users.user_id ? AND (users.`+until+` IS NULL OR users.`+until+` < e.`+until+`)`,
			lists.Is(tx, returned)).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// Returned notes that erased users have returned to the row of a user, under another id than they had, and gives the user the
// limits that were kept. Of those who have returned already, and of whom nothing is kept, it notes nothing. It is
// part of the transaction tx. Three statements if there are any.
func Returned(tx *gorm.DB, former []models.RowID, to models.RowID) error {
	if len(former) == 0 {
		return nil
	}
	noted := tx.Exec(`UPDATE erasures SET returned_row = ? WHERE row_id IN ? AND returned_row IS NULL AND id_hash IS NOT NULL`, to, former)
	if noted.Error != nil || noted.RowsAffected == 0 {
		return models.Wrap("note that a user has returned", noted.Error)
	}
	return models.Wrap("restore limits", restoreLimits(tx, []models.RowID{to}))
}

// noteReturned notes the rows to which erased ids have returned, and returns them. The erasure of
// an id is the latest one that has no row to which it has returned. One query if nothing is kept of
// anybody, otherwise a statement more.
func noteReturned(tx *gorm.DB, key []byte, ids []string, rows []models.RowID) (returned []models.RowID, err error) {
	var kept bool
	err = tx.Raw(`SELECT EXISTS (SELECT 1 FROM erasures WHERE id_hash IS NOT NULL AND returned_row IS NULL)`).Scan(&kept).Error
	if err != nil || !kept {
		return nil, err
	}
	err = tx.Raw(`UPDATE erasures SET returned_row = given.user_id FROM ?
		WHERE returned_row IS NULL AND id = (
			SELECT max(l.id) FROM erasures l WHERE l.id_hash = given.id_hash AND l.returned_row IS NULL)
		RETURNING returned_row`, hashed(tx, key, ids, rows)).Scan(&returned).Error
	return returned, err
}

// put sets the profile of a user that exists, and returns the record. One statement.
func (s *Store) put(ctx context.Context, row models.RowID, p models.Profile) (models.Record, error) {
	return s.one(ctx, `UPDATE users SET nickname = ?, name_key = ?, avatar_url = ?, cover_url = ?, changed_at = ?, version = ?
		WHERE user_id = ? RETURNING `+recordColumns,
		p.Nickname, models.NameKey(p.Nickname), p.AvatarURL, p.CoverURL, currentTime(s.db), nextVersion(s.db), row)
}

// one returns the record that a query selects, or errNotStored.
func (s *Store) one(ctx context.Context, query string, args ...any) (r models.Record, err error) {
	err = s.each(ctx, func(found models.Record) { r = found }, query, args...)
	if err == nil && r.Row == 0 {
		err = errNotStored
	}
	return r, err
}

// rename gives a user another id, which nobody has, and returns the record. If the same was
// the user's last renaming, it changes nothing. An erased id returns to the user. key is that of
// IDHash. errNotStored if there is no such user, errTaken if somebody has the other id. One
// transaction.
func (s *Store) rename(ctx context.Context, key []byte, user, to models.UserID) (r models.Record, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		renamed := tx.Exec(`UPDATE users SET external_id = ?, changed_at = ?, version = ? WHERE external_id = ?`,
			to, currentTime(tx), nextVersion(tx), user)
		if errors.Is(renamed.Error, gorm.ErrDuplicatedKey) {
			return errTaken
		}
		if renamed.Error == nil && renamed.RowsAffected > 0 {
			renamed = tx.Exec(`INSERT INTO renames (row_id, former_id, renamed_at) SELECT user_id, ?, ? FROM users WHERE external_id = ?`,
				user, currentTime(tx), to)
		}
		if renamed.Error != nil {
			return renamed.Error
		}
		r, err = (&Store{tx}).one(ctx, `SELECT u.user_id, u.external_id, u.nickname, u.avatar_url, u.cover_url, u.hidden, u.version
			FROM users u JOIN renames r ON r.row_id = u.user_id
			WHERE r.former_id = ? AND u.external_id = ? AND r.id = (SELECT max(id) FROM renames WHERE row_id = u.user_id)`, user, to)
		if err == nil && renamed.RowsAffected > 0 {
			_, err = noteReturned(tx, key, []string{string(to)}, []models.RowID{r.Row})
		}
		return err
	})
	return r, err
}

// renamesAfter returns the renames with ids greater than the given one. One query.
func (s *Store) renamesAfter(ctx context.Context, id int64) (list []rename, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT r.id, u.user_id, u.external_id, u.version FROM renames r
		JOIN users u ON u.user_id = r.row_id WHERE r.id > ?`, id).Scan(&list).Error
	return list, err
}

// erasedAfter returns the erasures with ids greater than the given one. One query.
func (s *Store) erasedAfter(ctx context.Context, id int64) (list []erasure, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT id, row_id FROM erasures WHERE id > ?`, id).Scan(&list).Error
	return list, err
}

// gaps returns the row ids that nobody has or will have, ascending. One query.
func (s *Store) gaps(ctx context.Context) (gaps []gap, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT first_id AS first, last_id AS last FROM row_id_gaps ORDER BY first_id`).Scan(&gaps).Error
	return gaps, err
}

// updatedSince returns row ids and versions of the records that were updated since a moment
// of the database's clock. One query.
func (s *Store) updatedSince(ctx context.Context, since time.Time) (list []models.Record, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT user_id, version FROM users WHERE changed_at >= ?`, since).Scan(&list).Error
	return list, err
}

// SetHidden stores in a transaction that a user hides from everybody now, or does so no more,
// and how often the user has switched this in the hour that ends at until. After the commit the
// caller calls Refresh; other processes see it within 2 seconds. One statement.
func SetHidden(tx *gorm.DB, row models.RowID, hidden bool, hidings int, until time.Time) error {
	err := tx.Exec(`UPDATE users SET hidden = ?, hidings = ?, hidings_until = ?, changed_at = ?, version = ? WHERE user_id = ?`,
		hidden, hidings, until, currentTime(tx), nextVersion(tx), row).Error
	return models.Wrap("store whether a user is hidden", err)
}
