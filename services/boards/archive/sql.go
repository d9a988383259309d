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

	"stepboard/models"
	"stepboard/services/boards/board"
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
	userText           string // the SQL expression for the row id of row s as text, which orders equal entries
}

// StoreOptions holds what NewStore needs.
type StoreOptions struct {
	// Runs is the database for runs, and Pool is the connection pool under it if it is
	// Postgres, nil if it is the embedded database.
	Runs *gorm.DB
	Pool *pgxpool.Pool
	// Reads is the database for callers who wait for an answer, and Reports for those who ask
	// for histories and sums of many days. nil: Runs.
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
		s.storage, s.userText = &sqlite{db: o.Runs}, sqliteUserText
	} else {
		s.storage, s.userText = &postgres{pool: o.Pool, db: o.Runs, reads: s.reads, reports: s.reports}, postgresUserText
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
	// inRun calls fn in a transaction that has locked the bucket and has the tables of
	// runTables, with the rows in archive_staging unless rows is nil. It commits if fn returns
	// no error.
	inRun(ctx context.Context, bucket *models.Bucket, rows *rowReader, fn func(tx *gorm.DB) error) error
	// sum adds up the rows that follow FROM, as totals.add does.
	sum(tx *gorm.DB, from string, args ...any) (totals, error)
	// storeProgress stores how many entries a run has read so far. It returns when
	// ctx ends, unless its statement is under way, and ignores errors.
	storeProgress(ctx context.Context, run *models.ArchiveRun, moved int64)
	// runsUnderWay returns how many runs are storing rows.
	runsUnderWay(ctx context.Context) (int64, error)
}

// scoreStorage reads archived scores, and gives those of erased users other row ids.
type scoreStorage interface {
	// composites returns the users' composites in a bucket, in the order of users.
	composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error)
	// stored returns the archived composites of the raises' users in their buckets, by
	// position.
	stored(ctx context.Context, raises []models.Raise) ([]models.Composite, error)
	// sums adds up the users' scores of the archived days from one to another, both
	// included. Only users with a score on any of them have a sum.
	sums(ctx context.Context, boardName string, users []Viewed, from, to models.Date) ([]SpanDay, map[models.RowID]models.Sum, error)
	// erase gives the archived rows of a user fresh row ids, another one for each bucket,
	// and returns how many rows these were.
	erase(ctx context.Context, user models.RowID, newNobody func() models.RowID) (rows int64, err error)
}

// archivedScore is a row of archived_scores.
type archivedScore struct {
	UserID    models.RowID
	Score     int64
	ReachedAt time.Time
	Rank      int64
	Day       models.Date
	Board     string
}

// TableName returns the name of the archive's table.
func (archivedScore) TableName() string { return "archived_scores" }

// newNobody returns a row id for an archived score of an erased user.
func (s *Store) newNobody() models.RowID { return models.NewNobody(s.random) }

// lastRun returns the bucket's latest run, or errNoRun.
func (s *Store) lastRun(ctx context.Context, boardName, bucket string) (models.ArchiveRun, error) {
	var run models.ArchiveRun
	err := s.db.WithContext(ctx).Where("board = ? AND bucket = ?", boardName, bucket).Order("run DESC").Take(&run).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return run, errNoRun
	}
	if err != nil {
		return run, fmt.Errorf("read runs: %w", err)
	}
	return run, nil
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
	if result.Error != nil {
		return false, fmt.Errorf("record run: %w", result.Error)
	}
	return result.RowsAffected > 0, nil
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
// have no complete run, oldest first.
func (s *Store) unfinished(ctx context.Context, coldBefore time.Time) ([]*models.Bucket, error) {
	var buckets []*models.Bucket
	err := s.db.WithContext(ctx).Table("bucket_states").Where("cold_at <= ? AND NOT archived", coldBefore).
		Order("starts_at, board").Find(&buckets).Error
	if err != nil {
		return nil, fmt.Errorf("list buckets to archive: %w", err)
	}
	return buckets, nil
}

// bucketColumns holds the columns of a models.Bucket. With b.* a prepared statement
// would fail once when a column is added.
const bucketColumns = `b.board, b.bucket, b.starts_at, b.ends_at, b.closes_at, b.tick_ms, b.time_bits, b.max_score, b.shards,
	b.window_hours, b.from_ledger, b.change_stream, b.day, b.cold_at, b.created_at`

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
func (s *Store) pendingCorrections(ctx context.Context) (map[bucketKey]bool, error) {
	var rows []struct{ Board, Bucket string }
	if err := s.db.WithContext(ctx).Table("pending_corrections").Distinct("board", "bucket").Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("list pending corrections: %w", err)
	}
	pending := make(map[bucketKey]bool, len(rows))
	for _, r := range rows {
		pending[bucketKey{r.Board, r.Bucket}] = true
	}
	return pending, nil
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

func (s *Store) runs(ctx context.Context, q RunsQuery) ([]models.ArchiveRun, error) {
	db := s.reads.WithContext(ctx).Where(&models.ArchiveRun{Board: q.Board, Bucket: q.Bucket, State: q.State})
	runs, err := cursor.Newest[models.ArchiveRun](db, "id", q.Before, q.Limit)
	if err != nil {
		return nil, models.Unavailable("list archive runs", err)
	}
	return runs, nil
}

// windowQuery reads the entries of a bucket around a position. A binary search
// over the ranks finds the number of entries before the position, whether or not
// an entry has it. %[1]s is the condition aheadOfPosition.
const windowQuery = `
	WITH RECURSIVE bucket (total) AS (
		SELECT coalesce(max(rank), 0) FROM archived_scores WHERE board = @board AND day = @day
	), search (low, high) AS (
		SELECT 0, total FROM bucket
		UNION ALL
		SELECT CASE WHEN %[1]s THEN s.rank ELSE low END, CASE WHEN %[1]s THEN high ELSE s.rank - 1 END
		FROM search JOIN archived_scores s ON s.board = @board AND s.day = @day AND s.rank = (low + high) / 2 + 1
		WHERE low < high
	), boundary (before) AS (
		SELECT max(low) FROM search
	)
	SELECT total, before, coalesce(s.rank, 0) AS rank, coalesce(s.user_id, 0) AS user_id, coalesce(s.score, 0) AS score, s.reached_at
	FROM bucket CROSS JOIN boundary
	LEFT JOIN archived_scores s ON s.board = @board AND s.day = @day AND s.rank > before - @back AND s.rank <= before + @forward
	ORDER BY s.rank`

// aheadOfPosition is true for a row that ranks before the position. %s is
// Store.userText.
const aheadOfPosition = `(s.score > @score OR (s.score = @score AND (s.reached_at < @reached OR (s.reached_at = @reached AND %s > @user))))`

func (s *Store) window(ctx context.Context, bucket *models.Bucket, at models.Entry, back, forward int) (board.Window, error) {
	codec := score.Of(bucket)
	points, reachedAt := codec.Decode(at.Composite)
	var rows []struct {
		Total, Before, Rank int64
		UserID              models.RowID
		Score               int64
		ReachedAt           *time.Time
	}
	query := fmt.Sprintf(windowQuery, fmt.Sprintf(aheadOfPosition, s.userText))
	err := s.reads.WithContext(ctx).Raw(query, map[string]any{
		"board": bucket.Board, "day": bucket.Day, "score": points, "reached": reachedAt.Time(), "user": at.User.String(),
		"back": back, "forward": forward,
	}).Scan(&rows).Error
	if err != nil {
		return board.Window{}, err
	}
	var w board.Window
	for _, r := range rows {
		w.Total, w.Before = r.Total, r.Before
		if r.ReachedAt == nil {
			continue // the window is empty
		}
		composite, err := composite(codec, r.Score, *r.ReachedAt)
		if err != nil {
			return board.Window{}, err
		}
		entry := models.Entry{User: r.UserID, Composite: composite}
		if r.Rank <= r.Before {
			w.Ahead = append(w.Ahead, entry)
		} else {
			w.Behind = append(w.Behind, entry)
		}
	}
	return w, nil
}

func (s *Store) days(ctx context.Context, boardName string, user models.RowID, from, to models.Date) ([]Day, error) {
	var rows []struct {
		models.Bucket
		Total     *int64
		Score     *int64
		ReachedAt *time.Time
		Rank      *int64
	}
	err := s.reports.WithContext(ctx).Raw(`
		SELECT `+bucketColumns+`, s.score, s.reached_at, s.rank, (
			SELECT a.entries FROM board_archives a
			WHERE a.board = b.board AND a.bucket = b.bucket AND a.state = ?
			ORDER BY a.run DESC LIMIT 1) AS total
		FROM board_buckets b
		LEFT JOIN archived_scores s ON s.board = b.board AND s.day = b.day AND s.user_id = ?
		WHERE b.board = ? AND b.day BETWEEN ? AND ?
		ORDER BY b.day DESC`, models.ArchiveComplete, user, boardName, from, to).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	days := make([]Day, len(rows))
	for i := range rows {
		r := &rows[i]
		days[i] = Day{Bucket: &r.Bucket, Archived: r.Total != nil}
		if r.Total != nil && r.Rank != nil {
			days[i].Score, days[i].ReachedAt, days[i].Rank, days[i].Total = *r.Score, models.TimestampOf(*r.ReachedAt), *r.Rank, *r.Total
		}
	}
	return days, nil
}
