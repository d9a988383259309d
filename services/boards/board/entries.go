package board

import (
	"context"
	"time"

	"stepboard/models"
)

// Entries are those of the buckets that are not archived, by what is done with them: Store keeps them in Redis, and
// Local in the memory of the only process. The comments of Store's methods hold for both, apart from round
// trips, which Local has none of. Safe for concurrent use.
type Entries interface {
	Writer
	Reader
	Corrector
	Maintainer
}

// Writer applies updates.
type Writer interface {
	// Raise applies updates: a user's composite in a bucket becomes the given one, unless the
	// stored one is larger. It returns nil if every update is stored, otherwise one error for
	// each update, nil for those that are.
	Raise(ctx context.Context, raises []models.Raise) []error
	// RaiseAll raises many entries, most of which the boards already have. It returns how many
	// entries have changed. After an error any part of the updates may be stored.
	RaiseAll(ctx context.Context, raises []models.Raise) (changed int64, err error)
	// EntriesAt returns the same entries with a clock that stands at a moment, to store what
	// was uploaded then.
	EntriesAt(moment time.Time) Entries
	// Server returns the name of the server that an update is written to.
	Server(ctx context.Context, r models.Raise) string
}

// Reader reads scores and places.
type Reader interface {
	Composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error)
	CompositesOf(ctx context.Context, buckets []*models.Bucket, users []models.RowID) ([][]models.Composite, error)
	CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error)
	CompositesAndPosition(
		ctx context.Context, bucket *models.Bucket, users []models.RowID, user models.RowID,
	) ([]models.Composite, Position, error)
	Positions(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]Position, error)
	Window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (Window, error)
	Counts(ctx context.Context, buckets []*models.Bucket) ([]int64, error)
	Settling(ctx context.Context, bucket *models.Bucket) (bool, error)
}

// Corrector reads and changes what updates can't.
type Corrector interface {
	Correct(ctx context.Context, entries []models.CorrectedEntry) (changed int64, err error)
	Reported(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error)
	Remove(ctx context.Context, buckets []*models.Bucket, users []models.RowID) (removed int64, err error)
	Stored(ctx context.Context, buckets []*models.Bucket, user models.RowID) ([]StoredEntry, error)
}

// Maintainer makes boards agree with the ledger.
type Maintainer interface {
	Parts(ctx context.Context, bucket *models.Bucket) ([]models.BoardPart, error)
	ReadPart(ctx context.Context, p models.BoardPart, behind models.Entry, n int) ([]models.Entry, error)
	Lower(ctx context.Context, p models.BoardPart, lowerings []models.Lowering) (lowered int64, err error)
	Drain(ctx context.Context, bucket *models.Bucket) (drained int64, err error)
	Drift(ctx context.Context, bucket *models.Bucket, sample int) (checked, drifted int, err error)
}
