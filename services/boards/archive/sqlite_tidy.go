package archive

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/board"
)

// tidy implements storage.
func (s *sqlite) tidy(ctx context.Context, bucket *models.Bucket) error {
	if err := s.abandon(ctx, bucket); err != nil {
		return err
	}
	if _, err := s.deleteDropped(ctx); err != nil {
		return err
	}
	return s.eachHot(ctx, bucket, func(chunk []hotEntry) (bool, error) {
		var old []models.Entry
		for _, e := range chunk {
			if !e.news {
				old = append(old, e.Entry)
			}
		}
		if len(old) == 0 {
			return true, nil
		}
		began := time.Now()
		if err := board.ForgetHot(s.db.WithContext(ctx), bucket, old); err != nil {
			return false, err
		}
		failpoint.Hit("archive_version.hot_deleted")
		return true, pause.After(ctx, began, 1)
	})
}

// news implements storage.
func (s *sqlite) news(ctx context.Context, bucket *models.Bucket) (found bool, err error) {
	err = s.eachHot(ctx, bucket, func(chunk []hotEntry) (bool, error) {
		for _, e := range chunk {
			found = found || e.news
		}
		return !found, nil
	})
	return found, err
}

// hotEntry is an entry of hot_scores.
type hotEntry struct {
	models.Entry
	// news reports whether the archive has to get it: it is larger than what the archive knows of
	// the user, who was not erased.
	news bool
}

// eachHot calls do with what hot_scores has of a bucket, in chunks in the order of users, until it
// returns false. It does nothing if the bucket has no current version.
func (s *sqlite) eachHot(ctx context.Context, bucket *models.Bucket, do func(chunk []hotEntry) (more bool, err error)) error {
	db := s.db.WithContext(ctx)
	reported, err := reportedIn(db, bucket)
	if err != nil {
		return fmt.Errorf("read reported scores: %w", err)
	}
	for after := models.RowID(0); ; {
		chunk, err := s.hotChunk(db, bucket, after, reported)
		if err != nil {
			return fmt.Errorf("read hot scores: %w", err)
		}
		if len(chunk) == 0 {
			return nil
		}
		more, err := do(chunk)
		if err != nil || !more || len(chunk) < s.sizes.chunk {
			return err
		}
		after = chunk[len(chunk)-1].User
	}
}

// hotChunk returns the first entries behind a user. What is known of a user with a correction is
// what was reported, not what the version has.
func (s *sqlite) hotChunk(
	db *gorm.DB, bucket *models.Bucket, after models.RowID, reported map[models.RowID]models.Composite,
) (chunk []hotEntry, err error) {
	query := db.Raw(`
		SELECT h.user_id, h.composite, coalesce(s.composite, 0) AS archived, e.row_id IS NOT NULL AS erased
		FROM archive_versions v
		CROSS JOIN hot_scores h ON h.board = v.board AND h.bucket = v.bucket AND h.user_id > @after
		LEFT JOIN archived_scores s ON s.version = v.version AND s.user_id = h.user_id
		LEFT JOIN erasures e ON e.row_id = h.user_id
		WHERE `+currentVersion+` ORDER BY h.user_id LIMIT @chunk`,
		map[string]any{"board": bucket.Board, "bucket": bucket.Name, "after": after, "chunk": s.sizes.chunk})
	var (
		e      hotEntry
		known  models.Composite
		erased bool
	)
	err = lists.Each(query, []any{&e.User, &e.Composite, &known, &erased}, func() error {
		if c, corrected := reported[e.User]; corrected {
			known = c
		}
		e.news = e.Composite > known && !erased
		chunk = append(chunk, e)
		return nil
	})
	return chunk, err
}

// left implements storage.
func (s *sqlite) left(ctx context.Context) (buckets []bucketKey, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT b.board, b.bucket FROM bucket_states b
		WHERE b.archived AND EXISTS (SELECT 1 FROM hot_scores h WHERE h.board = b.board AND h.bucket = b.bucket)
		UNION
		SELECT board, bucket FROM archive_versions WHERE state <> 'current'`).Scan(&buckets).Error
	return buckets, models.Wrap("list what runs have left", err)
}

// deleteDropped deletes the rows of all versions that were dropped, and returns how many they had.
func (s *sqlite) deleteDropped(ctx context.Context) (rows int, err error) {
	var dropped []int64
	err = s.db.WithContext(ctx).Raw(`SELECT version FROM archive_versions WHERE state = 'dropped' ORDER BY version`).Scan(&dropped).Error
	if err != nil {
		return 0, fmt.Errorf("list dropped versions: %w", err)
	}
	for _, version := range dropped {
		for _, key := range []struct{ table, column string }{{"archived_scores", "user_id"}, {"archived_ranks", "rank"}} {
			n, err := s.deleteRows(ctx, version, key.table, key.column)
			if err != nil {
				return rows, fmt.Errorf("delete a dropped version: %w", err)
			}
			if key.table == "archived_scores" {
				rows += n
			}
		}
		if err := s.db.WithContext(ctx).Exec(`DELETE FROM archive_versions WHERE version = ?`, version).Error; err != nil {
			return rows, fmt.Errorf("delete a dropped version: %w", err)
		}
	}
	return rows, nil
}

// deleteRows deletes the rows of a version in a table, in the order of a column, and returns their
// number.
func (s *sqlite) deleteRows(ctx context.Context, version int64, table, column string) (rows int, err error) {
	query := fmt.Sprintf(`DELETE FROM %[1]s WHERE version = ? AND %[2]s <= (
		SELECT max(%[2]s) FROM (SELECT %[2]s FROM %[1]s WHERE version = ? ORDER BY %[2]s LIMIT ?))`, table, column)
	for {
		began := time.Now()
		deleted := s.db.WithContext(ctx).Exec(query, version, version, s.sizes.delete)
		if deleted.Error != nil || deleted.RowsAffected == 0 {
			return rows, deleted.Error
		}
		rows += int(deleted.RowsAffected)
		failpoint.Hit("archive_version.chunk_deleted")
		if err := pause.After(ctx, began, 1); err != nil {
			return rows, err
		}
	}
}
