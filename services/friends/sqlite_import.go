package friends

import (
	"strconv"

	"stepboard/models"
)

// sqliteImport passes rows as one JSON text, because the driver's time grows with the
// square of the parameters.
type sqliteImport struct{}

// lock locks nothing: the database runs one transaction at a time.
func (sqliteImport) lock(t *tx, gains [][2]int64) (above []models.User, err error) {
	err = t.db.Raw(`SELECT u.user_id, u.external_id, u.friend_count
		FROM users u JOIN json_each(?) g ON u.user_id = g.value ->> 0
		WHERE u.friend_count + (g.value ->> 1) > ?`, jsonRows(gains), models.MaxFriends).Scan(&above).Error
	return above, err
}

func (sqliteImport) befriend(t *tx, pairs []models.Edge) (added int, err error) {
	list := jsonRows(sidesOf(pairs))
	var users []models.RowID
	err = t.db.Raw(`INSERT INTO friendships (user_id, friend_id, created_at)
		SELECT value ->> 0, value ->> 1, ? FROM json_each(?) WHERE true
		ON CONFLICT DO NOTHING RETURNING user_id`, t.db.NowFunc(), list).Scan(&users).Error
	if err != nil || len(users) == 0 {
		return 0, err
	}
	err = t.db.Exec(`UPDATE users SET friend_count = friend_count + (g.value ->> 1) FROM json_each(?) AS g
		WHERE users.user_id = g.value ->> 0`, jsonRows(timesOf(users))).Error
	if err != nil {
		return 0, err
	}
	return len(users) / 2, t.db.Exec(`DELETE FROM friend_requests WHERE (user_id, other_id) IN (
		SELECT value ->> 0, value ->> 1 FROM json_each(?))`, list).Error
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
