package catalog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"stepboard/models"
)

const (
	// RefreshEvery is how often Refresh should be called: the longest time until a process
	// notices a new definition or a new day.
	RefreshEvery = 3 * time.Second
	// refreshTimeout bounds one refresh, so that a database that hangs does not
	// stop all later ones.
	refreshTimeout = 5 * time.Second
)

// Definitions serves the definitions of boards from memory and reads them again
// every few seconds. Safe for concurrent use.
type Definitions struct {
	store   *Store
	buckets *Buckets
	log     *slog.Logger
	// Retain is how long increments are kept, 0 for ever. Add refuses boards that take increments
	// later than that.
	Retain time.Duration
}

// Define stores the definitions of a service's settings and loads the catalog.
// Nothing is stored unless all of them are valid; the error names the first
// that is not. Stored boards that are not among the given ones stay as they
// are.
func (d *Definitions) Define(ctx context.Context, defs []models.Board) error {
	return d.define(ctx, defs, true)
}

// DefineMissing is like Define, but leaves boards that are stored already as
// they are. Commands that run beside a service use it.
func (d *Definitions) DefineMissing(ctx context.Context, defs []models.Board) error {
	return d.define(ctx, defs, false)
}

func (d *Definitions) define(ctx context.Context, defs []models.Board, update bool) error {
	boards := make([]*Board, len(defs))
	for i, def := range defs {
		b, err := NewBoard(def)
		if err != nil {
			return err
		}
		boards[i] = b
	}
	if err := d.store.define(ctx, boards, update); err != nil {
		return err
	}
	return d.Refresh(ctx)
}

// Add stores the definition of a new board. Errors: CodeValidationFailed if the
// definition is invalid, CodeBoardExists, CodeUnavailable. Other replicas notice
// the board within RefreshEvery. A dry run stores nothing, and returns the board as it
// would be.
func (d *Definitions) Add(ctx context.Context, def models.Board, dryRun bool) (*Board, error) {
	b, err := NewBoard(def)
	if err == nil {
		err = CheckLate(def, d.Retain)
	}
	if err != nil {
		return nil, models.Errorf(models.CodeValidationFailed, "%v", err)
	}
	added, err := d.store.add(ctx, b.Board, dryRun)
	if err != nil {
		return nil, models.Unavailable("store board", err)
	}
	if !added {
		return nil, models.Errorf(models.CodeBoardExists, "there is a board %s already; GET /v1/admin/boards/%s shows it", def.Name, def.Name)
	}
	if dryRun {
		return b, nil
	}
	if err := d.Refresh(ctx); err != nil {
		return nil, models.Unavailable("load board", err)
	}
	return d.Board(def.Name)
}

// Refresh reads all definitions and open buckets, and makes the buckets that are current or will
// be soon. It takes two queries, and two more for each new bucket, and ends
// after refreshTimeout at the latest.
func (d *Definitions) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	stored, err := d.store.boards(ctx)
	if err != nil {
		return err
	}
	known := *d.buckets.boards.Load()
	boards := make(map[string]*Board, len(stored))
	for _, def := range stored {
		b, err := NewBoard(def)
		if err != nil {
			// A newer version of the service may define boards that this one can't
			// use.
			d.log.WarnContext(ctx, "a board's definition can't be used here; it stays as it was", "board", def.Name, "error", err)
			if b = known[def.Name]; b != nil {
				b, _ = NewBoard(b.Board) // whose names of buckets are read again
			}
		}
		if b != nil {
			boards[b.Name] = b
		}
	}
	d.buckets.boards.Store(&boards)
	failed := d.buckets.loadOpen(ctx)
	for _, b := range boards {
		failed = errors.Join(failed, d.buckets.prepare(ctx, b))
	}
	return failed
}

// Board returns the board of this name, or CodeBoardNotFound. No I/O.
func (d *Definitions) Board(name string) (*Board, error) { return d.buckets.board(name) }

// Boards returns all boards, ordered by name. No I/O.
func (d *Definitions) Boards() []*Board { return d.buckets.list() }

// Zones returns the time zones of the boards, each once. No I/O.
func (d *Definitions) Zones() []*time.Location {
	var zones []*time.Location
	for _, b := range d.Boards() {
		if !slices.ContainsFunc(zones, func(z *time.Location) bool { return z.String() == b.zone.String() }) {
			zones = append(zones, b.zone)
		}
	}
	return zones
}
