package board

import (
	"context"
	"slices"

	"stepboard/models"
)

// Correct implements Entries. What was reported stays in HotScores; one query for each bucket with
// corrections that were lifted.
func (l *Local) Correct(ctx context.Context, entries []models.CorrectedEntry) (changed int64, err error) {
	var buckets []*models.Bucket // in the order of the entries, so that what fails does not depend on chance
	of := make(map[*models.Bucket][]models.CorrectedEntry)
	for _, e := range entries {
		if len(of[e.Bucket]) == 0 {
			buckets = append(buckets, e.Bucket)
		}
		of[e.Bucket] = append(of[e.Bucket], e)
	}
	for _, bucket := range buckets {
		corrected := of[bucket]
		if takenOver(bucket, l.clock()) && l.stored(bucket) == nil {
			continue // it was archived, or has no entries
		}
		if err := l.addReported(ctx, bucket, corrected); err != nil {
			return changed, err
		}
		for chunk := range slices.Chunk(corrected, localChunk) {
			changed += l.correctIn(bucket, chunk)
		}
	}
	return changed, nil
}

// addReported adds to Before what users have reported whose corrections were lifted.
func (l *Local) addReported(ctx context.Context, bucket *models.Bucket, corrected []models.CorrectedEntry) error {
	var lifted []models.RowID
	for _, e := range corrected {
		if e.Lifted {
			lifted = append(lifted, e.User)
		}
	}
	if len(lifted) == 0 {
		return nil
	}
	reported, err := l.Reported(ctx, bucket, lifted)
	if err != nil {
		return err
	}
	for i := range corrected {
		if e := &corrected[i]; e.Lifted {
			e.Before, reported = max(e.Before, reported[0]), reported[1:]
		}
	}
	return nil
}

// correctIn corrects some entries of a bucket.
func (l *Local) correctIn(bucket *models.Bucket, corrected []models.CorrectedEntry) (changed int64) {
	b := l.ensure(bucket)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range corrected {
		shown, want := b.shown.of(e.User), e.Composite
		if e.Lifted {
			want = max(shown, e.Before)
		}
		if shown == want || e.User > maxRow {
			continue
		}
		for _, totals := range b.hours { // of a rolling bucket, from which users are only excluded
			totals.set(e.User, 0)
		}
		b.shown.set(e.User, want)
		changed++
	}
	return changed
}

// Reported implements Entries: the largest composites that users have reported, whether or not a
// correction held then. One query.
func (l *Local) Reported(ctx context.Context, bucket *models.Bucket, users []models.RowID) ([]models.Composite, error) {
	composites, err := l.hot.composites(ctx, bucket, users)
	return composites, models.Public("read reported scores", err)
}

// Remove implements Entries. One statement for each bucket of a day.
func (l *Local) Remove(ctx context.Context, buckets []*models.Bucket, users []models.RowID) (removed int64, err error) {
	for _, bucket := range buckets {
		reported, err := l.hot.remove(ctx, bucket, users)
		if err != nil {
			return removed, models.Unavailable("remove entries", err)
		}
		// An entry that is shown and was reported is one.
		removed += max(reported, l.hide(bucket, users))
	}
	return removed, nil
}

// hide removes users from what readers see, and returns how many entries these were.
func (l *Local) hide(bucket *models.Bucket, users []models.RowID) (removed int64) {
	b := l.find(bucket)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, user := range users {
		for _, totals := range b.hours { // of a rolling bucket, whose sums do not count
			if totals.of(user) != 0 {
				totals.set(user, 0)
				removed++
			}
		}
		if b.shown.of(user) != 0 {
			b.shown.set(user, 0)
			if bucket.WindowHours == 0 {
				removed++
			}
		}
	}
	return removed
}

// Stored implements Entries. An entry that readers do not see is one that came late, or was
// reported while a correction held. One query for each bucket.
func (l *Local) Stored(ctx context.Context, buckets []*models.Bucket, user models.RowID) (stored []StoredEntry, err error) {
	for _, bucket := range buckets {
		if !inHotScores(bucket) {
			continue
		}
		reported, err := l.hot.composites(ctx, bucket, []models.RowID{user})
		if err != nil {
			return nil, models.Unavailable("read scores", err)
		}
		var shown models.Composite
		l.read(bucket, func(f *flat) { shown = f.of(user) })
		if shown != 0 {
			stored = append(stored, StoredEntry{Bucket: bucket, Key: models.KeyBoard, Composite: shown})
		}
		if reported[0] != 0 && reported[0] != shown {
			key := models.KeyLate
			if routed, _ := route(l.routes, bucket, user); routed == models.KeyReported {
				key = models.KeyReported
			}
			stored = append(stored, StoredEntry{Bucket: bucket, Key: key, Composite: reported[0]})
		}
	}
	return stored, nil
}
