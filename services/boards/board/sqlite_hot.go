package board

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/models"
)

// HotScores keeps what was reported for days that are not archived, in a table of SQLite: for each
// user of a day the largest composite, before corrections. It is the truth of Local. The archive
// takes from it what it has stored. What comes in batches waits in another table before
// (sqlite_batches.go), and every method but store moves it first. Safe for concurrent use.
type HotScores struct {
	db      *gorm.DB
	batches hotBatches
}

// NewHotScores returns the scores of a database, whose writes come before those of others.
func NewHotScores(db *gorm.DB) *HotScores {
	return &HotScores{db: db, batches: hotBatches{moveFrom: moveFrom}}
}

// inHotScores reports whether the scores of a bucket have their truth in HotScores. The ledger has
// the others.
func inHotScores(bucket *models.Bucket) bool { return !bucket.FromLedger && bucket.WindowHours == 0 }

// hotEntry is an entry of a bucket.
type hotEntry struct {
	bucketKey
	models.Entry
}

// compare orders entries as the table does, and those of a user by their composites, the largest first.
func (e hotEntry) compare(other hotEntry) int {
	return cmp.Or(cmp.Compare(e.board, other.board), cmp.Compare(e.name, other.name),
		cmp.Compare(e.User, other.User), cmp.Compare(other.Composite, e.Composite))
}

// sorted sorts entries, keeps the largest of each user, and returns these.
func sorted(entries []hotEntry) []hotEntry {
	slices.SortFunc(entries, hotEntry.compare)
	return slices.CompactFunc(entries, func(a, b hotEntry) bool { return a.bucketKey == b.bucketKey && a.User == b.User })
}

// eachBucket calls do with the entries of each bucket, which are sorted.
func eachBucket(entries []hotEntry, do func(bucket bucketKey, entries []hotEntry) error) error {
	for len(entries) > 0 {
		n := slices.IndexFunc(entries, func(e hotEntry) bool { return e.bucketKey != entries[0].bucketKey })
		if n < 0 {
			n = len(entries)
		}
		if err := do(entries[0].bucketKey, entries[:n]); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// A list of numbers is one argument, because SQLite parses it faster than the driver binds
// parameters. The users are the keys of one object: an array of pairs would be parsed twice.
const raiseHot = `
INSERT INTO hot_scores (board, bucket, user_id, composite)
SELECT ?, ?, CAST(key AS integer), value FROM json_each(?)
WHERE NOT EXISTS (SELECT 1 FROM erasures e WHERE e.row_id = CAST(key AS integer))
ON CONFLICT DO UPDATE SET composite = excluded.composite WHERE excluded.composite > composite`

// raiseIn raises entries, which are sorted. Users who were erased are left out, because nobody may
// see them again. One statement for each bucket.
func raiseIn(tx *gorm.DB, entries []hotEntry) error {
	return eachBucket(entries, func(bucket bucketKey, entries []hotEntry) error {
		list := []byte{'{'}
		for _, e := range entries {
			list = append(list, '"')
			list = strconv.AppendInt(list, int64(e.User), 10)
			list = append(list, '"', ':')
			list = strconv.AppendInt(list, int64(e.Composite), 10)
			list = append(list, ',')
		}
		list[len(list)-1] = '}'
		return tx.Exec(raiseHot, bucket.board, bucket.name, string(list)).Error
	})
}

// store raises what was reported for days. One transaction, which is on the disk when store
// returns.
func (h *HotScores) store(ctx context.Context, raises []models.Raise) error {
	entries := make([]hotEntry, 0, len(raises))
	for _, r := range raises {
		if inHotScores(r.Bucket) {
			entries = append(entries, hotEntry{bucketKey{r.Bucket.Board, r.Bucket.Name}, r.Entry})
		}
	}
	if len(entries) == 0 {
		return nil
	}
	write := h.add
	if entries = sorted(entries); len(entries) < batchFrom {
		write = func(ctx context.Context, entries []hotEntry) error {
			return h.transact(ctx, func(tx *gorm.DB) error { return raiseIn(tx, entries) })
		}
	}
	return models.Wrap("store scores", write(ctx, entries))
}

// transact runs the transaction of store.
func (h *HotScores) transact(ctx context.Context, fn func(tx *gorm.DB) error) error {
	err := h.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := fn(tx); err != nil {
			return err
		}
		failpoint.Hit("flush.written")
		return nil
	})
	if err == nil {
		failpoint.Hit("flush.committed")
	}
	return err
}

// composites returns what users have reported for a bucket, by position; 0 for those who have not.
// One query, after settle.
func (h *HotScores) composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	composites := make([]models.Composite, len(users))
	if !inHotScores(bucket) {
		return composites, nil
	}
	if err := h.settle(ctx); err != nil {
		return nil, err
	}
	var found []struct {
		At        int
		Composite models.Composite
	}
	err := h.db.WithContext(ctx).Raw(`SELECT u.key AS at, h.composite FROM json_each(?) u
		JOIN hot_scores h ON h.board = ? AND h.bucket = ? AND h.user_id = u.value`, lists.JSON(users), bucket.Board, bucket.Name).Scan(&found).Error
	if err != nil {
		return nil, fmt.Errorf("read hot scores: %w", err)
	}
	for _, f := range found {
		composites[f.At] = f.Composite
	}
	return composites, nil
}

// remove removes users from a bucket, and returns how many there were. One statement, after settle.
func (h *HotScores) remove(ctx context.Context, bucket *models.Bucket, users []models.RowID) (removed int64, err error) {
	if !inHotScores(bucket) {
		return 0, nil
	}
	if err := h.settle(ctx); err != nil {
		return 0, err
	}
	result := h.db.WithContext(ctx).Exec(`DELETE FROM hot_scores WHERE board = ? AND bucket = ?
		AND user_id IN (SELECT value FROM json_each(?))`, bucket.Board, bucket.Name, lists.JSON(users))
	return result.RowsAffected, models.Wrap("remove hot scores", result.Error)
}

// ForgetHot deletes from HotScores what the archive has stored of a bucket. The entries are in the
// order of users; the one of a user who has reported more meanwhile stays. One statement.
func ForgetHot(db *gorm.DB, bucket *models.Bucket, stored []models.Entry) error {
	pairs := column.Of(stored, func(e models.Entry) [2]int64 { return [2]int64{int64(e.User), int64(e.Composite)} })
	err := db.Exec(`DELETE FROM hot_scores WHERE board = ? AND bucket = ? AND user_id >= ? AND user_id <= ? AND (user_id, composite) IN (SELECT a, b FROM ?)`,
		bucket.Board, bucket.Name, pairs[0][0], pairs[len(pairs)-1][0], lists.Pairs(db, pairs)).Error
	return models.Wrap("delete archived entries", err)
}

// buckets returns the buckets with scores that are archived already, or those that are not. One
// query, after settle.
func (h *HotScores) buckets(ctx context.Context, archived bool) (buckets []*models.Bucket, err error) {
	if err := h.settle(ctx); err != nil {
		return nil, err
	}
	err = h.db.WithContext(ctx).Where(`EXISTS (SELECT 1 FROM bucket_states s
			WHERE s.board = board_buckets.board AND s.bucket = board_buckets.bucket AND s.archived = ?)
		AND EXISTS (SELECT 1 FROM hot_scores h WHERE h.board = board_buckets.board AND h.bucket = board_buckets.bucket)`, archived).
		Find(&buckets).Error
	return buckets, models.Wrap("find buckets with hot scores", err)
}

const (
	// hotPage is how many scores each reads at once.
	hotPage = 10_000
	// copyChunk is how many scores CopyTo raises at once.
	copyChunk = 1000
)

// each calls fn with the scores of a bucket, page by page in the order of users. fn must not keep
// them. One query for each hotPage.
func (h *HotScores) each(ctx context.Context, bucket *models.Bucket, fn func([]models.Entry) error) error {
	var e models.Entry
	for {
		var page []models.Entry
		query := h.db.WithContext(ctx).Raw(`SELECT user_id, composite FROM hot_scores
			WHERE board = ? AND bucket = ? AND user_id > ? ORDER BY user_id LIMIT ?`, bucket.Board, bucket.Name, e.User, hotPage)
		err := lists.Each(query, []any{&e.User, &e.Composite}, func() error {
			page = append(page, e)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read hot scores: %w", err)
		}
		if len(page) > 0 {
			if err := fn(page); err != nil {
				return err
			}
		}
		if len(page) < hotPage {
			return nil
		}
	}
}

// CopyTo raises all scores among other entries, whose rules must know the corrections: those of
// buckets that are archived as what came late, the rest as if it had been reported before they
// turned cold. progress is called with how many these were so far. A query and about ten calls for
// each hotPage. It may be repeated.
func (h *HotScores) CopyTo(ctx context.Context, to Entries, progress func(scores int)) error {
	copied := 0
	for _, archived := range []bool{false, true} {
		buckets, err := h.buckets(ctx, archived)
		if err != nil {
			return err
		}
		for _, bucket := range buckets {
			then := to
			if !archived {
				then = to.EntriesAt(bucket.StartsAt)
			}
			err := h.each(ctx, bucket, func(entries []models.Entry) error {
				for chunk := range slices.Chunk(entries, copyChunk) {
					if err := errors.Join(then.Raise(ctx, raisesOf(bucket, chunk))...); err != nil {
						return err
					}
					copied += len(chunk)
					progress(copied)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// raisesOf returns the raises of entries.
func raisesOf(bucket *models.Bucket, entries []models.Entry) []models.Raise {
	return column.Of(entries, func(e models.Entry) models.Raise { return models.Raise{Bucket: bucket, Entry: e} })
}
