package sessions

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/codes"
	"stepboard/models"
	"stepboard/services/platform/revoked"
)

// Tables are those whose keys restored databases must not revive.
func Tables() []string { return []string{"sessions", "sign_in_codes", "operators"} }

// Store keeps sessions, codes, operators and newcomers. Safe for concurrent use.
type Store struct{ db *gorm.DB }

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db} }

// Signer creates a user in a transaction. Implemented by directory.Service.
type Signer interface {
	SignUp(tx *gorm.DB, user models.UserID, nickname string) (models.RowID, error)
	SignedUp(ctx context.Context, row models.RowID)
}

// newUser is somebody who signs up.
type newUser struct {
	signer   Signer
	id       models.UserID
	nickname string
}

// signUp creates the user in a transaction, sets the row in came, and stores that.
func (u newUser) signUp(tx *gorm.DB, came *models.Newcomer) (err error) {
	if came.User, err = u.signer.SignUp(tx, u.id, u.nickname); err != nil {
		return err
	}
	return models.Wrap("store who has signed up", tx.Create(came).Error)
}

// foundSession is a session and its user.
type foundSession struct {
	models.Session
	ExternalID models.UserID
	Operator   bool
}

// goesOn selects the sessions that have not ended: used since a moment, and without an end by another one.
const goesOn = "last_used_at >= ? AND (ends_at IS NULL OR ends_at > ?)"

// alive has the moments of goesOn.
type alive struct{ since, now time.Time }

// byKey returns the session of a key, by its hash; errEnded if there is none. A user who is being erased has none.
func (s *Store) byKey(ctx context.Context, hash []byte, at alive) (foundSession, error) {
	var found []foundSession
	err := s.db.WithContext(ctx).Raw(`SELECT s.*, u.external_id, EXISTS (SELECT 1 FROM operators o WHERE o.user_id = s.user_id) AS operator
		FROM sessions s JOIN users u ON u.user_id = s.user_id WHERE s.key_hash = ? AND `+goesOn, hash, at.since, at.now).Scan(&found).Error
	if err != nil {
		return foundSession{}, fmt.Errorf("look up a session: %w", err)
	}
	if len(found) == 0 {
		return foundSession{}, errEnded
	}
	return found[0], nil
}

// noteUse stores when a session was used.
func (s *Store) noteUse(ctx context.Context, id int64, now time.Time) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE sessions SET last_used_at = ? WHERE id = ?`, now, id).Error
	return models.Wrap("note the use of a session", err)
}

// list returns the sessions of a user, the one used last first.
func (s *Store) list(ctx context.Context, user models.RowID, at alive) (list []models.Session, err error) {
	err = s.db.WithContext(ctx).Order("last_used_at DESC, id DESC").Find(&list, "user_id = ? AND "+goesOn, user, at.since, at.now).Error
	return list, models.Wrap("list sessions", err)
}

// timeZone returns the time zone of a session of a user, or an empty text.
func (s *Store) timeZone(ctx context.Context, user models.UserID, session int64) (zone string, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT s.time_zone FROM sessions s JOIN users u ON u.user_id = s.user_id
		WHERE s.id = ? AND u.external_id = ?`, session, user).Scan(&zone).Error
	return zone, err
}

// end ends the sessions that a condition selects, and returns their number.
func (s *Store) end(ctx context.Context, now time.Time, condition string, args ...any) (n int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		n, err = revoked.End(tx, now, "sessions", condition, args...)
		return err
	})
	return n, err
}

// endAll ends all sessions and codes.
func (s *Store) endAll(ctx context.Context, now time.Time) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, table := range []string{"sessions", "sign_in_codes"} {
			if _, err := revoked.End(tx, now, table, "key_hash IS NOT NULL"); err != nil {
				return err
			}
		}
		return nil
	})
}

// operates reports whether a session is there, of a user who is an operator.
func (s *Store) operates(ctx context.Context, session int64, user models.UserID, at alive) (found bool, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM sessions s JOIN users u ON u.user_id = s.user_id
		JOIN operators o ON o.user_id = s.user_id WHERE s.id = ? AND u.external_id = ? AND `+goesOn+`)`, session, user, at.since, at.now).Scan(&found).Error
	return found, models.Wrap("look up an operator", err)
}

// errGone is the cause if a user was erased meanwhile.
var errGone = errors.New("the user was erased")

// lock locks a user in a transaction.
func lock(tx *gorm.DB, user models.RowID) error {
	var locked []models.User
	err := tx.Select("user_id").Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Find(&locked, "user_id = ?", user).Error
	if err == nil && len(locked) == 0 {
		err = errGone
	}
	return models.Wrap("lock a user", err)
}

// open stores a session and sets its id. The user is locked, so that concurrent calls keep to MaxSessions.
func (s *Store) open(ctx context.Context, session *models.Session) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return add(tx, session) })
}

// add is open in a transaction.
func add(tx *gorm.DB, session *models.Session) error {
	if err := lock(tx, session.User); err != nil {
		return err
	}
	if err := tx.Create(session).Error; err != nil {
		return fmt.Errorf("store a session: %w", err)
	}
	_, err := revoked.End(tx, session.CreatedAt, "sessions", `user_id = ? AND id <> ? AND id NOT IN (
		SELECT id FROM sessions WHERE user_id = ? AND id <> ? ORDER BY last_used_at DESC, id DESC LIMIT ?)`,
		session.User, session.ID, session.User, session.ID, MaxSessions-1)
	return err
}

// foundCode is a code and its user.
type foundCode struct {
	models.SignInCode
	ExternalID models.UserID
	Nickname   string
}

// code returns a code by its hash, or codes.ErrNoCode if there is none, or if its time is over.
func (s *Store) code(ctx context.Context, hash []byte, now time.Time) (foundCode, error) {
	var found []foundCode
	err := s.db.WithContext(ctx).Raw(`SELECT c.*, u.external_id, u.nickname FROM sign_in_codes c LEFT JOIN users u ON u.user_id = c.user_id
		WHERE c.key_hash = ? AND c.ends_at > ? AND (c.user_id IS NULL OR u.user_id IS NOT NULL)`, hash, now).Scan(&found).Error
	if err != nil {
		return foundCode{}, fmt.Errorf("look up a code: %w", err)
	}
	if len(found) == 0 {
		return foundCode{}, codes.ErrNoCode
	}
	return found[0], nil
}

// use ends a code in a transaction, or returns codes.ErrNoCode if it has ended already.
func use(tx *gorm.DB, hash []byte, now time.Time) error {
	n, err := revoked.End(tx, now, "sign_in_codes", "key_hash = ?", hash)
	if err == nil && n == 0 {
		err = codes.ErrNoCode
	}
	return err
}

// putCode stores a code of a user, and ends the one before.
func (s *Store) putCode(ctx context.Context, code *models.SignInCode) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := lock(tx, *code.User); err != nil {
			return err
		}
		if _, err := revoked.End(tx, code.CreatedAt, "sign_in_codes", "user_id = ?", *code.User); err != nil {
			return err
		}
		return models.Wrap("store a code", tx.Create(code).Error)
	})
}

// putFirst stores the first code of a service, ends the one before, and reports whether it has: not if there is a user.
func (s *Store) putFirst(ctx context.Context, code *models.SignInCode) (made bool, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var users bool
		if err := tx.Raw(`SELECT EXISTS (SELECT 1 FROM users)`).Scan(&users).Error; err != nil || users {
			return models.Wrap("look for users", err)
		}
		if _, err := revoked.End(tx, code.CreatedAt, "sign_in_codes", "user_id IS NULL"); err != nil {
			return err
		}
		made = true
		return models.Wrap("store a code", tx.Create(code).Error)
	})
	return made, err
}

// openFirst ends the first code, creates the first user, makes them an operator and stores a session.
func (s *Store) openFirst(ctx context.Context, hash []byte, user newUser, session *models.Session) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := use(tx, hash, session.CreatedAt); err != nil {
			return err
		}
		came := models.Newcomer{CreatedAt: session.CreatedAt}
		if err := user.signUp(tx, &came); err != nil {
			return err
		}
		session.User = came.User
		if err := addOperator(tx, session.User, "the first code", session.CreatedAt); err != nil {
			return err
		}
		if _, err := (&Store{tx}).count(ctx, firstCodes, forEver); err != nil {
			return err
		}
		return add(tx, session)
	})
}

// openAgain ends a code, stores a session of its user, and reports whether the user is an operator.
func (s *Store) openAgain(ctx context.Context, hash []byte, now time.Time, session *models.Session) (operator bool, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := use(tx, hash, now); err != nil {
			return err
		}
		if err := tx.Raw(`SELECT EXISTS (SELECT 1 FROM operators WHERE user_id = ?)`, session.User).Scan(&operator).Error; err != nil {
			return fmt.Errorf("look up an operator: %w", err)
		}
		return add(tx, session)
	})
	return operator, err
}

// newBounds limits the users that invitations make: by a code in an hour, and by all in a day.
type newBounds struct {
	code            string
	perHour, perDay int64
}

// signUp creates a user, unless an invitation or all of them have made too many, and sets the row in came, which it
// stores.
func (s *Store) signUp(ctx context.Context, user newUser, came *models.Newcomer, b newBounds) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, bound := range []struct {
			what   string
			period time.Duration
			most   int64
		}{{newUsers, 24 * time.Hour, b.perDay}, {newUsers + " " + hex.EncodeToString(codes.HashOf(b.code)), time.Hour, b.perHour}} {
			n, err := (&Store{tx}).count(ctx, bound.what, came.CreatedAt.Truncate(bound.period))
			if err != nil {
				return err
			}
			if n > bound.most {
				return limited("too many people have joined", came.CreatedAt, bound.period)
			}
		}
		return user.signUp(tx, came)
	})
}

// makeCard creates a user, and stores a code of theirs.
func (s *Store) makeCard(ctx context.Context, user newUser, code *models.SignInCode) error {
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		came := models.Newcomer{CreatedAt: code.CreatedAt}
		if err := user.signUp(tx, &came); err != nil {
			return err
		}
		code.User = &came.User
		return models.Wrap("store a code", tx.Create(code).Error)
	})
}

// What sign_in_counts counts: wrong codes in an hour, new users in a day or, by an invitation, in an hour, and the first
// codes that were ever used.
const (
	wrongCodes = "wrong codes"
	newUsers   = "new users"
	firstCodes = "first codes"
)

// forEver is the beginning of what is never deleted.
var forEver = time.Unix(0, 0).UTC()

// count adds one to what has happened since a moment, and returns how often that was.
func (s *Store) count(ctx context.Context, what string, since time.Time) (n int64, err error) {
	err = s.db.WithContext(ctx).Raw(`INSERT INTO sign_in_counts (what, since, n) VALUES (?, ?, 1)
		ON CONFLICT (what, since) DO UPDATE SET n = sign_in_counts.n + 1 RETURNING n`, what, since).Scan(&n).Error
	return n, models.Wrap("count "+what, err)
}

// counted returns how often some things have happened since a moment.
func (s *Store) counted(ctx context.Context, since time.Time, what ...string) (map[string]int64, error) {
	var rows []struct {
		What string
		N    int64
	}
	err := s.db.WithContext(ctx).Raw(`SELECT what, n FROM sign_in_counts WHERE what IN ? AND since = ?`, what, since).Scan(&rows).Error
	counts := make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.What] = r.N
	}
	return counts, err
}

// tidy ends what has ended of sessions and codes, and deletes old counts.
func (s *Store) tidy(ctx context.Context, at alive) (ended int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		sessions, err := revoked.End(tx, at.now, "sessions", "NOT ("+goesOn+")", at.since, at.now)
		if err != nil {
			return err
		}
		codes, err := revoked.End(tx, at.now, "sign_in_codes", "ends_at <= ?", at.now)
		ended = sessions + codes
		return err
	})
	if err == nil {
		err = s.db.WithContext(ctx).Exec(`DELETE FROM sign_in_counts WHERE since < ? AND since > ?`, at.now.Add(-48*time.Hour), forEver).Error
	}
	return ended, err
}
