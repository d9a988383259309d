package ledger

import (
	"slices"
	"time"

	"stepboard/models"
)

// maxAhead is how far ahead of the service's clock an increment may have occurred.
const maxAhead = 30 * time.Second

// eventState holds what changes of an event's bucket. A transaction reads it under a lock that
// keeps the event from becoming final before the transaction ends.
type eventState struct {
	endsAt, closesAt time.Time
	final            bool
}

// openEvents returns the boards of those increments whose events are not known to be final, each once.
func openEvents(increments []*increment) (boards []string) {
	for _, inc := range increments {
		if b := inc.totals.Bucket; b.Event() && b.FinalAt == nil && !slices.Contains(boards, inc.board) {
			boards = append(boards, inc.board)
		}
	}
	return boards
}

// open finds out for each increment on an event whether the event takes it. An event whose state was
// not read is as its bucket says.
func open(increments []*increment, events map[string]eventState) {
	for _, inc := range increments {
		b := inc.totals.Bucket
		if !b.Event() {
			continue
		}
		state, ok := events[inc.board]
		if !ok {
			state = eventState{b.EndsAt, b.ClosesAt, b.FinalAt != nil}
		}
		inc.closed = inc.refusal(b.StartsAt, state)
	}
}

// refusal returns why an event does not take an increment, or nil. An increment counts if it was
// accepted between the start and the end; one that says when it occurred, if that was between them,
// and it was accepted before the event closes.
func (i *increment) refusal(start time.Time, event eventState) *models.Error {
	invalid := func(format string, args ...any) *models.Error {
		return models.Errorf(models.CodeOccurredAtInvalid, format, args...)
	}
	accepted, until, late := i.acceptedAt.Time(), event.endsAt, event.closesAt.Sub(event.endsAt)
	if i.OccurredAt != nil {
		until = event.closesAt
	}
	if event.final || accepted.Before(start) || !accepted.Before(until) {
		return models.EventNotOpen(i.board, start, event.endsAt)
	}
	if i.OccurredAt == nil {
		return nil
	}
	switch occurred := i.OccurredAt.Time(); {
	case late == 0:
		return invalid("%s takes increments as they happen, and no occurred_at: its setting late is 0", i.board)
	case occurred.Before(start), !occurred.Before(event.endsAt):
		return invalid("it is outside the event's time, %s to %s", rfc3339(start), rfc3339(event.endsAt))
	case occurred.Before(accepted.Add(-late)):
		return invalid("it is more than %v ago, the setting late of %s", late, i.board)
	case occurred.After(accepted.Add(maxAhead)):
		return invalid("it is more than %v ahead of the service's clock", maxAhead)
	default:
		return nil
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
