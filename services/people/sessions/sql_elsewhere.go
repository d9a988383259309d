package sessions

import (
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/people/identities"
)

// Elsewhere is somebody whom a provider has signed in.
type Elsewhere struct {
	// Issuer and Subject say who it is.
	Issuer, Subject string
	// User is the user whose identity it is, if it is new; empty to make a user. Nickname is that of a new user; may be
	// empty.
	User     models.UserID
	Nickname string
	// Lasts is how long the session lasts.
	Lasts time.Duration
	// TimeZone is where the device is, if it is a valid IANA name. Before is the key of the session that the device has until
	// now; empty for none.
	TimeZone, Before string
}

// errNotTheirs is the error about a new identity that may not be joined to the user whom its provider names.
var errNotTheirs = models.Errorf(models.CodeForbidden,
	"user_claim names an operator, somebody who has an identity already, or an id that only signing up makes")

// OpenElsewhere opens a session of somebody whom a provider has signed in, and ends the one that the device had before.
// CodeForbidden if a new identity names a user who is an operator, or has an identity already; CodeValidationFailed,
// CodeUnavailable. Two queries and a transaction; for a new identity a further one.
func (s *Service) OpenElsewhere(ctx context.Context, e Elsewhere) (Opened, error) {
	if s.o.Sign == nil {
		return Opened{}, ErrDisabled
	}
	if models.CheckZone("time_zone", e.TimeZone) != nil {
		e.TimeZone = ""
	}
	who := identities.Identity{Issuer: e.Issuer, Subject: e.Subject, SessionKey: []byte{}}
	known, err := s.o.Identities.Find(ctx, who)
	created := err == nil && known.Row == 0
	if created {
		known, err = s.introduce(ctx, who, e)
	}
	if errors.Is(err, identities.ErrTaken) { // by another browser at the same time
		created = false
		known, err = s.o.Identities.Find(ctx, who)
	}
	if err != nil {
		return Opened{}, models.Public("look up who has signed in", err)
	}
	ends := s.now().Add(e.Lasts)
	o := Opened{Key: keys.New(), Nickname: known.Nickname, Created: created}
	o.Session = models.Session{User: known.Row, TimeZone: e.TimeZone, CreatedAt: s.now(), LastUsedAt: s.now(), EndsAt: &ends}
	o.KeyHash, _ = keys.Hash(o.Key)
	if err := s.o.Store.open(ctx, &o.Session); err != nil {
		return Opened{}, models.Public("open a session", err)
	}
	s.opened(ctx, e.Before)
	o.Token, err = s.Token(ctx, o.Key, false)
	return o, err
}

// introduce notes a new identity, of a new user or of the one whom its provider names.
func (s *Service) introduce(ctx context.Context, who identities.Identity, e Elsewhere) (known identities.Known, err error) {
	user := newUser{s.o.Directory, models.NewUserID(), e.Nickname}
	known = identities.Known{User: user.id, Nickname: user.nickname}
	if e.User != "" {
		if e.User.SignsUp() {
			return known, errNotTheirs
		}
		rows, err := s.o.Directory.Ensure(ctx, e.User)
		if err != nil {
			return known, err
		}
		known = identities.Known{User: e.User, Row: rows[0]}
	}
	returned := false
	err = s.o.Store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if e.User == "" {
			came := models.Newcomer{CreatedAt: s.now()}
			err = user.signUp(tx, &came)
			known.Row = came.User
		} else {
			err = lockForIdentity(tx, known.Row)
		}
		if err != nil {
			return err
		}
		who.Row = known.Row
		_, returned, err = s.o.Identities.Put(tx, who)
		return err
	})
	if err != nil {
		return known, err
	}
	if e.User == "" {
		s.o.Directory.SignedUp(ctx, known.Row)
	}
	if returned {
		if err := s.o.Returned(ctx, []models.RowID{known.Row}); err != nil {
			s.o.Log.WarnContext(ctx, "what was kept of an erased user holds again later", "error", err)
		}
	}
	return known, nil
}

// lockForIdentity locks a user in a transaction, and returns errNotTheirs unless they may be given their first identity.
func lockForIdentity(tx *gorm.DB, user models.RowID) error {
	if err := lock(tx, user); err != nil {
		return err
	}
	var taken bool
	err := tx.Raw(`SELECT EXISTS (SELECT 1 FROM operators WHERE user_id = ?) OR EXISTS (SELECT 1 FROM identities WHERE user_id = ?)`,
		user, user).Scan(&taken).Error
	if err == nil && taken {
		err = errNotTheirs
	}
	return models.Wrap("look for the identities of a user", err)
}
