package ranking

import (
	"context"
	"slices"
	"time"

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
		composites, err = s.composites(ctx, a.place, s.store(a), ids)
	}
	if err == nil {
		found.entries = entriesOf(ids, composites, a.entries)
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

// composites returns the composites of users in the bucket that are shown, by position, from a
// store that has it.
func (s *Service) composites(ctx context.Context, at place, store Reader, users []models.RowID) ([]models.Composite, error) {
	composites, err := store.Composites(ctx, at.bucket, users)
	if err != nil {
		return nil, err
	}
	if !at.archived {
		s.o.Rules.Show(at.bucket, users, composites)
		return composites, nil
	}
	for i, user := range users {
		if s.o.Rules.Erased(user) {
			composites[i] = 0
		}
	}
	return composites, nil
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
	viewed := make([]archive.Viewed, len(p.ids))
	for i, id := range p.ids {
		viewed[i] = archive.Viewed{User: id, After: p.after[id]}
	}
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
