package archive

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
)

// A run applies the corrections of its bucket. Everything that is known of a user is
// joined first: archived rows, what the run has read, and what was set apart. For users
// with a correction the result goes to reported_scores, and the corrected row, if any, to
// archived_scores. So a run may be repeated, and a later one keeps the correction, or
// gives back what was reported once it is lifted.

// runTables create the temporary tables of a run: the rows that it moves, the best or corrected
// ones of all users if they have to be merged, and the corrections that hold. A connection keeps
// them, empty between transactions: making them takes longer than a run of few rows.
var runTables = []string{
	`CREATE TEMP TABLE IF NOT EXISTS archive_staging (rank integer, user_id bigint, score bigint, reached_at timestamptz) ON COMMIT DELETE ROWS`,
	`CREATE TEMP TABLE IF NOT EXISTS archive_merged (rank integer, user_id bigint, score bigint, reached_at timestamptz) ON COMMIT DELETE ROWS`,
	`CREATE TEMP TABLE IF NOT EXISTS archive_corrected (user_id bigint PRIMARY KEY, kind text, score bigint, reached_at timestamptz) ON COMMIT DELETE ROWS`,
}

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
const existingTotals = `board = @board AND total = @bucket AND user_id NOT IN (SELECT row_id FROM erasures)`

// store implements storage, in one transaction.
func (p *postgres) store(ctx context.Context, m *move, complete completion) (moved int64, stored totals, err error) {
	err = p.inRun(ctx, m, func(tx *gorm.DB) (err error) {
		t := &transfer{postgres: p, tx: tx, bucket: m.bucket}
		var staged totals
		repeats := false
		switch {
		case m.rows != nil:
			staged, repeats = m.rows.totals, m.rows.repeats
		case m.run == 1:
			if staged, err = t.stageTotals(); err != nil {
				return err
			}
		}
		if stored, err = t.store(staged, repeats); err != nil {
			return err
		}
		moved = staged.rows
		return complete(tx, moved, stored)
	})
	if m.rows != nil {
		moved = m.rows.totals.rows
	}
	return moved, stored, err
}

// transfer stores what a run moves. The bucket is locked, and what the run has read is in
// archive_staging.
type transfer struct {
	*postgres
	tx     *gorm.DB
	bucket *models.Bucket
}

// exec runs a statement. what says in errors what it does.
func (t *transfer) exec(what, query string) error {
	return models.Wrap(what, t.tx.Exec(query, namesOf(t.bucket)).Error)
}

// ranked is the SQL expression of the rank of row s.
const ranked = `row_number() OVER (ORDER BY s.score DESC, s.reached_at, ` + postgresUserText + ` DESC)`

// stageTotals ranks the bucket's running totals in the staging table and compares them with
// the ledger. It deletes archived rows, which no complete run has stored.
func (t *transfer) stageTotals() (staged totals, err error) {
	err = t.exec("rank totals", `
		INSERT INTO archive_staging (rank, user_id, score, reached_at)
		SELECT `+ranked+`, s.user_id, s.score, s.reached_at FROM score_totals s WHERE `+existingTotals)
	if err != nil {
		return staged, err
	}
	if staged, err = t.sum(t.tx, "archive_staging"); err != nil {
		return staged, err
	}
	counted := totals{hash: staged.hash}
	err = t.tx.Raw(`SELECT count(*), coalesce(CAST(sum(score) AS bigint), 0) FROM score_totals WHERE `+existingTotals, namesOf(t.bucket)).
		Row().Scan(&counted.rows, &counted.pointsSum)
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
				OR EXISTS (SELECT 1 FROM erasures e JOIN archive_staging s ON s.user_id = e.row_id)`, namesOf(t.bucket)).Row().Scan(&merge)
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
	stored, err = t.sum(t.tx, `archived_scores WHERE board = @board AND day = @day`, namesOf(t.bucket))
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
	staged, err := t.sum(t.tx, "archive_staging")
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
			SELECT ` + ranked + `, s.user_id, s.score, s.reached_at
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
	return t.sum(t.tx, "archive_merged")
}
