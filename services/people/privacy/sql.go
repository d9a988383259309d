package privacy

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/keys"
	"stepboard/internal/lists"
	"stepboard/models"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
)

// Store keeps choices in table privacy_choices and in users.hidden. Safe for concurrent
// use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// hidden reports whether a user hides from everybody.
func (s *Store) hidden(ctx context.Context, user models.RowID) (bool, error) {
	var hidden bool
	err := s.db.WithContext(ctx).Raw(`SELECT hidden FROM users WHERE user_id = ?`, user).Scan(&hidden).Error
	return hidden, models.Wrap("read whether a user is hidden", err)
}

// setHidden stores whether a user, whose row is locked, hides from everybody, and reports
// whether that is a change. CodeRateLimited if it is one more than perHour in the hour that began
// with the first one; 0 means no limit.
func setHidden(tx *gorm.DB, user models.RowID, hidden bool, perHour int) (changed bool, err error) {
	var stored models.User
	err = tx.Select("hidden", "hidings", "hidings_until").Where("user_id = ?", user).Take(&stored).Error
	if err != nil {
		return false, fmt.Errorf("read whether a user is hidden: %w", err)
	}
	if stored.Hidden == hidden {
		return false, nil
	}
	now := tx.NowFunc()
	if stored.HidingsUntil == nil || !now.Before(*stored.HidingsUntil) {
		until := now.Add(time.Hour)
		stored.Hidings, stored.HidingsUntil = 0, &until
	}
	if perHour > 0 && stored.Hidings >= perHour {
		return false, &models.Error{
			Code: models.CodeRateLimited, Wait: stored.HidingsUntil.Sub(now),
			Message: "this user hides and is shown again too often; wait as long as Retry-After says",
		}
	}
	return true, directory.SetHidden(tx, user, hidden, stored.Hidings+1, *stored.HidingsUntil)
}

// notShownOf returns for each of some viewers the users who are not shown to them because of a
// choice of either; viewers without any are left out. One query.
func (s *Store) notShownOf(ctx context.Context, viewers []models.RowID) (map[models.RowID][]models.RowID, error) {
	return lists.Grouped[models.RowID, models.RowID](s.db.WithContext(ctx),
		`SELECT DISTINCT viewer_id, user_id FROM not_shown WHERE viewer_id IN ?`, viewers)
}

// Apart is a viewer, and a user who is not shown to the viewer because of a choice of either.
type Apart struct{ ViewerID, UserID models.RowID }

// Apart returns which of the users are not shown to which of the viewers because of a choice of
// either. One query. CodeUnavailable if SQL is away.
func (s *Store) Apart(ctx context.Context, viewers, users []models.RowID) (map[Apart]bool, error) {
	var rows []Apart
	err := s.db.WithContext(ctx).Raw(`SELECT viewer_id, user_id FROM not_shown WHERE viewer_id IN ? AND user_id IN ?`, viewers, users).
		Scan(&rows).Error
	if err != nil {
		return nil, models.Unavailable("read who is not shown", err)
	}
	apart := make(map[Apart]bool, len(rows))
	for _, row := range rows {
		apart[row] = true
	}
	return apart, nil
}

// List returns a page of a user's choices of one kind, ordered by row, behind the given
// row. A user that does not exist has none. One query.
func (s *Service) List(
	ctx context.Context, user models.UserID, kind models.ChoiceKind, after models.RowID, limit int,
) ([]Choice, error) {
	row, err := s.directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	var page []Choice
	err = s.store.db.WithContext(ctx).Raw(`
		SELECT c.other_id, u.external_id, c.created_at,
			CASE WHEN f.user_id IS NULL THEN c.nickname ELSE u.nickname END AS nickname,
			CASE WHEN f.user_id IS NULL THEN c.avatar_url ELSE u.avatar_url END AS avatar_url
		FROM privacy_choices c JOIN users u ON u.user_id = c.other_id
		LEFT JOIN friendships f ON f.user_id = c.user_id AND f.friend_id = c.other_id
		WHERE c.user_id = ? AND c.kind = ? AND c.other_id > ?
		ORDER BY c.other_id LIMIT ?`, row, kind, after, limit).Scan(&page).Error
	return page, models.Public("list privacy choices", err)
}

// choose stores a choice, unless it is stored, with the other's profile if the user may see it.
// The user is locked. CodeChoiceLimit if it is one too many.
func choose(tx *gorm.DB, choice models.PrivacyChoice, known bool) error {
	choice.CreatedAt = tx.NowFunc()
	var count, stored int64
	err := tx.Raw(`SELECT count(*), coalesce(sum(CASE WHEN other_id = ? THEN 1 ELSE 0 END), 0)
		FROM privacy_choices WHERE user_id = ? AND kind = ?`, choice.OtherID, choice.UserID, choice.Kind).
		Row().Scan(&count, &stored)
	if err != nil {
		return fmt.Errorf("count privacy choices: %w", err)
	}
	if stored > 0 {
		return nil
	}
	if count >= models.MaxChoices {
		return models.Errorf(models.CodeChoiceLimit, "a list has at most %d people: remove some of them first", models.MaxChoices)
	}
	if known {
		err := tx.Raw(`SELECT nickname, avatar_url FROM users WHERE user_id = ?`, choice.OtherID).
			Row().Scan(&choice.Nickname, &choice.AvatarURL)
		if err != nil {
			return fmt.Errorf("read a profile: %w", err)
		}
	}
	return models.Wrap("store privacy choice", tx.Create(&choice).Error)
}

// groupsOf returns the sets of members of the groups of a user, whose row is locked, so
// that these do not change.
func groupsOf(tx *gorm.DB, user models.RowID) ([]cache.Set, error) {
	var groups []models.GroupRow
	err := tx.Raw(`SELECT group_id FROM group_members WHERE user_id = ?`, user).Scan(&groups).Error
	return cache.SetsOf(keys.Groups, groups), models.Wrap("read groups", err)
}

// undo removes a choice.
func undo(tx *gorm.DB, choice models.PrivacyChoice) error {
	return models.Wrap("remove privacy choice", tx.Delete(&choice).Error)
}
