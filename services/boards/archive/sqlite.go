package archive

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"stepboard/internal/column"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/boards/score"
)

// sqlite stores the rows of an archived bucket as a version of it. Whatever writes many rows does
// so in short transactions, because all writers share one connection, and reads without holding
// one open: a reader that takes long keeps the write-ahead log from being used again.
type sqlite struct {
	db, reads, reports *gorm.DB // those of Store
	sizes              sizes
}

// sizes bound what is read and written at a time, in rows.
type sizes struct {
	chunk  int // of one transaction of a run
	delete int // of one transaction that deletes
	page   int // of one query
	window int // that are ranked at a time, which takes about 40 bytes for each
}

var defaultSizes = sizes{chunk: 500, delete: 2000, page: 10_000, window: 200_000}

// sqliteUserText is the row id of row s as text, which orders equal entries.
const sqliteUserText = `CAST(s.user_id AS TEXT)`

// currentVersion is the condition of the version that readers see. Its parameters are board and
// bucket.
const currentVersion = `v.board = @board AND v.bucket = @bucket AND v.state = 'current'`

// ensurePartition implements storage. One table holds every day.
func (s *sqlite) ensurePartition(context.Context, models.Date) error { return nil }

// entries returns the rows of a query whose columns are user and composite.
func entries(db *gorm.DB, query string, args ...any) (list []models.Entry, err error) {
	var e models.Entry
	err = lists.Each(db.Raw(query, args...), []any{&e.User, &e.Composite}, func() error {
		list = append(list, e)
		return nil
	})
	return list, err
}

// composites implements storage.
func (s *sqlite) composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	var (
		at        int
		composite models.Composite
	)
	composites := make([]models.Composite, len(users))
	query := s.reads.WithContext(ctx).Raw(`
		SELECT u.key, s.composite FROM archive_versions v
		CROSS JOIN json_each(@ids) u CROSS JOIN archived_scores s ON s.version = v.version AND s.user_id = u.value
		WHERE `+currentVersion, map[string]any{"board": bucket.Board, "bucket": bucket.Name, "ids": lists.JSON(users)})
	err := lists.Each(query, []any{&at, &composite}, func() error {
		composites[at] = composite
		return nil
	})
	return composites, err
}

// stored implements storage. One query for each bucket.
func (s *sqlite) stored(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	positions := make(map[*models.Bucket][]int)
	for i, r := range raises {
		positions[r.Bucket] = append(positions[r.Bucket], i)
	}
	stored := make([]models.Composite, len(raises))
	for bucket, at := range positions {
		users := column.Of(at, func(position int) models.RowID { return raises[position].User })
		composites, err := s.composites(ctx, bucket, users)
		if err != nil {
			return nil, err
		}
		for i, position := range at {
			stored[position] = composites[i]
		}
	}
	return stored, nil
}

// sqliteWindowQuery is the windowQuery of versions. %[1]s is the condition sqliteAhead.
const sqliteWindowQuery = `
	WITH RECURSIVE bucket (version, total) AS (
		SELECT v.version, (SELECT coalesce(max(r.rank), 0) FROM archived_ranks r WHERE r.version = v.version)
		FROM archive_versions v WHERE ` + currentVersion + `
	), search (low, high) AS (
		SELECT 0, total FROM bucket
		UNION ALL
		SELECT CASE WHEN %[1]s THEN r.rank ELSE low END, CASE WHEN %[1]s THEN high ELSE r.rank - 1 END
		FROM search CROSS JOIN bucket CROSS JOIN archived_ranks r ON r.version = bucket.version AND r.rank = (low + high) / 2 + 1
		CROSS JOIN archived_scores s ON s.version = r.version AND s.user_id = r.user_id
		WHERE low < high
	), boundary (before) AS (
		SELECT max(low) FROM search
	)
	SELECT total, before, coalesce(r.rank, 0) AS rank, coalesce(s.user_id, 0) AS user_id, coalesce(s.composite, 0) AS composite
	FROM bucket CROSS JOIN boundary
	LEFT JOIN archived_ranks r ON r.version = bucket.version AND r.rank > before - @back AND r.rank <= before + @forward
	LEFT JOIN archived_scores s ON s.version = r.version AND s.user_id = r.user_id
	ORDER BY r.rank`

// sqliteAhead is true for a row that ranks before the position.
const sqliteAhead = `(s.composite > @composite OR (s.composite = @composite AND ` + sqliteUserText + ` > @user))`

// window implements storage.
func (s *sqlite) window(db *gorm.DB, bucket *models.Bucket, at models.Entry, back, forward int) (rows []windowRow, err error) {
	err = db.Raw(fmt.Sprintf(sqliteWindowQuery, sqliteAhead), map[string]any{
		"board": bucket.Board, "bucket": bucket.Name, "composite": at.Composite, "user": at.User.String(), "back": back, "forward": forward,
	}).Scan(&rows).Error
	return rows, err
}

// rowOf returns the row of an entry.
func rowOf(codec score.Codec, e models.Entry, rank int64) row {
	points, reachedAt := codec.Decode(e.Composite)
	return row{rank: rank, user: e.User, points: points, reachedAt: reachedAt}
}

// dayOf implements storage.
func (s *sqlite) dayOf() (columns, join string) {
	return `s.composite, s.rank`, `
		LEFT JOIN archive_versions v ON v.board = b.board AND v.bucket = b.bucket AND v.state = 'current'
		LEFT JOIN archived_scores s ON s.version = v.version AND s.user_id = @user`
}

// sums implements storage. One query lists the days and reads their rows, so that it sees all of
// them at the same moment.
func (s *sqlite) sums(
	ctx context.Context, boardName string, users []Viewed, from, to models.Date,
) (days []SpanDay, sums map[models.RowID]models.Sum, err error) {
	after, ids := make(map[models.RowID]Viewed, len(users)), make([]models.RowID, len(users))
	for i, u := range users {
		after[u.User], ids[i] = u, u.User
	}
	db := s.reports.WithContext(ctx)
	query := db.Raw(`
		SELECT b.bucket, b.starts_at, b.ends_at, b.tick_ms, b.time_bits, b.archived, coalesce(s.user_id, 0) AS user_id, coalesce(s.composite, 0) AS composite
		FROM bucket_states b
		LEFT JOIN archive_versions v ON v.board = b.board AND v.bucket = b.bucket AND v.state = 'current'
		LEFT JOIN archived_scores s ON s.version = v.version AND s.user_id @ids
		WHERE b.board = @board AND b.day BETWEEN @from AND @to
		ORDER BY b.day, b.bucket`, map[string]any{"board": boardName, "from": from, "to": to, "ids": lists.Is(db, ids)})
	var (
		day   SpanDay
		b     models.Bucket
		entry models.Entry
	)
	columns := []any{&day.Bucket, &b.StartsAt, &day.EndsAt, &b.TickMS, &b.TimeBits, &day.Archived, &entry.User, &entry.Composite}
	sums = make(map[models.RowID]models.Sum, len(users))
	err = lists.Each(query, columns, func() error {
		if len(days) == 0 || days[len(days)-1].Bucket != day.Bucket {
			days = append(days, day)
		}
		if entry.User != 0 && day.EndsAt.After(after[entry.User].After) {
			r := rowOf(score.Of(&b), entry, 0)
			sums[entry.User] = sums[entry.User].Plus(models.Sum{Score: int64(r.points), Days: 1, ReachedAt: r.reachedAt})
		}
		return nil
	})
	return days, sums, err
}

// dropMonths implements storage. It drops the versions of the months at once, and then deletes
// their rows.
func (s *sqlite) dropMonths(ctx context.Context, before models.Date) (int, error) {
	err := s.db.WithContext(ctx).Exec(`
		UPDATE archive_versions SET state = 'dropped' WHERE state = 'current' AND (board, bucket) IN (
			SELECT board, bucket FROM board_buckets WHERE day < ?)`, models.DateOf(monthOf(before))).Error
	if err != nil {
		return 0, fmt.Errorf("drop months: %w", err)
	}
	return s.deleteDropped(ctx)
}

// held is a correction that holds: the entry that it sets, or 0 if it excludes the user.
type held map[models.RowID]models.Composite

// heldIn reads the corrections that hold in a bucket.
func heldIn(db *gorm.DB, bucket *models.Bucket) (held, error) {
	var rows []models.Correction
	err := db.Raw(`SELECT user_id, kind, score, reached_at FROM corrections WHERE lifted_at IS NULL AND `+concerning, namesOf(bucket)).
		Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read corrections: %w", err)
	}
	h := make(held, len(rows))
	for _, c := range rows {
		h[c.User] = 0
		if c.Kind == models.CorrectionSet {
			if h[c.User], err = composite(score.Of(bucket), *c.Points, *c.ReachedAt); err != nil {
				return nil, fmt.Errorf("correction of a score: %w", err)
			}
		}
	}
	return h, nil
}

// reportedIn reads what users with a correction have reported, as far as runs have kept it.
func reportedIn(db *gorm.DB, bucket *models.Bucket) (map[models.RowID]models.Composite, error) {
	reported := make(map[models.RowID]models.Composite)
	return reported, addScores(reported, bucket, db.Raw(
		`SELECT user_id, score, reached_at FROM reported_scores WHERE board = @board AND bucket = @bucket`, namesOf(bucket)))
}

// addScores adds the rows of a query whose columns are user_id, score and reached_at, unless the
// map has a larger composite of the user.
func addScores(to map[models.RowID]models.Composite, bucket *models.Bucket, query *gorm.DB) error {
	list, err := scores(bucket, query)
	for _, e := range list {
		to[e.User] = max(to[e.User], e.Composite)
	}
	return err
}

// scores returns the rows of a query whose columns are user_id, score and reached_at.
func scores(bucket *models.Bucket, query *gorm.DB) ([]models.Entry, error) {
	var rows []models.ScoreTotal
	if err := query.Scan(&rows).Error; err != nil {
		return nil, err
	}
	list := make([]models.Entry, len(rows))
	for i, r := range rows {
		c, err := composite(score.Of(bucket), models.Points(r.Score), r.ReachedAt)
		if err != nil {
			return nil, err
		}
		list[i] = models.Entry{User: r.User, Composite: c}
	}
	return list, nil
}

// usersOf returns the keys, ascending.
func usersOf[V any](m map[models.RowID]V) []models.RowID { return slices.Sorted(maps.Keys(m)) }
