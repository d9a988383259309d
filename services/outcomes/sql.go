package outcomes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"stepboard/models"
)

// purgeRows is how many deliveries one transaction deletes.
const purgeRows = 1000

// Store reads and changes tables webhook_deliveries and webhook_attempts. Safe for concurrent
// use.
type Store struct{ db *gorm.DB }

// NewStore returns a store over the database.
func NewStore(db *gorm.DB) *Store { return &Store{db: db} }

// claim takes up to limit deliveries to a target that are due, those that are due longest
// first, and counts the attempt: until the given time no other process takes them. One
// statement.
func (s *Store) claim(ctx context.Context, target string, now, until time.Time, limit int) ([]models.Delivery, error) {
	skip := ""
	if s.db.Name() == "postgres" {
		skip = "FOR UPDATE SKIP LOCKED"
	}
	var claimed []models.Delivery
	err := s.db.WithContext(ctx).Raw(`
		WITH due AS MATERIALIZED (
			SELECT id FROM webhook_deliveries WHERE target = ? AND state = 'waiting' AND next_attempt_at <= ?
			ORDER BY next_attempt_at, id LIMIT ? `+skip+`
		)
		UPDATE webhook_deliveries SET attempts = attempts + 1, next_attempt_at = ? WHERE id IN (SELECT id FROM due)
		RETURNING id, message_id, target, type, payload, state, attempts, created_at, next_attempt_at, give_up_at`,
		target, now, limit, until).Scan(&claimed).Error
	if err != nil {
		return nil, fmt.Errorf("find due deliveries: %w", err)
	}
	return claimed, nil
}

// record stores the result of an attempt and the state that follows from it. A success
// counts even if another process has begun a further attempt, a failure does not.
func (s *Store) record(ctx context.Context, r models.DeliveryAttempt, state models.DeliveryState, next time.Time) error {
	return s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&r).Error; err != nil {
			return fmt.Errorf("store attempt: %w", err)
		}
		changed := db.Model(&models.Delivery{}).Where("id = ? AND state = ?", r.DeliveryID, models.DeliveryWaiting)
		values := map[string]any{"state": state, "finished_at": db.NowFunc().UTC()}
		if state != models.DeliveryDelivered {
			changed = changed.Where("attempts = ?", r.Number)
		}
		if state == models.DeliveryWaiting {
			values = map[string]any{"next_attempt_at": next}
		}
		if err := changed.Updates(values).Error; err != nil {
			return fmt.Errorf("store result: %w", err)
		}
		return nil
	})
}

// backlog describes the waiting deliveries of a target.
type backlog struct {
	count  int64
	oldest time.Time
}

// waiting returns the backlog of each target that has one. One query.
func (s *Store) waiting(ctx context.Context) (map[string]backlog, error) {
	var rows []struct {
		Target    string
		Count     int64
		CreatedAt time.Time
	}
	// The columns of a grouped query have no type in SQLite, so the time is read from a row.
	err := s.db.WithContext(ctx).Raw(`
		SELECT w.target, w.count, d.created_at FROM (
			SELECT target, count(*) AS count, min(id) AS first FROM webhook_deliveries WHERE state = 'waiting' GROUP BY target
		) AS w JOIN webhook_deliveries d ON d.id = w.first`).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("count waiting deliveries: %w", err)
	}
	waiting := make(map[string]backlog, len(rows))
	for _, row := range rows {
		waiting[row.Target] = backlog{row.Count, row.CreatedAt}
	}
	return waiting, nil
}

// giveUpOthers gives up overdue deliveries to any other than the given targets, which no
// worker attempts.
func (s *Store) giveUpOthers(ctx context.Context, targets []string, now time.Time) error {
	overdue := s.db.WithContext(ctx).Model(&models.Delivery{}).
		Where("state = ? AND give_up_at <= ?", models.DeliveryWaiting, now)
	if len(targets) > 0 {
		overdue = overdue.Where("target NOT IN ?", targets)
	}
	return overdue.Updates(map[string]any{"state": models.DeliveryFailed, "finished_at": now}).Error
}

// purge deletes up to purgeRows deliveries that finished before the given time, with their
// attempts, and returns their number.
func (s *Store) purge(ctx context.Context, before time.Time) (deleted int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(db *gorm.DB) error {
		var ids []int64
		err := db.Model(&models.Delivery{}).Where("finished_at < ?", before).Order("finished_at").Limit(purgeRows).Pluck("id", &ids).Error
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := db.Where("delivery_id IN ?", ids).Delete(&models.DeliveryAttempt{}).Error; err != nil {
			return err
		}
		// One that was replayed meanwhile stays.
		result := db.Where("id IN ? AND finished_at < ?", ids, before).Delete(&models.Delivery{})
		deleted = result.RowsAffected
		return result.Error
	})
	if err != nil {
		return deleted, fmt.Errorf("delete deliveries: %w", err)
	}
	return deleted, nil
}

// Query selects a page of deliveries. Empty fields select all.
type Query struct {
	Target string
	Type   models.OutcomeType
	State  models.DeliveryState
	// Before is the id of the last delivery of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}

// list returns a page, newest first, without attempts. One query.
func (s *Store) list(ctx context.Context, q Query) ([]Delivery, error) {
	db := s.db.WithContext(ctx).Where(&models.Delivery{Target: q.Target, Type: q.Type, State: q.State})
	if q.Before != 0 {
		db = db.Where("id < ?", q.Before)
	}
	var rows []models.Delivery
	if err := db.Order("id DESC").Limit(q.Limit).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	page := make([]Delivery, len(rows))
	for i := range rows {
		page[i].Delivery = rows[i]
	}
	return page, nil
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
	err := s.db.WithContext(ctx).Take(&d.Delivery, "id = ?", id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return d, models.Errorf(models.CodeNotFound, "there is no delivery of this id")
	}
	if err != nil {
		return d, fmt.Errorf("read a delivery: %w", err)
	}
	return d, nil
}

// restart makes a delivery due, whatever its state.
func (s *Store) restart(ctx context.Context, id int64, now time.Time) error {
	err := s.db.WithContext(ctx).Model(&models.Delivery{}).Where("id = ?", id).Updates(map[string]any{
		"state": models.DeliveryWaiting, "finished_at": nil, "next_attempt_at": now, "give_up_at": now.Add(giveUpAfter),
	}).Error
	if err != nil {
		return fmt.Errorf("replay a delivery: %w", err)
	}
	return nil
}
