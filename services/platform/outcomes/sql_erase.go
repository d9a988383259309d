package outcomes

import (
	"context"
	"encoding/json"
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
	if err != nil {
		return changed, fmt.Errorf("erase deliveries: %w", err)
	}
	return changed, nil
}

// Each calls fn with each delivery that names a user. It costs what Erase costs.
func (s *Store) Each(ctx context.Context, user models.RowID, fn func(d models.Delivery) error) error {
	return s.eachNaming(ctx, user, func(d models.Delivery, _ string) error { return fn(d) })
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
			without, named, err := withoutUser(&d, user)
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

// withoutUser reports whether the payload of a delivery names a user, and returns it
// without them: empty if it is about them. Each type of outcome has a case.
func withoutUser(d *models.Delivery, user models.RowID) (without string, named bool, err error) {
	switch d.Type {
	case models.OutcomeFriendRequested, models.OutcomeFriendAccepted, models.OutcomeLikeGiven:
		var p pair
		err := json.Unmarshal([]byte(d.Payload), &p)
		return "", p.From == user || p.To == user, err
	case models.OutcomeBoardFinal:
		var p Final
		if err := json.Unmarshal([]byte(d.Payload), &p); err != nil {
			return "", false, err
		}
		for i := range p.Top {
			if p.Top[i].User == user {
				p.Top[i].User, named = 0, true
			}
		}
		if !named {
			return "", false, nil
		}
		text, err := json.Marshal(p)
		return string(text), true, err
	case models.OutcomeDigestReady:
		return digestWithoutUser(d.Payload, user)
	default:
		return "", false, fmt.Errorf("this version knows no %s", d.Type)
	}
}

// digestWithoutUser is withoutUser for the payload of a digest, which loses the user's line,
// and the name of the leader of others.
func digestWithoutUser(payload string, user models.RowID) (without string, named bool, err error) {
	var p digestPayload
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return "", false, err
	}
	lines := make([]models.DigestLine, 0, len(p.Users))
	for _, line := range p.Users {
		if line.User == user {
			named = true
			continue
		}
		if line.Leader == user {
			line.Leader, named = 0, true
		}
		lines = append(lines, line)
	}
	if !named || len(lines) == 0 {
		return "", named, nil
	}
	p.Users = lines
	text, err := json.Marshal(p)
	return string(text), true, err
}
