package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/internal/reuse"
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

// entriesMemory and compositesMemory are for the entries and the scores of circles.
var (
	entriesMemory    reuse.Slices[models.Entry]
	compositesMemory reuse.Slices[models.Composite]
)

// scores are those of the people of a request.
type scores struct {
	// entries are those in one bucket, in no order. People without a score have composite 0.
	entries []models.Entry
	// sums are those of a span, in no order, without people who have no score.
	sums []models.SumEntry
	// at is where the scores are.
	at place
	// asOf is the moment for which people and scores are complete if they are from memory;
	// otherwise zero.
	asOf time.Time
	// position is the viewer's if the request asks for it and the store is Redis; otherwise nil.
	position *board.Position
	// again reports that there are no scores yet: the people are to be read again, for the
	// place at and not from memory.
	again bool
}

// read reads people and their scores, from memory if near is not nil and has them. The
// entries are in the given memory.
func (s *Service) read(
	ctx context.Context, r *request, at place, c circle, gone []models.RowID, near NearCache, memory *[]models.Entry,
) (scores, error) {
	p, err := s.people(ctx, r, at, c, gone, near != nil)
	if err != nil || len(p.ids) == 0 && r.bucket != nil {
		return scores{at: at}, err
	}
	// A span without people is read, too: it finds out which of its days are archived.
	var found scores
	if r.bucket == nil {
		found, err = s.sums(ctx, r, at, p)
	} else {
		found, err = s.scores(ctx, r, at, p, near, memory)
	}
	if err == nil && found.again {
		return s.read(ctx, r, found.at, c, gone, nil, memory)
	}
	return found, err
}

// scores reads the scores of people in one bucket.
func (s *Service) scores(
	ctx context.Context, r *request, at place, p people, near NearCache, memory *[]models.Entry,
) (scores, error) {
	if at.bucket == nil {
		return scores{at: at}, nil
	}
	buffer := compositesMemory.Get(0)
	defer compositesMemory.Put(buffer)
	if near != nil && at.hot(r.now) {
		*buffer = slices.Grow(*buffer, len(p.ids))[:len(p.ids)]
		asOf, ok := near.Composites(at.bucket, p.ids, *buffer)
		switch {
		case ok:
			s.o.Rules.Show(at.bucket, p.ids, *buffer)
			if !p.asOf.IsZero() && p.asOf.Before(asOf) {
				asOf = p.asOf
			}
			return scores{at: at, entries: entriesOf(p.ids, *buffer, memory), asOf: asOf}, nil
		case !p.asOf.IsZero():
			return scores{at: at, again: true}, nil // an answer from Redis is not older than Redis
		}
	}
	if r.position && !at.archived {
		composites, position, err := s.o.Entries.CompositesAndPosition(ctx, at.bucket, p.ids, r.viewer)
		if err != nil {
			return scores{}, err
		}
		s.o.Rules.Show(at.bucket, p.ids, composites)
		return scores{at: at, entries: entriesOf(p.ids, composites, memory), position: &position}, nil
	}
	composites, err := s.composites(ctx, at, s.store(at), p.ids)
	if err != nil {
		return scores{}, err
	}
	return scores{at: at, entries: entriesOf(p.ids, composites, memory)}, nil
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

// store returns the store that has the bucket.
func (s *Service) store(at place) Reader {
	if at.archived {
		return s.o.Archive
	}
	return s.o.Entries
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
// use the near cache, which has only the current day of a span.
func (s *Service) sums(ctx context.Context, r *request, at place, p people) (scores, error) {
	if n := len(p.ids) * len(at.days); n > maxSpanScores {
		return scores{}, models.Errorf(models.CodeSpanTooLarge,
			"%d people on %d days are more than %d scores: ask for fewer days", len(p.ids), len(at.days), maxSpanScores)
	}
	sums := make([]models.Sum, len(p.ids))
	if !at.oldest.IsZero() {
		guessed := at.oldest
		var err error
		if at, sums, err = s.archivedSums(ctx, r, at, p); err != nil {
			return scores{}, err
		}
		if s.old(r.now, at.oldest) && !s.old(r.now, guessed) {
			// The first archived day ended before it would as the board is defined now.
			return scores{at: at, again: true}, nil
		}
	}
	var hot []*models.Bucket
	for _, d := range at.days {
		if d.exists && !d.archived {
			hot = append(hot, d.bucket)
		}
	}
	if n := len(p.ids) * len(hot); n > maxHotScores {
		return scores{}, models.Errorf(models.CodeSpanTooLarge,
			"%d people on %d days that are not archived are more than %d scores: ask for fewer days", len(p.ids), len(hot), maxHotScores)
	}
	if len(hot) > 0 {
		at.final = at.final && s.whole(ctx, hot[0])
	}
	if len(hot) > 0 && len(p.ids) > 0 {
		if err := s.addHot(ctx, p.ids, hot, sums); err != nil {
			return scores{}, err
		}
	}
	found := scores{at: at}
	for i, sum := range sums {
		if sum.Days > 0 && !s.o.Rules.Erased(p.ids[i]) {
			found.sums = append(found.sums, models.SumEntry{User: p.ids[i], Sum: sum})
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
				sums[j] = sums[j].Plus(models.Sum{Score: points, Days: 1, ReachedAt: reachedAt})
			}
		}
	}
	return nil
}
