package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"stepboard/models"
)

// Zoned fires whenever a cron expression comes true in one of the zones, on
// the service's clock: "30 3 * * *" at half past three in each of them. An
// error says what is wrong with the expression, as CheckSpec does.
//
// The zones are asked for anew after each firing, so that the zone of a board
// that is defined later counts from the next firing on; while there is none it
// is UTC. Where a clock change skips the time, that day has no firing in that
// zone, and where it repeats the time, two: from one firing to the next it may
// be two days.
func Zoned(spec string, zones func() []*time.Location, clock models.Clock) (cron.Schedule, error) {
	schedule, err := parse(spec)
	if err != nil {
		return nil, err
	}
	return &zoned{schedule: schedule, zones: zones, clock: clock}, nil
}

// CheckSpec tells what is wrong with a cron expression: five fields (minute,
// hour, day of month, month, day of week), a name such as @daily, or @every
// with a duration of at least a second. Naming a zone is an error, as is a
// time that never comes.
func CheckSpec(spec string) error {
	_, err := parse(spec)
	return err
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
		// The library makes a second of anything less.
		if every, err := time.ParseDuration(text); err != nil || every < time.Second {
			return nil, fmt.Errorf("cron expression %q: @every takes a duration of a second or more", spec)
		}
	}
	if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("cron expression %q: there is no such time", spec)
	}
	return schedule, nil
}

type zoned struct {
	schedule cron.Schedule
	zones    func() []*time.Location
	clock    models.Clock
}

// Next is part of cron.Schedule: the first firing after now, both in real
// time. Costs some microseconds for each zone.
func (z *zoned) Next(now time.Time) time.Time {
	// The two clocks are read one after the other. Whole seconds keep the
	// moment in between out of the shift; with it, a firing could come out
	// again right after itself.
	shift := time.Until(z.clock()).Round(time.Second)
	zones := z.zones()
	if len(zones) == 0 {
		zones = []*time.Location{time.UTC}
	}
	var first time.Time
	for _, zone := range zones {
		next := z.in(zone, now.Add(shift))
		if first.IsZero() || (!next.IsZero() && next.Before(first)) {
			first = next
		}
	}
	if first.IsZero() {
		return first
	}
	return first.Add(-shift).In(now.Location())
}

// in is the first firing after now in one zone, both on the service's clock.
func (z *zoned) in(zone *time.Location, now time.Time) time.Time {
	next := z.schedule.Next(now.In(zone))
	// Where a zone goes back over midnight the library may answer a moment
	// that has passed, and would again and again.
	for later := now; !next.IsZero() && !next.After(now); {
		later = later.Add(time.Hour)
		next = z.schedule.Next(later.In(zone))
	}
	return next
}
