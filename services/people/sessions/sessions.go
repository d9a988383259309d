package sessions

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"stepboard/internal/codes"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/people/identities"
	"stepboard/services/platform/auth"
)

const (
	// MaxSessions is how many sessions a user has at most. A further one ends the one that was not used longest.
	MaxSessions = 50
	// tokenTTL is for how long an access token is valid.
	tokenTTL = 15 * time.Minute
	// notedEvery is how often it is written that a session was used.
	notedEvery = time.Minute
	// maxDevice is how many characters the name of a device has at most.
	maxDevice = 100
)

// keys are those of sessions.
var keys = codes.Keys{Prefix: "ss_"}

// Users creates and finds users. Implemented by directory.Service.
type Users interface {
	models.Users
	Signer
}

// Groups finds groups by their invitations, and lets users join. Implemented by groups.Service.
type Groups interface {
	ByCode(ctx context.Context, code string) (groups.Invited, error)
	Join(ctx context.Context, user models.UserID, code string) (groups.Group, error)
	Admit(ctx context.Context, group models.GroupRow, user models.RowID) error
	Row(ctx context.Context, id models.GroupID) (models.GroupRow, error)
}

// Friends finds users by their invitations, and lets others befriend them. Implemented by friends.Service.
type Friends interface {
	ByCode(ctx context.Context, code string) (friends.Inviter, error)
	Join(ctx context.Context, user models.UserID, code string) (friends.Inviter, error)
}

// Options holds what a Service is built on.
type Options struct {
	Store     *Store
	Directory Users
	Groups    Groups
	Friends   Friends
	// Identities keeps who users are elsewhere, and Returned is called with the rows of those who were erased and have returned.
	Identities *identities.Store
	Returned   func(ctx context.Context, rows []models.RowID) error
	// NetworkKey is the key of the hashes under which networks are counted.
	NetworkKey []byte
	// Sign returns a token of a user for a session, and when it ends; nil where nobody can sign in.
	Sign func(user models.UserID, scope string, session int64, ttl time.Duration) (token string, expires time.Time, err error)
	// TokenTTL is the longest that a token may be valid; 0 for any.
	TokenTTL time.Duration
	// TTL is after how long without use a session ends.
	TTL time.Duration
	// Join says who may become a user: "invited" or "nobody"; if it is empty, the invited where somebody has used a first
	// code.
	Join string
	// NewPerDay is how many users invitations make in a day.
	NewPerDay int64
	Clock     models.Clock
	Log       *slog.Logger
}

// Stats counts what this process has done.
type Stats struct {
	// Opened and Joined are sessions that were opened, and users that invitations have made. Wrong are wrong codes.
	Opened, Joined, Wrong atomic.Int64
	// Refused are codes and invitations that were refused because there were too many.
	Refused atomic.Int64
}

// Service signs people in. Safe for concurrent use.
type Service struct {
	o     Options
	stats Stats
}

// New returns a service.
func New(o Options) *Service {
	if o.TokenTTL == 0 || o.TokenTTL > tokenTTL {
		o.TokenTTL = tokenTTL
	}
	return &Service{o: o}
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Enabled reports whether people can sign in by codes.
func (s *Service) Enabled() bool { return s.o.Sign != nil }

// Joins reports whether invitations make new users. One query unless the settings say so. CodeUnavailable.
func (s *Service) Joins(ctx context.Context) (bool, error) {
	if s.o.Join != "" || s.o.Sign == nil {
		return s.o.Join == "invited" && s.o.Sign != nil, nil
	}
	n, err := s.o.Store.counted(ctx, forEver, firstCodes)
	return n[firstCodes] > 0, models.Public("look for a first code", err)
}

// now returns the time, as it is stored.
func (s *Service) now() time.Time { return s.o.Clock().UTC().Truncate(time.Microsecond) }

// alive returns the moments by which sessions are there now.
func (s *Service) alive() alive {
	now := s.now()
	return alive{now.Add(-s.o.TTL), now}
}

// existing returns the row of a user, or CodeUserNotFound if there is none.
func (s *Service) existing(ctx context.Context, user models.UserID) (models.RowID, error) {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err == nil && row == 0 {
		err = models.NoUser(user)
	}
	return row, err
}

// errEnded is the error about a session that is not there any more.
var errEnded = models.Errorf(models.CodeSessionEnded, "this device is not signed in any more: sign in again")

// ErrDisabled is the error where nobody can sign in.
var ErrDisabled = models.Errorf(models.CodeNotFound, "nobody can sign in here by codes: that needs auth.hs256_secret")

// Token is an access token of a session.
type Token struct {
	Text     string
	Expires  time.Time
	User     models.UserID
	Operator bool
}

// Token returns an access token for the key of a session, of scope admin if admin is true, and notes once a minute
// that the session was used. CodeSessionEnded, CodeForbidden if the user is no operator, CodeUnavailable. One query and,
// once a minute, a statement.
func (s *Service) Token(ctx context.Context, key string, admin bool) (Token, error) {
	hash, ok := keys.Hash(key)
	if !ok || s.o.Sign == nil {
		return Token{}, errEnded
	}
	found, err := s.o.Store.byKey(ctx, hash, s.alive())
	if err != nil {
		return Token{}, models.Public("look up a session", err)
	}
	if admin && !found.Operator {
		return Token{}, models.Errorf(models.CodeForbidden, "this user is no operator")
	}
	if now := s.now(); now.Sub(found.LastUsedAt) >= notedEvery {
		if err := s.o.Store.noteUse(ctx, found.ID, now); err != nil {
			s.o.Log.WarnContext(ctx, "the use of a session is noted later", "error", err)
		}
	}
	return s.sign(found.Session, found.ExternalID, found.Operator, admin)
}

// sign returns a token of a user for a session, which does not outlast it.
func (s *Service) sign(session models.Session, user models.UserID, operator, admin bool) (Token, error) {
	scope, ttl := "", s.o.TokenTTL
	if session.EndsAt != nil {
		ttl = min(ttl, session.EndsAt.Sub(s.now()))
	}
	if admin {
		scope = auth.ScopeAdmin
	}
	text, expires, err := s.o.Sign(user, scope, session.ID, ttl)
	return Token{text, expires, user, operator}, models.Wrap("sign a token", err)
}

// End ends the session of a key; none for another text. CodeUnavailable. One transaction of two statements.
func (s *Service) End(ctx context.Context, key string) error {
	hash, ok := keys.Hash(key)
	if !ok {
		return nil
	}
	_, err := s.o.Store.end(ctx, s.now(), "key_hash = ?", hash)
	return models.Public("end a session", err)
}

// List returns the sessions of a user, the one used last first. One query. CodeUnavailable.
func (s *Service) List(ctx context.Context, user models.UserID) ([]models.Session, error) {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	list, err := s.o.Store.list(ctx, row, s.alive())
	return list, models.Public("list sessions", err)
}

// TimeZone returns the time zone of a session of a user; empty if it is not known, or if the user has no such session. One
// query. CodeUnavailable.
func (s *Service) TimeZone(ctx context.Context, user models.UserID, session int64) (string, error) {
	zone, err := s.o.Store.timeZone(ctx, user, session)
	return zone, models.Public("look up the time zone of a session", err)
}

// EndOne ends a session of a user. CodeNotFound if the user has none of this id, CodeUnavailable. One transaction of two
// statements.
func (s *Service) EndOne(ctx context.Context, user models.UserID, id int64) error {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil {
		return err
	}
	n, err := s.o.Store.end(ctx, s.now(), "id = ? AND user_id = ?", id, row)
	if err == nil && n == 0 {
		err = models.Errorf(models.CodeNotFound, "there is no such session")
	}
	return models.Public("end a session", err)
}

// Operates returns an error unless a session is there and its user an operator: CodeUnauthenticated or
// CodeUnavailable. One query.
func (s *Service) Operates(ctx context.Context, session int64, user models.UserID) error {
	operates, err := s.o.Store.operates(ctx, session, user, s.alive())
	switch {
	case err != nil:
		return models.Unavailable("look up an operator", err)
	case !operates:
		return models.Errorf(models.CodeUnauthenticated, "this session has ended, or its user is no operator any more")
	default:
		return nil
	}
}

// EndAll ends all sessions and codes, of a database of which nobody knows what was ended since. CodeUnavailable. One
// transaction.
func (s *Service) EndAll(ctx context.Context) error {
	return models.Public("end all sessions", s.o.Store.endAll(ctx, s.now()))
}

// Tidy ends the sessions that were not used for long and the codes whose time is over, deletes old counts, and returns
// how much it has ended. It may be repeated. Some statements.
func (s *Service) Tidy(ctx context.Context) (ended int64, err error) {
	return s.o.Store.tidy(ctx, s.alive())
}

// checkDevice returns a device's name as it is stored, or CodeValidationFailed.
func checkDevice(name string) (string, error) {
	if !models.IsPlainText(name) || utf8.RuneCountInString(name) > maxDevice {
		return "", models.Invalid("body.device", "is at most 100 characters of UTF-8 without control characters and line breaks")
	}
	return name, nil
}
