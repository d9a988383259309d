package outcomes

import (
	"context"
	"time"

	"stepboard/models"
)

// ShownAttempts is how many attempts of a delivery are kept.
const ShownAttempts = shownAttempts

// SendAtOnce is how many deliveries a round sends.
const SendAtOnce = sendAtOnce

// Keep sets how many deliveries may wait for a target, and how many given up ones are kept.
func (d *Deliverer) Keep(most int) { d.most = most }

// RoundOf sends deliveries of a type to the first target, and returns the pause after that.
func (d *Deliverer) RoundOf(ctx context.Context, outcome models.OutcomeType) (time.Duration, error) {
	for _, l := range d.lanes {
		if l.outcome == outcome {
			return d.round(ctx, l)
		}
	}
	return 0, nil
}

// Measure counts the waiting deliveries, and gives up those that are too many.
func (d *Deliverer) Measure(ctx context.Context) error {
	_, err := d.measure(ctx)
	return err
}
