package notices

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
)

// Store keeps subscriptions in table push_subscriptions, and the key of Web Push in push_keys. Safe
// for concurrent use.
type Store struct{ db *gorm.DB }

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// errErased reports that the user of a subscription was erased meanwhile.
var errErased = errors.New("the user was erased")

// putTries bounds how often Put tries to take an endpoint that other users take at the same time.
const putTries = 5

// Put stores a subscription and returns it as it is stored. It replaces the one of the same endpoint;
// if that was another user's, by a new id, so that nothing that waits for the other user is sent to
// it. Without an endpoint it replaces the user's own. Beyond MaxSubscriptions the user's oldest
// with an endpoint end. The user is locked, so that concurrent calls keep to that.
func (s *Store) Put(ctx context.Context, p models.PushSubscription) (models.PushSubscription, error) {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		lock := tx.Select("user_id").Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
		if _, err := lists.Take[models.User](lock.Where("user_id = ?", p.UserID), errErased); err != nil {
			return fmt.Errorf("lock the user: %w", err)
		}
		if p.Endpoint == nil {
			_, err := upsert(tx, &p, "(user_id) WHERE endpoint IS NULL")
			return err
		}
		if err := take(tx, &p); err != nil {
			return err
		}
		err := tx.Exec(`
			DELETE FROM push_subscriptions WHERE user_id = ? AND endpoint IS NOT NULL AND id NOT IN (
				SELECT id FROM push_subscriptions WHERE user_id = ? AND endpoint IS NOT NULL ORDER BY id DESC LIMIT ?)`,
			p.UserID, p.UserID, MaxSubscriptions).Error
		return models.Wrap("end the oldest subscriptions", err)
	})
	return p, err
}

// take stores a subscription with an endpoint, which it takes from another user.
func take(tx *gorm.DB, p *models.PushSubscription) error {
	for range putTries {
		err := tx.Exec(`DELETE FROM push_subscriptions WHERE endpoint_hash = ? AND user_id <> ?`, p.EndpointHash, p.UserID).Error
		if err != nil {
			return fmt.Errorf("take the endpoint of another user: %w", err)
		}
		if stored, err := upsert(tx, p, "(endpoint_hash)"); stored || err != nil {
			return err
		}
	}
	return errors.New("other users take the same endpoint")
}

// upsert stores a subscription in place of the user's one in which the columns of target are the
// same, and sets its id and when it was created. It returns false if another user has that one.
func upsert(tx *gorm.DB, p *models.PushSubscription, target string) (stored bool, err error) {
	var row struct {
		ID        int64
		CreatedAt time.Time
	}
	err = tx.Raw(`
		INSERT INTO push_subscriptions (user_id, endpoint, endpoint_hash, p256dh, auth,
			tell_passed, tell_likes, tell_requests, tell_digest, time_zone, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT `+target+` DO UPDATE SET p256dh = excluded.p256dh, auth = excluded.auth,
			tell_passed = excluded.tell_passed, tell_likes = excluded.tell_likes,
			tell_requests = excluded.tell_requests, tell_digest = excluded.tell_digest, time_zone = excluded.time_zone
		WHERE push_subscriptions.user_id = excluded.user_id
		RETURNING id, created_at`,
		p.UserID, p.Endpoint, p.EndpointHash, p.P256DH, p.Auth,
		p.Told.Passed, p.Told.Likes, p.Told.Requests, p.Told.Digest, p.TimeZone, p.CreatedAt).Scan(&row).Error
	if err != nil || row.ID == 0 {
		return false, models.Wrap("store a subscription", err)
	}
	p.ID, p.CreatedAt = row.ID, row.CreatedAt
	return true, nil
}

// List returns the subscriptions of a user, oldest first. One query.
func (s *Store) List(ctx context.Context, user models.RowID) (list []models.PushSubscription, err error) {
	err = s.db.WithContext(ctx).Order("id").Find(&list, "user_id = ?", user).Error
	return list, models.Wrap("list subscriptions", err)
}

// End ends the subscription of a user with an endpoint; nil for the app's own.
func (s *Store) End(ctx context.Context, user models.RowID, endpoint *string) error {
	db := s.db.WithContext(ctx).Where("user_id = ?", user)
	if endpoint == nil {
		db = db.Where("endpoint IS NULL")
	} else {
		hash := sha256.Sum256([]byte(*endpoint))
		db = db.Where("endpoint_hash = ?", hash[:])
	}
	return models.Wrap("end a subscription", db.Delete(&models.PushSubscription{}).Error)
}

// EndAll ends all subscriptions of a user.
func (s *Store) EndAll(ctx context.Context, user models.RowID) error {
	return models.Wrap("end subscriptions", s.db.WithContext(ctx).Delete(&models.PushSubscription{}, "user_id = ?", user).Error)
}

// Subscription returns a subscription with an endpoint, or outcomes.ErrEnded. One query.
func (s *Store) Subscription(ctx context.Context, id int64) (models.PushSubscription, error) {
	p, err := lists.Take[models.PushSubscription](s.db.WithContext(ctx).Where("id = ? AND endpoint IS NOT NULL", id), outcomes.ErrEnded)
	return p, models.Wrap("read a subscription", err)
}

// EndOne ends a subscription. If there is none, nothing changes.
func (s *Store) EndOne(ctx context.Context, id int64) error {
	return models.Wrap("end a subscription", s.db.WithContext(ctx).Delete(&models.PushSubscription{}, id).Error)
}

// maxRefusals is in how many hours in a row a push service may refuse the notices for a browser before its subscription
// ends: more than a night in which the clock or push.subject is wrong.
const maxRefusals = 24

// Refused implements outcomes.Subscriptions. Of an hour the first refusal counts. One statement, or two.
func (s *Store) Refused(ctx context.Context, id int64, now time.Time) (ended bool, err error) {
	var refusals int
	err = s.db.WithContext(ctx).Raw(`UPDATE push_subscriptions SET refusals = refusals + 1, refused_at = ?
		WHERE id = ? AND (refused_at IS NULL OR refused_at <= ?) RETURNING refusals`, now, id, now.Add(-time.Hour)).Scan(&refusals).Error
	if err != nil || refusals < maxRefusals {
		return false, models.Wrap("note that a push service refuses", err)
	}
	return true, s.EndOne(ctx, id)
}

// Taken implements outcomes.Subscriptions. One statement.
func (s *Store) Taken(ctx context.Context, id int64) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE push_subscriptions SET refusals = 0, refused_at = NULL WHERE id = ?`, id).Error
	return models.Wrap("note that a push service takes notices", err)
}

// Wanting is a user who wants a kind of news.
type Wanting struct {
	User models.RowID `gorm:"column:user_id"`
	// TimeZone is the zone that the user's subscription of last has; empty if none has one.
	TimeZone string
	// Since is when the first of the subscriptions was stored that are for it.
	Since time.Time
}

// Wanting returns up to limit users behind a row who want a kind of news, in any browser or by the
// app, in the order of their rows. One query, which reads only who wants it.
func (s *Store) Wanting(ctx context.Context, tell models.Tell, after models.RowID, limit int) (users []Wanting, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT w.user_id, coalesce((
			SELECT z.time_zone FROM push_subscriptions z WHERE z.user_id = w.user_id AND z.time_zone <> '' ORDER BY z.id DESC LIMIT 1), '') AS time_zone,
			f.created_at AS since
		FROM (SELECT user_id, min(id) AS first FROM push_subscriptions
			WHERE user_id > ? AND `+tell.Column()+` GROUP BY user_id ORDER BY user_id LIMIT ?) AS w
		JOIN push_subscriptions f ON f.id = w.first
		ORDER BY w.user_id`, after, limit).Scan(&users).Error
	return users, models.Wrap("list who wants to be told", err)
}

// Key returns the key that push services know this service by, and makes it if there is none. It is
// a row like the other keys that the service makes, on servers and in a data folder: so backups,
// restores and moves have it. One query, and two statements the first time.
func (s *Store) Key(ctx context.Context) (*ecdh.PrivateKey, error) {
	secret, err := lists.Secret(s.db.WithContext(ctx), "push_keys", func() []byte {
		made, _ := ecdh.P256().GenerateKey(rand.Reader) // it never fails
		return made.Bytes()
	})
	if err != nil {
		return nil, fmt.Errorf("read the key of Web Push: %w", err)
	}
	key, err := ecdh.P256().NewPrivateKey(secret)
	return key, models.Wrap("read the key of Web Push", err)
}
