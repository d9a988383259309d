package status

import (
	"context"

	"gorm.io/gorm"

	"stepboard/internal/column"
	"stepboard/internal/lists"
	"stepboard/models"
)

// buckets reads a page of a board's buckets, newest first, and what other tables say about
// them. Four queries.
func (s *Store) buckets(ctx context.Context, q BucketQuery) (*bucketFacts, error) {
	db := s.db.WithContext(ctx)
	days := db.Where("board = ? AND day >= ?", q.Board, *q.From)
	if q.To != nil {
		days = days.Where("day <= ?", *q.To)
	}
	f := &bucketFacts{runs: make(map[string][]models.ArchiveRun)}
	if err := days.Order("day DESC").Limit(q.Limit).Find(&f.buckets).Error; err != nil || len(f.buckets) == 0 {
		return f, err
	}
	names := column.Of(f.buckets, func(b *models.Bucket) string { return b.Name })
	of := func() *gorm.DB { return db.Where("board = ? AND bucket IN ?", q.Board, names) }
	var runs []models.ArchiveRun
	if err := of().Order("run").Find(&runs).Error; err != nil {
		return nil, err
	}
	for _, run := range runs {
		f.runs[run.Bucket] = append(f.runs[run.Bucket], run)
	}
	var err error
	if f.revisions, err = lists.ByKey[string, int](of().Table("board_results").Select("bucket", "revision")); err != nil {
		return nil, err
	}
	return f, s.countCorrections(ctx, f, q.Board, names)
}

// countCorrections counts the corrections that hold, of buckets and of days without end.
func (s *Store) countCorrections(ctx context.Context, f *bucketFacts, board string, buckets []string) error {
	f.corrected, f.excluded = make(map[string]int64), make(map[models.Date]int64)
	var rows []struct {
		Bucket *string
		Day    models.Date
		N      int64
	}
	err := s.db.WithContext(ctx).Model(&models.Correction{}).Select("bucket", "day", "count(*) AS n").
		Where("board = ? AND lifted_at IS NULL AND (bucket IN ? OR bucket IS NULL)", board, buckets).
		Group("bucket, day").Scan(&rows).Error
	for _, row := range rows {
		if row.Bucket != nil {
			f.corrected[*row.Bucket] += row.N
		} else {
			f.excluded[row.Day] += row.N
		}
	}
	return err
}
