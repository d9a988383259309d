package wechat

import (
	"context"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/people/identities"
)

// maxFailures is how many documents that can't be read are decrypted with a session key.
const maxFailures = 20

// Store keeps people of mini programs, with their session keys. Safe for concurrent use.
type Store struct{ *identities.Store }

// put stores a login. A key that is stored already, as same reports, keeps its failures, or
// each login would give 20 more attempts; another one has none. It returns true if the person may be an erased user who has
// returned. One transaction of what identities.Store.Put costs and a statement.
func (s *Store) put(ctx context.Context, m identities.Identity, same func(stored []byte) bool) (returned bool, err error) {
	err = s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		var was identities.Identity
		if was, returned, err = s.Put(tx, m); err != nil {
			return err
		}
		if same(was.SessionKey) {
			m.SessionKey, m.Failures = was.SessionKey, was.Failures
		}
		if m.UnionID == "" {
			m.UnionID = was.UnionID
		}
		err = tx.Model(&m).Select("unionid", "session_key", "failures").Updates(&m).Error
		return models.Wrap("store a session of WeChat", err)
	})
	return returned, err
}

// attempt counts a failure of the session of a user in an app, in advance, and returns the session; the zero value if
// there is none, or if its key has failed too often. One statement.
func (s *Store) attempt(ctx context.Context, appid string, user models.RowID) (session identities.Identity, err error) {
	var list []identities.Identity
	err = s.DB.WithContext(ctx).Raw(`UPDATE identities SET failures = failures + 1
		WHERE issuer = ? AND user_id = ? AND failures < ? RETURNING *`, appid, user, maxFailures).Scan(&list).Error
	if err != nil || len(list) == 0 {
		return identities.Identity{}, models.Wrap("count an attempt", err)
	}
	return list[0], nil
}

// succeed takes back what attempt has counted, unless there is another key by now. One statement.
func (s *Store) succeed(ctx context.Context, m identities.Identity) error {
	err := s.DB.WithContext(ctx).Exec(`UPDATE identities SET failures = failures - 1
		WHERE issuer = ? AND subject = ? AND session_key = ? AND failures > 0`, m.Issuer, m.Subject, m.SessionKey).Error
	return models.Wrap("take back an attempt", err)
}
