package outcomes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/concurrent"
	"stepboard/internal/failpoint"
	"stepboard/models"
)

const (
	// sendAtOnce is how many deliveries are sent to a target at the same time.
	sendAtOnce = 16
	// claimTime is how long a process keeps deliveries for itself: longer than reading
	// names, an attempt and storing its result.
	claimTime = 30 * time.Second
	// pollEvery is how soon a worker finds new deliveries.
	pollEvery = time.Second
	// measureEvery is how often the waiting deliveries are counted.
	measureEvery = 10 * time.Second
	// recordTimeout bounds storing the result of an attempt.
	recordTimeout = 5 * time.Second
	// firstPause is the pause after the first attempt. Each further one is twice as
	// long, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Hour
	// keepFinished is how long finished deliveries are kept.
	keepFinished = 30 * 24 * time.Hour
	// errorBytes bounds the stored text of an error.
	errorBytes = 200
)

// pauseAfter returns the pause after the attempt with a number, from 1.
func pauseAfter(attempt int) time.Duration {
	if attempt > 12 { // 2^12 seconds are longer than an hour
		return longestPause
	}
	return min(longestPause, firstPause<<(attempt-1))
}

// Deliverer sends deliveries to their targets, each in a worker of its own. Several
// processes may do so at the same time: each takes a delivery for itself before it sends it.
type Deliverer struct {
	store   *Store
	senders []*sender
	records Records
	// digest has room for one: the delivery whose digest is rendered. Digests name so many
	// people that several at once would take the stores' time from rankings.
	digest  chan struct{}
	clock   models.Clock
	log     *slog.Logger
	metrics *metrics
}

// NewDeliverer returns a deliverer and registers its metrics. It returns an error if a
// secret is malformed.
func NewDeliverer(
	store *Store, targets []Target, records Records, clock models.Clock, log *slog.Logger, registry prometheus.Registerer,
) (*Deliverer, error) {
	d := &Deliverer{
		store: store, records: records, digest: make(chan struct{}, 1), clock: clock, log: log, metrics: newMetrics(registry),
	}
	for _, t := range targets {
		s, err := newSender(t)
		if err != nil {
			return nil, err
		}
		d.senders = append(d.senders, s)
		d.metrics.initialize(t.URL)
	}
	return d, nil
}

// Run delivers until ctx ends. An attempt that the end cuts off is repeated by the next
// process.
func (d *Deliverer) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range d.senders {
		running.Go(func() {
			defer s.client.CloseIdleConnections()
			d.repeat(ctx, pollEvery, func() (more bool, err error) { return d.round(ctx, s) })
		})
	}
	running.Go(func() {
		d.repeat(ctx, measureEvery, func() (more bool, err error) { return false, d.measure(ctx) })
	})
	running.Wait()
}

// Round sends to each target, once, a few of the deliveries that are due. It is for a caller who
// decides when that happens, instead of Run.
func (d *Deliverer) Round(ctx context.Context) error {
	var failed []error
	for _, s := range d.senders {
		_, err := d.round(ctx, s)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// repeat calls do until ctx ends, at once if there is more to do, otherwise after a pause.
func (d *Deliverer) repeat(ctx context.Context, pause time.Duration, do func() (more bool, err error)) {
	for ctx.Err() == nil {
		more, err := do()
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "webhooks have to wait", "error", err)
		}
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// round sends a few deliveries that are due, and reports whether more may be.
func (d *Deliverer) round(ctx context.Context, s *sender) (more bool, err error) {
	now := d.clock().UTC()
	due, err := d.store.claim(ctx, s.url, now, now.Add(claimTime), sendAtOnce)
	if err != nil {
		return false, err
	}
	if len(due) > 0 {
		failpoint.Hit("outcomes.claimed")
	}
	var sending sync.WaitGroup
	for i := range due {
		concurrent.Go(ctx, &sending, func() { d.attempt(ctx, s, &due[i]) })
	}
	sending.Wait()
	return len(due) == sendAtOnce, nil
}

// attempt sends a delivery and stores the result.
func (d *Deliverer) attempt(ctx context.Context, s *sender, delivery *models.Delivery) {
	began, now := time.Now(), d.clock().UTC()
	bounded, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := d.render(bounded, delivery)
	status := 0
	if err == nil {
		status, err = s.send(bounded, delivery.MessageID, body)
		failpoint.Hit("outcomes.sent")
	}
	d.metrics.attempts.WithLabelValues(s.url, resultOf(status, err)).Inc()
	r := models.DeliveryAttempt{
		DeliveryID: delivery.ID, Number: delivery.Attempts, StartedAt: now,
		TookMS: time.Since(began).Milliseconds(), Status: status,
	}
	if err != nil {
		r.Error = models.Storable(err.Error(), errorBytes)
	}
	next := d.clock().UTC()
	if ctx.Err() == nil { // otherwise the process ends, and the next one need not wait
		next = next.Add(pauseAfter(delivery.Attempts))
	}
	state := stateAfter(delivery, err, d.clock())
	// The result is stored even if the process is about to end.
	stored, cancelStore := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancelStore()
	if err := d.store.record(stored, r, state, next); err != nil {
		d.log.WarnContext(ctx, "the result of a webhook could not be stored; it is sent again", "error", err)
	}
	if state == models.DeliveryFailed {
		d.metrics.givenUp.WithLabelValues(s.url).Inc()
		d.log.ErrorContext(ctx, "a webhook was given up", "target", s.url, "delivery", delivery.ID, "error", r.Error)
	}
	failpoint.Hit("outcomes.recorded")
}

// render returns the body of a delivery. It waits while another digest is rendered.
func (d *Deliverer) render(ctx context.Context, delivery *models.Delivery) ([]byte, error) {
	if delivery.Type == models.OutcomeDigestReady {
		select {
		case d.digest <- struct{}{}:
			defer func() { <-d.digest }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return render(ctx, d.records, delivery)
}

// stateAfter returns the state of a delivery after an attempt.
func stateAfter(d *models.Delivery, err error, now time.Time) models.DeliveryState {
	switch {
	case err == nil:
		return models.DeliveryDelivered
	case errors.Is(err, errErased):
		return models.DeliveryDropped
	case !now.Before(d.GiveUpAt):
		return models.DeliveryFailed
	default:
		return models.DeliveryWaiting
	}
}

// measure counts the waiting deliveries of each target.
func (d *Deliverer) measure(ctx context.Context) error {
	waiting, err := d.store.waiting(ctx)
	if err != nil {
		return err
	}
	for _, s := range d.senders {
		w := waiting[s.url]
		oldest := 0.0
		if w.count > 0 {
			oldest = max(0, d.clock().Sub(w.oldest).Seconds())
		}
		d.metrics.waiting.WithLabelValues(s.url).Set(float64(w.count))
		d.metrics.oldest.WithLabelValues(s.url).Set(oldest)
	}
	return nil
}

// Purge deletes the deliveries that finished more than 30 days ago, and gives up the overdue
// ones of targets that are no longer configured. It returns the number of deleted ones.
func (d *Deliverer) Purge(ctx context.Context) (deleted int64, err error) {
	now := d.clock().UTC()
	targets := make([]string, len(d.senders))
	for i, s := range d.senders {
		targets[i] = s.url
	}
	if err := d.store.giveUpOthers(ctx, targets, now); err != nil {
		return 0, fmt.Errorf("give up deliveries: %w", err)
	}
	for {
		n, err := d.store.purge(ctx, now.Add(-keepFinished))
		deleted += n
		if err != nil || n < purgeRows {
			return deleted, err
		}
	}
}
