// Package move copies a data folder to Redis and Postgres.
//
// The folder is locked, and once a move of it has begun nobody else opens it, so what is copied
// does not change. Each table and each archived bucket is copied in one transaction of Postgres,
// which also records it in folder_moves. So a move that was cut off goes on behind the last part
// that is recorded. The boards are raised after that, which may be repeated. Nothing serves the
// servers before everything was compared.
package move

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/failpoint"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/archive"
	"stepboard/services/boards/board"
	"stepboard/services/platform/auth"
)

// Options holds what Run needs.
type Options struct {
	// Folder is locked by stores.LockFolderToMove. The caller closes it.
	Folder *stores.Folder
	// Config has the settings of the servers. Those of boards are not used: boards stay as they are.
	Config config.Config
	Clock  models.Clock
	Log    *slog.Logger
	// Where says in a few words where the data goes, without secrets.
	Where string
	// Progress is called with what is done now, often.
	Progress func(format string, args ...any)
}

// Summary says what was moved.
type Summary struct {
	// Rows is how many rows of tables, Archived how many rows of the archive, and Buckets how many
	// archived buckets Postgres has got. Entries is how many entries of boards Redis has got.
	Rows, Archived int64
	Buckets        int
	Entries        int64
	// Boards are the definitions that were moved.
	Boards []models.Board
}

// mover is a move that is under way.
type mover struct {
	Options

	from, to *stores.Stores
	done     map[string]bool // the parts that folder_moves has
	closers  []func() error
}

// close closes what was opened, the latest first.
func (m *mover) close() (err error) {
	for _, closer := range slices.Backward(m.closers) {
		err = errors.Join(err, closer())
	}
	return err
}

// Run copies the folder to the servers, compares both, and marks the folder as moved, so that nobody
// serves it any more. It applies the schema. It returns an error if the servers have data that is
// not of this folder. After any error it may be called again, and goes on.
func Run(ctx context.Context, o Options) (s Summary, err error) {
	m := &mover{Options: o, done: make(map[string]bool)}
	defer func() { err = errors.Join(err, m.close()) }()
	if m.from, err = o.Folder.Open(ctx, o.Clock); err != nil {
		return s, err
	}
	m.closers = append(m.closers, m.from.Close)
	if m.to, err = stores.OpenForCommand(ctx, o.Config, o.Clock); err != nil {
		return s, err
	}
	m.closers = append(m.closers, m.to.Close)
	if err := stores.CheckRedis(ctx, m.to.Redis); err != nil && !errors.Is(err, stores.ErrPolicyUnknown) {
		return s, err
	}
	if err := m.begin(ctx); err != nil {
		return s, err
	}
	if !m.done[partComplete] {
		if s, err = m.copy(ctx); err != nil {
			return s, err
		}
		if err := m.record(ctx, partComplete); err != nil {
			return s, err
		}
		failpoint.Hit("move.complete")
	}
	if err := m.to.Gorm.WithContext(ctx).Order("name").Find(&s.Boards).Error; err != nil {
		return s, fmt.Errorf("list boards: %w", err)
	}
	return s, o.Folder.MarkMoved(o.Where)
}

// copy copies and compares everything.
func (m *mover) copy(ctx context.Context) (s Summary, err error) {
	tables, err := m.tables(ctx)
	if err != nil {
		return s, err
	}
	for _, t := range tables {
		if err := m.copyTable(ctx, t); err != nil {
			return s, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	if err := m.copySequences(ctx, tables); err != nil {
		return s, err
	}
	if s.Archived, s.Buckets, err = m.copyArchive(ctx); err != nil {
		return s, err
	}
	for _, t := range tables {
		rows, err := m.compareTable(ctx, t)
		if err != nil {
			return s, err
		}
		s.Rows += rows
	}
	if err := m.to.Analyze(ctx, tableNames(tables)...); err != nil {
		return s, err
	}
	s.Entries, err = m.copyBoards(ctx)
	return s, err
}

// copyArchive copies the archived buckets.
func (m *mover) copyArchive(ctx context.Context) (rows int64, buckets int, err error) {
	var archived []*models.Bucket
	if err := m.from.Archive.Gorm.WithContext(ctx).Table("bucket_states").Where("archived").Order("day, board").Find(&archived).Error; err != nil {
		return 0, 0, fmt.Errorf("list archived buckets: %w", err)
	}
	for i, bucket := range archived {
		m.Progress("archive: %d of %d days", i, len(archived))
		part := bucket.Board + "/" + bucket.Name
		if m.done[part] {
			continue
		}
		if err := archive.Copy(ctx, m.from.Archive.Gorm, m.to.Archive.Pool, bucket, m.recordIn(ctx, part)); err != nil {
			return 0, 0, err
		}
		failpoint.Hit("move.archived")
	}
	if err := m.to.Archive.SQL.QueryRowContext(ctx, "SELECT count(*) FROM archived_scores").Scan(&rows); err != nil {
		return 0, 0, fmt.Errorf("count archived scores: %w", err)
	}
	return rows, len(archived), m.to.Analyze(ctx, "archived_scores")
}

// copyBoards raises on Redis what the folder's boards have, and compares them.
func (m *mover) copyBoards(ctx context.Context) (entries int64, err error) {
	m.Progress("boards")
	from, err := m.build(ctx, m.from)
	if err != nil {
		return 0, err
	}
	to, err := m.build(ctx, m.to)
	if err != nil {
		return 0, err
	}
	hot := board.NewHotScores(m.from.Increments.Gorm)
	if err := hot.CopyTo(ctx, to.Entries, func(scores int) {
		m.Progress("boards: %d scores", scores)
		failpoint.Hit("move.raised")
	}); err != nil {
		return 0, err
	}
	if _, err := to.Reconciler.Load(ctx); err != nil {
		return 0, err
	}
	if _, err := to.Corrections.Apply(ctx); err != nil {
		return 0, err
	}
	failpoint.Hit("move.raised_all")
	return m.compareBoards(ctx, from.Entries, to.Entries)
}

// build constructs the service on stores, without a role. It is never started.
func (m *mover) build(ctx context.Context, st *stores.Stores) (*app.App, error) {
	cfg := m.Config
	cfg.Boards = nil
	cfg.Webhooks = nil
	if st.Folder != nil {
		cfg.Ingest = config.Default().Ingest
		cfg.Rankings.MaxStaleness = 0
	}
	verifier := auth.NewVerifier(auth.VerifierConfig{})
	a, err := app.Build(ctx, app.Options{
		Config: cfg, Stores: st, Clock: m.Clock, Log: m.Log, KeepStoredBoards: true, Verifier: verifier,
	})
	if err == nil {
		m.closers = append(m.closers, a.Close)
	}
	return a, err
}

// comparedAtOnce is how many entries are compared at a time.
const comparedAtOnce = 1000

// compareBoards compares the entries of the boards that are not archived, and returns how many there
// are.
func (m *mover) compareBoards(ctx context.Context, from, to board.Entries) (entries int64, err error) {
	var buckets []*models.Bucket
	if err := m.from.Gorm.WithContext(ctx).Table("bucket_states").Where("NOT archived").Find(&buckets).Error; err != nil {
		return 0, fmt.Errorf("list buckets: %w", err)
	}
	for _, bucket := range buckets {
		n, err := m.compareBoard(ctx, bucket, from, to)
		if err != nil {
			return 0, err
		}
		entries += n
		m.Progress("boards: %d entries compared", entries)
	}
	return entries, nil
}

// compareBoard compares the entries of a bucket, and returns how many there are. The hours of a
// rolling board leave it while they are compared, in both places at nearly the same time: a
// difference counts if it is still there at the end of another comparison.
func (m *mover) compareBoard(ctx context.Context, bucket *models.Bucket, from, to board.Entries) (entries int64, err error) {
	for attempt := 0; ; attempt++ {
		for _, side := range []board.Entries{from, to} {
			if _, err := side.Drain(ctx, bucket); err != nil {
				return 0, err
			}
		}
		entries, different, err := m.compareOnce(ctx, bucket, from, to)
		if err != nil || different == "" {
			return entries, err
		}
		if bucket.WindowHours == 0 || attempt == comparisons {
			return 0, fmt.Errorf("board %s, %s: %s", bucket.Board, bucket.Name, different)
		}
	}
}

// comparisons is how often a rolling board is compared again.
const comparisons = 3

// compareOnce reads a bucket page by page in both places. It returns how many entries there are, and
// what is different, if anything is.
func (m *mover) compareOnce(ctx context.Context, bucket *models.Bucket, from, to board.Entries) (entries int64, different string, err error) {
	for at := board.Top; ; {
		want, err := from.Window(ctx, bucket, at, 0, comparedAtOnce)
		if err != nil {
			return 0, "", err
		}
		got, err := to.Window(ctx, bucket, at, 0, comparedAtOnce)
		if err != nil {
			return 0, "", err
		}
		if got.Total != want.Total || got.Before != want.Before || !slices.Equal(got.Behind, want.Behind) {
			return 0, fmt.Sprintf("the folder has %d entries and Redis %d; they differ behind rank %d", want.Total, got.Total, want.Before), nil
		}
		if len(want.Behind) < comparedAtOnce {
			return want.Total, "", nil
		}
		at = want.Behind[len(want.Behind)-1]
	}
}
