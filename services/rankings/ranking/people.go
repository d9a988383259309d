package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/people/groups"
)

// circle is a source of people among whom a viewer is ranked.
type circle interface {
	// list returns the people, among them the viewer, unless that does not exist. With near
	// they are from the memory of the process if it may be used. old says that not all
	// friends show all archived days. Whoever may not see the circle gets an error.
	list(ctx context.Context, viewer models.RowID, near, old bool) (people, error)
	// everybody returns the people, ascending, also those whose scores the viewer is not shown, but
	// without whom the viewer has muted or blocked. The viewer may be among them. One query.
	everybody(ctx context.Context, viewer models.RowID) ([]models.CirclePerson, error)
}

// people are those among whom a viewer is ranked.
type people struct {
	ids []models.RowID
	// asOf is the moment before which all changes were complete that ids have, if they are
	// from memory; otherwise zero.
	asOf time.Time
	// after has the time after which an archived day of a friend must end to be shown. People
	// without one show all of their days.
	after map[models.RowID]time.Time
}

// friendCircle is a user and the user's friends.
type friendCircle struct{ service *Service }

func (c friendCircle) list(ctx context.Context, viewer models.RowID, near, old bool) (p people, err error) {
	friends := c.service.o.Friends
	switch {
	case viewer == 0:
		return p, nil
	case near:
		p.ids, p.asOf, err = friends.Circle(ctx, viewer)
	case old:
		var everybody []models.CirclePerson // the sets in Redis do not say when a friendship began
		everybody, err = friends.Everybody(ctx, viewer)
		p.after = make(map[models.RowID]time.Time, len(everybody))
		for _, f := range everybody {
			if f.Shown {
				p.ids, p.after[f.User] = append(p.ids, f.User), f.Since.Add(-c.service.friendsHistory())
			}
		}
	default:
		p.ids, err = friends.IDs(ctx, viewer)
	}
	p.ids = append(p.ids, viewer)
	return p, err
}

func (c friendCircle) everybody(ctx context.Context, viewer models.RowID) ([]models.CirclePerson, error) {
	if viewer == 0 {
		return nil, nil
	}
	return c.service.o.Friends.Everybody(ctx, viewer)
}

// groupCircle is the members of a group. Past days have its present members, too.
type groupCircle struct {
	groups *groups.Service
	group  models.GroupID
}

func (c groupCircle) list(ctx context.Context, viewer models.RowID, near, _ bool) (p people, err error) {
	if near {
		p.ids, p.asOf, err = c.groups.Circle(ctx, c.group, viewer)
	} else {
		p.ids, err = c.groups.IDs(ctx, c.group, viewer)
	}
	return p, err
}

func (c groupCircle) everybody(ctx context.Context, viewer models.RowID) ([]models.CirclePerson, error) {
	return c.groups.Everybody(ctx, c.group, viewer)
}

// people reads whose scores a request is about, without those who are gone, and without those
// who do not show the bucket. They may be from memory if that is asked for scores, or if there are
// none.
func (s *Service) people(ctx context.Context, r *request, a *attempt, c circle) (people, error) {
	viewer := r.viewer
	if slices.Contains(a.gone, viewer) {
		viewer = 0
	}
	missing := r.bucket != nil && a.bucket == nil
	p, err := c.list(ctx, viewer, missing || a.near != nil, s.old(r.now, a.oldest))
	a.note(p.asOf)
	if len(a.gone) > 0 || p.after != nil {
		p.ids = slices.DeleteFunc(p.ids, func(user models.RowID) bool {
			return slices.Contains(a.gone, user) || a.bucket != nil && !p.after[user].Before(a.bucket.EndsAt)
		})
	}
	return p, err
}

// friendsHistory returns how long before a friendship began an archived day may end that the
// friends see of each other.
func (s *Service) friendsHistory() time.Duration {
	return time.Duration(s.o.HistoryDays) * 24 * time.Hour
}

// shownBefore returns the time before which a friendship must have begun so that the
// friends see each other in an archived bucket that ends at the given time.
func (s *Service) shownBefore(endsAt time.Time) time.Time {
	return endsAt.UTC().Add(s.friendsHistory())
}

// old reports whether an archived bucket ended so long ago that not all friends show it.
// endsAt is zero without such a bucket.
func (s *Service) old(now, endsAt time.Time) bool {
	return !endsAt.IsZero() && !now.Before(s.shownBefore(endsAt))
}
