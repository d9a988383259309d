package outcomes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/internal/dialect"
	"stepboard/models"
)

// Store reads and changes tables webhook_deliveries and webhook_attempts. Safe for concurrent
// use.
type Store struct {
	db     *gorm.DB
	topics []Topic
}

// NewStore returns a store over the database. It can render, and take users out of, outcomes of the
// topics.
func NewStore(db *gorm.DB, topics ...Topic) *Store { return &Store{db: db, topics: topics} }

// claim takes up to limit deliveries of a type to a target that are due, those that are due
// longest first, and counts the attempt: until the given time no other process takes them. One
// statement.
func (s *Store) claim(
	ctx context.Context, target string, outcome models.OutcomeType, now, until time.Time, limit int,
) ([]models.Delivery, error) {
	var claimed []models.Delivery
	err := s.db.WithContext(ctx).Raw(`
		WITH due AS MATERIALIZED (
			SELECT id FROM webhook_deliveries WHERE target = ? AND type = ? AND state = 'waiting' AND next_attempt_at <= ?
			ORDER BY next_attempt_at, id LIMIT ? `+dialect.SkipLocked(s.db)+`
		)
		UPDATE webhook_deliveries SET attempts = attempts + 1, next_attempt_at = ? WHERE id IN (SELECT id FROM due)
		RETURNING id, message_id, target, type, payload, state, attempts, created_at, next_attempt_at, give_up_at, subscription_id`,
		target, outcome, now, limit, until).Scan(&claimed).Error
	return claimed, models.Wrap("find due deliveries", err)
}

// record stores the result of an attempt and the state that follows from it. A success
// counts even if another process has begun a further attempt or has given the delivery up, a
// failure does not. Only the attempts that are shown are kept.
func (s *Store) record(ctx context.Context, r models.DeliveryAttempt, state models.DeliveryState, next time.Time) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&r).Error; err != nil {
			return fmt.Errorf("store attempt: %w", err)
		}
		if r.Number > shownAttempts {
			old := db.Where("delivery_id = ? AND number <= ?", r.DeliveryID, r.Number-shownAttempts)
			if err := old.Delete(&models.DeliveryAttempt{}).Error; err != nil {
				return fmt.Errorf("delete attempts: %w", err)
			}
		}
		changed := db.Model(&models.Delivery{}).Where("id = ?", r.DeliveryID)
		values := map[string]any{"state": state, "finished_at": db.NowFunc().UTC()}
		if state == models.DeliveryDelivered {
			changed = changed.Where("state IN ?", undelivered)
		} else {
			changed = changed.Where("state = ? AND attempts = ?", models.DeliveryWaiting, r.Number)
		}
		if state == models.DeliveryWaiting {
			values = map[string]any{"next_attempt_at": next}
		}
		return models.Wrap("store result", changed.Updates(values).Error)
	})
}

// backlog describes the waiting deliveries of a target. giveUpAt is that of the one that is
// given up first: it has waited longest since it was written or replayed.
type backlog struct {
	count    int64
	outcome  models.OutcomeType
	giveUpAt time.Time
}

// waiting returns the backlog of each target that has one. One query.
func (s *Store) waiting(ctx context.Context) (map[string]backlog, error) {
	var rows []struct {
		Target   string
		Count    int64
		Type     models.OutcomeType
		GiveUpAt time.Time
	}
	// The columns of a grouped query have no type in SQLite, so the time is read from a row.
	err := s.db.WithContext(ctx).Raw(`
		SELECT w.target, w.count, d.type, d.give_up_at FROM (
			SELECT target, count(*) AS count FROM webhook_deliveries WHERE state = 'waiting' GROUP BY target
		) AS w JOIN webhook_deliveries d ON d.id = (
			SELECT id FROM webhook_deliveries f WHERE f.target = w.target AND f.state = 'waiting' ORDER BY give_up_at, id LIMIT 1)`).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("count waiting deliveries: %w", err)
	}
	waiting := make(map[string]backlog, len(rows))
	for _, row := range rows {
		waiting[row.Target] = backlog{row.Count, row.Type, row.GiveUpAt}
	}
	return waiting, nil
}

// giveUp gives up as many deliveries to a target that satisfy a condition, those first that
// have waited longest, and returns their number. One statement.
func (s *Store) giveUp(ctx context.Context, limit int, target string, now time.Time, condition string, args ...any) (int64, error) {
	result := s.db.WithContext(ctx).Exec(`
		WITH chosen AS MATERIALIZED (
			SELECT id FROM webhook_deliveries WHERE target = ? AND state = 'waiting' AND `+condition+`
			ORDER BY give_up_at, id LIMIT ? `+dialect.SkipLocked(s.db)+`
		)
		UPDATE webhook_deliveries SET state = 'failed', finished_at = ? WHERE id IN (SELECT id FROM chosen)`,
		slices.Concat([]any{target}, args, []any{limit, now})...)
	return result.RowsAffected, models.Wrap("give up deliveries", result.Error)
}

// boundary returns the delivery to a target in a state behind the given number of later ones, by
// a column. found is false if there are not so many.
func (s *Store) boundary(
	ctx context.Context, target string, state models.DeliveryState, column string, later int,
) (last models.Delivery, found bool, err error) {
	// The state is part of the text, so that an index of this state serves.
	result := s.db.WithContext(ctx).Where("target = ? AND state = '"+string(state)+"'", target).
		Order(column + " DESC, id DESC").Offset(later).Limit(1).Find(&last)
	return last, result.RowsAffected > 0, models.Wrap("find the oldest deliveries", result.Error)
}

// targets returns the targets for which deliveries wait.
func (s *Store) targets(ctx context.Context) (targets []string, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT DISTINCT target FROM webhook_deliveries WHERE state = 'waiting' ORDER BY target`).
		Scan(&targets).Error
	return targets, models.Wrap("list targets", err)
}

// delete deletes up to limit finished deliveries that satisfy a condition, with their
// attempts, and returns their number.
func (s *Store) delete(ctx context.Context, limit int, condition string, args ...any) (deleted int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		var ids []int64
		err := db.Model(&models.Delivery{}).Where(condition, args...).Order("finished_at, id").Limit(limit).Pluck("id", &ids).Error
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := db.Where("delivery_id IN ?", ids).Delete(&models.DeliveryAttempt{}).Error; err != nil {
			return err
		}
		// One that was replayed meanwhile stays.
		result := db.Where("id IN ?", ids).Where(condition, args...).Delete(&models.Delivery{})
		deleted = result.RowsAffected
		return result.Error
	})
	return deleted, models.Wrap("delete deliveries", err)
}

// addAttempts sets the last attempts of each delivery, oldest first. One query.
func (s *Store) addAttempts(ctx context.Context, page []Delivery) error {
	byID := make(map[int64]*Delivery, len(page))
	ids := make([]int64, len(page))
	for i := range page {
		ids[i], byID[page[i].ID] = page[i].ID, &page[i]
	}
	var attempts []models.DeliveryAttempt
	err := s.db.WithContext(ctx).
		Where(`delivery_id IN ? AND number > (SELECT d.attempts - ? FROM webhook_deliveries d WHERE d.id = delivery_id)`, ids, shownAttempts).
		Order("delivery_id, number").Find(&attempts).Error
	if err != nil {
		return fmt.Errorf("list attempts: %w", err)
	}
	for _, a := range attempts {
		byID[a.DeliveryID].Last = append(byID[a.DeliveryID].Last, a)
	}
	return nil
}

// find returns one delivery without attempts, or CodeNotFound.
func (s *Store) find(ctx context.Context, id int64) (Delivery, error) {
	var d Delivery
	err := s.db.WithContext(ctx).Take(&d, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return d, models.Errorf(models.CodeNotFound, "there is no delivery of this id")
	}
	return d, models.Wrap("read a delivery", err)
}

// restart makes a delivery due, whatever its state, and returns it. CodeNotFound if there is none.
func (s *Store) restart(ctx context.Context, id int64) (Delivery, error) {
	d, err := s.find(ctx, id)
	if err != nil {
		return d, err
	}
	now := s.db.NowFunc()
	d.State, d.FinishedAt, d.NextAttemptAt, d.GiveUpAt = models.DeliveryWaiting, nil, now, now.Add(lifetime(d.Target, d.Type))
	err = s.db.WithContext(ctx).Model(&models.Delivery{}).Where("id = ?", id).Updates(map[string]any{
		"state": d.State, "finished_at": nil, "next_attempt_at": now, "give_up_at": d.GiveUpAt,
	}).Error
	return d, models.Wrap("replay a delivery", err)
}
