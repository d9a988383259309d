package importer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"
	"unique"

	"stepboard/models"
	"stepboard/services/boards/catalog"
)

// maxUserDays is how many days of users a file of hours may have: about 900 MB.
const maxUserDays = 5_000_000

// hourly adds up the hours of days. The hours are those of the board's zone;
// if days are each user's own, the dates are the users', and the hours are taken for
// those of UTC, because the file does not have their offset. Hours come in any order, so the
// days of the whole file are kept until its end: about 180 bytes for each user and day.
type hourly struct {
	*stepsImport
	days map[userDay]*dayTotal
	most int // days
}

func newHourly(i *stepsImport) *hourly {
	return &hourly{stepsImport: i, days: make(map[userDay]*dayTotal), most: maxUserDays}
}

// userDay is a user's day. Its user is in memory once.
type userDay struct {
	user unique.Handle[models.UserID]
	date models.Date
}

// dayTotal has the hours of a user's day.
type dayTotal struct {
	user unique.Handle[models.UserID]
	date int32 // models.Date
	// hours has the steps of each hour that seen has, as a bit.
	hours [24]uint32
	seen  uint32
	line  int32 // the last one of the day
	lines int32 // how many the day has
	// again has the second steps of hours that a clock change repeats. It is nil on most days.
	again *[24]uint32
}

// add adds the steps of an hour. The same hour counts once, with the larger steps, and twice
// if it repeats.
func (d *dayTotal) add(hour int, steps uint32, repeats func() bool) {
	if d.seen&(1<<hour) == 0 {
		d.seen |= 1 << hour
		d.hours[hour] = steps
		return
	}
	smaller := min(d.hours[hour], steps)
	d.hours[hour] = max(d.hours[hour], steps)
	if repeats() {
		if d.again == nil {
			d.again = new([24]uint32)
		}
		d.again[hour] = max(d.again[hour], smaller)
	}
}

// score returns the steps of the day.
func (d *dayTotal) score() (sum int64) {
	for hour, steps := range d.hours {
		sum += int64(steps)
		if d.again != nil {
			sum += int64(d.again[hour])
		}
	}
	return sum
}

// reachedAt returns when the total was reached: at the end of the last hour with steps, or,
// if it is 0, at the end of the first hour in the file.
func (d *dayTotal) reachedAt(date models.Date, zone *time.Location) time.Time {
	last := len(d.hours) - 1
	for last >= 0 && d.hours[last] == 0 {
		last--
	}
	if last < 0 {
		last = bits.TrailingZeros32(d.seen)
	}
	begins, _ := catalog.Moments(date, last, zone)
	if d.again != nil {
		for hour, steps := range d.again {
			if _, again := catalog.Moments(date, hour, zone); steps > 0 && again.After(begins) {
				begins = again
			}
		}
	}
	return begins.Add(time.Hour)
}

// add adds a line to its day.
func (h *hourly) add(ctx context.Context, l StepsLine) error {
	key := userDay{unique.Make(l.User), l.Date}
	day := h.days[key]
	if day == nil {
		bucket, err := h.bucket(ctx, l.Date, l.Number)
		if bucket == nil {
			return err
		}
		if len(h.days) == h.most {
			return fmt.Errorf("the file has hours of more than %d days of users, which are kept in memory: "+
				"split it, with all hours of a day in the same part", h.most)
		}
		day = &dayTotal{user: key.user, date: int32(l.Date)}
		h.days[key] = day
	}
	h.check.good(l.Number, l.User)
	day.add(l.Hour, uint32(l.Steps), func() bool {
		_, again := catalog.Moments(l.Date, l.Hour, h.board.Zone())
		return !again.IsZero()
	})
	day.line = int32(l.Number)
	day.lines++
	return nil
}

// finish raises the days in the order of their lines, so that bad lines are
// reported in that order too.
func (h *hourly) finish(ctx context.Context) error {
	for _, day := range slices.SortedFunc(maps.Values(h.days), func(a, b *dayTotal) int { return cmp.Compare(a.line, b.line) }) {
		date := models.Date(day.date)
		err := h.raise(ctx, total{
			user: day.user.Value(), date: date, score: day.score(), reachedAt: day.reachedAt(date, h.board.Zone()),
			line: int(day.line), lines: int(day.lines),
		})
		if err != nil {
			return err
		}
	}
	return nil
}
