package catalog

import (
	"log/slog"

	"stepboard/internal/reading"
	"stepboard/models"
)

// Catalog holds both halves of the catalog. It exists for wiring: a consumer
// that needs only one half takes that one.
type Catalog struct {
	// Definitions holds the boards as they are configured.
	Definitions *Definitions
	// Buckets holds the buckets of these boards.
	Buckets *Buckets
}

// New returns an empty catalog, which Definitions.Define fills. Buckets that it
// makes stay in Redis for hotDays days after their own, or a day longer than they
// take uploads, if that is more.
func New(store *Store, clock models.Clock, hotDays int, log *slog.Logger) *Catalog {
	buckets := &Buckets{store: store, clock: clock, hotDays: hotDays, opened: reading.New(refreshTimeout)}
	buckets.boards.Store(&map[string]*Board{})
	return &Catalog{
		Definitions: &Definitions{store: store, buckets: buckets, log: log},
		Buckets:     buckets,
	}
}
