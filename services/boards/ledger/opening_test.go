package ledger

import (
	"testing"
	"time"

	"stepboard/models"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	const never = -1
	start := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	at := func(hours float64) models.Timestamp {
		return models.TimestampOf(start.Add(time.Duration(hours * float64(time.Hour))))
	}
	running := eventState{start.Add(100 * time.Hour), start.Add(148 * time.Hour), false}
	final, prompt := running, running
	final.final, prompt.closesAt = true, prompt.endsAt
	second := 1.0 / 3600
	for _, tt := range []struct {
		name               string
		event              eventState
		accepted, occurred float64 // hours since the start
		want               models.Code
	}{
		{"before the start", running, -second, never, models.CodeEventNotOpen},
		{"at the start", running, 0, never, ""},
		{"just before the end", running, 100 - second, never, ""},
		{"at the end", running, 100, never, models.CodeEventNotOpen},
		{"when it is final", final, 50, never, models.CodeEventNotOpen},
		{"late, when it is final", final, 101, 99, models.CodeEventNotOpen},
		{"two days late", running, 60, 12, ""},
		{"more than two days late", running, 60, 12 - second, models.CodeOccurredAtInvalid},
		{"at the start, later", running, 1, 0, ""},
		{"before the start, later", running, 1, -second, models.CodeOccurredAtInvalid},
		{"just before the end, later", running, 148 - second, 100 - second, ""},
		{"at the end, later", running, 101, 100, models.CodeOccurredAtInvalid},
		{"when it has closed", running, 148, 100 - second, models.CodeEventNotOpen},
		{"half a minute ahead", running, 50, 50 + 30*second, ""},
		{"more than half a minute ahead", running, 50, 50 + 31*second, models.CodeOccurredAtInvalid},
		{"ahead of the end", running, 100 - 10*second, 100, models.CodeOccurredAtInvalid},
		{"on a board without late, now", prompt, 50, 50, models.CodeOccurredAtInvalid},
		{"on a board without late", prompt, 50, never, ""},
	} {
		inc := &increment{board: "sales", acceptedAt: at(tt.accepted)}
		if tt.occurred != never {
			occurred := at(tt.occurred)
			inc.OccurredAt = &occurred
		}
		var got models.Code
		if err := inc.refusal(start, tt.event); err != nil {
			got = err.Code
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
