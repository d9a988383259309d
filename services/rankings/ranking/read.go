package ranking

import (
	"context"
	"errors"
	"slices"
	"time"

	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// The largest numbers of scores that a span reads from Redis, and in all: about a second of
// Postgres.
const (
	maxHotScores  = 40_000
	maxSpanScores = 100_000
)

// scores are those of the people of a request.
type scores struct {
	// entries are those in one bucket, in no order. People without a score have composite 0.
	entries []models.Entry
	// sums are those of a span, in no order, without people who have no score.
	sums []models.SumEntry
	// position is the viewer's if the request asks for it and the store is Redis; otherwise nil.
	position *board.Position
}

// read reads people and their scores. The entries are in the memory of the attempt.
func (s *Service) read(ctx context.Context, r *request, a *attempt) (found scores, err error) {
	p, err := s.people(ctx, r, a)
	switch {
	case err != nil:
	case r.bucket == nil: // also without people: it finds out which days are archived
		found.sums, err = s.sums(ctx, r, a, p)
	case a.bucket != nil && len(p.ids) > 0:
		found, err = s.scores(ctx, r, a, p.ids)
	}
	return found, err
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

// people reads whose scores a request is about, among them the viewer, unless that does not exist: without
// those who are gone, and without those who do not show the bucket. They may be from memory if that
// is asked for scores, or if there are none. Past days have the present members of a group, too. Whoever may not
// see the group gets an error.
func (s *Service) people(ctx context.Context, r *request, a *attempt) (p people, err error) {
	viewer := a.viewer(r)
	near := a.near != nil || r.bucket != nil && a.bucket == nil
	switch {
	case r.group == "":
		p, err = s.friends(ctx, viewer, near, s.old(r.now, a.oldest))
	case near:
		p.ids, p.asOf, err = s.o.Groups.Circle(ctx, r.group, viewer)
	default:
		p.ids, err = s.o.Groups.IDs(ctx, r.group, viewer)
	}
	a.note(p.asOf)
	if len(a.gone) > 0 || p.after != nil {
		p.ids = slices.DeleteFunc(p.ids, func(user models.RowID) bool {
			return slices.Contains(a.gone, user) || a.bucket != nil && !p.after[user].Before(a.bucket.EndsAt)
		})
	}
	return p, err
}

// friends reads a viewer's friends, and adds the viewer. With near they are from the memory of the process if it
// may be used. old says that not all friends show all archived days.
func (s *Service) friends(ctx context.Context, viewer models.RowID, near, old bool) (p people, err error) {
	switch {
	case viewer == 0:
		return p, nil
	case near:
		p.ids, p.asOf, err = s.o.Friends.Circle(ctx, viewer)
	case old:
		var everybody []models.CirclePerson // the sets in Redis do not say when a friendship began
		everybody, err = s.o.Friends.Everybody(ctx, viewer)
		p.after = make(map[models.RowID]time.Time, len(everybody))
		for _, f := range everybody {
			if f.Shown {
				p.ids, p.after[f.User] = append(p.ids, f.User), f.Since.Add(-s.friendsHistory())
			}
		}
	default:
		p.ids, err = s.o.Friends.IDs(ctx, viewer)
	}
	p.ids = append(p.ids, viewer)
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

// scores reads the scores of people in one bucket.
func (s *Service) scores(ctx context.Context, r *request, a *attempt, ids []models.RowID) (found scores, err error) {
	var composites []models.Composite
	if r.position && a.near == nil && !a.archived {
		var position board.Position
		composites, position, err = s.o.Entries.CompositesAndPosition(ctx, a.bucket, ids, r.viewer)
		if err == nil {
			s.o.Rules.Show(a.bucket, ids, composites)
		}
		found.position = &position
	} else {
		composites, err = s.composites(ctx, a, ids)
	}
	switch {
	case err == nil:
		found.entries = entriesOf(ids, composites, a.entries)
	case errors.Is(err, errAgain) && a.asOf.IsZero(): // the people are from the store already
		return s.scores(ctx, r, a, ids)
	}
	return found, err
}

// entriesOf returns the entries of people in the given memory.
func entriesOf(ids []models.RowID, composites []models.Composite, memory *[]models.Entry) []models.Entry {
	clear(*memory)
	list := slices.Grow((*memory)[:0], len(ids))
	for i, id := range ids {
		list = append(list, models.Entry{User: id, Composite: composites[i]})
	}
	*memory = list
	return list
}

// sums adds up the scores of people over the days of a span: those of hot days in Redis, and
// all others in the archive, if this process does not know that there are none. It does not
// use the near cache, which has only the current day of a span. It returns errAgain if the people
// are to be read again, because not all of them show all days.
func (s *Service) sums(ctx context.Context, r *request, a *attempt, p people) ([]models.SumEntry, error) {
	if n := len(p.ids) * len(a.days); n > maxSpanScores {
		return nil, models.Errorf(models.CodeSpanTooLarge,
			"%d people on %d days are more than %d scores: ask for fewer days", len(p.ids), len(a.days), maxSpanScores)
	}
	sums := make([]models.Sum, len(p.ids))
	if !a.oldest.IsZero() {
		guessed := a.oldest
		var err error
		if a.place, sums, err = s.archivedSums(ctx, r, a.place, p); err != nil {
			return nil, err
		}
		if s.old(r.now, a.oldest) && !s.old(r.now, guessed) {
			// The first archived day ended before it would as the board is defined now.
			return nil, errAgain
		}
	}
	var hot []*models.Bucket
	for _, d := range a.days {
		if d.exists && !d.archived {
			hot = append(hot, d.bucket)
		}
	}
	if n := len(p.ids) * len(hot); n > maxHotScores {
		return nil, models.Errorf(models.CodeSpanTooLarge,
			"%d people on %d days that are not archived are more than %d scores: ask for fewer days", len(p.ids), len(hot), maxHotScores)
	}
	if len(hot) > 0 {
		a.final = a.final && s.whole(ctx, hot[0])
	}
	if len(hot) > 0 && len(p.ids) > 0 {
		if err := s.addHot(ctx, p.ids, hot, sums); err != nil {
			return nil, err
		}
	}
	var found []models.SumEntry
	for i, sum := range sums {
		if sum.Days > 0 && !s.o.Rules.Erased(p.ids[i]) {
			found = append(found, models.SumEntry{User: p.ids[i], Sum: sum})
		}
	}
	return found, nil
}

// archivedSums returns what the archived days of people add up to, by position, and the place
// as the archive knows it. One query.
func (s *Service) archivedSums(ctx context.Context, r *request, at place, p people) (place, []models.Sum, error) {
	viewed := column.Of(p.ids, func(id models.RowID) archive.Viewed { return archive.Viewed{User: id, After: p.after[id]} })
	first, last := at.days[0].bucket.Day, at.days[len(at.days)-1].bucket.Day
	found, sums, err := s.o.Archive.Sums(ctx, r.board.Name, viewed, first, last)
	if err != nil {
		return at, nil, err
	}
	at.days, at.oldest = slices.Clone(at.days), time.Time{}
	for _, f := range found {
		d := &at.days[slices.IndexFunc(at.days, func(d day) bool { return d.bucket.Name == f.Bucket })]
		d.exists, d.archived = true, f.Archived
		if !f.Archived {
			if d.bucket, err = s.o.Catalog.Buckets.Load(ctx, r.board.Name, f.Bucket); err != nil {
				return at, nil, err
			}
		} else if at.oldest.IsZero() || f.EndsAt.Before(at.oldest) {
			at.oldest = f.EndsAt
		}
	}
	at.final = r.final(at.days)
	return at, sums, nil
}

// addHot adds the people's scores in buckets in Redis to their sums, by position. One round
// trip.
func (s *Service) addHot(ctx context.Context, ids []models.RowID, buckets []*models.Bucket, sums []models.Sum) error {
	lists, err := s.o.Entries.CompositesOf(ctx, buckets, ids)
	if err != nil {
		return err
	}
	for i, bucket := range buckets {
		s.o.Rules.Show(bucket, ids, lists[i])
		codec := score.Of(bucket)
		for j, composite := range lists[i] {
			if composite != 0 {
				points, reachedAt := codec.Decode(composite)
				sums[j] = sums[j].Plus(models.Sum{Score: bucket.Score(points), Days: 1, ReachedAt: reachedAt})
			}
		}
	}
	return nil
}
