package ranking

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/internal/reuse"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
)

// place says where the buckets of a request are, as far as this process knows. A cold bucket
// is either whole in the archive or still whole in Redis.
type place struct {
	// bucket is the one that the query asks for; nil in a span, and if nothing was ever
	// written to it.
	bucket   *models.Bucket
	archived bool
	// days are those of a span that have begun, oldest first.
	days []day
	// oldest is the end of the first bucket that is archived, or may be; zero if none is.
	oldest time.Time
	// final reports that no updates are taken any more, and that Redis lacks none that will
	// be applied again.
	final bool
	// settling is that of models.Ranking.
	settling *bool
}

// day is a day of a span.
type day struct {
	// bucket is as it would be made if it does not exist.
	bucket *models.Bucket
	// exists and archived are false as long as this process does not know better.
	exists, archived bool
}

// attempt is one reading of what a request asks for, from the memory of the process while near is
// set, and otherwise from the store that has the bucket.
type attempt struct {
	place
	// near is nil if the store is to be asked: the bucket is not hot, or memory has no answer.
	near NearCache
	// asOf is the moment for which all that was read from memory is complete; zero if nothing
	// was.
	asOf time.Time
	// gone are users who were erased after their scores had been read.
	gone []models.RowID

	entries    *[]models.Entry
	composites *[]models.Composite
}

// entriesMemory and compositesMemory are for the entries and the scores of attempts.
var (
	entriesMemory    reuse.Slices[models.Entry]
	compositesMemory reuse.Slices[models.Composite]
)

// errAgain means that memory, which the attempt has asked, does not have the answer. The attempt has noted that, and is
// repeated from the beginning, because all of an answer is from one store.
var errAgain = errors.New("another store has the answer now")

// errLacking means that Redis lacks updates of a bucket that takes no more.
var errLacking = errors.New("some of its updates are not in Redis again yet")

// answer calls read, which makes the answer of a request, until the answer may be given. Memory is
// asked first, and then the store. It locates the bucket and repeats the reading if a cold bucket
// was archived meanwhile, somebody was erased, or the answer from memory is too old in the end:
// what locate finds out about Redis vouches for one reading, and costs nothing for a bucket that
// takes updates.
func (s *Service) answer(ctx context.Context, r *request, read func(*attempt) error) error {
	a := &attempt{near: s.o.NearCache, entries: entriesMemory.Get(0), composites: compositesMemory.Get(0)}
	defer entriesMemory.Put(a.entries)
	defer compositesMemory.Put(a.composites)
	for {
		var err error
		if a.place, err = s.locate(ctx, r); err != nil {
			return err
		}
		if r.current && a.bucket != nil && a.bucket.Final(r.now) && !a.final {
			return models.Unavailable("read a final bucket", errLacking)
		}
		if r.current || !a.hot(r.now) {
			a.near = nil
		}
		known := len(a.gone)
		for err = errAgain; errors.Is(err, errAgain); {
			a.asOf = time.Time{}
			err = read(a)
		}
		if err != nil {
			return err
		}
		moved, err := s.moved(ctx, r, a.place)
		switch {
		case err != nil:
			return err
		case moved || len(a.gone) > known:
		case !a.asOf.IsZero() && !a.near.Fresh(a.asOf):
			a.near = nil
		default:
			s.count(r, a)
			return nil
		}
	}
}

// composites returns the composites of users in the bucket that are shown, by position, or errAgain.
// They are valid until the next call.
func (s *Service) composites(ctx context.Context, a *attempt, users []models.RowID) ([]models.Composite, error) {
	composites, err := s.stored(ctx, a, users)
	if err != nil {
		return nil, err
	}
	if !a.archived {
		s.o.Rules.Show(a.bucket, users, composites)
		return composites, nil
	}
	for i, user := range users {
		if s.o.Rules.Erased(user) {
			composites[i] = 0
		}
	}
	return composites, nil
}

// stored is composites as they are stored, corrected or not.
func (s *Service) stored(ctx context.Context, a *attempt, users []models.RowID) ([]models.Composite, error) {
	if a.near == nil {
		return s.store(a).Composites(ctx, a.bucket, users)
	}
	clear(*a.composites)
	*a.composites = slices.Grow((*a.composites)[:0], len(users))[:len(users)]
	asOf, ok := a.near.Composites(a.bucket, users, *a.composites)
	return *a.composites, a.remembered(asOf, ok)
}

// window is Reader.Window of the bucket, or errAgain.
func (s *Service) window(ctx context.Context, a *attempt, at models.Entry, back, forward int) (board.Window, error) {
	if a.near == nil {
		return s.store(a).Window(ctx, a.bucket, at, back, forward)
	}
	w, asOf, ok := a.near.Window(a.bucket, at, back, forward)
	return w, a.remembered(asOf, ok)
}

// store returns the store that has the bucket.
func (s *Service) store(a *attempt) Reader {
	if a.archived {
		return s.o.Archive
	}
	return s.o.Entries
}

// remembered notes an answer of memory. If there is none, the store is asked from then on.
func (a *attempt) remembered(asOf time.Time, ok bool) error {
	if !ok {
		a.near = nil
		return errAgain
	}
	a.note(asOf)
	return nil
}

// viewer returns the row of a request's viewer; 0 also if the viewer is gone.
func (a *attempt) viewer(r *request) models.RowID {
	if slices.Contains(a.gone, r.viewer) {
		return 0
	}
	return r.viewer
}

// note notes that something is complete as of a moment; zero if it is not from memory. What is
// read beside the store does not count.
func (a *attempt) note(asOf time.Time) {
	if a.near != nil && !asOf.IsZero() && (a.asOf.IsZero() || asOf.Before(a.asOf)) {
		a.asOf = asOf
	}
}

// locate finds the buckets of a request. For a rolling board it makes one round trip to
// Redis, and one if the bucket is final and not archived. A bucket that does not exist costs
// what catalog.Buckets.Existing says, and a cold one what Archive.Complete says. A span costs
// nothing.
func (s *Service) locate(ctx context.Context, r *request) (at place, err error) {
	if r.bucket == nil {
		at = place{days: r.days, final: r.final(r.days)}
		if slices.ContainsFunc(r.days, func(d day) bool { return !d.exists || d.bucket.Cold(r.now) }) {
			at.oldest = r.days[0].bucket.EndsAt
		}
		return at, nil
	}
	at.bucket, err = s.o.Catalog.Buckets.Existing(ctx, r.bucket)
	if errors.Is(err, catalog.ErrNoBucket) {
		return place{final: r.bucket.Final(r.now)}, nil
	}
	if err != nil {
		return at, err
	}
	if at.bucket.WindowHours > 0 {
		settling, err := s.o.Entries.Settling(ctx, at.bucket)
		if err != nil {
			return at, err
		}
		at.settling = &settling
	}
	if at.bucket.Cold(r.now) {
		if at.archived, err = s.o.Archive.Complete(ctx, at.bucket); err != nil {
			return at, err
		}
	}
	at.final = at.bucket.Final(r.now)
	if at.archived {
		at.oldest = at.bucket.EndsAt
	} else {
		at.final = at.final && s.whole(ctx, at.bucket)
	}
	return at, nil
}

// whole reports whether Redis lacks no updates of a bucket that will be applied again: it
// does if it has been emptied, for example, and what it had is being restored. It vouches for
// what is read afterwards. One round trip.
func (s *Service) whole(ctx context.Context, bucket *models.Bucket) bool {
	return s.o.Whole == nil || s.o.Whole(ctx, bucket) == nil
}

// final reports whether a span takes no updates any more.
func (r *request) final(days []day) bool {
	begun := len(days) == 0 || days[len(days)-1].bucket.Day == r.to
	return begun && !slices.ContainsFunc(days, func(d day) bool { return !d.archived && !d.bucket.Final(r.now) })
}

// hot reports whether the place is one bucket that is hot.
func (p *place) hot(now time.Time) bool { return p.bucket != nil && !p.bucket.Cold(now) }

// moved reports whether a cold bucket that was read in Redis has been archived since it was
// located. Some of its entries may have been dropped before they were read then. One query,
// or none without such a bucket.
func (s *Service) moved(ctx context.Context, r *request, at place) (bool, error) {
	if r.bucket != nil {
		if at.bucket == nil || at.archived || !at.bucket.Cold(r.now) {
			return false, nil
		}
		return s.o.Archive.Complete(ctx, at.bucket)
	}
	if !slices.ContainsFunc(at.days, func(d day) bool { return d.exists && !d.archived && d.bucket.Cold(r.now) }) {
		return false, nil
	}
	found, _, err := s.o.Archive.Sums(ctx, r.board.Name, nil, at.days[0].bucket.Day, at.days[len(at.days)-1].bucket.Day)
	for _, f := range found {
		if f.Archived && slices.ContainsFunc(at.days, func(d day) bool { return d.bucket.Name == f.Bucket && !d.archived }) {
			return true, err
		}
	}
	return false, err
}

// source returns where a ranking of the place comes from.
func (p *place) source() models.Source {
	archived := p.archived
	for _, d := range p.days {
		if d.exists && !d.archived {
			return models.SourceHot
		}
		archived = archived || d.archived
	}
	if archived {
		return models.SourceArchive
	}
	return models.SourceHot
}

// Answers counts answers of one list by where they came from. A span that has hot days counts as
// one from Redis.
type Answers struct{ Memory, Redis, Archive atomic.Int64 }

// Lists are the lists that are counted.
var Lists = []string{"friends", "group", "top", "around", "me"}

// Answers returns the counts of a list, one of Lists, which go on counting.
func (s *Service) Answers(list string) *Answers { return s.answers[list] }

// count counts an answer, if those of its list are counted.
func (s *Service) count(r *request, a *attempt) {
	answers := s.answers[r.list]
	switch {
	case answers == nil:
	case !a.asOf.IsZero():
		answers.Memory.Add(1)
	case a.source() == models.SourceArchive:
		answers.Archive.Add(1)
	default:
		answers.Redis.Add(1)
	}
}
