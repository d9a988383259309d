package board

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"stepboard/models"
	"stepboard/services/boards/score"
)

// maxHour is later than any hour.
const maxHour models.Hour = math.MaxInt64

// hoursUpTo returns the stored hours of a rolling bucket up to one, oldest first. The bucket is
// locked.
func (b *localBucket) hoursUpTo(last models.Hour) []models.Hour {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(b.hours)), func(hour models.Hour) bool { return hour > last })
}

// hourOf returns the hour of which a composite is the total.
func hourOf(bucket *models.Bucket, composite models.Composite) models.Hour {
	_, reachedAt := score.Of(bucket).Decode(composite)
	return models.HourOf(reachedAt.Time())
}

// raiseHour is raiseHourScript for one user: it sets a total of one hour and adds what the user
// gained to the sum, unless the hour has left the window or the stored total is not less. The
// bucket is locked.
func (b *localBucket) raiseHour(bucket *models.Bucket, e models.Entry, now time.Time) bool {
	hour := hourOf(bucket, e.Composite)
	b.latest = max(b.latest, hour, models.HourOf(now))
	expired := b.latest - models.Hour(bucket.WindowHours)
	if hour <= expired {
		return false
	}
	totals := b.hours[hour]
	if totals == nil {
		totals = &flat{}
	}
	if e.Composite <= totals.of(e.User) {
		return false
	}
	b.hours[hour] = totals
	totals.set(e.User, e.Composite)
	points, _ := b.sum(bucket, e.User)
	if points > bucket.MaxScore {
		// Hours that are still to be drained count too much.
		for _, gone := range b.hoursUpTo(expired) {
			b.hours[gone].set(e.User, 0)
		}
	}
	b.addUp(bucket, e.User)
	return true
}

// sum returns a user's points in all stored hours, and the composite of the sum; 0 for a user
// without any. The bucket is locked.
func (b *localBucket) sum(bucket *models.Bucket, user models.RowID) (points int64, composite models.Composite) {
	unit := int64(1) << bucket.TimeBits
	rest := unit
	for _, totals := range b.hours {
		if total := int64(totals.of(user)); total != 0 {
			points += total / unit
			rest = min(rest, total%unit) // less is later
		}
	}
	if rest == unit {
		return 0, 0
	}
	return points, models.Composite(points*unit + rest)
}

// addUp makes a user's sum that of the hours. The bucket is locked.
func (b *localBucket) addUp(bucket *models.Bucket, user models.RowID) {
	_, composite := b.sum(bucket, user)
	b.shown.set(user, composite)
}

// expired returns the hours that have left the window. The bucket is locked.
func (b *localBucket) expired(bucket *models.Bucket, now time.Time) []models.Hour {
	return b.hoursUpTo(max(b.latest, models.HourOf(now)) - models.Hour(bucket.WindowHours))
}

// Drain implements Entries. It locks the bucket for drainChunk users at a time.
func (l *Local) Drain(ctx context.Context, bucket *models.Bucket) (drained int64, err error) {
	b := l.find(bucket)
	if bucket.WindowHours == 0 {
		return 0, nil
	}
	for ctx.Err() == nil {
		n, more := b.drain(bucket, l.clock())
		if drained += n; !more {
			return drained, nil
		}
	}
	return drained, models.Unavailable("drain", ctx.Err())
}

// drain removes some users from the oldest hour that has left the window, and the hour if it is
// empty then. more is false if there is no such hour.
func (b *localBucket) drain(bucket *models.Bucket, now time.Time) (drained int64, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	expired := b.expired(bucket, now)
	if len(expired) == 0 {
		return 0, false
	}
	hour := expired[0]
	b.latest = max(b.latest, models.HourOf(now))
	totals := b.hours[hour]
	for _, e := range totals.order.Range(0, drainChunk) {
		totals.set(e.User, 0)
		b.addUp(bucket, e.User)
		drained++
	}
	if totals.order.Len() == 0 {
		delete(b.hours, hour)
	}
	return drained, true
}

// Settling implements Entries.
func (l *Local) Settling(_ context.Context, bucket *models.Bucket) (bool, error) {
	b := l.find(bucket)
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.expired(bucket, l.clock())) > 0, nil
}

// Drift implements Entries.
func (l *Local) Drift(_ context.Context, bucket *models.Bucket, sample int) (checked, drifted int, err error) {
	b := l.find(bucket)
	if bucket.WindowHours == 0 {
		return 0, 0, nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	sampled := make(map[models.RowID]bool)
	draw := func(f *flat, n int) {
		all := f.order.Len()
		n = min(n, all)
		for i := range n {
			at := (i*all + rand.IntN(all)) / n //nolint:gosec // it is no secret
			sampled[f.order.Range(at, at+1)[0].User] = true
		}
	}
	draw(&b.shown, (sample+1)/2)
	if hours := b.hoursUpTo(maxHour); len(hours) > 0 {
		draw(b.hours[hours[rand.IntN(len(hours))]], sample/2) //nolint:gosec // it is no secret
	}
	for user := range sampled {
		if _, composite := b.sum(bucket, user); composite != b.shown.of(user) {
			drifted++
		}
	}
	return len(sampled), drifted, nil
}
