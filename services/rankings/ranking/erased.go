package ranking

import (
	"context"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/archive"
)

// existing is a circle without users who were erased while a ranking was made.
type existing struct {
	circle
	erased func(models.RowID) bool
}

// near is part of circle.
func (e existing) near(ctx context.Context, viewer models.RowID) ([]models.RowID, time.Time, error) {
	ids, asOf, err := e.circle.near(ctx, viewer)
	return slices.DeleteFunc(ids, e.erased), asOf, err
}

// shown is part of circle.
func (e existing) shown(ctx context.Context, r *request) ([]models.RowID, error) {
	ids, err := e.circle.shown(ctx, r)
	return slices.DeleteFunc(ids, e.erased), err
}

// viewed is part of circle.
func (e existing) viewed(ctx context.Context, viewer models.RowID, old bool) ([]archive.Viewed, error) {
	people, err := e.circle.viewed(ctx, viewer, old)
	return slices.DeleteFunc(people, func(p archive.Viewed) bool { return e.erased(p.User) }), err
}
