package wechat

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
	"stepboard/services/people/directory"
)

// maxFailures is how many documents that can't be read are decrypted with a session key.
const maxFailures = 20

// Store keeps people of mini programs in table wechat_users, and hashes of those who were erased in wechat_erased.
// Safe for concurrent use.
type Store struct {
	db  *gorm.DB
	key []byte
}

// NewStore returns a store over the database. key is that of directory.IDHash.
func NewStore(db *gorm.DB, key []byte) *Store { return &Store{db, key} }

// mapping is a row of wechat_users: a person in an app.
type mapping struct {
	AppID   string `gorm:"column:appid;primaryKey"`
	OpenID  string `gorm:"column:openid;primaryKey"`
	UnionID string `gorm:"column:unionid"`
	// Row is the user's.
	Row models.RowID `gorm:"column:user_id"`
	// Key is the session key as sealer has encrypted it, and Failures how many documents it could not decrypt.
	Key       []byte `gorm:"column:session_key"`
	Failures  int
	CreatedAt time.Time
}

func (mapping) TableName() string { return "wechat_users" }

// known is a user who was found; row is 0 if there is none.
type known struct {
	row  models.RowID
	user models.UserID
}

// find returns the user of a person: the one with the openid in the app, otherwise the oldest with the unionid. Those
// who are being erased are not found. One query.
func (s *Store) find(ctx context.Context, appid string, who identity) (found known, err error) {
	var rows []struct {
		Row  models.RowID  `gorm:"column:user_id"`
		User models.UserID `gorm:"column:external_id"`
	}
	err = s.db.WithContext(ctx).Raw(`SELECT u.user_id, u.external_id FROM wechat_users w JOIN users u ON u.user_id = w.user_id
		WHERE w.appid = ? AND w.openid = ? OR w.unionid = ? AND w.unionid <> ''
		ORDER BY CASE WHEN w.appid = ? AND w.openid = ? THEN 0 ELSE 1 END, u.user_id LIMIT 1`,
		appid, who.openID, who.unionID, appid, who.openID).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return known{}, models.Wrap("look up a person of WeChat", err)
	}
	return known{rows[0].Row, rows[0].User}, nil
}

// put stores a login. A key that is stored already, as same reports, keeps its failures, or
// each login would give 20 more attempts; another one has none. If the mapping is new, or was another user's, who was erased, the person may be an erased user: it notes that they have
// returned, and returns true. One transaction of three statements, and up to three more for such a person.
func (s *Store) put(ctx context.Context, m mapping, same func(stored []byte) bool) (returned bool, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		m.CreatedAt = tx.NowFunc()
		created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&m)
		if created.Error != nil {
			return models.Wrap("store a person of WeChat", created.Error)
		}
		var was mapping
		err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&was, "appid = ? AND openid = ?", m.AppID, m.OpenID).Error
		if err != nil {
			return models.Wrap("lock a person of WeChat", err)
		}
		if returned = created.RowsAffected > 0 || was.Row != m.Row; returned {
			if err := s.takeBack(tx, m, was); err != nil {
				return err
			}
		}
		if same(was.Key) {
			m.Key, m.Failures = was.Key, was.Failures
		}
		if m.UnionID == "" {
			m.UnionID = was.UnionID
		}
		err = tx.Model(&m).Select("unionid", "user_id", "session_key", "failures").Updates(&m).Error
		return models.Wrap("store a session of WeChat", err)
	})
	return returned, err
}

// takeBack notes that erased users have returned to the user of a mapping: the one whom the mapping named until now, those
// whose mapping in another app the sweep has yet to remove, and those of whom it has kept hashes.
func (s *Store) takeBack(tx *gorm.DB, m, was mapping) error {
	var former []models.RowID
	err := tx.Raw(`SELECT row_id FROM wechat_erased WHERE id_hash IN ?
		UNION SELECT w.user_id FROM wechat_users w
		WHERE w.unionid = ? AND w.unionid <> '' AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = w.user_id)`,
		s.hashes(m), m.UnionID).Scan(&former).Error
	if err != nil {
		return models.Wrap("look for an erased person of WeChat", err)
	}
	if was.Row != m.Row {
		former = append(former, was.Row)
	}
	return directory.Returned(tx, former, m.Row)
}

// hashes returns the hashes by which a person is found after an erasure.
func (s *Store) hashes(m mapping) [][]byte {
	list := [][]byte{directory.IDHash(s.key, models.UserID("wechat openid "+m.AppID+" "+m.OpenID))}
	if m.UnionID != "" {
		list = append(list, directory.IDHash(s.key, models.UserID("wechat unionid "+m.UnionID)))
	}
	return list
}

// attempt counts a failure of the session of a user in an app, in advance, and returns the session; the zero value if
// there is none, or if its key has failed too often. One statement.
func (s *Store) attempt(ctx context.Context, appid string, user models.RowID) (session mapping, err error) {
	var list []mapping
	err = s.db.WithContext(ctx).Raw(`UPDATE wechat_users SET failures = failures + 1
		WHERE appid = ? AND user_id = ? AND failures < ? RETURNING *`, appid, user, maxFailures).Scan(&list).Error
	if err != nil || len(list) == 0 {
		return mapping{}, models.Wrap("count an attempt", err)
	}
	return list[0], nil
}

// succeed takes back what attempt has counted, unless there is another key by now. One statement.
func (s *Store) succeed(ctx context.Context, m mapping) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE wechat_users SET failures = failures - 1
		WHERE appid = ? AND openid = ? AND session_key = ? AND failures > 0`, m.AppID, m.OpenID, m.Key).Error
	return models.Wrap("take back an attempt", err)
}
