package friends

import (
	"context"
	"errors"

	"stepboard/internal/codes"
	"stepboard/models"
)

// Inviter is a user who has invited another one, as the other sees them.
type Inviter struct {
	Row       models.RowID  `gorm:"column:user_id"`
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	AvatarURL string
	// Friends reports whether the two are friends already.
	Friends bool
}

// Invite returns the user's invite code, which anybody may use any number of times. The first call
// makes it. One query, and two more the first time.
func (s *Service) Invite(ctx context.Context, user models.UserID) (code string, err error) {
	return s.inviteCode(ctx, user, false)
}

// RenewInvite gives the user another invite code; the old one is not valid any more. Two queries.
func (s *Service) RenewInvite(ctx context.Context, user models.UserID) (code string, err error) {
	return s.inviteCode(ctx, user, true)
}

// inviteCode returns the user's code, after another one is stored if it is to be renewed.
func (s *Service) inviteCode(ctx context.Context, user models.UserID, renew bool) (code string, err error) {
	rows, err := s.directory.Ensure(ctx, user)
	if err != nil {
		return "", err
	}
	code, err = s.store.inviteCode(ctx, rows[0], renew)
	return code, models.Public("invite friends", err)
}

// Inviter returns who has invited a user by an invite code, in capital or small letters; the user
// themselves for one's own. It changes nothing. CodeNotFound if nobody has the code, or if one of
// the two blocks the other, CodeRateLimited if the user has tried too many codes.
func (s *Service) Inviter(ctx context.Context, user models.UserID, code string) (Inviter, error) {
	code, err := codes.Try(ctx, s.limits.Joins, user, code)
	if err != nil {
		return Inviter{}, err
	}
	row, err := s.directory.FindOne(ctx, user)
	if err != nil {
		return Inviter{}, err
	}
	return s.inviter(ctx, row, code)
}

// ByCode returns the user who has invited somebody who has not signed in, by a code as codes.Parse returns it, or
// codes.ErrNoCode. One query. CodeUnavailable.
func (s *Service) ByCode(ctx context.Context, code string) (Inviter, error) {
	return s.inviter(ctx, 0, code)
}

// inviter is Inviter for a row, which is 0 for a user that does not exist, and a code that was counted.
func (s *Service) inviter(ctx context.Context, user models.RowID, code string) (Inviter, error) {
	inviter, err := inviterOf(s.store.db.WithContext(ctx), user, code)
	if err != nil && !errors.Is(err, codes.ErrNoCode) {
		err = models.Unavailable("look up invite code", err)
	}
	return inviter, err
}

// Join makes a user a friend of the one who has the invite code. Errors are those of Inviter;
// CodeFriendLimit if either has too many friends, CodeValidationFailed for one's own code. Repeating
// it changes nothing.
func (s *Service) Join(ctx context.Context, user models.UserID, code string) (Inviter, error) {
	code, err := codes.Try(ctx, s.limits.Joins, user, code)
	if err != nil {
		return Inviter{}, err
	}
	rows, err := s.directory.Ensure(ctx, user)
	if err != nil {
		return Inviter{}, err
	}
	joining := rows[0]
	found, err := s.inviter(ctx, joining, code)
	if err != nil {
		return Inviter{}, err
	}
	if found.Row == joining {
		return Inviter{}, models.Invalid("body.invite_code", "is the user's own: nobody can be a friend of oneself")
	}
	err = s.change(ctx, func(t *tx) error {
		locked, err := t.lock(found.Row, joining)
		if err != nil {
			return err
		}
		// The code may have been renewed, and somebody blocked, before both were locked.
		found, err = inviterOf(t.db, joining, code)
		switch {
		case err != nil:
			return err
		case found.Friends:
			t.changed = append(t.changed, found.Row, joining)
			return nil
		}
		if err := checkLimit(locked, found.Row, joining); err != nil {
			return err
		}
		found.Friends = true
		return t.accept(found.Row, joining)
	})
	return found, err
}

// errErased is the cause if a user was erased and this process has not heard of it yet.
var errErased = errors.New("the user was erased a moment ago")
