package directory

import (
	"context"

	"gorm.io/gorm"

	"stepboard/models"
)

// SignUp creates a user, whose id nobody has, with a nickname, or without a profile if that is empty, in the transaction tx,
// and returns the row. After the commit the caller calls SignedUp. CodeValidationFailed for a bad nickname.
func (s *Service) SignUp(tx *gorm.DB, user models.UserID, nickname string) (models.RowID, error) {
	profile, err := normalized(models.Profile{Nickname: nickname})
	if err != nil && nickname != "" {
		return 0, err
	}
	ctx, store, records := tx.Statement.Context, &Store{tx}, make(map[models.UserID]models.Record, 1)
	if _, err := store.insert(ctx, s.key, []string{string(user)}, records); err != nil {
		return 0, models.Wrap("create a user", err)
	}
	if nickname == "" {
		return records[user].Row, nil
	}
	record, err := store.put(ctx, records[user].Row, profile)
	return record.Row, models.Wrap("store a nickname", err)
}

// SignedUp counts a user that SignUp has created.
func (s *Service) SignedUp(ctx context.Context, row models.RowID) { s.noteCreated(ctx, 1, row) }
