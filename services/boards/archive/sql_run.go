package archive

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/platform/outcomes"
)

// A run applies the corrections of its bucket. Everything that is known of a user is
// joined first: archived rows, what the run has read, and what was set apart. For users
// with a correction the result goes to reported_scores, and the corrected row, if any, to
// archived_scores. So a run may be repeated, and a later one keeps the correction, or
// gives back what was reported once it is lifted.

// runTables returns statements that create the temporary tables of a run: the rows that it
// moves, the best or corrected ones of all users if they have to be merged, and the
// corrections that hold. timeType is the database's type of times, and options ends each
// statement.
func runTables(timeType, options string) []string {
	entries := `(rank integer, user_id bigint, score bigint, reached_at ` + timeType + `) ` + options
	return []string{
		`CREATE TEMP TABLE archive_staging ` + entries,
		`CREATE TEMP TABLE archive_merged ` + entries,
		`CREATE TEMP TABLE archive_corrected (user_id bigint PRIMARY KEY, kind text, score bigint, reached_at ` + timeType + `) ` + options,
	}
}

// concerning is the condition of corrections that concern the bucket, also of those that
// were lifted.
const concerning = `board = @board AND (bucket = @bucket OR (bucket IS NULL AND day <= @day AND (until_day IS NULL OR until_day >= @day)))`

// bestOfUsers selects the best entry of each user in the bucket. The entries that
// corrections keep of erased users are left out, as their staged rows are; what an earlier
// run has stored of them counts.
const bestOfUsers = `
	SELECT user_id, score, reached_at
	FROM (
		SELECT user_id, score, reached_at, row_number() OVER (PARTITION BY user_id ORDER BY score DESC, reached_at) AS place
		FROM (
			SELECT user_id, score, reached_at FROM archived_scores WHERE board = @board AND day = @day
			UNION ALL
			SELECT user_id, score, reached_at FROM archive_staging
			UNION ALL
			SELECT user_id, score, reached_at FROM reported_scores WHERE board = @board AND bucket = @bucket
			UNION ALL
			SELECT user_id, before_score, before_at FROM corrections
			WHERE ` + concerning + ` AND day = @day AND before_score IS NOT NULL
				AND user_id NOT IN (SELECT row_id FROM erasures)
		) known
	) placed
	WHERE place = 1`

// existingTotals is the condition of the totals of the bucket that are archived: those of
// users who were not erased.
const existingTotals = `board = @board AND total = @bucket AND score > 0 AND user_id NOT IN (SELECT row_id FROM erasures)`

// storeRun stores what a run moves: rows, or without them the running totals of a bucket of
// the ledger, which its first run moves. It applies the corrections, verifies the result and
// completes the run, all in one transaction.
func (s *Store) storeRun(
	ctx context.Context, bucket *models.Bucket, run int, rows *rowReader, now time.Time,
) (moved int64, stored totals, err error) {
	err = s.storage.inRun(ctx, bucket, rows, func(tx *gorm.DB) (err error) {
		t := &transfer{Store: s, tx: tx, bucket: bucket}
		var staged totals
		repeats := false
		switch {
		case rows != nil:
			staged, repeats = rows.totals, rows.repeats
		case run == 1:
			if staged, err = t.stageTotals(); err != nil {
				return err
			}
		}
		if stored, err = t.store(staged, repeats); err != nil {
			return err
		}
		moved = staged.rows
		return t.complete(run, moved, stored, now)
	})
	if rows != nil {
		moved = rows.totals.rows
	}
	return moved, stored, err
}

// transfer stores what a run moves. The bucket is locked, and what the run has read is in
// archive_staging.
type transfer struct {
	*Store
	tx     *gorm.DB
	bucket *models.Bucket
}

// names holds the parameters of the statements.
func (t *transfer) names() map[string]any {
	return map[string]any{"board": t.bucket.Board, "bucket": t.bucket.Name, "day": t.bucket.Day}
}

// exec runs a statement. what says in errors what it does.
func (t *transfer) exec(what, query string) error {
	if err := t.tx.Exec(query, t.names()).Error; err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ranked returns the SQL expression of the rank of row s.
func (t *transfer) ranked() string {
	return `row_number() OVER (ORDER BY s.score DESC, s.reached_at, ` + t.userText + ` DESC)`
}

// stageTotals ranks the bucket's running totals in the staging table and compares them with
// the ledger. It deletes archived rows, which no complete run has stored.
func (t *transfer) stageTotals() (staged totals, err error) {
	err = t.exec("rank totals", `
		INSERT INTO archive_staging (rank, user_id, score, reached_at)
		SELECT `+t.ranked()+`, s.user_id, s.score, s.reached_at FROM score_totals s WHERE `+existingTotals)
	if err != nil {
		return staged, err
	}
	if staged, err = t.storage.sum(t.tx, "archive_staging"); err != nil {
		return staged, err
	}
	counted := totals{hash: staged.hash}
	err = t.tx.Raw(`SELECT count(*), coalesce(CAST(sum(score) AS bigint), 0) FROM score_totals WHERE `+existingTotals, t.names()).
		Row().Scan(&counted.rows, &counted.scoreSum)
	if err != nil {
		return staged, fmt.Errorf("sum up the ledger: %w", err)
	}
	if staged != counted {
		return staged, fmt.Errorf("%w: the ledger has %v; staged %v", ErrVerification, counted, staged)
	}
	return staged, t.exec("delete archived rows", `DELETE FROM archived_scores WHERE board = @board AND day = @day`)
}

// store stores the staged rows, whose totals are given, with corrections applied, and verifies
// the result. If repeats is false, the staged rows are ranked and have each user once. The
// bucket is locked, so an erasure that is not seen waits for the run, or finds its rows.
func (t *transfer) store(staged totals, repeats bool) (stored totals, err error) {
	err = t.exec("read corrections", `
		INSERT INTO archive_corrected (user_id, kind, score, reached_at)
		SELECT user_id, kind, score, reached_at FROM corrections WHERE lifted_at IS NULL AND `+concerning)
	if err != nil {
		return stored, err
	}
	merge, source, expected := repeats, "archive_staging", staged
	if !merge {
		err := t.tx.Raw(`
			SELECT EXISTS (SELECT 1 FROM archived_scores WHERE board = @board AND day = @day)
				OR EXISTS (SELECT 1 FROM corrections WHERE `+concerning+`)
				OR EXISTS (SELECT 1 FROM erasures e JOIN archive_staging s ON s.user_id = e.row_id)`, t.names()).Row().Scan(&merge)
		if err != nil {
			return stored, fmt.Errorf("look for rows to merge: %w", err)
		}
	}
	if merge {
		source = "archive_merged"
		if expected, err = t.merge(staged); err != nil {
			return stored, err
		}
	}
	// Rows that are stored already and equal are not touched.
	err = t.exec("store rows", `
		INSERT INTO archived_scores (board, day, user_id, score, reached_at, rank)
		SELECT @board, @day, user_id, score, reached_at, rank FROM `+source+` WHERE true
		ON CONFLICT (day, user_id, board) DO UPDATE
		SET score = excluded.score, reached_at = excluded.reached_at, rank = excluded.rank
		WHERE (archived_scores.score, archived_scores.reached_at, archived_scores.rank) <> (excluded.score, excluded.reached_at, excluded.rank)`)
	if err != nil {
		return stored, err
	}
	stored, err = t.storage.sum(t.tx, `archived_scores WHERE board = @board AND day = @day`, t.names())
	if err == nil && stored != expected {
		err = fmt.Errorf("%w: read %v; the archive would hold %v", ErrVerification, expected, stored)
	}
	return stored, err
}

// merge first verifies the staged rows against the totals read. It then leaves out users
// who were erased, keeps what users with a correction have reported, and writes the best entry
// of each user, or the corrected one, into archive_merged, with new ranks. It returns the
// totals of that table.
func (t *transfer) merge(read totals) (totals, error) {
	staged, err := t.storage.sum(t.tx, "archive_staging")
	if err != nil {
		return totals{}, err
	}
	if staged != read {
		return totals{}, fmt.Errorf("%w: read %v; staged %v", ErrVerification, read, staged)
	}
	if err := t.tx.Exec(`DELETE FROM archive_staging WHERE user_id IN (SELECT row_id FROM erasures)`).Error; err != nil {
		return totals{}, fmt.Errorf("leave out erased users: %w", err)
	}
	for _, step := range []struct{ what, query string }{
		{"store reported scores", `
			INSERT INTO reported_scores (board, bucket, user_id, score, reached_at)
			SELECT @board, @bucket, user_id, score, reached_at FROM (` + bestOfUsers + `) best
			WHERE user_id IN (SELECT user_id FROM archive_corrected)
			ON CONFLICT (board, bucket, user_id) DO UPDATE SET score = excluded.score, reached_at = excluded.reached_at`},
		{"remove excluded users", `
			DELETE FROM archived_scores WHERE board = @board AND day = @day
				AND user_id IN (SELECT user_id FROM archive_corrected WHERE kind = 'exclude')`},
		{"merge", `
			INSERT INTO archive_merged (rank, user_id, score, reached_at)
			SELECT ` + t.ranked() + `, s.user_id, s.score, s.reached_at
			FROM (
				SELECT best.user_id, coalesce(c.score, best.score) AS score, coalesce(c.reached_at, best.reached_at) AS reached_at
				FROM (` + bestOfUsers + `) best LEFT JOIN archive_corrected c ON c.user_id = best.user_id
				WHERE coalesce(c.kind, 'set') <> 'exclude'
			) s`},
	} {
		if err := t.exec(step.what, step.query); err != nil {
			return totals{}, err
		}
	}
	return t.storage.sum(t.tx, "archive_merged")
}

// complete records that the run is complete and has applied the bucket's corrections, and
// writes the bucket's result to the outbox.
func (t *transfer) complete(run int, moved int64, stored totals, now time.Time) error {
	err := t.tx.Exec(`
		UPDATE board_archives SET state = 'complete', moved = ?, entries = ?, score_sum = ?, hash = ?, finished_at = ?, error = ''
		WHERE board = ? AND bucket = ? AND run = ?`,
		moved, stored.rows, stored.scoreSum, stored.hash, now, t.bucket.Board, t.bucket.Name, run).Error
	if err != nil {
		return fmt.Errorf("complete run: %w", err)
	}
	if err := t.addResult(stored); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM reported_scores WHERE board = @board AND bucket = @bucket AND user_id NOT IN (SELECT user_id FROM archive_corrected)`,
		`DELETE FROM pending_corrections WHERE board = @board AND bucket = @bucket`,
		// An exclusion without a bucket that was lifted concerns no bucket after its last day.
		`UPDATE corrections SET hot = false
			WHERE hot AND board = @board AND (bucket = @bucket OR (bucket IS NULL AND until_day <= @day))`,
	} {
		if err := t.exec("complete corrections", statement); err != nil {
			return err
		}
	}
	failpoint.Hit("corrections.archived")
	return nil
}

// addResult writes the result of the archived bucket to the outbox, if it has changed.
func (t *transfer) addResult(stored totals) error {
	if !t.outbox.Wants(models.OutcomeBoardFinal) {
		return nil
	}
	var first []archivedScore
	err := t.tx.Where("board = ? AND day = ? AND rank <= ?", t.bucket.Board, t.bucket.Day, results.TopEntries).Order("rank").Find(&first).Error
	if err != nil {
		return fmt.Errorf("read the first entries: %w", err)
	}
	result := results.Result{Total: stored.rows, ScoreSum: stored.scoreSum, Top: []outcomes.TopEntry{}}
	for _, r := range first {
		result.Top = append(result.Top, outcomes.TopEntry{User: r.UserID, Score: r.Score, ReachedAt: models.TimestampOf(r.ReachedAt)})
	}
	return results.Add(t.outbox, outcomes.InGorm(t.tx), t.bucket, result)
}
