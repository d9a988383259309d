// Package identities keeps who users are elsewhere: people of WeChat's mini programs and of OpenID Connect providers.
//
// An identity is a subject of an issuer. The table names the row of its user, so a renamed user stays the same person. An
// erasure keeps hashes of the identities: what others have decided about the user holds again when the person returns.
package identities

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
	"stepboard/services/people/directory"
)

// Store keeps identities in SQL. Safe for concurrent use.
type Store struct {
	DB  *gorm.DB
	key []byte
}

// NewStore returns a store over the database. key is that of directory.IDHash.
func NewStore(db *gorm.DB, key []byte) *Store { return &Store{db, key} }

// Identity is who somebody is elsewhere.
type Identity struct {
	// Issuer is the address of an OpenID Connect provider, or the appid of a mini program, and Subject who it is there.
	Issuer  string `gorm:"primaryKey"`
	Subject string `gorm:"primaryKey"`
	// UnionID is who it is in all mini programs of an account of WeChat's open platform; otherwise empty.
	UnionID string `gorm:"column:unionid"`
	// Row is the user's.
	Row models.RowID `gorm:"column:user_id"`
	// SessionKey is WeChat's, encrypted, and Failures how many documents it could not decrypt.
	SessionKey []byte
	Failures   int
	CreatedAt  time.Time
}

// TableName is the name of the table.
func (Identity) TableName() string { return "identities" }

// Known is a user who was found; Row is 0 if there is none.
type Known struct {
	Row      models.RowID  `gorm:"column:user_id"`
	User     models.UserID `gorm:"column:external_id"`
	Nickname string
}

// Find returns the user of an identity, otherwise the oldest with its UnionID. Those who are being erased are not found.
// One query.
func (s *Store) Find(ctx context.Context, who Identity) (Known, error) {
	var found []Known
	err := s.DB.WithContext(ctx).Raw(`SELECT u.user_id, u.external_id, u.nickname FROM identities i JOIN users u ON u.user_id = i.user_id
		WHERE i.issuer = ? AND i.subject = ? OR i.unionid = ? AND i.unionid <> ''
		ORDER BY CASE WHEN i.issuer = ? AND i.subject = ? THEN 0 ELSE 1 END, u.user_id LIMIT 1`,
		who.Issuer, who.Subject, who.UnionID, who.Issuer, who.Subject).Scan(&found).Error
	if err != nil || len(found) == 0 {
		return Known{}, models.Wrap("look up an identity", err)
	}
	return found[0], nil
}

// ErrTaken means that an identity became another user's since it was looked up.
var ErrTaken = errors.New("the identity is another user's by now")

// Put notes in a transaction whose an identity is, and locks it. If it is new, or was that of a user who was erased, the
// person may be an erased user: it notes that they have returned, and returns true. was is the row before. ErrTaken. Two
// statements, and up to three more for such a person.
func (s *Store) Put(tx *gorm.DB, who Identity) (was Identity, returned bool, err error) {
	who.CreatedAt = tx.NowFunc()
	created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&who)
	if created.Error != nil {
		return was, false, models.Wrap("store an identity", created.Error)
	}
	err = tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Take(&was, "issuer = ? AND subject = ?", who.Issuer, who.Subject).Error
	if err != nil {
		return was, false, models.Wrap("lock an identity", err)
	}
	if was.Row != who.Row {
		var owners []models.RowID
		if err := tx.Raw(`SELECT user_id FROM users WHERE user_id = ?`, was.Row).Scan(&owners).Error; err != nil {
			return was, false, models.Wrap("look up the owner of an identity", err)
		}
		if len(owners) > 0 {
			return was, false, ErrTaken
		}
		if err := tx.Model(&who).Update("user_id", who.Row).Error; err != nil {
			return was, false, models.Wrap("store an identity", err)
		}
	} else if created.RowsAffected == 0 {
		return was, false, nil
	}
	return was, true, s.takeBack(tx, who, was)
}

// takeBack notes that erased users have returned to the user of an identity: the one whose it was until now, those
// whose identity in another mini program the sweep has yet to remove, and those of whom it has kept hashes.
func (s *Store) takeBack(tx *gorm.DB, who, was Identity) error {
	var former []models.RowID
	err := tx.Raw(`SELECT row_id FROM identities_erased WHERE id_hash IN ?
		UNION SELECT i.user_id FROM identities i
		WHERE i.unionid = ? AND i.unionid <> '' AND NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = i.user_id)`,
		s.hashes(who), who.UnionID).Scan(&former).Error
	if err != nil {
		return models.Wrap("look for an erased identity", err)
	}
	if was.Row != who.Row {
		former = append(former, was.Row)
	}
	return directory.Returned(tx, former, who.Row)
}

// hashes returns the hashes by which a person is found after an erasure. Their texts have WeChat's words, because its
// identities were the first: with other words those who were erased before would be lost.
func (s *Store) hashes(who Identity) [][]byte {
	list := [][]byte{directory.IDHash(s.key, models.UserID("wechat openid "+who.Issuer+" "+who.Subject))}
	if who.UnionID != "" {
		list = append(list, directory.IDHash(s.key, models.UserID("wechat unionid "+who.UnionID)))
	}
	return list
}
