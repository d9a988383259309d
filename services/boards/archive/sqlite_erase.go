package archive

import (
	"context"
	"errors"
	"slices"

	"gorm.io/gorm"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// errUnderWay reports that a run of the bucket is under way.
var errUnderWay = errors.New("a run is under way")

// toErase implements storage. Versions that were dropped lose all their rows.
func (s *sqlite) toErase(ctx context.Context, user models.RowID) (buckets []*models.Bucket, err error) {
	if _, err := s.deleteDropped(ctx); err != nil {
		return nil, err
	}
	err = s.db.WithContext(ctx).Raw(`
		SELECT `+bucketColumns+` FROM archive_versions v
		CROSS JOIN archived_scores s ON s.version = v.version AND s.user_id = ?
		JOIN board_buckets b ON b.board = v.board AND b.bucket = v.bucket
		WHERE v.state = 'current' ORDER BY b.day, b.board`, user).Scan(&buckets).Error
	return buckets, err
}

// eraseIn implements storage. A transaction for each bucket changes the user's row and those that are
// equal to it. A bucket with a run under way is left alone, as the run may have copied the row, but counts.
func (s *sqlite) eraseIn(ctx context.Context, user models.RowID, buckets []*models.Bucket, newNobody func() models.RowID) error {
	for _, bucket := range buckets {
		e := &rowErasure{bucket: bucket, user: user, fresh: newNobody()}
		if err := s.db.WithContext(ctx).Transaction(e.run); err != nil && !errors.Is(err, errUnderWay) {
			return err
		}
	}
	return nil
}

// rowErasure gives a user's row in a bucket a fresh row id.
type rowErasure struct {
	bucket      *models.Bucket
	user, fresh models.RowID
}

// run makes the changes in a transaction. Only entries that are equal to the user's may get other
// ranks, as the row id decides among them.
func (e *rowErasure) run(tx *gorm.DB) error {
	names := namesOf(e.bucket)
	// It writes before it reads, so that no run begins meanwhile.
	err := tx.Exec(`UPDATE corrections SET user_id = ?, reason = '', message = '', lift_reason = '', before_score = NULL, before_at = NULL
		WHERE board = ? AND bucket = ? AND user_id = ?`, e.fresh, e.bucket.Board, e.bucket.Name, e.user).Error
	if err != nil {
		return err
	}
	var underWay bool
	err = tx.Raw(`SELECT EXISTS (SELECT 1 FROM archive_versions WHERE board = @board AND bucket = @bucket AND state = 'building')`, names).
		Row().Scan(&underWay)
	if err != nil {
		return err
	}
	if underWay {
		return errUnderWay
	}
	err = tx.Exec(`UPDATE score_totals SET user_id = ? WHERE board = ? AND user_id = ? AND total = ?`,
		e.fresh, e.bucket.Board, e.user, e.bucket.Name).Error
	if err != nil {
		return err
	}
	var version int64
	if err := tx.Raw(`SELECT v.version FROM archive_versions v WHERE `+currentVersion, names).Scan(&version).Error; err != nil {
		return err
	}
	ties, first, err := e.ties(tx, version)
	if err != nil || len(ties) == 0 {
		return err
	}
	return e.replace(tx, version, ties, first)
}

// ties returns the entries that are equal to the user's, in the order of ranks, and the rank of the
// first of them. They follow each other, so they end at the first entry on each side that differs.
func (e *rowErasure) ties(tx *gorm.DB, version int64) (ties []models.Entry, first int64, err error) {
	names := map[string]any{"version": version, "user": e.user}
	err = tx.Raw(`
		SELECT coalesce(max((
			SELECT r.rank FROM archived_ranks r CROSS JOIN archived_scores s ON s.version = r.version AND s.user_id = r.user_id
			WHERE r.version = @version AND r.rank < own.rank AND s.composite <> own.composite ORDER BY r.rank DESC LIMIT 1)), 0) + 1
		FROM archived_scores own WHERE own.version = @version AND own.user_id = @user`, names).Row().Scan(&first)
	if err != nil {
		return nil, 0, err
	}
	names["first"] = first
	ties, err = entries(tx, `
		WITH RECURSIVE tie (rank, user_id, composite) AS (
			SELECT r.rank, r.user_id, own.composite FROM archived_ranks r, archived_scores own
			WHERE r.version = @version AND r.rank = @first AND own.version = @version AND own.user_id = @user
			UNION ALL
			SELECT r.rank, r.user_id, s.composite FROM tie
			CROSS JOIN archived_ranks r ON r.version = @version AND r.rank = tie.rank + 1
			CROSS JOIN archived_scores s ON s.version = @version AND s.user_id = r.user_id AND s.composite = tie.composite
		)
		SELECT user_id, composite FROM tie ORDER BY rank`, names)
	return ties, first, err
}

// replace writes the ties with the fresh row id, and their part in the bucket's hash.
func (e *rowErasure) replace(tx *gorm.DB, version int64, ties []models.Entry, first int64) error {
	codec, hash := score.Of(e.bucket), int64(0)
	old := make(map[models.RowID]int64, len(ties)) // ranks
	for i := range ties {
		rank := first + int64(i)
		hash ^= rowOf(codec, ties[i], rank).hash()
		if old[ties[i].User] = rank; ties[i].User == e.user {
			ties[i].User = e.fresh
		}
	}
	slices.SortFunc(ties, models.Entry.Compare)
	var users, ranks [][2]int64
	for i, tie := range ties {
		rank := first + int64(i)
		hash ^= rowOf(codec, tie, rank).hash()
		if old[tie.User] != rank {
			users, ranks = append(users, [2]int64{int64(tie.User), rank}), append(ranks, [2]int64{rank, int64(tie.User)})
		}
	}
	for _, change := range []struct {
		query string
		args  []any
	}{
		{`UPDATE archived_scores SET user_id = ? WHERE version = ? AND user_id = ?`, []any{e.fresh, version, e.user}},
		{`INSERT INTO archived_ranks (version, rank, user_id) SELECT ?, a, b FROM ? WHERE true ON CONFLICT DO UPDATE SET user_id = excluded.user_id`,
			[]any{version, lists.Pairs(tx, ranks)}},
		// Two numbers exclude each other where one of them has a bit that not both have.
		{`UPDATE board_archives SET hash = (hash | ?) - (hash & ?) WHERE board = ? AND bucket = ? AND run = (
			SELECT max(run) FROM board_archives WHERE board = ? AND bucket = ? AND state = 'complete')`,
			[]any{hash, hash, e.bucket.Board, e.bucket.Name, e.bucket.Board, e.bucket.Name}},
	} {
		if err := tx.Exec(change.query, change.args...).Error; err != nil {
			return err
		}
	}
	return setRanks(tx, version, users)
}

// runsUnderWay implements storage. A run that was cut off counts until the next one.
func (s *sqlite) runsUnderWay(ctx context.Context) (n int64, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT count(*) FROM (SELECT DISTINCT board, bucket FROM archive_versions WHERE state = 'building') AS under_way`).
		Row().Scan(&n)
	return n, models.Wrap("look for runs under way", err)
}

// exportQuery decodes composites as score.Codec does.
func (*sqlite) exportQuery() string {
	return `SELECT b.board, b.day AS date, s.composite >> b.time_bits AS score, strftime('%Y-%m-%dT%H:%M:%fZ', unixepoch(b.starts_at, 'subsec')
			+ ((1 << b.time_bits) - 1 - (s.composite & ((1 << b.time_bits) - 1))) * b.tick_ms / 1000.0, 'unixepoch') AS reached_at, s.rank, b.score_order, b.max_score
		FROM archive_versions v CROSS JOIN archived_scores s ON s.version = v.version AND s.user_id = ?
		JOIN board_buckets b ON b.board = v.board AND b.bucket = v.bucket WHERE v.state = 'current'`
}
