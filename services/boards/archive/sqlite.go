package archive

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/boards/score"
	"stepboard/services/platform/outcomes"
)

// sqliteRows is the number of rows that one statement inserts. SQLite takes 32,766
// parameters.
const sqliteRows = 1000

// sqlite stores rows in one table. It is meant for small, short-lived boards: a
// bucket is held in memory while it is archived.
type sqlite struct {
	db     *gorm.DB
	outbox *outcomes.Outbox // may be nil
}

// sqliteScore is a row of archived_scores.
type sqliteScore struct {
	UserID    models.RowID
	Score     int64
	ReachedAt time.Time
	Rank      int64
	Day       models.Date
	Board     string
}

// TableName returns the name of the archive's table.
func (sqliteScore) TableName() string { return "archived_scores" }

// sqliteUserText is Store.userText.
const sqliteUserText = `CAST(s.user_id AS TEXT)`

func (s *sqlite) storeProgress(ctx context.Context, run *models.ArchiveRun, moved int64) {
	s.db.WithContext(ctx).Model(&models.ArchiveRun{}).
		Where("board = ? AND bucket = ? AND run = ? AND state = ?", run.Board, run.Bucket, run.Run, models.ArchiveRunning).
		Update("moved", moved)
}

// ensurePartition implements storage. One table holds every day.
func (s *sqlite) ensurePartition(context.Context, models.Date) error { return nil }

// storeRun implements storage. It reads all rows before the transaction begins,
// because the database runs one transaction at a time.
func (s *sqlite) storeRun(ctx context.Context, bucket *models.Bucket, run int, rows *rowReader, now time.Time) (stored totals, err error) {
	best := make(map[models.RowID]models.Composite)
	for {
		r, ok, err := rows.next()
		if err != nil {
			return totals{}, err
		}
		if !ok {
			break
		}
		c, err := rows.codec.Encode(r.score, r.reachedAt)
		if err != nil {
			return totals{}, err
		}
		best[r.user] = max(best[r.user], c)
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := leaveOutErased(tx, best); err != nil {
			return err
		}
		if err := s.merge(tx, bucket, best); err != nil {
			return err
		}
		if err := s.correct(tx, bucket, best); err != nil {
			return err
		}
		stored, err = s.finish(tx, bucket, run, best, rows.totals.rows, now)
		return err
	})
	return stored, err
}

// storeTotals implements storage.
func (s *sqlite) storeTotals(ctx context.Context, bucket *models.Bucket, run int, now time.Time) (moved int64, stored totals, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		best := make(map[models.RowID]models.Composite)
		if run > 1 {
			err = s.merge(tx, bucket, best)
		} else if err = s.readTotals(tx, bucket, best); err == nil {
			moved = int64(len(best))
		}
		if err != nil {
			return err
		}
		if err := s.correct(tx, bucket, best); err != nil {
			return err
		}
		stored, err = s.finish(tx, bucket, run, best, moved, now)
		return err
	})
	return moved, stored, err
}

// readTotals adds the bucket's running totals to best, without those of users who were
// erased.
func (s *sqlite) readTotals(tx *gorm.DB, bucket *models.Bucket, best map[models.RowID]models.Composite) error {
	var list []models.ScoreTotal
	if err := tx.Where("board = ? AND total = ? AND score > 0", bucket.Board, bucket.Name).Find(&list).Error; err != nil {
		return fmt.Errorf("read totals: %w", err)
	}
	for _, t := range list {
		c, err := composite(score.Of(bucket), t.Score, t.ReachedAt)
		if err != nil {
			return err
		}
		best[t.User] = c
	}
	return leaveOutErased(tx, best)
}

// finish stores the given entries, verifies them and completes the run.
func (s *sqlite) finish(tx *gorm.DB, bucket *models.Bucket, run int, best map[models.RowID]models.Composite, moved int64, now time.Time) (totals, error) {
	expected, err := s.replace(tx, bucket, best)
	if err != nil {
		return totals{}, err
	}
	stored, err := s.sum(tx, bucket)
	if err != nil {
		return totals{}, err
	}
	if stored != expected {
		return stored, fmt.Errorf("%w: read %v; the archive would hold %v", ErrVerification, expected, stored)
	}
	err = tx.Model(&models.ArchiveRun{}).Where("board = ? AND bucket = ? AND run = ?", bucket.Board, bucket.Name, run).Updates(map[string]any{
		"state": models.ArchiveComplete, "moved": moved, "entries": stored.rows, "score_sum": stored.scoreSum,
		"hash": stored.hash, "finished_at": now, "error": "",
	}).Error
	if err != nil {
		return stored, err
	}
	return stored, s.addResult(tx, bucket, stored)
}

// addResult writes the result of an archived bucket to the outbox, if it has changed.
func (s *sqlite) addResult(tx *gorm.DB, bucket *models.Bucket, stored totals) error {
	if !s.outbox.Wants(models.OutcomeBoardFinal) {
		return nil
	}
	first, err := s.rows(tx.Where("rank <= ?", results.TopEntries).Order("rank"), bucket)
	if err != nil {
		return fmt.Errorf("read the first entries: %w", err)
	}
	result := results.Result{Total: stored.rows, ScoreSum: stored.scoreSum, Top: []outcomes.TopEntry{}}
	for _, r := range first {
		result.Top = append(result.Top, outcomes.TopEntry{User: r.UserID, Score: r.Score, ReachedAt: models.TimestampOf(r.ReachedAt)})
	}
	return results.Add(s.outbox, outcomes.InGorm(tx), bucket, result)
}

func (s *sqlite) rows(db *gorm.DB, bucket *models.Bucket) ([]sqliteScore, error) {
	var rows []sqliteScore
	err := db.Where("board = ? AND day = ?", bucket.Board, bucket.Day).Find(&rows).Error
	return rows, err
}

// merge adds the bucket's archived rows to best, which holds the better entry of
// each user.
func (s *sqlite) merge(tx *gorm.DB, bucket *models.Bucket, best map[models.RowID]models.Composite) error {
	archived, err := s.rows(tx, bucket)
	if err != nil {
		return err
	}
	for _, r := range archived {
		c, err := composite(score.Of(bucket), r.Score, r.ReachedAt)
		if err != nil {
			return err
		}
		best[r.UserID] = max(best[r.UserID], c)
	}
	return nil
}

// replace deletes the bucket's rows and stores the given entries in ranking
// order. It returns the totals of the new rows.
func (s *sqlite) replace(tx *gorm.DB, bucket *models.Bucket, best map[models.RowID]models.Composite) (expected totals, err error) {
	entries := make([]models.Entry, 0, len(best))
	for user, c := range best {
		entries = append(entries, models.Entry{User: user, Composite: c})
	}
	slices.SortFunc(entries, models.Entry.Compare)
	if err := tx.Where("board = ? AND day = ?", bucket.Board, bucket.Day).Delete(&sqliteScore{}).Error; err != nil {
		return totals{}, err
	}
	codec := score.Of(bucket)
	rows := make([]sqliteScore, len(entries))
	for i, e := range entries {
		points, reachedAt := codec.Decode(e.Composite)
		expected.add(row{rank: int64(i + 1), user: e.User, score: points, reachedAt: reachedAt})
		rows[i] = sqliteScore{UserID: e.User, Score: points, ReachedAt: reachedAt.Time(), Rank: int64(i + 1), Day: bucket.Day, Board: bucket.Board}
	}
	if len(rows) == 0 {
		return expected, nil
	}
	return expected, tx.CreateInBatches(rows, sqliteRows).Error
}

func (s *sqlite) sum(tx *gorm.DB, bucket *models.Bucket) (totals, error) {
	var t totals
	rows, err := s.rows(tx, bucket)
	for _, r := range rows {
		t.add(row{rank: r.Rank, user: r.UserID, score: r.Score, reachedAt: models.TimestampOf(r.ReachedAt)})
	}
	return t, err
}

// composites implements storage.
func (s *sqlite) composites(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	index := make(map[models.RowID]int, len(users))
	for i, user := range users {
		index[user] = i
	}
	composites := make([]models.Composite, len(users))
	rows, err := s.rows(s.db.WithContext(ctx).Where("user_id IN ?", users), bucket)
	for _, r := range rows {
		if composites[index[r.UserID]], err = composite(score.Of(bucket), r.Score, r.ReachedAt); err != nil {
			return nil, err
		}
	}
	return composites, err
}

// stored implements storage. One query for each bucket.
func (s *sqlite) stored(ctx context.Context, raises []models.Raise) ([]models.Composite, error) {
	users := make(map[*models.Bucket][]models.RowID)
	for _, r := range raises {
		users[r.Bucket] = append(users[r.Bucket], r.User)
	}
	has := make(map[*models.Bucket]map[models.RowID]models.Composite, len(users))
	for bucket, ids := range users {
		composites, err := s.composites(ctx, bucket, ids)
		if err != nil {
			return nil, err
		}
		has[bucket] = make(map[models.RowID]models.Composite, len(ids))
		for i, user := range ids {
			has[bucket][user] = max(has[bucket][user], composites[i])
		}
	}
	stored := make([]models.Composite, len(raises))
	for i, r := range raises {
		stored[i] = has[r.Bucket][r.User]
	}
	return stored, nil
}

// sums implements storage. The transaction makes its reads see the same moment.
func (s *sqlite) sums(
	ctx context.Context, boardName string, users []Viewed, from, to models.Date,
) (days []SpanDay, sums map[models.RowID]models.Sum, err error) {
	sums = make(map[models.RowID]models.Sum, len(users))
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var span []struct {
			SpanDay
			Day models.Date
		}
		err := tx.Raw(`SELECT bucket, day, ends_at, archived FROM bucket_states WHERE board = ? AND day BETWEEN ? AND ?`,
			boardName, from, to).Scan(&span).Error
		if err != nil {
			return err
		}
		for _, d := range span {
			days = append(days, d.SpanDay)
			if d.Archived {
				if err := s.addDay(tx, &models.Bucket{Board: boardName, Day: d.Day, EndsAt: d.EndsAt}, users, sums); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return days, sums, err
}

// addDay adds the users' scores of an archived bucket to their sums.
func (s *sqlite) addDay(tx *gorm.DB, bucket *models.Bucket, users []Viewed, sums map[models.RowID]models.Sum) error {
	var ids []models.RowID
	for _, u := range users {
		if bucket.EndsAt.After(u.After) {
			ids = append(ids, u.User)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.rows(tx.Where("user_id IN ?", ids), bucket)
	for _, r := range rows {
		day := models.Sum{Score: r.Score, Days: 1, ReachedAt: models.TimestampOf(r.ReachedAt)}
		sums[r.UserID] = sums[r.UserID].Plus(day)
	}
	return err
}

// dropMonths implements storage. It deletes rows, as there are no partitions.
func (s *sqlite) dropMonths(ctx context.Context, before models.Date) (int, error) {
	d := s.db.WithContext(ctx).Where("day < ?", models.DateOf(monthOf(before))).Delete(&sqliteScore{})
	return int(d.RowsAffected), d.Error
}
