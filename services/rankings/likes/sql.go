package likes

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/failpoint"
	"stepboard/internal/lists"
	"stepboard/internal/visible"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/ranking"
)

// Store keeps likes in table likes. Safe for concurrent use.
type Store struct {
	db     *gorm.DB
	outbox *outcomes.Outbox
}

// NewStore returns a store over the database, which writes the outcomes of likes to the
// outbox. The outbox may be nil.
func NewStore(db *gorm.DB, outbox *outcomes.Outbox) *Store { return &Store{db: db, outbox: outbox} }

// shown is the condition that a viewer, its parameters, is shown the user who has given the
// like l.
var shown = visible.ToViewer("l.liked_by") + ` AND (l.liked_by = ? OR ` + visible.Exists("l.liked_by") + `)`

// give stores a like, unless it is stored. The first time it writes the outcome, if the liked
// user is shown the other one.
func (s *Store) give(ctx context.Context, like models.Like) error {
	if !s.outbox.Wants(models.OutcomeLikeGiven) {
		return store(s.db.WithContext(ctx), like, nil)
	}
	err := s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		return store(db, like, func() error { return s.announce(db, like) })
	})
	if err == nil {
		failpoint.Hit("outcomes.like_committed")
	}
	return err
}

// store stores a like, and calls first, which may be nil, if it is the first time.
func store(db *gorm.DB, like models.Like, first func() error) error {
	result := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&like)
	switch {
	case result.Error != nil:
		return fmt.Errorf("store like: %w", result.Error)
	case result.RowsAffected == 0:
		return models.Wrap("store like again", db.Model(&like).Where("withdrawn").Update("withdrawn", false).Error)
	case first != nil:
		return first()
	default:
		return nil
	}
}

// announce writes the outcome of a new like.
func (s *Store) announce(db *gorm.DB, like models.Like) error {
	var visible bool
	err := db.Raw(`SELECT count(*) > 0 FROM likes l
		WHERE l.user_id = ? AND l.day = ? AND l.board = ? AND l.liked_by = ? AND `+shown,
		like.UserID, like.Day, like.Board, like.LikedBy, like.UserID, like.UserID).Row().Scan(&visible)
	if err != nil {
		return fmt.Errorf("read who is not shown: %w", err)
	}
	if !visible {
		return nil
	}
	return s.outbox.Add(db, models.OutcomeLikeGiven, payload{
		like.Board, like.Day.String(), friends.Pair{From: like.LikedBy, To: like.UserID},
	})
}

// withdraw withdraws a like, if there is one. One statement.
func (s *Store) withdraw(ctx context.Context, like models.Like) error {
	return s.db.WithContext(ctx).Model(&like).Where("NOT withdrawn").Update("withdrawn", true).Error
}

// Counts returns the likes of users' scores on a day that a viewer is shown. Users without any
// are left out. One statement.
func (s *Store) Counts(
	ctx context.Context, board string, day models.Date, viewer models.RowID, users []models.RowID,
) (map[models.RowID]models.LikeCount, error) {
	return s.counts(ctx, `
		SELECT l.user_id, count(*) AS likes, sum(CASE WHEN l.liked_by = ? THEN 1 ELSE 0 END) > 0 AS liked
		FROM likes l
		WHERE l.user_id IN ? AND l.day = ? AND l.board = ? AND NOT l.withdrawn AND `+shown+`
		GROUP BY l.user_id`, viewer, users, day, board, viewer, viewer)
}

// OwnCounts returns the likes of users' scores on a day that each user is shown. Users without
// any are left out. One statement.
func (s *Store) OwnCounts(
	ctx context.Context, board string, day models.Date, users []models.RowID,
) (map[models.RowID]models.LikeCount, error) {
	return s.counts(ctx, `
		SELECT l.user_id, count(*) AS likes
		FROM likes l
		WHERE l.user_id IN ? AND l.day = ? AND l.board = ? AND NOT l.withdrawn
			AND (SELECT count(*) FROM not_shown n WHERE n.viewer_id = l.user_id AND n.user_id = l.liked_by) = 0
			AND `+visible.Exists("l.liked_by")+`
		GROUP BY l.user_id`, users, day, board)
}

// counts returns the rows of a query by user.
func (s *Store) counts(ctx context.Context, query string, args ...any) (map[models.RowID]models.LikeCount, error) {
	var rows []struct {
		UserID models.RowID
		models.LikeCount
	}
	if err := s.db.WithContext(ctx).Raw(query, args...).Scan(&rows).Error; err != nil {
		return nil, models.Unavailable("count likes", err)
	}
	counts := make(map[models.RowID]models.LikeCount, len(rows))
	for _, row := range rows {
		counts[row.UserID] = row.LikeCount
	}
	return counts, nil
}

// list returns those who like a score, newest first, behind a position. One query.
func (s *Store) list(
	ctx context.Context, of ranking.ShownScore, board string, after models.Cursor, limit int,
) (page []Liker, err error) {
	err = s.db.WithContext(ctx).Raw(`
		SELECT l.liked_by, u.external_id, u.nickname, u.avatar_url, l.created_at
		FROM likes l JOIN users u ON u.user_id = l.liked_by
		WHERE l.user_id = ? AND l.day = ? AND l.board = ? AND NOT l.withdrawn AND (l.created_at, l.liked_by) < (?, ?) AND `+shown+`
		ORDER BY l.created_at DESC, l.liked_by DESC LIMIT ?`,
		of.User, of.Day, board, after.Before(), after.Row, of.Viewer, of.Viewer, limit).Scan(&page).Error
	return page, err
}

// Purge deletes the likes of the days before the given one, and returns their number.
func (s *Store) Purge(ctx context.Context, before models.Date) (deleted int64, err error) {
	return s.delete(ctx, "day < ?", before)
}

// delete deletes the likes for which a condition holds. One statement for each chunk (pause.Chunks).
func (s *Store) delete(ctx context.Context, condition string, args ...any) (deleted int64, err error) {
	deleted, err = lists.Delete(ctx, s.db, "likes", "user_id, day, board, liked_by", condition, args...)
	return deleted, models.Wrap("delete likes", err)
}
