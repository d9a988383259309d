package notices

import (
	"context"

	"stepboard/models"
)

// Erase removes the subscriptions of a user who was erased, and returns their number. It may be
// repeated.
func (s *Store) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	result := s.db.WithContext(ctx).Where("user_id = ?", user).Delete(&models.PushSubscription{})
	return result.RowsAffected, models.Wrap("erase subscriptions", result.Error)
}

// Subject returns what is stored of subscriptions. An export has all of it.
func (s *Store) Subject() models.Subject {
	export := func(ctx context.Context, user models.RowID, fn func(item any) error) error {
		list, err := s.List(ctx, user)
		for i := 0; err == nil && i < len(list); i++ {
			p := list[i]
			err = fn(map[string]any{
				"endpoint": p.Endpoint, "p256dh": p.P256DH, "auth": p.Auth, "tell": p.Told.List(),
				"time_zone": p.TimeZone, "created_at": models.TimestampOf(p.CreatedAt),
			})
		}
		return err
	}
	return models.Subject{
		Name: "subscriptions", Tables: []string{"push_subscriptions"}, Erase: s.Erase,
		Export: []models.ExportSection{{Name: "push_subscriptions", Each: export}},
	}
}
