package status

import (
	"context"
	"time"

	"stepboard/models"
)

// Minute holds what all processes have counted in a minute.
type Minute struct {
	// At is when it began.
	At time.Time
	// Calls, Refused and Latency are the sums of those of models.ProcessMinute. Latency is nil if no
	// process has reported.
	Calls, Refused int64
	Latency        []int64
	// QueueMS is the greatest age of the queue's oldest message that a process has seen, in
	// milliseconds.
	QueueMS int64
}

// lastHour returns the last sixty minutes that have ended, oldest first. One query.
func (s *Service) lastHour(ctx context.Context, now time.Time) ([]Minute, error) {
	first := now.Truncate(time.Minute).Add(-keptMinutes * time.Minute)
	rows, err := s.store.minutes(ctx, first)
	return sumMinutes(first, rows), err
}

// sumMinutes sums the figures of processes in the sixty minutes from one on.
func sumMinutes(first time.Time, rows []models.ProcessMinute) []Minute {
	minutes := make([]Minute, keptMinutes)
	for i := range minutes {
		minutes[i].At = first.Add(time.Duration(i) * time.Minute)
	}
	for _, row := range rows {
		i := int(row.Minute.Sub(first) / time.Minute)
		if i < 0 || i >= keptMinutes {
			continue
		}
		m := &minutes[i]
		m.Calls, m.Refused, m.QueueMS = m.Calls+row.Calls, m.Refused+row.Refused, max(m.QueueMS, row.QueueMS)
		for len(m.Latency) < len(row.Latency) {
			m.Latency = append(m.Latency, 0)
		}
		for at, n := range row.Latency {
			m.Latency[at] += n
		}
	}
	return minutes
}

// Quantile returns the time within which a part of calls was answered, 0 to 1, by how many took up
// to each bound, as models.ProcessMinute has them. It is interpolated between two bounds, and at
// most the last one; 0 without calls.
func Quantile(bounds []float64, latency []int64, part float64) float64 {
	var calls int64
	for _, n := range latency {
		calls += n
	}
	left := part * float64(calls)
	from := 0.0
	for i, bound := range bounds {
		if i >= len(latency) {
			break
		}
		if n := float64(latency[i]); n > 0 && left <= n {
			return from + (bound-from)*left/n
		}
		left -= float64(latency[i])
		from = bound
	}
	if calls == 0 {
		return 0
	}
	return from
}
