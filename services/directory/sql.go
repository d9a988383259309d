package directory

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// Store keeps profiles in table users. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore makes a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// put writes a profile, making the user if need be. One statement.
func (s *Store) put(ctx context.Context, user models.UserID, p models.Profile) error {
	row := models.User{UserID: user, Nickname: p.Nickname, AvatarURL: p.AvatarURL}
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{
		Columns:   []clause.Column{{Name: "user_id"}},
		DoUpdates: clause.AssignmentColumns([]string{"nickname", "avatar_url", "updated_at"}),
	}).Create(&row).Error
	if err != nil {
		return fmt.Errorf("store profile: %w", err)
	}
	return nil
}

// profiles reads the profiles of users; one that does not exist is not in the
// answer. One query.
func (s *Store) profiles(ctx context.Context, ids []models.UserID) (map[models.UserID]models.Profile, error) {
	var rows []models.User
	err := s.db.WithContext(ctx).Select("user_id", "nickname", "avatar_url").Where("user_id IN ?", ids).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	profiles := make(map[models.UserID]models.Profile, len(rows))
	for _, row := range rows {
		profiles[row.UserID] = models.Profile{Nickname: row.Nickname, AvatarURL: row.AvatarURL}
	}
	return profiles, nil
}

// create makes users that do not exist yet, with their profiles. Users that
// exist keep theirs. One statement for every few hundred.
func (s *Store) create(ctx context.Context, rows []models.User) error {
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(rows, 200).Error
	if err != nil {
		return fmt.Errorf("create users: %w", err)
	}
	return nil
}
