package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/score"
	"stepboard/services/platform/cursor"
	"stepboard/services/platform/outcomes"
)

// errNoRun reports that no run of a bucket has ever begun.
var errNoRun = errors.New("no run of the archive")

// Store stores runs in table board_archives and rows in archived_scores. Safe
// for concurrent use.
type Store struct {
	reads, reports, db *gorm.DB // Reads, Reports and Runs of StoreOptions
	random             models.Random
	outbox             *outcomes.Outbox // may be nil
	storage            storage
	// eraseBuckets is how many buckets one call of storage.eraseIn changes.
	eraseBuckets int
}

// StoreOptions holds what NewStore needs.
type StoreOptions struct {
	// Runs is the database for runs, and Pool is the connection pool under it if it is
	// Postgres, otherwise nil.
	Runs *gorm.DB
	Pool *pgxpool.Pool
	// Reads is the database for callers who wait for an answer, and for the progress of runs, and Reports for those who
	// ask for histories and sums of many days. nil: Runs.
	Reads, Reports *gorm.DB
	// Outbox takes the results of buckets; nil: nobody hears of them.
	Outbox *outcomes.Outbox
	// Random decides the row ids of archived scores of erased users; nil: a source that
	// nobody can foresee.
	Random models.Random
}

// NewStore returns a store on the database.
func NewStore(o StoreOptions) *Store {
	s := &Store{reads: cmp.Or(o.Reads, o.Runs), reports: cmp.Or(o.Reports, o.Runs), db: o.Runs, outbox: o.Outbox, random: o.Random}
	if s.random == nil {
		s.random = rand.Int64N
	}
	if o.Pool == nil {
		s.storage, s.eraseBuckets = &sqlite{db: o.Runs, reads: s.reads, reports: s.reports, sizes: defaultSizes}, 1
	} else {
		s.storage, s.eraseBuckets = &postgres{pool: o.Pool, db: o.Runs, reads: s.reads, reports: s.reports}, 100
	}
	return s
}

// storage is the part of the archive that differs between databases.
type storage interface {
	monthStorage
	runStorage
	scoreStorage
}

// monthStorage has the partitions of archived scores.
type monthStorage interface {
	// ensurePartition creates the partition of the day's month if it does not
	// exist.
	ensurePartition(ctx context.Context, day models.Date) error
	// dropMonths drops the months before that of the given day. It returns how
	// many partitions it dropped, or how many rows if the database has none.
	dropMonths(ctx context.Context, before models.Date) (int, error)
}

// runStorage stores what runs move.
type runStorage interface {
	// store stores what a run moves, with corrections applied, and verifies it. It calls complete
	// in the transaction in which readers begin to see the rows. On errors, too, moved is the
	// number of entries read.
	store(ctx context.Context, m *move, complete completion) (moved int64, stored totals, err error)
	// runsUnderWay returns how many buckets have a run that is storing rows.
	runsUnderWay(ctx context.Context) (int64, error)
	// tidy removes what complete runs have moved, and what runs that were cut off have stored.
	// The caller holds the bucket's lease.
	tidy(ctx context.Context, bucket *models.Bucket) error
	// news reports whether the database has entries of an archived bucket that came later.
	news(ctx context.Context, bucket *models.Bucket) (bool, error)
	// left lists the buckets for which tidy or a further run may have something to do.
	left(ctx context.Context) ([]bucketKey, error)
}

// scoreStorage reads archived scores, and gives those of erased users other row ids.
type scoreStorage interface {
	// composites returns the users' composites in a bucket, in the order of users.
	composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error)
	// window reads the entries of a bucket around a position: a row for each, in the order of
	// ranks, or one without an entry.
	window(db *gorm.DB, bucket *models.Bucket, at models.Entry, back, forward int) ([]windowRow, error)
	// dayOf returns columns of dayRow, and the join that adds the row of user @user to bucket b.
	dayOf() (columns, join string)
	// stored returns the archived composites of the raises' users in their buckets, by
	// position.
	stored(ctx context.Context, raises []models.Raise) ([]models.Composite, error)
	// sums adds up the users' scores of the archived days from one to another, both
	// included. Only users with a score on any of them have a sum.
	sums(ctx context.Context, boardName string, users []Viewed, from, to models.Date) ([]SpanDay, map[models.RowID]models.Sum, error)
	// toErase lists the archived buckets in which a user has a row. Before, it deletes the rows that
	// belong to no bucket any more.
	toErase(ctx context.Context, user models.RowID) ([]*models.Bucket, error)
	// eraseIn gives the rows of a user in some buckets fresh row ids, another one for each bucket.
	eraseIn(ctx context.Context, user models.RowID, buckets []*models.Bucket, newNobody func() models.RowID) error
	// exportQuery is the query of a user's archived scores, of an export section.
	exportQuery() string
}

// newNobody returns a row id for an archived score of an erased user.
func (s *Store) newNobody() models.RowID { return models.NewNobody(s.random) }

// lastRun returns the bucket's latest run, or errNoRun.
func (s *Store) lastRun(ctx context.Context, boardName, bucket string) (models.ArchiveRun, error) {
	run, err := lists.Take[models.ArchiveRun](s.db.WithContext(ctx).Where("board = ? AND bucket = ?", boardName, bucket).Order("run DESC"), errNoRun)
	return run, models.Wrap("read runs", err)
}

// recordRun records that a run begins, for the first time or again. If the run
// is complete by now, it returns false and changes nothing: a complete run stays
// complete.
func (s *Store) recordRun(ctx context.Context, run *models.ArchiveRun) (bool, error) {
	result := s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "board"}, {Name: "bucket"}, {Name: "run"}},
		DoUpdates: clause.AssignmentColumns([]string{"state", "attempts", "moved", "started_at", "finished_at", "error"}),
		Where:     clause.Where{Exprs: []clause.Expression{clause.Neq{Column: clause.Column{Table: run.TableName(), Name: "state"}, Value: models.ArchiveComplete}}},
	}).Create(run)
	return result.RowsAffected > 0, models.Wrap("record run", result.Error)
}

// progressTimeout bounds how long a run waits until its progress is stored.
const progressTimeout = time.Second

// storeProgress stores how many entries a run has read so far, and ignores errors: nothing but the displayed progress
// depends on it. The run holds a connection of another pool, so runs never wait for each other's. To cancel a statement
// costs its connection, so the end of ctx does not.
func (s *Store) storeProgress(ctx context.Context, run *models.ArchiveRun, moved int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), progressTimeout)
	defer cancel()
	s.reads.WithContext(ctx).Model(&models.ArchiveRun{}).
		Where("board = ? AND bucket = ? AND run = ? AND state = ?", run.Board, run.Bucket, run.Run, models.ArchiveRunning).
		Update("moved", moved)
}

// recordFailure records why a run has failed, unless it has committed after all.
func (s *Store) recordFailure(ctx context.Context, run *models.ArchiveRun) error {
	return s.db.WithContext(ctx).Model(run).Where("state = ?", models.ArchiveRunning).
		Select("state", "moved", "finished_at", "error").Updates(run).Error
}

// complete reports whether a run of the bucket has completed.
func (s *Store) complete(ctx context.Context, boardName, bucket string) (bool, error) {
	var n int64
	err := s.reads.WithContext(ctx).Table("bucket_states").Where("board = ? AND bucket = ? AND archived", boardName, bucket).
		Count(&n).Error
	return n > 0, err
}

// unfinished lists the buckets that turned cold before the given moment and
// have no complete run, oldest first, without events that are not final yet.
func (s *Store) unfinished(ctx context.Context, coldBefore time.Time) ([]*models.Bucket, error) {
	var buckets []*models.Bucket
	err := s.db.WithContext(ctx).Table("bucket_states").Where("cold_at <= ? AND NOT archived AND (NOT from_ledger OR final_at IS NOT NULL)", coldBefore).
		Order("starts_at, board").Find(&buckets).Error
	return buckets, models.Wrap("list buckets to archive", err)
}

// bucketColumns holds the columns of a models.Bucket. With b.* a prepared statement
// would fail once when a column is added.
const bucketColumns = `b.board, b.bucket, b.starts_at, b.ends_at, b.closes_at, b.tick_ms, b.time_bits, b.max_score, b.score_order, b.shards,
	b.window_hours, b.best, b.from_ledger, b.change_stream, b.day, b.cold_at, b.final_at, b.created_at`

// archived lists the buckets that have a complete run, each with the number of
// its latest run.
func (s *Store) archived(ctx context.Context) ([]*models.Bucket, []int, error) {
	var rows []struct {
		models.Bucket
		Runs int
	}
	err := s.db.WithContext(ctx).Raw(`
		SELECT `+bucketColumns+`, a.runs
		FROM board_buckets b
		JOIN (SELECT board, bucket, max(run) AS runs FROM board_archives GROUP BY board, bucket HAVING max(CASE state WHEN ? THEN 1 ELSE 0 END) = 1) a
			ON a.board = b.board AND a.bucket = b.bucket
		ORDER BY b.starts_at, b.board`, models.ArchiveComplete).Scan(&rows).Error
	if err != nil {
		return nil, nil, fmt.Errorf("list archived buckets: %w", err)
	}
	buckets, runs := make([]*models.Bucket, len(rows)), make([]int, len(rows))
	for i := range rows {
		buckets[i], runs[i] = &rows[i].Bucket, rows[i].Runs
	}
	return buckets, runs, nil
}

// pendingCorrections returns the archived buckets with corrections to apply.
func (s *Store) pendingCorrections(ctx context.Context) (pending []bucketKey, err error) {
	err = s.db.WithContext(ctx).Table("pending_corrections").Distinct("board", "bucket").Scan(&pending).Error
	return pending, models.Wrap("list pending corrections", err)
}

// RunsQuery selects a page of runs.
type RunsQuery struct {
	// Board, Bucket and State filter the list; empty selects all.
	Board  string
	Bucket string
	State  models.ArchiveState
	// Before is the id of the last run of the previous page; 0 begins at the
	// newest run.
	Before int64
	Limit  int
}

// ListedRun is a run with the sum of the scores of the bucket, 0 until it is complete.
type ListedRun struct {
	models.ArchiveRun
	ScoreSum int64 `gorm:"-"`
}

// Runs returns a page of runs, newest first. One query.
func (s *Service) Runs(ctx context.Context, q RunsQuery) ([]ListedRun, error) {
	db := s.store.reads.WithContext(ctx).Table("board_archives AS a").
		Select(`a.id, a.board, a.bucket, a.run, a.shards, a.state, a.attempts, a.moved, a.entries, a.score_sum, a.hash, a.started_at, a.finished_at,
			a.error, b.score_order, b.max_score`).
		Joins("LEFT JOIN board_buckets b ON b.board = a.board AND b.bucket = a.bucket").
		Where(&models.ArchiveRun{Board: q.Board, Bucket: q.Bucket, State: q.State})
	type row struct {
		ListedRun
		ScoreOrder models.Order
		MaxScore   int64
	}
	rows, err := cursor.Newest[row](db, "a.id", q.Before, q.Limit)
	runs := make([]ListedRun, len(rows))
	for i, r := range rows {
		bucket := models.Bucket{Order: r.ScoreOrder, MaxScore: r.MaxScore}
		r.ScoreSum = bucket.ScoreSum(r.Entries, r.PointsSum)
		runs[i] = r.ListedRun
	}
	return runs, models.Public("list archive runs", err)
}

// windowRow is an entry in a window, with the number of entries of the bucket, and of those before
// the position.
type windowRow struct {
	Total, Before, Rank int64
	UserID              models.RowID
	Composite           models.Composite // 0 if the window has no entry
}

// dayRow is a bucket with the user's row in it, if it is archived and the user has one: points and
// time, or both in a composite.
type dayRow struct {
	models.Bucket
	Total     *int64
	Points    *models.Points `gorm:"column:score"`
	ReachedAt *time.Time
	Composite *models.Composite
	Rank      *int64
}

// Days returns a board's buckets from one day to another, both included, newest
// first, with the user's rank in archived ones. One query.
func (s *Service) Days(ctx context.Context, boardName string, user models.RowID, from, to models.Date) ([]Day, error) {
	columns, join := s.store.storage.dayOf()
	var rows []dayRow
	err := s.store.reports.WithContext(ctx).Raw(`
		SELECT `+bucketColumns+`, `+columns+`, (
			SELECT a.entries FROM board_archives a
			WHERE a.board = b.board AND a.bucket = b.bucket AND a.state = 'complete'
			ORDER BY a.run DESC LIMIT 1) AS total
		FROM board_buckets b `+join+`
		WHERE b.board = @board AND b.day BETWEEN @from AND @to
		ORDER BY b.day DESC`, map[string]any{"board": boardName, "user": user, "from": from, "to": to}).Scan(&rows).Error
	if err != nil {
		return nil, models.Public("read history", err)
	}
	days := make([]Day, len(rows))
	for i := range rows {
		r := &rows[i]
		day := Day{Bucket: &r.Bucket, Archived: r.Total != nil}
		if r.Total != nil && r.Rank != nil {
			day.Rank, day.Total = *r.Rank, *r.Total
			if r.Composite != nil {
				day.Points, day.ReachedAt = score.Of(day.Bucket).Decode(*r.Composite)
			} else {
				day.Points, day.ReachedAt = *r.Points, models.TimestampOf(*r.ReachedAt)
			}
		}
		days[i] = day
	}
	return days, nil
}
