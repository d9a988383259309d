// Package support gathers what the service knows about one user, for operators who answer
// users' questions.
package support

import (
	"context"
	"time"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/operations/reviews"
	"stepboard/services/people/groups"
	"stepboard/services/rankings/ranking"
)

// newest is how many corrections and reviews of a user are shown at most.
const newest = 50

// Options holds what a Service is built on.
type Options struct {
	Store       *Store
	History     *ranking.Service
	Groups      *groups.Service
	Corrections *corrections.Service
	Reviews     *reviews.Service
}

// Service reads what is known about users. It changes nothing. Safe for concurrent use.
type Service struct {
	o Options
}

// New returns a service.
func New(o Options) *Service { return &Service{o} }

// Facts are the facts about one user in the tables of users.
type Facts struct {
	Row       models.RowID  `gorm:"column:user_id"`
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	AvatarURL string
	CoverURL  string
	// Hidden reports whether the user hides from everybody.
	Hidden bool
	// Friends, RequestsReceived and RequestsSent count people. Declined requests count as
	// sent only.
	Friends, RequestsReceived, RequestsSent int
	// HiddenFrom, Muted and Blocked count the user's choices about others.
	HiddenFrom, Muted, Blocked int
	CreatedAt                  time.Time
}

// Found is a user who was found by name.
type Found struct {
	Row       models.RowID  `gorm:"column:user_id"`
	User      models.UserID `gorm:"column:external_id"`
	Nickname  string
	AvatarURL string
	Friends   int
	CreatedAt time.Time
}

// Cursor returns the position in a list of users by name.
func (f Found) Cursor() models.Cursor { return models.Cursor{Row: f.Row} }

// Find returns at most limit users whose names begin with a text, whatever the case, by their
// names, behind a user; 0 begins with the first. Two queries. CodeUnavailable.
func (s *Service) Find(ctx context.Context, name string, after models.RowID, limit int) ([]Found, error) {
	page, err := s.o.Store.named(ctx, models.NameKey(name), after, limit)
	return page, models.Public("find users by name", err)
}

// User holds everything that operators see of a user.
type User struct {
	// Facts are nil while a user of this id is being erased and nobody else has come under
	// the id. The lists are empty then.
	Facts  *Facts
	Groups []groups.Group
	// Days is the user's history of the last 31 days on a board, nil if no board was asked
	// for.
	Days *ranking.History
	// Corrections and Reviews are the newest of the user, at most newest of each. Reviews are
	// those that nobody has looked at.
	Corrections []corrections.Entry
	Reviews     []models.Review
	// Erasure is the erasure of an earlier user of this id that is under way; nil for none.
	Erasure *models.Erasure
}

// User returns what is known about a user, with the last 31 days on a board unless that is
// empty. Two queries, one each for groups, corrections and reviews, and what History costs.
// CodeUserNotFound if there is no such user and no erasure of one is under way;
// CodeBoardNotFound, CodeBoardKind if the board has no days, CodeUnavailable.
func (s *Service) User(ctx context.Context, user models.UserID, board string) (u User, err error) {
	if u.Facts, err = s.o.Store.facts(ctx, user); err != nil {
		return u, models.Unavailable("read a user", err)
	}
	if u.Erasure, err = s.o.Store.erasure(ctx, user); err != nil {
		return u, models.Unavailable("look for an erasure", err)
	}
	switch {
	case u.Facts == nil && u.Erasure == nil:
		return u, models.NoUser(user)
	case u.Facts == nil:
		return u, nil
	}
	if u.Groups, err = s.o.Groups.List(ctx, user); err != nil {
		return u, err
	}
	if u.Corrections, err = s.o.Corrections.List(ctx, corrections.Query{User: user, Limit: newest}); err != nil {
		return u, err
	}
	if u.Reviews, err = s.o.Reviews.List(ctx, reviews.Query{User: user, Limit: newest}); err != nil {
		return u, err
	}
	if board != "" {
		// On a board of local days the last day is the latest that has begun anywhere.
		q := ranking.HistoryQuery{Board: board, Viewer: user, User: user, Offset: models.EasternmostOffset()}
		u.Days, err = s.o.History.History(ctx, q)
	}
	return u, err
}
