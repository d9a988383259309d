package corrections

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/column"
	"stepboard/internal/dialect"
	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/platform/cursor"
)

// Store keeps corrections in tables corrections, pending_corrections and
// reported_scores. Safe for concurrent use.
type Store struct {
	reads  *gorm.DB // what processes and callers read
	db     *gorm.DB // for decisions
	random models.Random
}

// NewStore returns a store on the database. Decisions use db, which they may hold while they
// wait for locks; both may be the same. random decides the row ids that erased users get; nil
// means a source that nobody can foresee.
func NewStore(reads, db *gorm.DB, random models.Random) *Store {
	if random == nil {
		random = rand.Int64N
	}
	return &Store{reads: reads, db: db, random: random}
}

// lockTimeout is how long a decision waits for a user or a bucket. An archive run holds the
// bucket while it stores the rows.
const lockTimeout = `lock_timeout = '5s'`

// transact runs a decision in a transaction, and rolls it back in a dry run.
func (s *Store) transact(ctx context.Context, dryRun bool, fn func(tx *gorm.DB) error) error {
	return dialect.Try(s.db.WithContext(ctx), dryRun, func(tx *gorm.DB) error {
		err := dialect.SetLocal(tx, lockTimeout)
		if err == nil {
			err = fn(tx)
		}
		if err == nil && !dryRun {
			failpoint.Hit("corrections.before_commit")
		}
		return err
	})
}

// lock locks a user's row, and then the rows of the buckets that a correction concerns,
// ascending. It returns the names of those buckets that are archived.
func lock(tx *gorm.DB, c *models.Correction) (archived []string, err error) {
	forUpdate := clause.Locking{Strength: clause.LockingStrengthUpdate}
	var users []models.RowID
	err = tx.Model(&models.User{}).Clauses(forUpdate).Where("user_id = ?", c.User).Pluck("user_id", &users).Error
	if err != nil {
		return nil, fmt.Errorf("lock the user: %w", err)
	}
	buckets := tx.Model(&models.Bucket{}).Clauses(dialect.BucketLock()).Where("board = ?", c.Board)
	if c.Bucket != nil {
		buckets = buckets.Where("bucket = ?", *c.Bucket)
	} else {
		buckets = buckets.Where("day >= ?", c.Day)
	}
	var names []string
	if err := buckets.Order("day, bucket").Pluck("bucket", &names).Error; err != nil {
		return nil, fmt.Errorf("lock the buckets: %w", err)
	}
	if len(names) == 0 {
		return nil, nil
	}
	err = tx.Table("bucket_states").Where("board = ? AND bucket IN ? AND archived", c.Board, names).
		Order("bucket").Pluck("bucket", &archived).Error
	return archived, models.Wrap("find archived buckets", err)
}

// holding is the condition of corrections that hold and concern a bucket, whose
// parameters are board, bucket and day. UntilDay is null while a correction holds.
const holding = `board = ? AND lifted_at IS NULL AND (bucket = ? OR (bucket IS NULL AND day <= ?))`

// create stores a correction, and sets its id. pending reports whether the archive has to
// apply it. CodeCorrectionExists if another one holds.
func (s *Store) create(ctx context.Context, c *models.Correction, dryRun bool) (pending bool, err error) {
	err = s.transact(ctx, dryRun, func(tx *gorm.DB) error {
		archived, err := lock(tx, c)
		if err != nil {
			return err
		}
		ids, err := overlapping(tx, c)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			return models.Errorf(models.CodeCorrectionExists,
				"correction %d of this user's score holds: lift it first", ids[0])
		}
		pending = len(archived) > 0
		c.Hot = c.Bucket == nil || !pending
		if err := tx.Create(c).Error; err != nil {
			return fmt.Errorf("store the correction: %w", err)
		}
		return addPending(tx, c, archived)
	})
	if dryRun {
		c.ID = 0
	}
	return pending, err
}

// overlapping returns the ids of the corrections of the user that hold in a bucket which a
// correction concerns. The user's row is locked.
func overlapping(tx *gorm.DB, c *models.Correction) (ids []int64, err error) {
	others := tx.Model(&models.Correction{}).Where("user_id = ?", c.User)
	if c.Bucket != nil {
		others = others.Where(holding, c.Board, *c.Bucket, c.Day)
	} else {
		others = others.Where("board = ? AND lifted_at IS NULL AND (bucket IS NULL OR day >= ?)", c.Board, c.Day)
	}
	err = others.Order("id").Pluck("id", &ids).Error
	return ids, models.Wrap("look for other corrections", err)
}

// addPending records that a correction, or its lifting, has to be applied to archived
// buckets, and that the result of an event is outdated. The buckets' rows are locked.
func addPending(tx *gorm.DB, c *models.Correction, buckets []string) error {
	if c.Bucket != nil && len(buckets) == 0 {
		return results.MarkOutdated(tx, c.Board, *c.Bucket)
	}
	for _, bucket := range buckets {
		err := tx.Exec(`INSERT INTO pending_corrections (board, bucket, correction_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			c.Board, bucket, c.ID).Error
		if err != nil {
			return fmt.Errorf("store what is pending: %w", err)
		}
	}
	return nil
}

// daysApart is how many days after the lifting of an exclusion without a bucket begin while
// a process may not know of it: today's next bucket may exist already, and a local board is
// a day ahead.
const daysApart = 2

// lift ends a correction. It returns the correction as it is then, and whether this has
// lifted it: one that was lifted before stays as it is.
func (s *Store) lift(
	ctx context.Context, c models.Correction, l Lifting, now time.Time, today models.Date,
) (entry Entry, lifted bool, err error) {
	err = s.transact(ctx, l.DryRun, func(tx *gorm.DB) error {
		archived, err := lock(tx, &c)
		if err != nil {
			return err
		}
		if entry, err = first(tx, c.ID); err != nil {
			return err
		}
		if lifted = entry.LiftedAt == nil; !lifted {
			return nil
		}
		entry.LiftedAt, entry.LiftedBy, entry.LiftReason = &now, l.Actor, l.Reason
		if c.Bucket == nil {
			until := today + daysApart
			entry.UntilDay = &until
		}
		err = tx.Model(&entry.Correction).Select("lifted_at", "lifted_by", "lift_reason", "until_day").
			Updates(&entry.Correction).Error
		if err != nil {
			return fmt.Errorf("lift the correction: %w", err)
		}
		entry.Pending = entry.Pending || len(archived) > 0
		return addPending(tx, &entry.Correction, archived)
	})
	return entry, lifted, err
}

// entryColumns are the columns of an Entry.
const entryColumns = `b.score_order AS bucket_order, b.max_score AS bucket_max, c.id, c.board, c.bucket, c.day, c.until_day, c.user_id, c.kind, c.score, c.reached_at, c.reason, c.actor, c.message,
	c.before_score, c.before_at, c.created_at, c.lifted_at, c.lifted_by, c.lift_reason, c.hot,
	coalesce(u.external_id, '') AS external_id, coalesce(u.nickname, '') AS nickname,
	EXISTS (SELECT 1 FROM pending_corrections p WHERE p.correction_id = c.id) AS pending`

// ofBucket is the condition of bucket b that the points of correction c are of.
const ofBucket = `b.board = c.board AND b.day = c.day AND (c.bucket IS NULL OR b.bucket = c.bucket)`

// entryRow is a row of entryColumns.
type entryRow struct {
	Entry
	// BucketOrder and BucketMax are nil if there is no bucket.
	BucketOrder *models.Order
	BucketMax   *int64
}

func (r *entryRow) entry() Entry {
	if r.BucketMax != nil {
		r.setScores(&models.Bucket{Order: *r.BucketOrder, MaxScore: *r.BucketMax})
	}
	return r.Entry
}

// entries begins a query of entryRows.
func entries(db *gorm.DB) *gorm.DB {
	return db.Table("corrections AS c").Select(entryColumns).Joins("LEFT JOIN users u ON u.user_id = c.user_id").
		Joins("LEFT JOIN board_buckets b ON " + ofBucket)
}

// find returns one correction, or CodeNotFound.
func (s *Store) find(ctx context.Context, id int64) (Entry, error) {
	return first(s.reads.WithContext(ctx), id)
}

func first(db *gorm.DB, id int64) (Entry, error) {
	row, err := lists.Take[entryRow](entries(db).Where("c.id = ?", id), models.Errorf(models.CodeNotFound, "there is no correction of this id"))
	return row.entry(), err
}

// list returns a page of corrections, newest first.
func (s *Store) list(ctx context.Context, q Query) ([]Entry, error) {
	db := entries(s.reads.WithContext(ctx)).Where(&models.Correction{Board: q.Board})
	if q.User != "" {
		db = db.Where("u.external_id = ?", q.User)
	}
	if q.Day != nil {
		db = db.Where("c.day <= ? AND (c.day = ? OR (c.bucket IS NULL AND (c.until_day IS NULL OR c.until_day >= ?)))",
			*q.Day, *q.Day, *q.Day)
	}
	if q.Active {
		db = db.Where("c.lifted_at IS NULL")
	}
	rows, err := cursor.Newest[entryRow](db, "c.id", q.Before, q.Limit)
	return column.Of(rows, func(r entryRow) Entry { return r.entry() }), err
}

// hot returns the corrections that concern buckets which may be in Redis.
func (s *Store) hot(ctx context.Context) ([]models.Correction, error) {
	var all []models.Correction
	err := s.reads.WithContext(ctx).Where("hot").Order("id").Find(&all).Error
	return all, models.Wrap("read corrections", err)
}

// kind returns the kind of the correction that holds for a user and bucket; empty if
// there is none.
func (s *Store) kind(ctx context.Context, bucket *models.Bucket, user models.RowID) (kind models.CorrectionKind, err error) {
	err = s.reads.WithContext(ctx).Model(&models.Correction{}).Select("kind").Where("user_id = ?", user).
		Where(holding, bucket.Board, bucket.Name, bucket.Day).Limit(1).Scan(&kind).Error
	return kind, err
}

// reported returns what a user has reported for an archived bucket while a correction
// held; 0 for nothing.
func (s *Store) reported(ctx context.Context, bucket *models.Bucket, user models.RowID) (models.Composite, error) {
	row, err := lists.First[models.ScoreTotal](s.reads.WithContext(ctx).Table("reported_scores").Select("score, reached_at").
		Where("board = ? AND bucket = ? AND user_id = ?", bucket.Board, bucket.Name, user))
	if err != nil || row == nil {
		return 0, err
	}
	return encode(bucket, new(models.Points(row.Score)), &row.ReachedAt), nil
}

// reportedBy is reported of one user, in a list.
func (s *Store) reportedBy(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	reported, err := s.reported(ctx, bucket, users[0])
	return []models.Composite{reported}, models.Public("read reported scores", err)
}

// known returns the correction of a user's score in a bucket of a day that holds, or nil, and the
// best of what was reported that is kept with corrections, lifted ones included; 0 for nothing.
func (s *Store) known(ctx context.Context, bucket *models.Bucket, user models.RowID) (held *models.Correction, reported models.Composite, err error) {
	var all []models.Correction
	err = s.reads.WithContext(ctx).Where("user_id = ? AND board = ?", user, bucket.Board).
		Where("bucket = ? OR (bucket IS NULL AND day <= ? AND (until_day IS NULL OR until_day >= ?))", bucket.Name, bucket.Day, bucket.Day).
		Order("id").Find(&all).Error
	if err != nil {
		return nil, 0, err
	}
	if reported, err = s.reported(ctx, bucket, user); err != nil {
		return nil, 0, err
	}
	for i := range all {
		c := &all[i]
		if c.LiftedAt == nil {
			held = c
		}
		if c.Day == bucket.Day { // otherwise what was before is of another bucket
			reported = max(reported, encode(bucket, c.BeforePoints, c.BeforeAt))
		}
	}
	return held, reported, nil
}

// retire records that corrections concern no bucket any more.
func (s *Store) retire(ctx context.Context, ids []int64) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE corrections SET hot = false WHERE id IN ?`, ids).Error
	return models.Wrap("retire corrections", err)
}

// unarchived returns the buckets of boards from a day on that are not archived, by day.
func (s *Store) unarchived(ctx context.Context, boards []string, from models.Date) ([]*models.Bucket, error) {
	var buckets []*models.Bucket
	err := s.reads.WithContext(ctx).Table("bucket_states").Where("board IN ? AND day >= ? AND NOT archived", boards, from).
		Order("day, board").Find(&buckets).Error
	return buckets, models.Wrap("list buckets with corrections", err)
}

// Pending reports whether a correction of one of some buckets of a board is not in the archive yet. One query.
func Pending(tx *gorm.DB, board string, buckets []string) (bool, error) {
	if len(buckets) == 0 {
		return false, nil
	}
	var n int64
	err := tx.Raw(`SELECT count(*) FROM pending_corrections WHERE board = ? AND bucket IN ?`, board, buckets).Scan(&n).Error
	return n > 0, models.Wrap("look for pending corrections", err)
}

// countPending returns how many archived buckets have corrections to apply.
func (s *Store) countPending(ctx context.Context) (n int64, err error) {
	err = s.reads.WithContext(ctx).Raw(`SELECT count(*) FROM (SELECT DISTINCT board, bucket FROM pending_corrections) p`).Scan(&n).Error
	return n, models.Wrap("count pending corrections", err)
}

// PendingBuckets returns the archived buckets with corrections to apply, oldest first. One query.
func (s *Service) PendingBuckets(ctx context.Context) ([]*models.Bucket, error) {
	var buckets []*models.Bucket
	err := s.o.Store.reads.WithContext(ctx).
		Where(`EXISTS (SELECT 1 FROM pending_corrections p WHERE p.board = board_buckets.board AND p.bucket = board_buckets.bucket)`).
		Order("day, board").Find(&buckets).Error
	return buckets, models.Wrap("list buckets with pending corrections", err)
}
