package directory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"time"

	"stepboard/internal/reading"
	"stepboard/models"
)

const (
	// erasedOverlap is how many of the latest erasures and renames a process reads again each
	// time: one with a smaller id may commit later.
	erasedOverlap = 100
	// erasedTimeout bounds one reading of erasures and renames.
	erasedTimeout = 2 * time.Second
	// erasedMaxAge is how long ago a process may have tried to read erasures when it looks
	// up users. Follow tries more often, unless the process was stopped.
	erasedMaxAge = 4 * time.Second
	// erasedSure is how old what a process knows of erasures may be when it changes
	// something about users in SQL. An erasure takes a minute at least, and what was stored by
	// then is removed; what is stored later is not.
	erasedSure = 20 * time.Second
)

// erasedRows are the row ids of users who were erased. Nobody has them any more: a user
// id that a copy maps to one of them is looked up again, and they have no record. So an
// outdated copy, in the process or in Redis, does no harm. Safe for concurrent use.
type erasedRows struct {
	rows models.RowSet
	// knownAt is a moment from before the last successful reading of erasures and renames,
	// triedAt one from after the last reading that failed, or knownAt; nil before the first.
	knownAt, triedAt atomic.Pointer[time.Time]

	reading *reading.Shared
	last    int64 // the largest id of an erasure that was read
}

// erasure holds the columns of an erasure that a process reads.
type erasure struct {
	ID  int64
	Row models.RowID `gorm:"column:row_id"`
}

func (e *erasedRows) has(row models.RowID) bool { return row >= models.FirstNobody || e.rows.Has(row) }

// Erased returns the row ids of users who were erased, as far as this process knows.
// Processes hear of an erasure within 2 seconds, and add it to the set.
func (s *Service) Erased() *models.RowSet { return &s.erased.rows }

// LoadErased reads which users were erased and renamed. It is called once, before the service
// is used.
func (s *Service) LoadErased(ctx context.Context) error {
	return models.Public("read erasures", s.learnErased(ctx, true))
}

// catchUp reads the latest erasures and renames if nobody has tried that for erasedMaxAge,
// because the process was stopped: it may otherwise show users who were erased meanwhile, or
// accept an update for their row ids, or for somebody under a former id. Two queries then. If
// SQL is away, what the process knows has to do.
func (s *Service) catchUp(ctx context.Context) {
	at := s.erased.triedAt.Load()
	if at == nil || s.elapsed().Sub(*at) <= erasedMaxAge {
		return
	}
	if err := s.readErasedOnce(ctx); err != nil {
		s.log.WarnContext(ctx, "erasures are read later", "error", err)
	}
}

// CheckErasures returns nil if this process knows of all erasures and renames but those
// within erasedSure, and CodeUnavailable otherwise: it must not change anything about users in
// SQL then, because an erasure that it has not heard of may be finished. No I/O, unless the
// process was stopped or SQL was away; two queries then.
func (s *Service) CheckErasures(ctx context.Context) error {
	if at := s.erased.knownAt.Load(); at != nil && s.elapsed().Sub(*at) <= erasedSure {
		return nil
	}
	return models.Public("read erasures", s.readErasedOnce(ctx))
}

// errNotRead reports that another call could not read erasures.
var errNotRead = errors.New("another call could not read them")

// readErasedOnce reads the latest erasures and renames, or waits for a call that does.
func (s *Service) readErasedOnce(ctx context.Context) error {
	others, err := s.erased.reading.Share(ctx, func(ctx context.Context) error { return s.readErased(ctx, false) })
	if others && err != nil {
		return errNotRead
	}
	return err
}

// learnErased reads the latest erasures and renames, or all of them. Two queries.
func (s *Service) learnErased(ctx context.Context, all bool) error {
	return s.erased.reading.Do(ctx, func(ctx context.Context) error { return s.readErased(ctx, all) })
}

// readErased is learnErased within a reading.
func (s *Service) readErased(ctx context.Context, all bool) error {
	after := max(0, s.erased.last-erasedOverlap)
	if all {
		after = 0
	}
	began := s.elapsed()
	list, err := s.store.erasedAfter(ctx, after)
	if err == nil {
		err = s.readRenames(ctx, all)
	}
	if err != nil {
		failed := s.elapsed()
		if latest := began.Add(erasedTimeout); failed.After(latest) { // the process was stopped meanwhile
			failed = latest
		}
		s.erased.triedAt.Store(&failed)
		return err
	}
	for _, e := range list {
		s.erased.last = max(s.erased.last, e.ID)
		if !s.erased.has(e.Row) {
			s.forget(e.Row)
		}
	}
	s.erased.knownAt.Store(&began)
	s.erased.triedAt.Store(&began)
	return nil
}

// Forget makes this process treat a user as erased at once, and removes the copies in
// Redis. DropCopies removes those that other processes store meanwhile.
func (s *Service) Forget(ctx context.Context, user models.UserID, row models.RowID) {
	s.forget(row)
	if _, err := s.DropCopies(ctx, Erased{Row: row, User: &user}); err != nil {
		s.log.WarnContext(ctx, "copies of an erased user are removed from Redis later", "error", err)
	}
}

// forget makes this process treat a row id as that of a user who was erased.
func (s *Service) forget(row models.RowID) {
	s.erased.rows.Add(row)
	s.memory.records.remove(row)
	s.renamed.remove(row)
}

// Erased is a user who was erased.
type Erased struct {
	Row models.RowID
	// User is the user's own id; nil if it is not known any more.
	User *models.UserID
}

// DropCopies removes what Redis has of users who were erased, and returns the number of
// keys. A row id of somebody who came later under the same user id stays. Three round
// trips at most.
func (s *Service) DropCopies(ctx context.Context, users ...Erased) (dropped int64, err error) {
	dropped, err = s.redis.dropErased(ctx, users)
	return dropped, models.Public("remove copies of users", err)
}

// returnTimeout bounds how long a call that creates a user again waits until what was kept of
// the erased one is moved. A job moves it otherwise.
const returnTimeout = 5 * time.Second

// IDHash returns the hash of a user id by which its erasure is found when the id returns.
func IDHash(key []byte, user models.UserID) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(user))
	return mac.Sum(nil)
}

// moveKept moves what was kept of erased users to the rows under which their ids have returned.
// The callers that have created these users wait for it.
func (s *Service) moveKept(ctx context.Context, rows []models.RowID) {
	if len(rows) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	if err := s.move(ctx, rows); err != nil {
		s.log.WarnContext(ctx, "what was kept of an erased user holds again later", "error", err)
	}
}
