package outcomes

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// giveUpAfter is how long a delivery to a webhook is attempted.
const giveUpAfter = 72 * time.Hour

// lifetime returns how long a delivery is attempted.
func lifetime(target string, outcome models.OutcomeType) time.Duration {
	if target == models.TargetPush {
		return noticeLifetime(models.TellOf(outcome))
	}
	return giveUpAfter
}

// Target is an address that outcomes are sent to.
type Target struct {
	URL string
	// Secrets are one or two secrets, in the form whsec_….
	Secrets []string
	// Types are the outcomes that it wants; empty means all.
	Types []models.OutcomeType
	// PrivateNetwork permits addresses of this machine and of private networks.
	PrivateNetwork bool
}

// wants reports whether the target wants outcomes of a type.
func (t *Target) wants(wanted models.OutcomeType) bool {
	return len(t.Types) == 0 || slices.Contains(t.Types, wanted)
}

// Outbox writes outcomes. Without a target that wants an outcome, it writes nothing. Safe
// for concurrent use.
type Outbox struct {
	targets []Target
	clock   models.Clock
	// push reports that subscriptions of Web Push are targets, too.
	push bool
}

// NewOutbox returns an outbox of the targets.
func NewOutbox(targets []Target, clock models.Clock) *Outbox {
	return &Outbox{targets: targets, clock: clock}
}

// WithPush lets the outbox also write the notices of Web Push, and returns it.
func (o *Outbox) WithPush() *Outbox {
	o.push = true
	return o
}

// Wants reports whether a target wants outcomes of the type, or subscriptions of Web Push may. A nil
// Outbox has no targets.
func (o *Outbox) Wants(outcome models.OutcomeType) bool {
	return o.WantsAll(outcome) || o != nil && o.push && models.TellOf(outcome) != ""
}

// WantsAll reports whether a target wants the outcomes of the type about all users, and not only
// about those who want to be told of them.
func (o *Outbox) WantsAll(outcome models.OutcomeType) bool {
	return o != nil && slices.ContainsFunc(o.targets, func(t Target) bool { return t.wants(outcome) })
}

// Now returns the time of the outbox's clock, in UTC.
func (o *Outbox) Now() time.Time { return o.clock().UTC() }

// Add writes an outcome in the transaction of its cause, with its payload in JSON, from which the
// topic of the type renders it. One statement for each target that wants it, and one for all
// subscriptions of Web Push, if the payload has Receivers.
func (o *Outbox) Add(tx *gorm.DB, outcome models.OutcomeType, payload any) error {
	if !o.Wants(outcome) {
		return nil
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode outcome: %w", err)
	}
	now, id := o.Now(), "msg_"+rand.Text()
	for _, target := range o.targets {
		if !target.wants(outcome) {
			continue
		}
		err := tx.Exec(`
			INSERT INTO webhook_deliveries
				(message_id, target, type, payload, state, attempts, created_at, next_attempt_at, give_up_at)
			VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?)`,
			id, target.URL, outcome, string(text), models.DeliveryWaiting, now, now, now.Add(giveUpAfter)).Error
		if err != nil {
			return fmt.Errorf("write outcome: %w", err)
		}
	}
	if told, ok := payload.(Receivers); ok && o.push {
		if err := addNotices(tx, outcome, told, id, now); err != nil {
			return err
		}
	}
	failpoint.Hit("outcomes.written")
	return nil
}

// addNotices writes a delivery for each subscription that wants the outcome and whose user is a
// receiver. Their message ids differ by the subscription. One statement.
func addNotices(tx *gorm.DB, outcome models.OutcomeType, told Receivers, id string, now time.Time) error {
	tell := models.TellOf(outcome)
	var receivers []string
	var args []any
	for user, payload := range told.Receivers() {
		text, err := json.Marshal(payload)
		if err != nil {
			return fmt.Errorf("encode notice: %w", err)
		}
		receivers = append(receivers, "(CAST(? AS bigint), CAST(? AS text))")
		args = append(args, user, string(text))
	}
	if tell == "" || len(receivers) == 0 {
		return nil
	}
	ends := now.Add(noticeLifetime(tell))
	if e, ok := told.(Expiring); ok && e.Expires().Before(ends) {
		ends = e.Expires().UTC()
	}
	err := tx.Exec(`
		WITH told (user_id, payload) AS (VALUES `+strings.Join(receivers, ", ")+`)
		INSERT INTO webhook_deliveries
			(message_id, target, type, payload, state, attempts, created_at, next_attempt_at, give_up_at, subscription_id)
		SELECT CAST(? AS text) || '-' || CAST(s.id AS text), ?, ?, t.payload, ?, 0, ?, ?, ?, s.id
		FROM told t JOIN push_subscriptions s ON s.user_id = t.user_id
		WHERE s.endpoint IS NOT NULL AND s.`+tell.Column(),
		slices.Concat(args, []any{id, models.TargetPush, outcome, models.DeliveryWaiting, now, now, ends})...).Error
	return models.Wrap("write notices", err)
}
