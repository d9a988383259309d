package catalog

import (
	"time"

	"stepboard/models"
)

// kind holds everything that differs by kind of board. The rest of Stepboard
// never asks for the kind: it asks the catalog for a bucket. The bucket's own
// fields say what can be done with it, or an error does.
//
// A kind returns buckets as the definition would make them now. Buckets finds the
// one that exists.
type kind interface {
	// validate checks the settings that only boards of this kind have, and picks
	// the resolution. With an error it returns the name of the wrong setting.
	validate(def models.Board) (tick time.Duration, timeBits int, setting string, err error)
	// takes returns what boards of this kind may take, the default first.
	takes() []models.Takes
	// defaultWindow returns the default of WindowHours.
	defaultWindow() int
	// bucketAt returns the bucket whose time a moment is in, or the only bucket of
	// a board that has one. If days are each user's own, it is that of UTC's day.
	bucketAt(b *Board, now time.Time, hotDays int) *models.Bucket
	// bucketForDay returns the bucket of a day, or CodeBoardKind if the board's
	// buckets are not days.
	bucketForDay(b *Board, d models.Date, hotDays int) (*models.Bucket, error)
	// dateOf is the inverse of bucketForDay. It returns nil if the board's buckets
	// are not days.
	dateOf(bucket *models.Bucket) *models.Date
	// totalRange returns where increments count that are accepted now, or
	// CodeBoardKind if the board takes none. Before the start of an event it returns the range
	// with CodeEventNotOpen; only the ledger knows whether it is over.
	totalRange(bucket *models.Bucket, now time.Time) (models.TotalRange, error)
	// expiredTotals returns the running totals of the bucket that nobody reads any
	// more if increments are kept for the given time, and whether it has any.
	expiredTotals(bucket *models.Bucket, now time.Time, retain time.Duration) (models.TotalRange, bool)
	// raisedBucket returns the name of the bucket that a running total raises, or
	// "" if it raises none.
	raisedBucket(total string) string
}

var kinds = map[models.Kind]kind{
	models.KindDaily:   daily{},
	models.KindEvent:   event{},
	models.KindRolling: rolling{},
}

// onlyEvents returns an error if a definition has a setting that only events have, and the
// setting's name.
func onlyEvents(def models.Board) (setting string, err error) {
	switch {
	case def.StartsAt != nil || def.EndsAt != nil:
		return "start", errOnlyEvents
	case def.Late != 0:
		return "late", errOnlyEvents
	case def.LatestEnd != nil:
		return "latest_end", errOnlyEvents
	default:
		return "", nil
	}
}

// noDays is embedded by kinds whose buckets are not days.
type noDays struct{}

func (noDays) bucketForDay(b *Board, _ models.Date, _ int) (*models.Bucket, error) { //nolint:unparam // the interface has the bucket
	return nil, models.Errorf(models.CodeBoardKind, "%s is not a board of days: leave the date out, and send increments instead of scores", b.Name)
}

func (noDays) dateOf(*models.Bucket) *models.Date { return nil }

// archiveGrace is how long an event's totals are kept for an archive that is
// behind. The event can be rebuilt from them.
const archiveGrace = 30 * 24 * time.Hour

// noWindow is embedded by kinds whose boards take no WindowHours.
type noWindow struct{}

func (noWindow) defaultWindow() int { return 0 }
