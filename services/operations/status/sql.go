package status

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// Store keeps the tables processes, process_minutes and job_runs. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// report stores a process and runs of jobs, and removes processes last seen before a moment.
func (s *Store) report(ctx context.Context, p models.Process, jobs []models.JobRun, goneBefore time.Time) error {
	db := s.db.WithContext(ctx)
	if err := db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&p).Error; err != nil {
		return err
	}
	if err := db.Delete(&models.Process{}, "seen_at < ?", goneBefore).Error; err != nil {
		return err
	}
	return s.storeJobs(ctx, jobs)
}

// reportMinute stores a minute of a process, and removes those that began before a moment. Two
// statements.
func (s *Store) reportMinute(ctx context.Context, m models.ProcessMinute, before time.Time) error {
	db := s.db.WithContext(ctx)
	if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&m).Error; err != nil {
		return err
	}
	return db.Delete(&models.ProcessMinute{}, "minute < ?", before.Truncate(time.Minute)).Error
}

// minutes returns the minutes of all processes from one on.
func (s *Store) minutes(ctx context.Context, from time.Time) (rows []models.ProcessMinute, err error) {
	return rows, s.db.WithContext(ctx).Where("minute >= ?", from).Find(&rows).Error
}

// storeJobs stores runs of jobs. What a run leaves nil stays as it is.
func (s *Store) storeJobs(ctx context.Context, jobs []models.JobRun) error {
	if len(jobs) == 0 {
		return nil
	}
	keep := func(column string) clause.Expr {
		return gorm.Expr("COALESCE(excluded." + column + ", job_runs." + column + ")")
	}
	return s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns: []clause.Column{{Name: "name"}},
		DoUpdates: clause.Assignments(map[string]any{
			"started_at": keep("started_at"), "succeeded_at": keep("succeeded_at"), "failed_at": keep("failed_at"),
			"error": gorm.Expr("CASE WHEN excluded.failed_at IS NULL THEN job_runs.error ELSE excluded.error END"),
		}),
	}).Create(&jobs).Error
}

func (s *Store) removeProcess(ctx context.Context, id string) error {
	return s.db.WithContext(ctx).Delete(&models.Process{}, "id = ?", id).Error
}

// overview reads both tables and counts the rows of others.
func (s *Store) overview(ctx context.Context, now time.Time) (o Overview, err error) {
	db := s.db.WithContext(ctx)
	if err = db.Where("seen_at >= ?", now.Add(-goneAfter)).Order("started_at, id").Find(&o.Processes).Error; err != nil {
		return o, err
	}
	if err = db.Order("name").Find(&o.Jobs).Error; err != nil {
		return o, err
	}
	err = db.Raw(`SELECT
		(SELECT count(*) FROM board_archives WHERE state = 'failed') AS archive_failed,
		(SELECT count(*) FROM dead_letters) AS dead_letters,
		(SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting' AND target <> 'push') AS deliveries_waiting,
		(SELECT count(*) FROM webhook_deliveries WHERE finished_at IS NOT NULL AND state = 'failed' AND target <> 'push') AS deliveries_failed,
		(SELECT count(*) FROM open_reviews) AS reviews_open,
		(SELECT count(*) FROM held_scores WHERE state = 'open') AS holds_open,
		(SELECT count(DISTINCT correction_id) FROM pending_corrections) AS corrections_pending`).Scan(&o.Work).Error
	return o, err
}
