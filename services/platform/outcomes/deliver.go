package outcomes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/internal/concurrent"
	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
)

const (
	// sendAtOnce is how many deliveries of a type are sent to a target at the same time.
	sendAtOnce = 16
	// claimTime is how long a process keeps deliveries for itself: longer than reading
	// names, an attempt and storing its result.
	claimTime = 30 * time.Second
	// pollEvery is how soon a worker finds new deliveries.
	pollEvery = time.Second
	// measureEvery is how often the waiting deliveries are counted. After a count that took
	// long, the pause is measureRest times as long as that.
	measureEvery = 10 * time.Second
	measureRest  = 50
	// awayPause is the longest pause of a lane whose target accepts nothing.
	awayPause = 10 * time.Second
	// recordTimeout bounds storing the result of an attempt.
	recordTimeout = 5 * time.Second
	// firstPause is the pause after the first attempt. Each further one is twice as
	// long, up to longestPause.
	firstPause   = time.Second
	longestPause = time.Hour
	// keepFinished is how long finished deliveries are kept.
	keepFinished = 30 * 24 * time.Hour
	// keepNotices is how long finished notices are kept: there may be some for each user and day.
	keepNotices = 24 * time.Hour
	// most is how many deliveries may wait for a target, and how many that were given up are
	// kept, about 400 bytes each. Results are counted, but not given up or deleted for it.
	most = 1_000_000
	// errorBytes bounds the stored text of an error.
	errorBytes = 200
)

// Deliverer sends deliveries to their targets, each type to each target in a worker of its
// own. Several processes may do so at the same time: each takes a delivery for itself before it
// sends it.
type Deliverer struct {
	store   *Store
	senders []sender
	lanes   []*lane
	most    int
	clock   models.Clock
	log     *slog.Logger
	metrics *metrics
}

// lane holds the deliveries of a type to a target. A target that refuses one type, or
// refuses enough of it to fill the lane, delays no others.
type lane struct {
	sender

	outcome models.OutcomeType
	// refused counts the last rounds in which as many as possible were sent and none was
	// accepted. It belongs to the worker.
	refused int
}

// NewDeliverer returns a deliverer of the store's topics and registers its metrics. push may be nil.
// It returns an error if a secret is malformed.
func NewDeliverer(
	store *Store, targets []Target, push *Push, clock models.Clock, log *slog.Logger, registry prometheus.Registerer,
) (*Deliverer, error) {
	d := &Deliverer{store: store, most: most, clock: clock, log: log, metrics: newMetrics(registry)}
	for _, t := range targets {
		s, err := newWebhook(store, t)
		if err != nil {
			return nil, err
		}
		d.add(s, func(Topic) bool { return true })
	}
	if push != nil {
		d.add(newPusher(store, push, clock), func(t Topic) bool { return t.Notice != nil })
	}
	return d, nil
}

// add adds the lanes of a sender, for the topics that it sends.
func (d *Deliverer) add(s sender, sends func(Topic) bool) {
	d.senders = append(d.senders, s)
	for _, topic := range d.store.topics {
		if sends(topic) {
			d.lanes = append(d.lanes, &lane{sender: s, outcome: topic.outcome})
		}
	}
	d.metrics.initialize(s.target)
}

// Run delivers until ctx ends. An attempt that the end cuts off is repeated by the next
// process.
func (d *Deliverer) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, l := range d.lanes {
		running.Go(func() {
			d.repeat(ctx, func() (time.Duration, error) { return d.round(ctx, l) })
		})
	}
	running.Go(func() {
		d.repeat(ctx, func() (time.Duration, error) { return d.measure(ctx) })
	})
	running.Wait()
	for _, s := range d.senders {
		s.client.CloseIdleConnections()
	}
}

// Round sends to each target, once, a few of the deliveries that are due. It is for a caller who
// decides when that happens, instead of Run.
func (d *Deliverer) Round(ctx context.Context) error {
	var failed []error
	for _, l := range d.lanes {
		_, err := d.round(ctx, l)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// repeat calls do until ctx ends, each time after the pause that it has returned.
func (d *Deliverer) repeat(ctx context.Context, do func() (wait time.Duration, err error)) {
	for ctx.Err() == nil {
		wait, err := do()
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "webhooks have to wait", "error", err)
		}
		_ = pause.For(ctx, wait) // the end of ctx ends the loop
	}
}

// round sends a few deliveries that are due, and returns the pause until the next round: none
// if more may be due, and a growing one as long as the target accepts none of so many.
func (d *Deliverer) round(ctx context.Context, l *lane) (wait time.Duration, err error) {
	now := d.clock().UTC()
	due, err := d.store.claim(ctx, l.target, l.outcome, now, now.Add(claimTime), sendAtOnce)
	if err != nil {
		return pollEvery, err
	}
	if len(due) > 0 {
		failpoint.Hit("outcomes.claimed")
	}
	var (
		sending           sync.WaitGroup
		finished, refused atomic.Int64
	)
	for i := range due {
		concurrent.Go(ctx, &sending, func() {
			state, sent := d.attempt(ctx, l.sender, &due[i])
			switch {
			case state == models.DeliveryDelivered || state == models.DeliveryDropped:
				finished.Add(1)
			case sent:
				refused.Add(1)
			}
		})
	}
	sending.Wait()
	switch {
	case len(due) < sendAtOnce:
		l.refused = 0
		return pollEvery, nil
	case finished.Load() > 0:
		l.refused = 0
		return 0, nil
	}
	l.refused++
	if ctx.Err() == nil && refused.Load() == sendAtOnce {
		// The next ones would be refused as well, and not all get their turn.
		err = d.giveUp(ctx, l.target, "because nothing was accepted in time", "type = ? AND give_up_at <= ?", l.outcome, d.clock().UTC())
	}
	return min(awayPause, pause.Doubled(firstPause, longestPause, l.refused)), err
}

// attempt sends a delivery and stores the result. It returns the state that follows, and
// whether there was anything to send.
func (d *Deliverer) attempt(ctx context.Context, s sender, delivery *models.Delivery) (state models.DeliveryState, sent bool) {
	began, now := time.Now(), d.clock().UTC()
	bounded, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	body, err := s.render(bounded, delivery)
	status := 0
	if sent = err == nil; sent {
		status, err = s.send(bounded, delivery, body)
		failpoint.Hit("outcomes.sent")
	}
	d.metrics.attempts.WithLabelValues(s.target, resultOf(status, err)).Inc()
	r := models.DeliveryAttempt{
		DeliveryID: delivery.ID, Number: delivery.Attempts, StartedAt: now,
		TookMS: time.Since(began).Milliseconds(), Status: status,
	}
	if err != nil {
		r.Error = models.Storable(err.Error(), errorBytes)
	}
	next := d.clock().UTC()
	if ctx.Err() == nil { // otherwise the process ends, and the next one need not wait
		next = next.Add(pause.Doubled(firstPause, longestPause, delivery.Attempts))
	}
	state = stateAfter(delivery, err, d.clock())
	// The result is stored even if the process is about to end.
	stored, cancelStore := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancelStore()
	if err := d.store.record(stored, r, state, next); err != nil {
		d.log.WarnContext(ctx, "the result of a webhook could not be stored; it is sent again", "error", err)
	}
	if state == models.DeliveryFailed {
		d.metrics.givenUp.WithLabelValues(s.target).Inc()
		d.log.Log(ctx, levelOf(s.target), "a webhook was given up", "target", s.target, "delivery", delivery.ID, "error", r.Error)
	}
	failpoint.Hit("outcomes.recorded")
	return state, sent
}

// levelOf returns the level at which the log says that deliveries to a target were given up. A browser
// that can't be reached is nothing that an operator must hear of.
func levelOf(target string) slog.Level {
	if target == models.TargetPush {
		return slog.LevelInfo
	}
	return slog.LevelError
}

// stateAfter returns the state of a delivery after an attempt.
func stateAfter(d *models.Delivery, err error, now time.Time) models.DeliveryState {
	switch {
	case err == nil:
		return models.DeliveryDelivered
	case isDropped(err):
		return models.DeliveryDropped
	case !now.Before(d.GiveUpAt):
		return models.DeliveryFailed
	default:
		return models.DeliveryWaiting
	}
}

// giveUp gives up all deliveries to a target that satisfy a condition, and says why in the log.
func (d *Deliverer) giveUp(ctx context.Context, target, why, condition string, args ...any) error {
	given, err := pause.Chunks(ctx, func(limit int) (int64, error) {
		return d.store.giveUp(ctx, limit, target, d.clock().UTC(), condition, args...)
	})
	d.metrics.givenUp.WithLabelValues(target).Add(float64(given))
	if given > 0 {
		d.log.Log(ctx, levelOf(target), "webhooks were given up "+why, "target", target, "deliveries", given)
	}
	return err
}

// measure counts the waiting deliveries of each target. If there are too many, it gives up the
// oldest ones. It returns the pause until the next count.
func (d *Deliverer) measure(ctx context.Context) (wait time.Duration, err error) {
	began := time.Now()
	waiting, err := d.store.waiting(ctx)
	wait = max(measureEvery, measureRest*time.Since(began))
	if err != nil {
		return wait, err
	}
	var failed []error
	for _, s := range d.senders {
		w := waiting[s.target]
		oldest := 0.0
		if w.count > 0 {
			oldest = max(0, d.clock().Sub(w.giveUpAt.Add(-lifetime(s.target, w.outcome))).Seconds())
		}
		d.metrics.waiting.WithLabelValues(s.target).Set(float64(w.count))
		d.metrics.oldest.WithLabelValues(s.target).Set(oldest)
		if w.count > int64(d.most) {
			failed = append(failed, d.giveUpOldest(ctx, s.target))
		}
	}
	return wait, errors.Join(failed...)
}

// results are the types of outcomes that no target must miss.
var results = []models.OutcomeType{models.OutcomeBoardFinal, models.OutcomeCompetitionFinal}

// giveUpOldest gives up the deliveries to a target but the most recent ones and results. The
// boundary is a delivery, so several processes may do so at the same time.
func (d *Deliverer) giveUpOldest(ctx context.Context, target string) error {
	last, found, err := d.store.boundary(ctx, target, models.DeliveryWaiting, "give_up_at", d.most)
	if err != nil || !found {
		return err
	}
	return d.giveUp(ctx, target, "because too many wait", "type NOT IN ? AND (give_up_at, id) <= (?, ?)", results, last.GiveUpAt, last.ID)
}

// Purge deletes the deliveries that finished longer ago than keepFinished or keepNotices and, if very many to a target
// were given up, the first of these but results. It gives up overdue ones that no worker
// attempts, because the target is no longer configured or the type is unknown. It returns the
// number of deleted ones.
func (d *Deliverer) Purge(ctx context.Context) (deleted int64, err error) {
	now := d.clock().UTC()
	if err := d.giveUpOthers(ctx, now); err != nil {
		return 0, fmt.Errorf("give up deliveries: %w", err)
	}
	deleted, err = d.delete(ctx, "finished_at < ?", now.Add(-keepFinished))
	notices, failed := d.delete(ctx, "subscription_id IS NOT NULL AND finished_at IS NOT NULL AND finished_at < ?", now.Add(-keepNotices))
	deleted, err = deleted+notices, errors.Join(err, failed)
	for _, s := range d.senders {
		last, found, failed := d.store.boundary(ctx, s.target, models.DeliveryFailed, "finished_at", d.most)
		if failed == nil && found {
			var n int64
			n, failed = d.delete(ctx, "target = ? AND state = 'failed' AND type NOT IN ? AND (finished_at, id) <= (?, ?)",
				s.target, results, last.FinishedAt, last.ID)
			deleted += n
		}
		err = errors.Join(err, failed)
	}
	return deleted, err
}

// giveUpOthers gives up the overdue deliveries that no worker attempts.
func (d *Deliverer) giveUpOthers(ctx context.Context, now time.Time) error {
	targets, err := d.store.targets(ctx)
	for _, target := range targets {
		condition, args := "give_up_at <= ?", []any{now}
		if slices.ContainsFunc(d.senders, func(s sender) bool { return s.target == target }) {
			condition, args = condition+" AND type NOT IN ?", append(args, d.store.types())
		}
		err = errors.Join(err, d.giveUp(ctx, target, "because nothing sends them", condition, args...))
	}
	return err
}

// delete deletes all deliveries that satisfy a condition, and returns their number.
func (d *Deliverer) delete(ctx context.Context, condition string, args ...any) (deleted int64, err error) {
	return pause.Chunks(ctx, func(limit int) (int64, error) { return d.store.delete(ctx, limit, condition, args...) })
}
