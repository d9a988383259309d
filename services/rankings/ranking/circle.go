package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/internal/reuse"
	"stepboard/models"
	"stepboard/services/boards/archive"
)

// circle is a source of people among whom a viewer is ranked. The lists that it returns
// have the viewer, unless that does not exist, and may be changed.
type circle interface {
	// near returns the people, from the memory of the process if it may be used. All
	// changes that were complete before asOf are in the list then; otherwise asOf is zero.
	near(ctx context.Context, viewer models.RowID) (ids []models.RowID, asOf time.Time, err error)
	// shown returns those whom the viewer sees in the request's bucket, which read has
	// found.
	shown(ctx context.Context, r *request) ([]models.RowID, error)
	// viewed returns the people for a span of days, and which archived days they show to
	// the viewer. Unless old is set, all archived days are so new that everybody shows them.
	viewed(ctx context.Context, viewer models.RowID, old bool) ([]archive.Viewed, error)
}

// friendCircle is a user and the user's friends.
type friendCircle struct{ service *Service }

func (c friendCircle) near(ctx context.Context, viewer models.RowID) ([]models.RowID, time.Time, error) {
	if viewer == 0 {
		return nil, time.Time{}, nil
	}
	ids, asOf, err := c.service.friends.Circle(ctx, viewer)
	return append(ids, viewer), asOf, err
}

// shown returns all friends, unless the bucket is archived and old.
func (c friendCircle) shown(ctx context.Context, r *request) (ids []models.RowID, err error) {
	if r.viewer == 0 {
		return nil, nil
	}
	before := c.service.shownBefore(r.bucket.EndsAt)
	if r.ranking.Source == models.SourceHot || r.now.Before(before) {
		ids, err = c.service.friends.IDs(ctx, r.viewer)
		return append(ids, r.viewer), err
	}
	friendships, err := c.service.friends.Friendships(ctx, r.viewer)
	for _, f := range friendships {
		if f.CreatedAt.Before(before) {
			ids = append(ids, f.FriendID)
		}
	}
	return append(ids, r.viewer), err
}

func (c friendCircle) viewed(ctx context.Context, viewer models.RowID, old bool) ([]archive.Viewed, error) {
	if viewer == 0 {
		return nil, nil
	}
	if !old {
		ids, err := c.service.friends.IDs(ctx, viewer)
		return allDays(append(ids, viewer)), err
	}
	friendships, err := c.service.friends.Friendships(ctx, viewer)
	people := []archive.Viewed{{User: viewer}}
	for _, f := range friendships {
		people = append(people, archive.Viewed{User: f.FriendID, After: f.CreatedAt.Add(-c.service.friendsHistory)})
	}
	return people, err
}

// allDays returns people who show all their days.
func allDays(ids []models.RowID) []archive.Viewed {
	people := make([]archive.Viewed, len(ids))
	for i, id := range ids {
		people[i].User = id
	}
	return people
}

// shownBefore returns the time before which a friendship must have begun so that the
// friends see each other in an archived bucket that ends at the given time.
func (s *Service) shownBefore(endsAt time.Time) time.Time { return endsAt.UTC().Add(s.friendsHistory) }

// groupCircle is the members of a group. Past days have its present members, too.
type groupCircle struct {
	groups Groups
	group  models.GroupID
}

func (c groupCircle) near(ctx context.Context, viewer models.RowID) ([]models.RowID, time.Time, error) {
	return c.groups.Circle(ctx, c.group, viewer)
}

func (c groupCircle) shown(ctx context.Context, r *request) ([]models.RowID, error) {
	return c.groups.IDs(ctx, c.group, r.viewer)
}

func (c groupCircle) viewed(ctx context.Context, viewer models.RowID, _ bool) ([]archive.Viewed, error) {
	ids, err := c.groups.IDs(ctx, c.group, viewer)
	return allDays(ids), err
}

// entriesMemory and compositesMemory are for the entries and the scores of circles.
var (
	entriesMemory    reuse.Slices[models.Entry]
	compositesMemory reuse.Slices[models.Composite]
)

// entries appends the entries of the people of a circle to a list, in no order. Those without
// a score have composite 0. near may be nil.
func (s *Service) entries(
	ctx context.Context, r *request, people circle, near NearCache, list []models.Entry,
) ([]models.Entry, error) {
	memory := compositesMemory.Get(0)
	defer compositesMemory.Put(memory)
	ids, composites, err := s.nearEntries(ctx, r, people, near, memory)
	if err != nil {
		return nil, err
	}
	if composites == nil {
		err = s.read(ctx, r, func(from Reader) (err error) {
			if ids == nil {
				if ids, err = people.shown(ctx, r); err != nil || len(ids) == 0 {
					return err
				}
			}
			composites, err = s.composites(ctx, r, from, ids)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	list = slices.Grow(list, len(ids))
	for i, id := range ids {
		list = append(list, models.Entry{User: id, Composite: composites[i]})
	}
	return list, nil
}

// nearEntries reads a circle and its composites from the memory of the process, and
// notes the moment for which they are complete. The composites are in the given memory, or
// nil if they are to be read elsewhere. ids is nil if these are to be read elsewhere, too.
func (s *Service) nearEntries(
	ctx context.Context, r *request, people circle, near NearCache, memory *[]models.Composite,
) (ids []models.RowID, composites []models.Composite, err error) {
	if near == nil || r.bucket.Cold(r.now) {
		return nil, nil, nil
	}
	ids, idsAsOf, err := people.near(ctx, r.viewer)
	if err != nil || len(ids) == 0 {
		return nil, nil, err
	}
	s.confirmFinal(ctx, r, r.bucket)
	*memory = slices.Grow(*memory, len(ids))[:len(ids)]
	asOf, ok := near.Composites(r.bucket, ids, *memory)
	switch {
	case ok:
		s.rules.Show(r.bucket, ids, *memory)
		if !idsAsOf.IsZero() && idsAsOf.Before(asOf) {
			asOf = idsAsOf
		}
		r.asOf = asOf
		return ids, *memory, nil
	case !idsAsOf.IsZero():
		return nil, nil, nil // an answer from Redis is not older than Redis
	default:
		return ids, nil, nil
	}
}
