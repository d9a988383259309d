package outcomes

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"stepboard/internal/failpoint"
	"stepboard/models"
)

// giveUpAfter is how long a delivery is attempted.
const giveUpAfter = 72 * time.Hour

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
}

// NewOutbox returns an outbox of the targets.
func NewOutbox(targets []Target, clock models.Clock) *Outbox {
	return &Outbox{targets: targets, clock: clock}
}

// Wants reports whether a target wants outcomes of the type. A nil Outbox has no targets.
func (o *Outbox) Wants(outcome models.OutcomeType) bool {
	return o != nil && slices.ContainsFunc(o.targets, func(t Target) bool { return t.wants(outcome) })
}

// Now returns the time of the outbox's clock, in UTC.
func (o *Outbox) Now() time.Time { return o.clock().UTC() }

// Add writes an outcome in the transaction of its cause, with its payload in JSON, from which the
// topic of the type renders it. One statement for each target that wants it.
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
	failpoint.Hit("outcomes.written")
	return nil
}
