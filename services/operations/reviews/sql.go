package reviews

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/platform/cursor"
)

// Store stores reviews in the table reviews. Safe for concurrent use. Its errors are
// CodeUnavailable.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// seen returns the highest score of each of the users that has a review in a bucket.
// Reviews that were dismissed before the given time don't count. One query.
func (s *Store) seen(
	ctx context.Context, bucket *models.Bucket, users []models.RowID, dismissedSince time.Time,
) (map[models.RowID]int64, error) {
	seen, err := lists.ByKey[models.RowID, int64](s.db.WithContext(ctx).Model(&models.Review{}).Select("user_id", "MAX(score)").
		Where("board = ? AND bucket = ? AND user_id IN ?", bucket.Board, bucket.Name, users).
		Where("dismissed_at IS NULL OR dismissed_at >= ?", dismissedSince.UTC()).Group("user_id"))
	return seen, models.Public("read reviews", err)
}

// raise makes open reviews, and raises those that are open already and have a lower
// score. No user may occur twice. One statement.
func (s *Store) raise(ctx context.Context, found []models.Review) error {
	if len(found) == 0 {
		return nil
	}
	open := clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "dismissed_at IS NULL"}}}
	higher := clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "reviews.score < excluded.score"}}}
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns:     []clause.Column{{Name: "board"}, {Name: "bucket"}, {Name: "user_id"}},
		TargetWhere: open, Where: higher, DoUpdates: clause.AssignmentColumns([]string{"score", "reached_at"}),
	}).Create(&found).Error
	return models.Public("store reviews", err)
}

// List returns a page of the reviews to look at. An open review whose score is corrected is
// left out while the correction holds. One query, and the lookup of the users.
func (s *Service) List(ctx context.Context, q Query) ([]models.Review, error) {
	db := s.store.db.WithContext(ctx).Table("open_reviews").Where(&models.Review{Board: q.Board})
	if q.User != "" {
		db = db.Where("user_id = (SELECT u.user_id FROM users u WHERE u.external_id = ?)", q.User)
	}
	page, err := cursor.Newest[models.Review](db, "id", q.Before, q.Limit)
	if err != nil {
		return nil, models.Unavailable("list reviews", err)
	}
	return page, s.setUsers(ctx, page)
}

// find returns one review, or CodeNotFound.
func (s *Store) find(ctx context.Context, id int64) (models.Review, error) {
	review, err := lists.Take[models.Review](s.db.WithContext(ctx).Where("id = ?", id),
		models.Errorf(models.CodeNotFound, "there is no review of this id"))
	return review, models.Public("read a review", err)
}

// dismiss stores the dismissal of a review, unless it was dismissed meanwhile.
func (s *Store) dismiss(ctx context.Context, dismissed models.Review) error {
	err := s.db.WithContext(ctx).Model(&models.Review{}).Where("id = ? AND dismissed_at IS NULL", dismissed.ID).
		Select("score", "dismissed_at", "dismissed_by", "dismiss_reason").Updates(dismissed).Error
	return models.Public("dismiss a review", err)
}

// open returns the number of reviews to look at of each board that has any. One query.
func (s *Store) open(ctx context.Context) (map[string]int64, error) {
	open, err := lists.ByKey[string, int64](s.db.WithContext(ctx).Table("open_reviews").Select("board", "COUNT(*)").Group("board"))
	return open, models.Public("count reviews", err)
}
