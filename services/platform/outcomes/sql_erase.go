package outcomes

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"stepboard/models"
)

// eraseRows is how many deliveries one query looks at.
const eraseRows = 20_000

// Erase removes the deliveries about a user who was erased, with their attempts, and the
// user from those about many people. It returns how many it has changed. It may be
// repeated. It reads all deliveries, one query for each eraseRows.
func (s *Store) Erase(ctx context.Context, user models.RowID) (changed int64, err error) {
	err = s.eachNaming(ctx, user, func(d models.Delivery, without string) error {
		changed++
		return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			if without != "" {
				return tx.Model(&models.Delivery{}).Where("id = ?", d.ID).Update("payload", without).Error
			}
			if err := tx.Where("delivery_id = ?", d.ID).Delete(&models.DeliveryAttempt{}).Error; err != nil {
				return err
			}
			return tx.Where("id = ?", d.ID).Delete(&models.Delivery{}).Error
		})
	})
	return changed, models.Wrap("erase deliveries", err)
}

// Subject returns what is stored of webhooks and notices. An export leaves out the notices to others:
// they tell what those want to be told of, and in how many browsers.
func (s *Store) Subject() models.Subject {
	export := func(ctx context.Context, user models.RowID, fn func(item any) error) error {
		return s.eachNaming(ctx, user, func(d models.Delivery, _ string) error {
			if toOther, err := s.isNoticeToOther(&d, user); toOther || err != nil {
				return err
			}
			return fn(map[string]any{"type": d.Type, "state": d.State, "created_at": models.TimestampOf(d.CreatedAt)})
		})
	}
	return models.Subject{
		Name: "webhooks", Tables: []string{"webhook_deliveries"}, Erase: s.Erase,
		Export: []models.ExportSection{{Name: "webhooks", Each: export}},
	}
}

// isNoticeToOther reports whether a delivery is a notice to another user.
func (s *Store) isNoticeToOther(d *models.Delivery, user models.RowID) (bool, error) {
	if d.SubscriptionID == nil {
		return false, nil
	}
	topic, err := s.topic(d.Type)
	if err != nil || topic.receiver == nil {
		return true, err
	}
	to, err := topic.receiver(d.Payload)
	return to != user, err
}

// eachNaming calls fn with each delivery that names a user, and with its payload without the
// user; that is empty if nothing is left then.
func (s *Store) eachNaming(
	ctx context.Context, user models.RowID, fn func(d models.Delivery, without string) error,
) error {
	var last int64
	db := s.db.WithContext(ctx)
	if err := db.Raw(`SELECT coalesce(max(id), 0) FROM webhook_deliveries`).Scan(&last).Error; err != nil {
		return err
	}
	for from := int64(0); from < last; from += eraseRows {
		var page []models.Delivery
		err := db.Where("id > ? AND id <= ? AND payload LIKE ?", from, from+eraseRows, "%"+user.String()+"%").
			Order("id").Find(&page).Error
		if err != nil {
			return err
		}
		for _, d := range page {
			topic, err := s.topic(d.Type)
			if err != nil {
				return fmt.Errorf("delivery %d: %w", d.ID, err)
			}
			without, named, err := topic.Without(d.Payload, user)
			if err != nil {
				return fmt.Errorf("delivery %d: %w", d.ID, err)
			}
			if !named {
				continue
			}
			if err := fn(d, without); err != nil {
				return err
			}
		}
	}
	return nil
}
