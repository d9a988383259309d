package notices

import (
	"context"
	"encoding/base64"

	"stepboard/models"
)

// Erase removes the subscriptions of a user who was erased, and returns their number. It may be
// repeated.
func (s *Store) Erase(ctx context.Context, user models.RowID) (removed int64, err error) {
	result := s.db.WithContext(ctx).Where("user_id = ?", user).Delete(&models.PushSubscription{})
	return result.RowsAffected, models.Wrap("erase subscriptions", result.Error)
}

// Subject returns what is stored of subscriptions. Only the user's own export has the addresses and
// keys of browsers.
func (s *Store) Subject() models.Subject {
	return models.Subject{
		Name: "subscriptions", Tables: []string{"push_subscriptions"}, Erase: s.Erase,
		Export: []models.ExportSection{
			{Name: "push_subscriptions", Each: s.each(func(p *models.PushSubscription) any {
				return map[string]any{"tell": p.Told.List(), "time_zone": p.TimeZone, "created_at": models.TimestampOf(p.CreatedAt)}
			})},
			{Name: "push_browsers", Secret: true, Each: s.each(func(p *models.PushSubscription) any {
				if p.Endpoint == nil {
					return nil
				}
				return map[string]any{
					"endpoint": p.Endpoint, "p256dh": base64.RawURLEncoding.EncodeToString(p.P256DH), "auth": base64.RawURLEncoding.EncodeToString(p.Auth),
					"created_at": models.TimestampOf(p.CreatedAt),
				}
			})},
		},
	}
}

// each returns the function of an export section with what show returns of each subscription, unless
// that is nil.
func (s *Store) each(show func(p *models.PushSubscription) any) func(context.Context, models.RowID, func(any) error) error {
	return func(ctx context.Context, user models.RowID, fn func(any) error) error {
		list, err := s.List(ctx, user)
		for i := 0; err == nil && i < len(list); i++ {
			if item := show(&list[i]); item != nil {
				err = fn(item)
			}
		}
		return err
	}
}
