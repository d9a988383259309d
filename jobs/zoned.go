package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"stepboard/models"
)

// Zoned returns a schedule that fires whenever a cron expression is due in one
// of the zones, on the service's clock: "30 3 * * *" at half past three in each
// of them. The error is that of CheckSpec.
//
// The zones are read anew after each firing, so that the zone of a board that
// is defined later counts from the next firing on. Without any zone it is UTC.
// If a clock change skips the time, the schedule fires right after the change; if it
// repeats the time, it fires twice.
func Zoned(spec string, zones func() []*time.Location, clock models.Clock) (cron.Schedule, error) {
	schedule, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return &zoned{schedule: schedule, zones: zones, clock: clock}, nil
}

// CheckSpec returns what is wrong with a cron expression, nil if it is valid:
// five fields (minute, hour, day of month, month, day of week), a name such as
// @daily, or @every with a duration of at least a second. An expression must
// not name a zone, nor a time that never occurs.
func CheckSpec(spec string) error {
	_, err := parse(spec)
	return err
}

// FirstFiring returns a function that returns the first firing of a cron expression at or after
// a time, in the time's zone. The error is that of CheckSpec.
func FirstFiring(spec string) (func(time.Time) time.Time, error) {
	schedule, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return func(from time.Time) time.Time { return schedule.Next(from.Add(-time.Second)) }, nil
}

func parse(spec string) (cron.Schedule, error) {
	if strings.Contains(spec, "TZ=") {
		return nil, fmt.Errorf("cron expression %q: name no time zone, it is the board's", spec)
	}
	schedule, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, fmt.Errorf("cron expression %q: %w", spec, err)
	}
	if text, ok := strings.CutPrefix(spec, "@every "); ok {
		// The library turns anything shorter into a second.
		if every, err := time.ParseDuration(text); err != nil || every < time.Second {
			return nil, fmt.Errorf("cron expression %q: @every takes a duration of a second or more", spec)
		}
	}
	if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("cron expression %q: there is no such time", spec)
	}
	if _, ok := schedule.(*cron.SpecSchedule); ok {
		schedule = wallClock{schedule}
	}
	return schedule, nil
}

// wallClock is a schedule by the hands of a clock, which fires right after a change of the clock
// has skipped one or more of its firings, once.
type wallClock struct{ cron.Schedule }

// Next is part of cron.Schedule. Between two changes of the clock the library is right.
func (w wallClock) Next(t time.Time) time.Time {
	for period := t; ; {
		_, change := period.ZoneBounds()
		_, offset := period.Zone()
		next := w.Schedule.Next(t.In(time.FixedZone("", offset)))
		if next.IsZero() || change.IsZero() || next.Before(change) {
			return next.In(t.Location())
		}
		_, later := change.Zone()
		if next.Before(change.Add(time.Duration(later-offset) * time.Second)) { // skipped
			return change
		}
		period, t = change, change.Add(-time.Second)
	}
}

type zoned struct {
	schedule cron.Schedule
	zones    func() []*time.Location
	clock    models.Clock
}

// Next is part of cron.Schedule. It returns the first firing after now, both in
// real time. It takes some microseconds for each zone.
func (z *zoned) Next(now time.Time) time.Time {
	// The two clocks are read one after the other. Rounding removes the time in
	// between from the shift; otherwise Next could return the same firing twice.
	shift := time.Until(z.clock()).Round(time.Second)
	zones := z.zones()
	if len(zones) == 0 {
		zones = []*time.Location{time.UTC}
	}
	var first time.Time
	for _, zone := range zones {
		next := z.schedule.Next(now.Add(shift).In(zone))
		if first.IsZero() || (!next.IsZero() && next.Before(first)) {
			first = next
		}
	}
	if first.IsZero() {
		return first
	}
	return first.Add(-shift).In(now.Location())
}
