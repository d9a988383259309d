package directory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"stepboard/models"
)

const (
	// FollowEvery is how often Follow should be called.
	FollowEvery = time.Second
	// overlap is how far back it looks each time, because an update is dated when it
	// begins and seen when it has committed. farOverlap is how far it looks back once
	// in farEvery times, and at the start: a commit may wait for a standby.
	overlap    = 30 * time.Second
	farOverlap = 15 * time.Minute
	farEvery   = 60
	// followTimeout bounds one look.
	followTimeout = 5 * time.Second
)

// versions are the latest versions of the records that were updated lately, so that each
// version is handled once, and so that an older copy in Redis is recognized.
type versions struct {
	elapsed models.Clock
	mu      sync.RWMutex
	known   map[models.RowID]knownVersion
}

type knownVersion struct {
	version int64
	seen    time.Time
}

func newVersions(elapsed models.Clock) *versions {
	return &versions{elapsed: elapsed, known: make(map[models.RowID]knownVersion)}
}

// add notes the version of a record, unless a newer one is known.
func (v *versions) add(r models.Record) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.known[r.Row]; !ok || known.version < r.Version {
		v.known[r.Row] = knownVersion{r.Version, v.elapsed()}
	}
}

// has reports whether the version of the record or a newer one is known.
func (v *versions) has(r models.Record) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	known, ok := v.known[r.Row]
	return ok && known.version >= r.Version
}

// newer reports whether a newer version than that of the record is known.
func (v *versions) newer(r models.Record) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.known[r.Row].version > r.Version
}

// forget removes the versions that no look returns any more.
func (v *versions) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.known, func(_ models.RowID, known knownVersion) bool {
		return v.elapsed().Sub(known.seen) > 2*farOverlap
	})
}

// followed says what has been followed so far.
type followed struct {
	since time.Time // of the database's clock; zero before the first look
	looks int
}

// Follow looks once for records that other processes have updated, and makes the copies in this process
// as new as SQL, and those in Redis, too. It is called every second, by one caller.
func (s *Service) Follow(ctx context.Context) error {
	f := &s.followed
	f.looks++
	far := f.looks%farEvery == 1
	if err := s.learnErased(ctx, far); err != nil {
		return err
	}
	now, err := s.look(ctx, f.since)
	if err != nil {
		return err
	}
	f.since = now.Add(-overlap)
	if far {
		f.since = now.Add(-farOverlap)
		s.versions.forget()
	}
	return nil
}

// look handles what was updated since a moment of the database's clock, and returns the
// moment of the look. At the zero time it looks back by farOverlap.
func (s *Service) look(ctx context.Context, since time.Time) (now time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if now, err = s.store.now(ctx); err != nil {
		return time.Time{}, err
	}
	if since.IsZero() {
		since = now.Add(-farOverlap)
	}
	list, err := s.store.updatedSince(ctx, since)
	if err != nil {
		return time.Time{}, err
	}
	if err := s.refresh(ctx, rowsOf(slices.DeleteFunc(list, s.versions.has))); err != nil {
		return time.Time{}, err
	}
	s.noteHighest(ctx)
	return now, nil
}

// Refresh replaces the copies of a user's record by what SQL has now, after an update that
// was not made by this service. If it can't, they are replaced within 2 seconds, as in
// other processes. One query and one round trip to Redis.
func (s *Service) Refresh(ctx context.Context, row models.RowID) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if err := s.refresh(ctx, []models.RowID{row}); err != nil {
		s.log.WarnContext(ctx, "a changed record is read again later", "error", err)
	}
}

// GapToRestore is how long a store may go without Follow of any process before Restore has to
// make up for it.
const GapToRestore = farOverlap

// Restore stores in Redis again the records that were updated since a moment of the database's
// clock, at which Redis was complete; the zero time means all that ever were. It is for a
// Redis that may have brought back older copies, which would be believed until they expire.
// It returns how many records it has stored, also with an error. One query, and one more and
// one round trip to Redis for each thousand records or so.
func (s *Service) Restore(ctx context.Context, since time.Time) (stored int64, err error) {
	if !since.IsZero() {
		since = since.Add(-farOverlap) // a commit may have waited for a standby
	}
	updated, err := s.store.updatedSince(ctx, since)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(rowsOf(updated), queryItems) {
		records, err := s.present(ctx, chunk)
		if err != nil {
			return stored, err
		}
		for _, r := range records {
			s.memory.records.replace(r)
		}
		if err := s.redis.store(ctx, records); err != nil {
			return stored, err
		}
		stored += int64(len(records))
	}
	return stored, nil
}

func rowsOf(records []models.Record) []models.RowID {
	rows := make([]models.RowID, len(records))
	for i, r := range records {
		rows[i] = r.Row
	}
	return rows
}

// refresh replaces the copies of records by what SQL has now.
func (s *Service) refresh(ctx context.Context, rows []models.RowID) error {
	for chunk := range slices.Chunk(rows, queryItems) {
		records, err := s.present(ctx, chunk)
		if err != nil {
			return err
		}
		for _, r := range records {
			s.versions.add(r)
			s.memory.records.replace(r)
		}
		if err := s.redis.store(ctx, records); err != nil {
			s.log.WarnContext(ctx, "changed records of users could not be stored in Redis", "users", len(records), "error", err)
		}
	}
	return nil
}

// present returns the records that SQL has now, without those of erased users. One query.
func (s *Service) present(ctx context.Context, rows []models.RowID) ([]models.Record, error) {
	found, err := s.store.byRow(ctx, rows)
	maps.DeleteFunc(found, func(row models.RowID, _ models.Record) bool { return s.erased.has(row) })
	return slices.Collect(maps.Values(found)), err
}
