package archive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// A run writes all rows of the bucket anew, as a version that nobody sees:
//
//  1. It goes through the bucket in the order of users, and joins what is known of each: the row of
//     the current version, what came later, and what corrections have kept. Of users with a
//     correction the result goes to reported_scores, and the corrected entry to the version.
//  2. It ranks the rows, as many at a time as fit into its memory, and compares them with what it
//     has written before.
//  3. It reads them once more, and compares them with what it has ranked.
//  4. One transaction makes the version the current one.
//
// Entries of hot_scores stay there until then. What tidy deletes afterwards is not more than the
// version has of the user; what came meanwhile is more, stays, and makes the next run. So a run may
// be cut off anywhere: another one begins anew, and tidy deletes what it has left.

// maxBuilds is how often a run goes through the bucket at most, if corrections change meanwhile.
const maxBuilds = 3

// unranked takes the place of a rank while there is none. It is stored in as many bytes as the
// ranks of a large bucket, so that pages do not overflow when their rows are ranked.
const unranked = 1<<23 - 1

var (
	// errCorrected reports that corrections of the bucket have changed during a run.
	errCorrected = errors.New("corrections of the bucket keep changing")
	// errDropped reports that another run of the bucket has dropped the version.
	errDropped = errors.New("another run of the bucket has begun")
)

// build writes the rows of a version.
type build struct {
	*sqlite
	*move
	ctx     context.Context //nolint:containedctx // of the run
	codec   score.Codec
	version int64
	// current is the version that readers see, 0 if there is none.
	current int64
	// news returns what the run moves: up to a chunk of entries behind a user, in the order of users.
	news func(after models.RowID) ([]models.Entry, error)
	// kept is what corrections and earlier runs have kept apart.
	kept map[models.RowID]models.Composite
	held held
	// moved is the number of entries of news that were written.
	moved int64
	// written describes the rows, without ranks.
	written totals
}

// store implements storage.
func (s *sqlite) store(ctx context.Context, m *move, complete completion) (moved int64, stored totals, err error) {
	defer func() {
		if err != nil { // if this fails as well, tidy drops them
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failTimeout)
			defer cancel()
			_ = s.abandon(ctx, m.bucket)
		}
	}()
	for range maxBuilds {
		b := &build{sqlite: s, move: m, ctx: ctx, codec: score.Of(m.bucket)}
		stored, err = b.run(complete)
		moved = b.moved
		if !errors.Is(err, errCorrected) {
			break
		}
	}
	return moved, stored, err
}

// begin begins a version of the bucket.
func (s *sqlite) begin(ctx context.Context, bucket *models.Bucket) (int64, error) {
	var version int64
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return tx.Raw(`INSERT INTO archive_versions (board, bucket, state) VALUES (?, ?, 'building') RETURNING version`,
			bucket.Board, bucket.Name).Scan(&version).Error
	})
	if err == nil {
		failpoint.Hit("archive_version.begun")
	}
	return version, models.Wrap("begin a version", err)
}

// write calls fn in a transaction that changes a version which is building, and then pauses.
func (s *sqlite) write(ctx context.Context, version int64, fn func(tx *gorm.DB) error) error {
	began := time.Now()
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := building(tx, version); err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	return pause.After(ctx, began, 1)
}

// building returns an error unless a version is building. The transaction writes before it reads,
// so that nothing changes until it ends.
func building(tx *gorm.DB, version int64) error {
	found := tx.Exec(`UPDATE archive_versions SET state = 'building' WHERE version = ? AND state = 'building'`, version)
	if found.Error == nil && found.RowsAffected == 0 {
		return errDropped
	}
	return found.Error
}

// run makes the version and shows it.
func (b *build) run(complete completion) (stored totals, err error) {
	if b.version, err = b.begin(b.ctx, b.bucket); err != nil {
		return stored, err
	}
	if err := b.prepare(); err != nil {
		return stored, err
	}
	if err := b.join(); err != nil {
		return stored, fmt.Errorf("write rows: %w", err)
	}
	ranked, err := b.rank()
	if err != nil {
		return stored, fmt.Errorf("rank rows: %w", err)
	}
	if stored, err = b.verify(ranked); err != nil {
		return stored, err
	}
	failpoint.Hit("archive_version.verified")
	return stored, b.show(stored, complete)
}

// prepare reads what does not grow with the bucket.
func (b *build) prepare() (err error) {
	db := b.db.WithContext(b.ctx)
	err = db.Raw(`SELECT v.version FROM archive_versions v WHERE `+currentVersion, namesOf(b.bucket)).Scan(&b.current).Error
	if err != nil {
		return fmt.Errorf("find the current version: %w", err)
	}
	switch {
	case b.bucket.FromLedger && b.move.run > 1:
		b.news = func(models.RowID) ([]models.Entry, error) { return nil, nil }
	case b.bucket.FromLedger:
		b.news = b.totalsBehind
	default:
		b.news = b.hotBehind
	}
	if b.held, err = heldIn(db, b.bucket); err != nil {
		return err
	}
	if b.kept, err = reportedIn(db, b.bucket); err != nil {
		return fmt.Errorf("read reported scores: %w", err)
	}
	err = addScores(b.kept, b.bucket, db.Raw(`
		SELECT s.user_id, s.before_score AS score, s.before_at AS reached_at FROM corrections s
		WHERE `+concerning+` AND day = @day AND before_score IS NOT NULL AND `+notErased, namesOf(b.bucket)))
	return models.Wrap("read scores from before corrections", err)
}

// notErased is the condition of rows s of users who were not erased.
const notErased = `s.user_id NOT IN (SELECT row_id FROM erasures)`

// former returns rows of the current version, as news returns entries.
func (b *build) former(after models.RowID) ([]models.Entry, error) {
	return entries(b.db.WithContext(b.ctx), `SELECT user_id, composite FROM archived_scores
		WHERE version = ? AND user_id > ? ORDER BY user_id LIMIT ?`, b.current, after, b.sizes.chunk)
}

// hotBehind returns what hot_scores has.
func (b *build) hotBehind(after models.RowID) ([]models.Entry, error) {
	return entries(b.db.WithContext(b.ctx), `SELECT s.user_id, s.composite FROM hot_scores s
		WHERE s.board = ? AND s.bucket = ? AND s.user_id > ? AND `+notErased+` ORDER BY s.user_id LIMIT ?`,
		b.bucket.Board, b.bucket.Name, after, b.sizes.chunk)
}

// totalsBehind returns running totals.
func (b *build) totalsBehind(after models.RowID) ([]models.Entry, error) {
	return scores(b.bucket, b.db.WithContext(b.ctx).Raw(`SELECT s.user_id, s.score, s.reached_at FROM score_totals s
		WHERE s.board = ? AND s.total = ? AND s.user_id > ? AND `+notErased+` ORDER BY s.user_id LIMIT ?`,
		b.bucket.Board, b.bucket.Name, after, b.sizes.chunk))
}

// join writes the rows in the order of users.
func (b *build) join() error {
	for after, reports := models.RowID(0), b.progressEvery; ; {
		best, last, err := b.next(after)
		if err != nil || len(best) == 0 {
			return err
		}
		rows, reported := b.corrected(best)
		err = b.write(b.ctx, b.version, func(tx *gorm.DB) error {
			if err := keepReported(tx, b.bucket, b.codec, reported); err != nil {
				return err
			}
			return tx.Exec(`INSERT INTO archived_scores (version, user_id, composite, rank) SELECT ?, a, b, ? FROM ?`,
				b.version, unranked, lists.Pairs(tx, rows)).Error
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			b.written.add(rowOf(b.codec, models.Entry{User: models.RowID(r[0]), Composite: models.Composite(r[1])}, 0))
		}
		failpoint.Hit("archive_version.chunk_written")
		if after = last; b.moved >= reports {
			b.progress(b.moved)
			reports = b.moved + b.progressEvery
		}
	}
}

// next returns the best entries of the first users behind one, up to a chunk, and the last of these
// users. Each source has the entries of these users among the first that it returns.
func (b *build) next(after models.RowID) (best map[models.RowID]models.Composite, last models.RowID, err error) {
	former, err := b.former(after)
	if err != nil {
		return nil, 0, err
	}
	news, err := b.news(after)
	if err != nil {
		return nil, 0, err
	}
	best = make(map[models.RowID]models.Composite)
	for _, e := range slices.Concat(former, news) {
		best[e.User] = max(best[e.User], e.Composite)
	}
	for user, c := range b.kept {
		if user > after {
			best[user] = max(best[user], c)
		}
	}
	users := usersOf(best)
	if len(users) > b.sizes.chunk {
		users = users[:b.sizes.chunk]
	}
	if len(users) == 0 {
		return nil, 0, nil
	}
	last = users[len(users)-1]
	maps.DeleteFunc(best, func(user models.RowID, _ models.Composite) bool { return user > last })
	for _, e := range news {
		if e.User <= last {
			b.moved++
		}
	}
	return best, last, nil
}

// corrected returns the rows of users whose best entries are given, in the order of users, and what
// those of them who have a correction have reported.
func (b *build) corrected(best map[models.RowID]models.Composite) (rows [][2]int64, reported []models.Entry) {
	for _, user := range usersOf(best) {
		c := best[user]
		if set, corrected := b.held[user]; corrected {
			reported = append(reported, models.Entry{User: user, Composite: c})
			c = set
		}
		if c > 0 {
			rows = append(rows, [2]int64{int64(user), int64(c)})
		}
	}
	return rows, reported
}

// keepReported stores what users with a correction have reported. It is all that is known of them.
func keepReported(tx *gorm.DB, bucket *models.Bucket, codec score.Codec, reported []models.Entry) error {
	for _, e := range reported {
		points, reachedAt := codec.Decode(e.Composite)
		err := tx.Exec(`INSERT INTO reported_scores (board, bucket, user_id, score, reached_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (board, bucket, user_id) DO UPDATE SET score = excluded.score, reached_at = excluded.reached_at`,
			bucket.Board, bucket.Name, e.User, points, reachedAt.Time()).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// show makes the version the current one, unless corrections have changed since it was begun.
func (b *build) show(stored totals, complete completion) error {
	return b.db.WithContext(b.ctx).Transaction(func(tx *gorm.DB) error {
		if err := building(tx, b.version); err != nil {
			return err
		}
		now, err := heldIn(tx, b.bucket)
		if err != nil {
			return err
		}
		if !maps.Equal(now, b.held) {
			err := tx.Exec(`UPDATE archive_versions SET state = 'dropped' WHERE version = ?`, b.version).Error
			return errors.Join(err, errCorrected)
		}
		for _, step := range []struct {
			query string
			args  []any
		}{
			{`UPDATE archive_versions SET state = 'dropped' WHERE board = ? AND bucket = ? AND state = 'current'`, []any{b.bucket.Board, b.bucket.Name}},
			{`UPDATE archive_versions SET state = 'current' WHERE version = ?`, []any{b.version}},
		} {
			if err := tx.Exec(step.query, step.args...).Error; err != nil {
				return fmt.Errorf("show the version: %w", err)
			}
		}
		if err := complete(tx, b.moved, stored); err != nil {
			return err
		}
		failpoint.Hit("archive_version.shown")
		return nil
	})
}

// abandon drops the versions of a bucket that are building.
func (s *sqlite) abandon(ctx context.Context, bucket *models.Bucket) error {
	err := s.db.WithContext(ctx).Exec(`UPDATE archive_versions SET state = 'dropped' WHERE board = ? AND bucket = ? AND state = 'building'`,
		bucket.Board, bucket.Name).Error
	return models.Wrap("drop what was begun", err)
}
