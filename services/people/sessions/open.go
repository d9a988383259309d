package sessions

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"stepboard/internal/codes"
	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/people/groups"
	"stepboard/services/platform/limit"
)

const (
	// DeviceCodeTTL is how long a code for a further device is valid.
	DeviceCodeTTL = 15 * time.Minute
	// CardTTL is how long a code is valid that an operator makes, at most.
	CardTTL = 30 * 24 * time.Hour
	// firstCodeTTL is how long the first code of a service is valid.
	firstCodeTTL = 24 * time.Hour
	// newPerCode is how many users an invitation makes in an hour.
	newPerCode = 60
	// maxWrongOfNetwork is how many wrong codes a network may try in an hour.
	maxWrongOfNetwork = 100
	// maxWrong is how many wrong codes the whole service takes in an hour. Beyond it no code for one use is looked at.
	maxWrong = 10_000
	// MaxCards is how many users MakeCards makes at once.
	MaxCards = 500
)

// CodeKind says what a code is for.
type CodeKind string

// The kinds of codes.
const (
	FirstCode  CodeKind = "first"
	FriendCode CodeKind = "friend"
	GroupCode  CodeKind = "group"
	SignInCode CodeKind = "sign_in"
)

// About says what a code is for.
type About struct {
	Kind CodeKind
	// New says that it makes a new user.
	New bool
	// Nickname is that of the user whom the code signs in, or who invites as a friend. Group is the name of a group.
	Nickname, Group string

	hash       []byte           // of a code for one use
	code       string           // of an invitation
	user       models.RowID     // whom the code signs in; 0 for nobody
	friend     friends.Inviter  // who invites as a friend
	group      groups.Invited   // which invites
	joins      *models.GroupRow // which whoever uses the code joins
	externalID models.UserID
}

// About returns what a code that was sent from an address is for, and changes nothing but the count of wrong codes.
// CodeNotFound if the code is not valid, CodeRateLimited, CodeUnavailable. Up to four queries, and two statements for a
// wrong one.
func (s *Service) About(ctx context.Context, text, address string) (About, error) {
	if s.o.Sign == nil {
		return About{}, ErrDisabled
	}
	hour, byNetwork := s.now().Truncate(time.Hour), s.wrongOf(address)
	wrong, err := s.o.Store.counted(ctx, hour, wrongCodes, byNetwork)
	if err != nil {
		return About{}, models.Unavailable("count wrong codes", err)
	}
	code, kind := codes.Parse(text)
	if wrong[byNetwork] >= maxWrongOfNetwork || kind == codes.Short && wrong[wrongCodes] >= maxWrong {
		s.stats.Refused.Add(1)
		return About{}, limited("too many wrong codes were tried", s.now(), time.Hour)
	}
	about, err := s.lookUp(ctx, code, kind)
	if errors.Is(err, codes.ErrNoCode) {
		s.stats.Wrong.Add(1)
		for _, what := range []string{wrongCodes, byNetwork} {
			if _, failed := s.o.Store.count(ctx, what, hour); failed != nil {
				return About{}, models.Unavailable("count a wrong code", failed)
			}
		}
	}
	return about, models.Public("look up a code", err)
}

// wrongOf returns what wrong codes from an address are counted under: a keyed hash of its network.
func (s *Service) wrongOf(address string) string {
	mac := hmac.New(sha256.New, s.o.NetworkKey)
	mac.Write([]byte("wrong codes of " + limit.Network(address)))
	return wrongCodes + " " + hex.EncodeToString(mac.Sum(nil))
}

// lookUp returns what a code is for, or codes.ErrNoCode.
func (s *Service) lookUp(ctx context.Context, code string, kind codes.Kind) (About, error) {
	switch kind {
	case codes.Short:
		return s.lookUpShort(ctx, codes.HashOf(code))
	case codes.Invitation:
		return s.lookUpInvitation(ctx, code)
	default:
		return About{}, codes.ErrNoCode
	}
}

// limited returns the error of what is limited by the period, which began at a multiple of it.
func limited(why string, now time.Time, period time.Duration) error {
	refusal := models.Errorf(models.CodeRateLimited, "%s; wait as long as Retry-After says", why)
	refusal.Wait = now.Truncate(period).Add(period).Sub(now)
	return refusal
}

func (s *Service) lookUpShort(ctx context.Context, hash []byte) (About, error) {
	found, err := s.o.Store.code(ctx, hash, s.now())
	if err != nil {
		return About{}, err
	}
	about := About{Kind: FirstCode, New: true, hash: hash, joins: found.Group}
	if found.User != nil {
		about.Kind, about.New, about.user = SignInCode, false, *found.User
		about.Nickname, about.externalID = found.Nickname, found.ExternalID
	}
	return about, nil
}

func (s *Service) lookUpInvitation(ctx context.Context, code string) (About, error) {
	group, err := s.o.Groups.ByCode(ctx, code)
	if err == nil {
		return About{Kind: GroupCode, New: true, Group: group.Name, code: code, group: group}, nil
	}
	if !errors.Is(err, codes.ErrNoCode) {
		return About{}, err
	}
	friend, err := s.o.Friends.ByCode(ctx, code)
	return About{Kind: FriendCode, New: true, Nickname: friend.Nickname, code: code, friend: friend}, err
}

// Request is what somebody says who signs in.
type Request struct {
	Code string
	// Nickname is that of somebody new.
	Nickname string
	// Anyway says that somebody new may have the name of a member of the group.
	Anyway bool
	// Device is its name; may be empty.
	Device string
	// TimeZone is where it is, a valid IANA name; empty if that is not known.
	TimeZone string
	// Address is where the request is from.
	Address string
	// Before is the key of the session that the device has until now; empty for none.
	Before string
}

// Opened is a session that was opened.
type Opened struct {
	models.Session
	// Key is what the device keeps. It is shown once.
	Key      string
	Nickname string
	// Created says that the user is new.
	Created bool
	Token
}

// Open opens a session by a code, and ends the one that the device had before. Errors: CodeNotFound,
// CodeRateLimited, CodeJoiningClosed if invitations make no new users, CodeValidationFailed, CodeNicknameTaken if a
// member of the group has the name, CodeGroupFull, CodeFriendLimit, CodeUnavailable. Of two who use a code for one use
// at a time one gets in. A new user whose session could not be opened stays, and harms nobody.
func (s *Service) Open(ctx context.Context, r Request) (Opened, error) {
	about, err := s.About(ctx, r.Code, r.Address)
	if err != nil {
		return Opened{}, err
	}
	if r.Device, err = checkDevice(r.Device); err != nil {
		return Opened{}, err
	}
	if about.New {
		if r.Nickname, err = models.NormalizeName("body.nickname", r.Nickname); err != nil {
			return Opened{}, err
		}
		about.externalID, about.Nickname = models.NewUserID(), r.Nickname
	}
	o := Opened{Key: keys.New(), Nickname: about.Nickname, Created: about.New}
	o.Session = models.Session{Device: r.Device, TimeZone: r.TimeZone, CreatedAt: s.now(), LastUsedAt: s.now()}
	o.KeyHash, _ = keys.Hash(o.Key)
	operator := false
	switch about.Kind {
	case FirstCode:
		operator, err = true, s.openFirst(ctx, about, &o.Session)
	case SignInCode:
		operator, err = s.openAgain(ctx, about, &o.Session)
	default:
		err = s.join(ctx, about, r, &o.Session)
	}
	if err != nil {
		return Opened{}, models.Public("open a session", err)
	}
	s.opened(ctx, r.Before)
	o.Token, err = s.sign(o.Session, about.externalID, operator, false)
	return o, err
}

// opened counts a session and ends the one that the device had before, by its key.
func (s *Service) opened(ctx context.Context, before string) {
	s.stats.Opened.Add(1)
	if err := s.End(ctx, before); err != nil {
		s.o.Log.WarnContext(ctx, "the session before could not be ended", "error", err)
	}
}

// openFirst makes the first user an operator, with a session. The code has ended by then.
func (s *Service) openFirst(ctx context.Context, about About, session *models.Session) error {
	if err := s.o.Store.openFirst(ctx, about.hash, newUser{s.o.Directory, about.externalID, about.Nickname}, session); err != nil {
		return err
	}
	s.o.Directory.SignedUp(ctx, session.User)
	return nil
}

// openAgain opens a session of somebody who exists, and reports whether the user is an operator. With the code of a card
// the user joins a group.
func (s *Service) openAgain(ctx context.Context, about About, session *models.Session) (operator bool, err error) {
	if about.joins != nil {
		if err := s.o.Groups.Admit(ctx, *about.joins, about.user); err != nil && models.CodeOf(err) != models.CodeNotFound {
			return false, err
		}
	}
	session.User = about.user
	return s.o.Store.openAgain(ctx, about.hash, s.now(), session)
}

// join makes a new user by an invitation, joins, and opens a session.
func (s *Service) join(ctx context.Context, about About, r Request, session *models.Session) error {
	if joins, err := s.Joins(ctx); err != nil || !joins {
		if err != nil {
			return err
		}
		return models.Errorf(models.CodeJoiningClosed, "invitations are for people who are here already: ask who runs this service")
	}
	if err := about.group.Admits(r.Nickname, r.Anyway); err != nil {
		return err
	}
	user := newUser{s.o.Directory, about.externalID, r.Nickname}
	came := models.Newcomer{CreatedAt: s.now()}
	if about.Kind == GroupCode {
		came.Group, came.InvitedBy = &about.group.Row, about.group.Owner
	} else {
		came.InvitedBy = &about.friend.Row
	}
	err := s.o.Store.signUp(ctx, user, &came, newBounds{about.code, newPerCode, s.o.NewPerDay})
	if err != nil {
		if models.CodeOf(err) == models.CodeRateLimited {
			s.stats.Refused.Add(1)
		}
		return err
	}
	s.stats.Joined.Add(1)
	s.o.Directory.SignedUp(ctx, came.User)
	failpoint.Hit("sessions.signed_up")
	if about.Kind == GroupCode {
		_, err = s.o.Groups.Join(ctx, user.id, about.code)
	} else {
		_, err = s.o.Friends.Join(ctx, user.id, about.code)
	}
	if err != nil {
		return err
	}
	failpoint.Hit("sessions.joined")
	session.User = came.User
	return s.o.Store.open(ctx, session)
}

// Code is a code for one use.
type Code struct {
	// Text is shown once, in two halves.
	Text     string
	User     models.UserID
	Nickname string
	Expires  time.Time
}

// MakeCode makes a code by which a user signs in on a further device, and ends the one before. CodeUserNotFound,
// CodeValidationFailed if ttl is not positive or longer than CardTTL, CodeUnavailable. One transaction of three
// statements.
func (s *Service) MakeCode(ctx context.Context, user models.UserID, ttl time.Duration) (Code, error) {
	if err := checkTTL(ttl); err != nil {
		return Code{}, err
	}
	row, err := s.existing(ctx, user)
	if err != nil {
		return Code{}, err
	}
	text, code := s.newCode(ttl)
	code.User = &row
	err = s.o.Store.putCode(ctx, &code)
	return Code{Text: text, User: user, Expires: code.EndsAt}, models.Public("make a sign-in code", err)
}

// newCode returns a new code for one use, as it is shown and as it is stored, of nobody.
func (s *Service) newCode(ttl time.Duration) (shown string, code models.SignInCode) {
	text, now := codes.NewShort(), s.now()
	return codes.Shown(text), models.SignInCode{KeyHash: codes.HashOf(text), CreatedAt: now, EndsAt: now.Add(ttl)}
}

func checkTTL(ttl time.Duration) error {
	if ttl < time.Minute || ttl > CardTTL {
		return models.Invalid("body.ttl", "is a duration from 1m to 720h")
	}
	return nil
}

// MakeCards makes new users with the given names, each with a code, which also lets the user join a group unless that is
// empty. CodeNotFound if there is no such group, CodeValidationFailed, CodeUnavailable; then some users may have been
// made. One transaction of three statements for each.
func (s *Service) MakeCards(ctx context.Context, names []string, group models.GroupID, ttl time.Duration) ([]Code, error) {
	if len(names) == 0 || len(names) > MaxCards {
		return nil, models.Invalid("body.people", "has 1 to 500 names")
	}
	if err := checkTTL(ttl); err != nil {
		return nil, err
	}
	var joins *models.GroupRow
	if group != "" {
		row, err := s.o.Groups.Row(ctx, group)
		if err != nil {
			return nil, err
		}
		joins = &row
	}
	users := make([]newUser, len(names))
	for i, name := range names {
		name, err := models.NormalizeName("body.people", name)
		if err != nil {
			return nil, err
		}
		users[i] = newUser{s.o.Directory, models.NewUserID(), name}
	}
	cards := make([]Code, len(users))
	for i, user := range users {
		text, code := s.newCode(ttl)
		code.Group = joins
		if err := s.o.Store.makeCard(ctx, user, &code); err != nil {
			return nil, models.Public("make cards", err)
		}
		s.o.Directory.SignedUp(ctx, *code.User)
		cards[i] = Code{text, user.id, user.nickname, code.EndsAt}
	}
	return cards, nil
}

// First returns a new code by which the first user signs in, if there is no user yet, and ends the one before;
// otherwise it returns an empty text. CodeUnavailable. Some statements.
func (s *Service) First(ctx context.Context) (text string, err error) {
	if s.o.Sign == nil {
		return "", nil
	}
	text, code := s.newCode(firstCodeTTL)
	made, err := s.o.Store.putFirst(ctx, &code)
	if err != nil || !made {
		return "", models.Public("make the first code", err)
	}
	return text, nil
}
