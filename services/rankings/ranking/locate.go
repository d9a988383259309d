package ranking

import (
	"context"
	"errors"
	"slices"
	"time"

	"stepboard/models"
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
