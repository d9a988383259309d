package friends

import (
	"strconv"

	"stepboard/models"
)

// sqliteImport passes rows as one JSON text, so that their number does not change the
// statement.
type sqliteImport struct{}

// lock locks nothing: the database runs one transaction at a time.
func (sqliteImport) lock(t *tx, gains [][2]int64) (above []models.User, gone []models.RowID, err error) {
	list := jsonRows(gains)
	err = t.db.Raw(`SELECT u.user_id, u.external_id, u.friend_count
		FROM users u JOIN json_each(?) g ON u.user_id = g.value ->> 0
		WHERE u.friend_count + (g.value ->> 1) > ?`, list, models.MaxFriends).Scan(&above).Error
	if err != nil {
		return nil, nil, err
	}
	return above, gone, t.db.Raw(`SELECT value ->> 0 FROM json_each(?)
		WHERE value ->> 0 NOT IN (SELECT user_id FROM users)`, list).Scan(&gone).Error
}

func (sqliteImport) friends(t *tx, pairs [][2]int64) (found []models.Edge, err error) {
	return found, t.db.Raw(`SELECT f.user_id AS a, f.friend_id AS b FROM json_each(?) p
		JOIN friendships f ON f.user_id = p.value ->> 0 AND f.friend_id = p.value ->> 1`, jsonRows(pairs)).Scan(&found).Error
}

func (sqliteImport) count(t *tx, gains [][2]int64) (counted int64, err error) {
	result := t.db.Exec(`UPDATE users SET friend_count = friend_count + (g.value ->> 1) FROM json_each(?) AS g
		WHERE users.user_id = g.value ->> 0 AND friend_count + (g.value ->> 1) <= ?`, jsonRows(gains), models.MaxFriends)
	return result.RowsAffected, result.Error
}

func (sqliteImport) removeRequests(t *tx, sides [][2]int64) error {
	return t.db.Exec(`DELETE FROM friend_requests WHERE (user_id, other_id) IN (
		SELECT value ->> 0, value ->> 1 FROM json_each(?))`, jsonRows(sides)).Error
}

func (sqliteImport) store(t *tx, sides [][2]int64) error {
	return t.db.Exec(`INSERT INTO friendships (user_id, friend_id, created_at)
		SELECT value ->> 0, value ->> 1, ? FROM json_each(?)`, t.db.NowFunc(), jsonRows(sides)).Error
}

// jsonRows returns rows as an array of arrays.
func jsonRows(rows [][2]int64) string {
	list := []byte("[")
	for i, row := range rows {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(append(list, '['), row[0], 10)
		list = strconv.AppendInt(append(list, ','), row[1], 10)
		list = append(list, ']')
	}
	return string(append(list, ']'))
}
