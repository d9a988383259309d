// Package groups keeps groups of users. Their truth is in SQL. The sets of members that rankings
// read are cached by services/people/cache, without those who hide from everybody.
//
// The owner of a cached set is the number of the group, which is never used again. So the set of
// a group that has ended is empty, even if a backend makes another group of the same id.
//
// The limits of members and groups are counted in the transaction of a change, under locks:
// first the rows of the users, ascending, then that of the group. Who joins by an invite code
// locks the group and compares the code again, because it may have been renewed since it was
// looked up. A challenge is two dates of the group; its ranking is the span of the group over
// them.
package groups

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/maypok86/otter/v2"

	"stepboard/internal/codes"
	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/people/cache"
)

// Service keeps groups. Safe for concurrent use.
type Service struct {
	store     *Store
	sets      *cache.Sets[models.GroupRow]
	notShown  *cache.Sets[models.RowID]
	directory models.Users
	joins     codes.Limiter
	// numbers holds the numbers of groups that were used lately, by their ids. Another group may have the id by now; the
	// one with this number has no members then.
	numbers *otter.Cache[models.GroupID, models.GroupRow]
}

// Group is a group as its members see it.
type Group struct {
	models.Group
	// Owner is empty for a group without an owner.
	Owner models.UserID `gorm:"column:owner"`
	// Members is the number of members.
	Members int
}

// Settings are the settings of a group that its owner decides.
type Settings struct {
	Name string
	// Challenge is nil for a group without one.
	Challenge *Challenge
}

// Challenge is a span of days, both included, over which a group compares its members. It
// may have begun already, and be over.
type Challenge struct {
	From, To models.Date
}

// normalize returns the settings with their name in one form. CodeValidationFailed for a
// name that no user could have, and for a challenge that no ranking could show.
func (s Settings) normalize() (Settings, error) {
	name, err := models.NormalizeName("body.name", s.Name)
	if err != nil {
		return s, err
	}
	s.Name = name
	if c := s.Challenge; c != nil && c.From > c.To {
		return s, models.Invalid("body.challenge.from", "is after the last day")
	} else if c != nil && c.To-c.From >= models.MaxSpanDays {
		return s, models.Invalid("body.challenge.to", "a challenge has at most 31 days")
	}
	return s, nil
}

// challenge returns the first and the last day of the challenge; nil without one.
func (s Settings) challenge() (from, to *models.Date) {
	if s.Challenge == nil {
		return nil, nil
	}
	return &s.Challenge.From, &s.Challenge.To
}

// New returns a service, which caches the sets of members in the given store. notShown are
// the sets of privacy.Service.
func New(
	store *Store, sets cache.Copies, notShown *cache.Sets[models.RowID], directory models.Users, joins codes.Limiter, log *slog.Logger,
) *Service {
	return &Service{
		store: store, sets: cache.New(sets, keys.Groups, store.shownOf, log), notShown: notShown, directory: directory, joins: joins,
		numbers: otter.Must(&otter.Options[models.GroupID, models.GroupRow]{MaximumSize: maxNumbers}),
	}
}

func newID() models.GroupID { return models.GroupID(strings.ToLower(codes.New())) }

// List returns a user's groups, the one joined last first. A user that does not exist has
// none. One query.
func (s *Service) List(ctx context.Context, user models.UserID) ([]Group, error) {
	row, err := s.directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	list, err := s.store.list(ctx, row, "")
	return list, models.Public("list groups", err)
}

// Get returns a group of a user. CodeNotFound if the user is not a member. One query.
func (s *Service) Get(ctx context.Context, user models.UserID, id models.GroupID) (Group, error) {
	row, err := s.directory.FindOne(ctx, user)
	if err != nil {
		return Group{}, err
	}
	return s.get(ctx, row, id)
}

func (s *Service) get(ctx context.Context, user models.RowID, id models.GroupID) (Group, error) {
	list, err := s.store.list(ctx, user, id)
	if err != nil {
		return Group{}, models.Unavailable("look up group", err)
	}
	if len(list) == 0 {
		return Group{}, models.NoGroup(id)
	}
	return list[0], nil
}

// Create makes a group with its owner as the only member. CodeValidationFailed for a name
// that no user could have and for a bad challenge, CodeGroupLimit if the owner is in too
// many groups.
func (s *Service) Create(ctx context.Context, owner models.UserID, settings Settings) (Group, error) {
	settings, err := settings.normalize()
	if err != nil {
		return Group{}, err
	}
	rows, err := s.directory.Ensure(ctx, owner)
	if err != nil {
		return Group{}, err
	}
	code := codes.New()
	group := models.Group{ID: newID(), Name: settings.Name, OwnerID: &rows[0], InviteCode: &code}
	group.ChallengeFrom, group.ChallengeTo = settings.challenge()
	err = s.change(ctx, func(t *tx) error {
		if err := t.lockUsers(rows); err != nil {
			return err
		}
		if err := t.checkGroups(rows); err != nil {
			return err
		}
		if err := t.create(&group); err != nil {
			return err
		}
		return t.add(group.Row, rows)
	})
	if err != nil {
		return Group{}, err
	}
	return Group{Group: group, Owner: owner, Members: 1}, nil
}

// Change replaces the settings of a group. CodeNotFound if the user is not a member,
// CodeForbidden if the user is not the owner, CodeValidationFailed as in Create.
func (s *Service) Change(ctx context.Context, user models.UserID, id models.GroupID, settings Settings) (Group, error) {
	settings, err := settings.normalize()
	if err != nil {
		return Group{}, err
	}
	from, to := settings.challenge()
	return s.set(ctx, user, id, func(t *tx, group models.GroupRow) error {
		return t.set(group, map[string]any{"name": settings.Name, "challenge_from": from, "challenge_to": to})
	})
}

// Renew gives a group another invite code; the old one is not valid any more. Errors are
// those of Change.
func (s *Service) Renew(ctx context.Context, user models.UserID, id models.GroupID) (Group, error) {
	return s.set(ctx, user, id, (*tx).renew)
}

// set changes a group for its owner.
func (s *Service) set(ctx context.Context, user models.UserID, id models.GroupID, change func(*tx, models.GroupRow) error) (Group, error) {
	row, err := s.asOwner(ctx, user, id, change)
	if err != nil {
		return Group{}, err
	}
	return s.get(ctx, row, id)
}

// asOwner changes a group for its owner, whose row it returns.
func (s *Service) asOwner(
	ctx context.Context, user models.UserID, id models.GroupID, fn func(*tx, models.GroupRow) error,
) (row models.RowID, err error) {
	if row, err = s.directory.FindOne(ctx, user); err != nil {
		return 0, err
	}
	return row, s.change(ctx, func(t *tx) error {
		group, err := t.owned(id, row)
		if err != nil {
			return err
		}
		return fn(t, group.Row)
	})
}

// Delete ends a group. It changes nothing if the user is not a member, so that it may be
// repeated. CodeForbidden if the user is a member and not the owner.
func (s *Service) Delete(ctx context.Context, user models.UserID, id models.GroupID) error {
	_, err := s.asOwner(ctx, user, id, (*tx).delete)
	if models.CodeOf(err) == models.CodeNotFound {
		return nil
	}
	return err
}

// change runs fn in a transaction and keeps the cached sets of members true.
// Change.Run describes the errors.
func (s *Service) change(ctx context.Context, fn func(*tx) error) error {
	change := s.sets.NewChange()
	return change.Run(ctx, "change groups", func(ctx context.Context) error {
		return s.store.transact(ctx, func(t *tx) error {
			if err := fn(t); err != nil {
				return err
			}
			return models.Public("change groups", change.Mark(ctx, t.changed))
		})
	})
}

// ascending returns a sorted copy without duplicates and without 0.
func ascending(rows ...models.RowID) []models.RowID {
	rows = slices.DeleteFunc(slices.Clone(rows), func(row models.RowID) bool { return row == 0 })
	slices.Sort(rows)
	return slices.Compact(rows)
}
