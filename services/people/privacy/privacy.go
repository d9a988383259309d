// Package privacy keeps who hides from whom: from everybody, from one person, and whom a user
// has muted or blocked. Its truth is in SQL. Hiding hides scores, not friendships.
//
// Table privacy_choices has a row for each choice, and users.hidden says who hides from
// everybody. The view not_shown turns this around: for a viewer it has all who are not shown, by
// a choice of either.
//
// Friend rankings read nothing of this package. The query that loads a friend set leaves out who
// is not shown, so the set and its copies are right already, and a ranking costs no further
// command. A friend's history that is not shown is read and then left out, so that neither its
// time nor its errors tell.
//
// A choice is a change of friend sets (services/people/cache): it marks and removes the sets of
// both, and hiding from everybody those of all friends and groups. The rows of the users are
// locked before the friends are read. Otherwise a friendship that begins at the same time would
// be missed, and the new friend's set would keep a user who hides.
//
// In global lists those who are not shown are anonymous lines, so that ranks have no gaps. The
// record of a user (services/people/directory) says who hides from everybody. Whom else the
// caller is not shown is a cached set, NotShown, which is read at the same time as the page.
package privacy

import (
	"context"
	"log/slog"
	"time"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/friends"
)

// Service keeps the choices of users. Safe for concurrent use.
type Service struct {
	store     *Store
	friends   *friends.Service
	directory Users
	notShown  *cache.Sets[models.RowID]
	perHour   int
}

// Users finds and creates users. Implemented by directory.Service.
type Users interface {
	models.Users
	// Refresh replaces the copies of a record that has changed in SQL.
	Refresh(ctx context.Context, row models.RowID)
}

// New returns a service, which caches the sets of users who are not shown in the given
// store. perHour is how often a user may begin and end to hide from everybody in an hour; 0
// means no limit.
func New(store *Store, sets cache.Copies, graph *friends.Service, directory Users, perHour int, log *slog.Logger) *Service {
	return &Service{
		store: store, friends: graph, directory: directory, perHour: perHour,
		notShown: cache.New(sets, keys.NotShown, store.notShownOf, log),
	}
}

// Hidden reports whether a user hides from everybody. A user that does not exist does not.
// One query.
func (s *Service) Hidden(ctx context.Context, user models.UserID) (bool, error) {
	row, err := s.directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return false, err
	}
	hidden, err := s.store.hidden(ctx, row)
	return hidden, models.Public("read privacy", err)
}

// SetHidden makes a user hide from everybody, or be shown again, and creates the user if
// necessary. The next calls of friends and members of groups see it, and global lists within 2
// seconds. CodeRateLimited if the user has changed it too often.
func (s *Service) SetHidden(ctx context.Context, user models.UserID, hidden bool) error {
	rows, err := s.directory.Ensure(ctx, user)
	if err != nil {
		return err
	}
	changed := false
	err = s.friends.ChangeMany(ctx, rows, func(c *friends.Change) error {
		if changed, err = setHidden(c.DB(), rows[0], hidden, s.perHour); err != nil || !changed {
			return err
		}
		affected, err := c.Friends(rows[0])
		if err != nil {
			return err
		}
		c.Stale(affected...)
		groups, err := groupsOf(c.DB(), rows[0])
		if err != nil {
			return err
		}
		return c.StaleOf(groups...)
	})
	if err == nil && changed {
		s.directory.Refresh(context.WithoutCancel(ctx), rows[0])
	}
	return err
}

// Choose makes a choice of a user about another one. Repeating it changes nothing.
// CodeValidationFailed if the two are the same, CodeUserNotFound if the other does not
// exist, CodeChoiceLimit if the user has made too many choices of this kind. The next calls
// of both see it in friend rankings, and within 2 seconds in global lists.
//
// Blocking also ends the friendship and withdraws the user's request to the other. A
// request of the other stays pending for its sender, but the user is not shown it.
func (s *Service) Choose(ctx context.Context, user models.UserID, kind models.ChoiceKind, other models.UserID) error {
	if user == other {
		return models.Invalid("path.id", "is the user who calls")
	}
	found, err := s.directory.FindOne(ctx, other)
	if err != nil {
		return err
	}
	if found == 0 {
		return models.NoUser(other)
	}
	rows, err := s.directory.Ensure(ctx, user)
	if err != nil {
		return err
	}
	choice := models.PrivacyChoice{UserID: rows[0], Kind: kind, OtherID: found}
	return s.change(ctx, choice, func(c *friends.Change) error {
		known, err := c.Knows(choice.UserID, choice.OtherID)
		if err != nil {
			return err
		}
		if err := choose(c.DB(), choice, known); err != nil {
			return err
		}
		if kind == models.Blocked {
			return c.Part(choice.UserID, choice.OtherID)
		}
		return nil
	})
}

// Undo removes a choice of a user about another one. Without it, nothing changes. It does
// not restore what blocking has ended.
func (s *Service) Undo(ctx context.Context, user models.UserID, kind models.ChoiceKind, other models.UserID) error {
	rows, err := s.directory.Find(ctx, user, other)
	if err != nil || rows[0] == 0 || rows[1] == 0 {
		return err
	}
	choice := models.PrivacyChoice{UserID: rows[0], Kind: kind, OtherID: rows[1]}
	return s.change(ctx, choice, func(c *friends.Change) error { return undo(c.DB(), choice) })
}

// change runs fn as a change of a choice, and names the sets that depend on it.
func (s *Service) change(ctx context.Context, choice models.PrivacyChoice, fn func(*friends.Change) error) error {
	pair := []models.RowID{choice.UserID, choice.OtherID}
	return s.friends.Change(ctx, pair, func(c *friends.Change) error {
		if err := fn(c); err != nil {
			return err
		}
		c.Stale(pair...)
		return c.StaleOf(cache.SetsOf(keys.NotShown, pair)...)
	})
}

// Choice is an entry of a list of choices.
type Choice struct {
	Row  models.RowID  `gorm:"column:other_id"`
	User models.UserID `gorm:"column:external_id"`
	// Nickname and AvatarURL are those of a friend. Of others they are as they were when the
	// choice was made, or empty if the user could not see them then: the other may not want to
	// be seen any more.
	Nickname  string
	AvatarURL string
	CreatedAt time.Time
}

// Cursor returns the position in a list that is ordered by users.
func (c Choice) Cursor() models.Cursor { return models.Cursor{Row: c.Row} }

// Sets returns the cached sets of the users who are not shown to their owners because of a
// choice of either.
func (s *Service) Sets() *cache.Sets[models.RowID] { return s.notShown }

// NotShown returns the users whose scores a user is not shown because of a choice of
// either of the two, in no particular order. Those who hide from everybody are not among
// them. They are from this process's memory if rankings.max_staleness permits it: all changes
// that were complete before asOf are in them then. Otherwise asOf is zero: one round trip to
// Redis if the set is stored there, and one query and two more round trips on a miss.
// CodeUnavailable if neither Redis nor SQL has it.
func (s *Service) NotShown(ctx context.Context, user models.RowID) (ids []models.RowID, asOf time.Time, err error) {
	ids, asOf, err = s.notShown.Near(ctx, user)
	return ids, asOf, models.Public("read who is not shown", err)
}
