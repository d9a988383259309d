package directory

import (
	"context"
	"slices"
	"sync"
	"time"

	"stepboard/models"
)

const (
	// FollowEvery is how often Follow should be called.
	FollowEvery = time.Second
	// overlap is how far back it looks each time, because a change is dated when it
	// begins and seen when it has committed. farOverlap is how far it looks back once
	// in farEvery times, and at the start: a commit may wait for a standby.
	overlap    = 30 * time.Second
	farOverlap = 15 * time.Minute
	farEvery   = 60
	// followTimeout bounds one look.
	followTimeout = 5 * time.Second
)

// changes are the latest versions of the records that changed lately, so that
// each change is handled once, and so that an older copy in Redis is recognized.
type changes struct {
	elapsed  models.Clock
	mu       sync.RWMutex
	versions map[models.RowID]change
}

type change struct {
	version int64
	seen    time.Time
}

func newChanges(elapsed models.Clock) *changes {
	return &changes{elapsed: elapsed, versions: make(map[models.RowID]change)}
}

// add notes a change, unless a newer one is known.
func (c *changes) add(r models.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.versions[r.Row]; !ok || known.version < r.Version {
		c.versions[r.Row] = change{r.Version, c.elapsed()}
	}
}

// newer reports whether a newer version than that of the record is known.
func (c *changes) newer(r models.Record) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.versions[r.Row].version > r.Version
}

// forget removes the changes that no look returns any more.
func (c *changes) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for row, known := range c.versions {
		if c.elapsed().Sub(known.seen) > 2*farOverlap {
			delete(c.versions, row)
		}
	}
}

// followed says what has been followed so far.
type followed struct {
	since time.Time // of the database's clock; zero before the first look
	looks int
}

// Follow looks once for changes by other processes, and makes the copies in this process
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
		s.changes.forget()
	}
	return nil
}

// look handles the changes since a moment of the database's clock, and returns the
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
	list, err := s.store.changedSince(ctx, since)
	if err != nil {
		return time.Time{}, err
	}
	if err := s.refresh(ctx, slices.DeleteFunc(list, func(r models.Record) bool { return !s.changes.unknown(r) })); err != nil {
		return time.Time{}, err
	}
	s.noteHighest(ctx)
	return now, nil
}

// unknown reports whether a change was not added yet.
func (c *changes) unknown(r models.Record) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	known, ok := c.versions[r.Row]
	return !ok || known.version < r.Version
}

// Refresh replaces the copies of a user's record by what SQL has now, after a change that
// was not made by this service. If it can't, they are replaced within 2 seconds, as in
// other processes. One query and one round trip to Redis.
func (s *Service) Refresh(ctx context.Context, row models.RowID) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	if err := s.refresh(ctx, []models.Record{{Row: row}}); err != nil {
		s.log.WarnContext(ctx, "a changed record is read again later", "error", err)
	}
}

// GapToRestore is how long a store may go without Follow of any process before Restore has to
// make up for it.
const GapToRestore = farOverlap

// Restore stores in Redis again the records that changed since a moment of the database's
// clock, at which Redis was complete; the zero time means all that ever changed. It is for a
// Redis that may have brought back older copies, which would be believed until they expire.
// It returns how many records it has stored, also with an error. One query, and one more and
// one round trip to Redis for each thousand records or so.
func (s *Service) Restore(ctx context.Context, since time.Time) (stored int64, err error) {
	if !since.IsZero() {
		since = since.Add(-farOverlap) // a commit may have waited for a standby
	}
	changed, err := s.store.changedSince(ctx, since)
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(changed, queryItems) {
		found, err := s.store.byRow(ctx, rowsOf(chunk))
		if err != nil {
			return stored, err
		}
		records := make([]models.Record, 0, len(found))
		for _, r := range found {
			s.memory.records.replace(r)
			records = append(records, r)
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

// refresh replaces the copies of the records, of which only the rows are given.
func (s *Service) refresh(ctx context.Context, changed []models.Record) error {
	for chunk := range slices.Chunk(changed, queryItems) {
		records, err := s.store.byRow(ctx, rowsOf(chunk))
		if err != nil {
			return err
		}
		list := make([]models.Record, 0, len(records))
		for _, r := range records {
			if s.erased.has(r.Row) {
				continue
			}
			s.changes.add(r)
			s.memory.records.replace(r)
			list = append(list, r)
		}
		if err := s.redis.store(ctx, list); err != nil {
			s.log.WarnContext(ctx, "changed records of users could not be stored in Redis", "users", len(list), "error", err)
		}
	}
	return nil
}
