// Package importer reads files of friendships and of steps and stores what they
// hold.
package importer

import (
	"context"
	"log/slog"

	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/people/friends"
)

// Friends stores friendships. Implemented by friends.Service.
type Friends interface {
	// Resolve returns edges by the rows of their users, and creates those users that do
	// not exist. The row of a user whom only signing up makes is 0 if there is no such user.
	Resolve(ctx context.Context, edges []friends.Edge) ([]models.Edge, error)
	// Prepare looks up which of them are friendships already, and leaves out those that are
	// among edges before.
	Prepare(ctx context.Context, edges []models.Edge, before friends.Prepared) (friends.Prepared, error)
	ImportPrepared(ctx context.Context, p friends.Prepared) (added int, rejected []friends.Rejected, err error)
}

// Users finds and creates users. Implemented by directory.Service.
type Users interface {
	// EnsureMany returns the row of each user, by position, and creates those users that
	// do not exist. The row of a user whom only signing up makes is 0 if there is no such user.
	EnsureMany(ctx context.Context, users []models.UserID) ([]models.RowID, error)
}

// Archive moves a cold bucket to the archive. Implemented by archive.Service.
type Archive interface {
	Archive(ctx context.Context, b *models.Bucket, progress func(moved int64)) (models.ArchiveRun, error)
	Scores
}

// Scores reads what is stored. Implemented by board.Store, and by archive.Service for the
// days that are archived.
type Scores interface {
	// CompositesBefore returns the composites that the raises' users have in their buckets, by
	// position; 0 for a user without one.
	CompositesBefore(ctx context.Context, raises []models.Raise) ([]models.Composite, error)
}

// Report receives the progress of an import. It must be safe for concurrent use.
type Report interface {
	// Line counts a line with content that was read.
	Line()
	// Done counts lines that were read well and are stored now.
	Done(lines int)
	// BadLine reports a line that is not imported. Its error ends the import.
	BadLine(number int, reason error) error
	// Warn reports what is suspicious about a line that is imported.
	Warn(number int, what string)
	// Note reports what a person should know about how a line was read.
	Note(number int, what string)
}

// Service imports files. Safe for concurrent use.
type Service struct {
	Friends   Friends
	Directory Users
	Buckets   *catalog.Buckets
	Entries   Scores
	Archive   Archive
	// RaiseHot raises totals of days that take uploads: at once or through the
	// queue. RaiseCold raises totals of days that are archived next. Both return
	// nil if all are raised, otherwise one error for each.
	RaiseHot, RaiseCold func(ctx context.Context, raises []models.Raise) []error
	// Analyze gathers statistics about tables. An import does without them if that fails.
	Analyze func(ctx context.Context, tables ...string) error
	// OneWriter says that nobody else can write while a chunk is stored, as in SQLite.
	OneWriter bool
	Clock     models.Clock
	Log       *slog.Logger
}

// growth has the statistics of tables gathered while an import fills them: at each tenfold
// growth, and at its end if rows came after that. Rankings are served meanwhile, whose plans
// depend on them.
type growth struct {
	service *Service
	tables  []string
	rows    int
	// next is the number of rows at which statistics are gathered next, analyzed that of the
	// last time.
	next, analyzed int
}

// firstGrowth is the number of rows after which statistics are gathered first.
const firstGrowth = 10_000

func (s *Service) growthOf(tables ...string) *growth {
	return &growth{service: s, tables: tables, next: firstGrowth}
}

// add counts rows that were stored.
func (g *growth) add(ctx context.Context, rows int) {
	if g.rows += rows; g.rows >= g.next {
		for g.rows >= g.next {
			g.next *= 10
		}
		g.analyze(ctx)
	}
}

// end is called after the last rows.
func (g *growth) end(ctx context.Context) {
	if g.rows > g.analyzed {
		g.analyze(ctx)
	}
}

func (g *growth) analyze(ctx context.Context) {
	g.analyzed = g.rows
	if err := g.service.Analyze(ctx, g.tables...); err != nil && ctx.Err() == nil {
		g.service.Log.WarnContext(ctx, "statistics of imported rows are gathered later", "error", err)
	}
}
