package archive

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// sqliteRows is the number of rows that one statement inserts. SQLite takes 32,766
// parameters.
const sqliteRows = 1000

// sqlite stores rows in one table. It is meant for small, short-lived boards: a
// bucket is held in memory while it is archived.
type sqlite struct {
	db *gorm.DB
}

// sqliteUserText is Store.userText.
const sqliteUserText = `CAST(s.user_id AS TEXT)`

func (s *sqlite) storeProgress(ctx context.Context, run *models.ArchiveRun, moved int64) {
	s.db.WithContext(ctx).Model(&models.ArchiveRun{}).
		Where("board = ? AND bucket = ? AND run = ? AND state = ?", run.Board, run.Bucket, run.Run, models.ArchiveRunning).
		Update("moved", moved)
}

// ensurePartition implements storage. One table holds every day.
func (s *sqlite) ensurePartition(context.Context, models.Date) error { return nil }

// inRun implements storage. It reads all rows before the transaction begins,
// because the database runs one transaction at a time.
func (s *sqlite) inRun(ctx context.Context, _ *models.Bucket, rows *rowReader, fn func(tx *gorm.DB) error) error {
	staged, err := readAll(rows)
	if err != nil {
		return err
	}
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		for _, statement := range runTables("datetime", "") {
			if err := tx.Exec(statement).Error; err != nil {
				return fmt.Errorf("create staging table: %w", err)
			}
		}
		if len(staged) > 0 {
			if err := tx.Table("archive_staging").Omit("Day", "Board").CreateInBatches(staged, sqliteRows).Error; err != nil {
				return fmt.Errorf("copy into staging: %w", err)
			}
		}
		if err := fn(tx); err != nil {
			return err
		}
		for _, table := range []string{"archive_staging", "archive_merged", "archive_corrected"} {
			if err := tx.Exec(`DROP TABLE ` + table).Error; err != nil {
				return fmt.Errorf("drop staging table: %w", err)
			}
		}
		return nil
	})
}

// readAll returns all rows, or none if the reader is nil.
func readAll(rows *rowReader) (list []archivedScore, err error) {
	if rows == nil {
		return nil, nil
	}
	for {
		r, ok, err := rows.next()
		if err != nil || !ok {
			return list, err
		}
		list = append(list, archivedScore{UserID: r.user, Score: r.score, ReachedAt: r.reachedAt.Time(), Rank: r.rank})
	}
}

// sum implements storage.
func (s *sqlite) sum(tx *gorm.DB, from string, args ...any) (t totals, err error) {
	var rows []archivedScore
	if err := tx.Raw(`SELECT rank, user_id, score, reached_at FROM `+from, args...).Scan(&rows).Error; err != nil {
		return totals{}, fmt.Errorf("sum up rows: %w", err)
	}
	for i := range rows {
		t.add(rows[i].row())
	}
	return t, nil
}

// row returns what a row's hash is made of.
func (r *archivedScore) row() row {
	return row{rank: r.Rank, user: r.UserID, score: r.Score, reachedAt: models.TimestampOf(r.ReachedAt)}
}

func (s *sqlite) rows(db *gorm.DB, bucket *models.Bucket) ([]archivedScore, error) {
	var rows []archivedScore
	err := db.Where("board = ? AND day = ?", bucket.Board, bucket.Day).Find(&rows).Error
	return rows, err
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
	d := s.db.WithContext(ctx).Where("day < ?", models.DateOf(monthOf(before))).Delete(&archivedScore{})
	return int(d.RowsAffected), d.Error
}
