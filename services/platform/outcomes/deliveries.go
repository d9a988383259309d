package outcomes

import (
	"context"

	"stepboard/models"
	"stepboard/services/platform/cursor"
)

// shownAttempts is how many of the last attempts of a delivery are listed.
const shownAttempts = 10

// Delivery is a delivery with its last attempts.
type Delivery struct {
	models.Delivery
	// Last holds the last ten attempts whose results are known, oldest first.
	Last []models.DeliveryAttempt `gorm:"-"`
}

// undelivered are the states of deliveries that wait or were given up.
var undelivered = []models.DeliveryState{models.DeliveryWaiting, models.DeliveryFailed}

// Query selects a page of deliveries. Empty fields select all.
type Query struct {
	Target string
	Type   models.OutcomeType
	State  models.DeliveryState
	// Undelivered selects the deliveries that wait or were given up.
	Undelivered bool
	// Before is the id of the last delivery of the page before; 0 begins at the newest.
	Before int64
	Limit  int
}

// List returns a page of deliveries, newest first. Two queries. CodeUnavailable if the
// database is away.
func (s *Store) List(ctx context.Context, q Query) ([]Delivery, error) {
	db := s.db.WithContext(ctx).Where(&models.Delivery{Target: q.Target, Type: q.Type, State: q.State})
	if q.Undelivered {
		db = db.Where("state IN ?", undelivered)
	}
	page, err := cursor.Newest[Delivery](db, "id", q.Before, q.Limit)
	if err == nil && len(page) > 0 {
		err = s.addAttempts(ctx, page)
	}
	return page, models.Public("list deliveries", err)
}

// Replay sends a delivery again, with the same message id, and returns it as it is before
// the next attempt. It is attempted for as long as a new one. With dryRun nothing changes, and
// the delivery is returned as it is. CodeNotFound if there is no delivery of this id.
func (s *Store) Replay(ctx context.Context, id int64, dryRun bool) (Delivery, error) {
	act := s.restart
	if dryRun {
		act = s.find
	}
	found, err := act(ctx, id)
	if err != nil {
		return Delivery{}, models.Public("replay a delivery", err)
	}
	page := []Delivery{found}
	if err := s.addAttempts(ctx, page); err != nil {
		return Delivery{}, models.Unavailable("read attempts", err)
	}
	return page[0], nil
}
