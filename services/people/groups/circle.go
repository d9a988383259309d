package groups

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/people/cache"
)

// IDs returns the members of a group whose scores the viewer is shown, in no particular
// order, the viewer among them. CodeNotFound if the viewer is not a member. One round trip
// to Redis if the sets of the members and of those who are not shown to the viewer are
// stored, and on a miss as friends.Service.IDs for each. One query more if this process
// hears of the group for the first time, or if the viewer hides from everybody.
func (s *Service) IDs(ctx context.Context, id models.GroupID, viewer models.RowID) ([]models.RowID, error) {
	ids, _, err := s.circle(ctx, id, viewer, func(ctx context.Context, group models.GroupRow) (r people, err error) {
		r.members, r.notShown, err = cache.Pair(ctx, s.sets, group, s.notShown, viewer)
		return r, err
	})
	return ids, err
}

// Circle is IDs from this process's memory, or from it in part, if rankings.max_staleness
// permits it. All changes that were complete before asOf are in the list, and all complete
// ones of this process. If nothing is from memory, asOf is zero.
func (s *Service) Circle(ctx context.Context, id models.GroupID, viewer models.RowID) (ids []models.RowID, asOf time.Time, err error) {
	return s.circle(ctx, id, viewer, func(ctx context.Context, group models.GroupRow) (r people, err error) {
		var members, notShown time.Time
		if r.members, members, err = s.sets.Near(ctx, group); err != nil {
			return r, err
		}
		r.notShown, notShown, err = s.notShown.Near(ctx, viewer)
		r.asOf = earlier(members, notShown)
		return r, err
	})
}

// earlier returns the earlier of the moments for which two sets from memory are complete. The
// moment of a set that is not from memory is zero and does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// people are the members of a group who do not hide from everybody, and those who are not
// shown to a viewer.
type people struct {
	members, notShown []models.RowID
	asOf              time.Time
}

// shown returns the members who are shown to the viewer, the viewer included.
func (p people) shown(viewer models.RowID) []models.RowID {
	slices.Sort(p.notShown)
	ids := models.RowsWithout(p.members, p.notShown)
	if !slices.Contains(ids, viewer) {
		ids = append(ids, viewer)
	}
	return ids
}

// circle is IDs with a way to read the people of a group.
func (s *Service) circle(
	ctx context.Context, id models.GroupID, viewer models.RowID, read func(context.Context, models.GroupRow) (people, error),
) (ids []models.RowID, asOf time.Time, err error) {
	if viewer == 0 {
		return nil, asOf, models.NoGroup(id)
	}
	var found people
	group, known := s.numbers.GetIfPresent(id)
	if known {
		if found, err = read(ctx, group); err != nil {
			return nil, asOf, models.Unavailable("list members", err)
		}
		if slices.Contains(found.members, viewer) {
			return found.shown(viewer), found.asOf, nil
		}
	}
	// The viewer may be hidden, or another group has the id by now.
	now, err := s.store.membership(ctx, id, viewer)
	if err != nil {
		return nil, asOf, models.Unavailable("look up membership", err)
	}
	if now == 0 {
		return nil, asOf, models.NoGroup(id)
	}
	s.numbers.Set(id, now)
	if !known || group != now {
		if found, err = read(ctx, now); err != nil {
			return nil, asOf, models.Unavailable("list members", err)
		}
	}
	return found.shown(viewer), found.asOf, nil
}

// maxNumbers is how many numbers of groups a process remembers, each of which costs one query to learn again.
const maxNumbers = 100_000
