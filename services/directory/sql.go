package directory

import (
	"context"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// createBatch is the number of users that one statement creates.
const createBatch = 200

// Store stores profiles in table users. Safe for concurrent use.
type Store struct {
	db *gorm.DB
}

// NewStore returns a store on the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// put writes a profile, and creates the user if necessary. One statement.
func (s *Store) put(ctx context.Context, user models.RowID, p models.Profile) error {
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

// profiles returns the profiles of those users that exist. One query.
func (s *Store) profiles(ctx context.Context, ids []models.RowID) (map[models.RowID]models.Profile, error) {
	var rows []models.User
	err := s.db.WithContext(ctx).Select("user_id", "nickname", "avatar_url").Where("user_id IN ?", ids).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read profiles: %w", err)
	}
	profiles := make(map[models.RowID]models.Profile, len(rows))
	for _, row := range rows {
		profiles[row.UserID] = models.Profile{Nickname: row.Nickname, AvatarURL: row.AvatarURL}
	}
	return profiles, nil
}

// create creates users that do not exist yet. Users that exist keep their
// profiles. One statement for each createBatch users.
func (s *Store) create(ctx context.Context, rows []models.User) error {
	err := s.db.WithContext(ctx).Clauses(clause.OnConflict{DoNothing: true}).CreateInBatches(rows, createBatch).Error
	if err != nil {
		return fmt.Errorf("create users: %w", err)
	}
	return nil
}
