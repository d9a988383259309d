// Package passed tells users who of the people they are shown has gone past them today, if they have
// chosen that.
//
// A round takes all who want to be told, some at a time, and ranks each among friends on every board
// of days, from the same friends and scores as the ranking that the user reads; so nobody is named
// who is not in that. It compares who was behind the user at the last look with who is ahead: by those who were ahead
// then, a new friend or somebody's first score of the day would look like passing. Those who
// have passed are told, at most once an hour and five times a day, between 8 and 22 o'clock where the
// user is. Until the user may be told they count as behind, so that one notice names all of an hour
// who are still ahead.
//
// # What is remembered
//
// What was seen of a user, and when the user was told, is one value in Redis, or in the memory of
// the only process. It is replaced only if it is still the one that was read, and before the notice
// is written to the outbox. So two processes that believe to hold the lease tell nobody twice, and a
// process that dies between the two loses the notice. If the value is lost, so is what has happened
// since the last look; as nobody knows then when the user was told, the user is not told for an hour.
//
// # Notices
//
// A notice is an outcome. Its people are read when it is sent, and it is dropped once the day or the
// evening has come to its end. It is also sent to the open streams of the user, see Feed.
package passed

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/internal/pause"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/ranking"
)

const (
	// readUsers is how many users are ranked at once.
	readUsers = 50
	// restTimes is how many times as long as a step took the work pauses after it, in favor of
	// everybody who looks at a ranking at that time.
	restTimes = 4
	// keep is how long what was seen of a user is kept after it has changed: longer than a day that
	// is each user's own.
	keep = 52 * time.Hour
)

// States remembers what was seen of users. Implemented by RedisStates and LocalStates.
type States interface {
	// Load returns the text of each user, by position; "" if there is none. One round trip.
	Load(ctx context.Context, users []models.RowID) ([]string, error)
	// Swap replaces texts that are still those that were read, and returns which it has replaced, by
	// position. After an error the others may have been replaced as well. One round trip.
	Swap(ctx context.Context, swaps []Swap) (swapped []bool, err error)
	// Erase forgets users, and returns of how many there was anything to forget. One round trip.
	Erase(ctx context.Context, users ...models.RowID) (int64, error)
	// Began returns since when nothing was forgotten, if that is known; otherwise the zero time.
	Began() time.Time
}

// Swap is the replacement of the text of a user. New is not empty.
type Swap struct {
	User     models.RowID
	Old, New string
}

// Stats counts the work of this process.
type Stats struct {
	// Notices are those that were written, and Lost those that could not be written.
	Notices, Lost atomic.Int64
}

// Service looks who has passed whom. Safe for concurrent use.
type Service struct {
	o     Options
	stats Stats
}

// Options holds what a Service is built on.
type Options struct {
	Wanting  *notices.Store
	States   States
	Catalog  *catalog.Catalog
	Rankings *ranking.Service
	Store    *Store
	Feed     *Feed
	Clock    models.Clock
	Log      *slog.Logger
}

// New returns a service.
func New(o Options) *Service { return &Service{o: o} }

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// Subject returns what is remembered about users. Others may have somebody who was erased in their
// last look, as a row id, until it expires.
func Subject(states States) models.Subject {
	erase := func(ctx context.Context, user models.RowID) (int64, error) { return states.Erase(ctx, user) }
	return models.Subject{Name: "passed", Keys: []string{"Passed"}, Erase: erase}
}

// Run looks at everybody who wants to be told, once, and returns how many that were. It pauses after
// each step, so that it takes a fifth of the stores' time at most.
func (s *Service) Run(ctx context.Context) (users int64, err error) {
	var after models.RowID
	zones := make(zones)
	for {
		began := time.Now()
		list, err := s.o.Wanting.Wanting(ctx, models.TellPassed, after, readUsers)
		if err == nil && len(list) > 0 {
			err = s.look(ctx, list, zones)
		}
		if err != nil {
			return users, err
		}
		users += int64(len(list))
		if len(list) < readUsers {
			return users, nil
		}
		after = list[len(list)-1].User
		if err := pause.After(ctx, began, restTimes); err != nil {
			return users, err
		}
	}
}

// zones are the time zones that were found in a round, by name.
type zones map[string]*time.Location

// of returns a zone; nil if the name is empty, or this version does not know it.
func (z zones) of(name string) *time.Location {
	zone, found := z[name]
	if !found && name != "" {
		zone, _ = time.LoadLocation(name) // nil with an error
		z[name] = zone
	}
	return zone
}

// reader is somebody who is looked at.
type reader struct {
	user models.RowID
	zone *time.Location // nil if it is not known
	// old is the text that was remembered, and was what it says.
	old string
	was seen
	// next is what was seen by now, and notice what is to be told; nil for nothing.
	next   seen
	notice *notice
}

// look looks at some users, and tells those who were passed.
func (s *Service) look(ctx context.Context, list []notices.Wanting, zones zones) error {
	now := s.o.Clock()
	users := column.Of(list, func(r notices.Wanting) models.RowID { return r.User })
	texts, err := s.o.States.Load(ctx, users)
	if err != nil {
		return models.Unavailable("read what was seen of users", err)
	}
	readers := make([]*reader, len(list))
	for i, r := range list {
		readers[i] = s.reader(r, zones.of(r.TimeZone), texts[i], now)
	}
	for _, board := range s.o.Catalog.Definitions.Boards() {
		if board.RequireDays() == nil {
			if err := s.lookAt(ctx, board, readers, now); err != nil {
				return err
			}
		}
	}
	return s.keep(ctx, readers)
}

// reader returns somebody of whom a text was remembered. Of somebody who is unknown, what was
// remembered may be lost, unless nobody could have been told within the hour. This counts as a notice
// now, because there may have been one.
func (s *Service) reader(of notices.Wanting, zone *time.Location, text string, now time.Time) *reader {
	r := &reader{user: of.User, zone: zone, old: text}
	known := false
	lost := now.Sub(of.Since) > pauseBetween || of.Since.Before(s.o.States.Began())
	if r.was, known = decodeSeen(text); !known && lost {
		r.was.tell(now)
	}
	r.next = seen{Told: r.was.Told, Boards: make(map[string]look)}
	return r
}

// lookAt looks at users on a board. If days are each user's own they have up to three buckets.
func (s *Service) lookAt(ctx context.Context, board *catalog.Board, readers []*reader, now time.Time) error {
	type looked struct {
		*reader

		ends time.Time // of the day where the user is
	}
	byUser := make(map[models.RowID]looked)
	buckets, users := make(map[string]*models.Bucket), make(map[string][]models.RowID) // by bucket
	for _, r := range readers {
		bucket, ends, err := s.o.Catalog.Buckets.CurrentIn(board, now, r.in(board))
		if err != nil {
			return err
		}
		byUser[r.user] = looked{r, ends}
		buckets[bucket.Name], users[bucket.Name] = bucket, append(users[bucket.Name], r.user)
	}
	for _, name := range slices.Sorted(maps.Keys(buckets)) {
		bucket, err := s.o.Catalog.Buckets.Existing(ctx, buckets[name])
		if errors.Is(err, catalog.ErrNoBucket) {
			continue
		}
		if err != nil {
			return err
		}
		found, err := s.o.Rankings.Neighbours(ctx, bucket, users[name])
		if err != nil {
			return err
		}
		for _, at := range found {
			r := byUser[at.Mine.User]
			r.compare(board, bucket, r.ends, at, now)
		}
	}
	return nil
}

// in returns the time zone where the user is, or that of a board if it is not known.
func (r *reader) in(board *catalog.Board) *time.Location {
	if r.zone == nil {
		return board.Zone()
	}
	return r.zone
}

// compare compares a standing on a board with the last one, and notes what is to be told. One look
// tells of one board; another one waits for the next hour.
func (r *reader) compare(board *catalog.Board, bucket *models.Bucket, ends time.Time, at ranking.Neighbours, now time.Time) {
	zone, was := r.in(board), r.was.Boards[board.Name]
	passed, told, untold := was.compare(bucket.Name, at)
	if len(passed) == 0 || !now.Before(ends) || !r.next.may(now, zone) {
		r.next.Boards[board.Name] = untold
		return
	}
	r.next.tell(now)
	r.next.Boards[board.Name] = told
	points, _ := score.Of(bucket).Decode(at.Mine.Composite)
	r.notice = &notice{
		Board: board.Name, Date: board.Date(bucket).String(), User: r.user, Rank: told.Rank, Was: was.Rank,
		Total: 1 + len(at.Ahead) + len(at.Behind), Score: bucket.Score(points),
		By: passed[:min(len(passed), mostNames)], Until: until(now, ends, zone).UnixMilli(),
	}
}

// keep remembers what was seen, and tells those of whom nobody has remembered something else
// meanwhile.
func (s *Service) keep(ctx context.Context, readers []*reader) error {
	var (
		swaps   []Swap
		changed []*reader
	)
	for _, r := range readers {
		if text := r.next.encode(); text != r.old {
			swaps, changed = append(swaps, Swap{r.user, r.old, text}), append(changed, r)
		}
	}
	if len(swaps) == 0 {
		return nil
	}
	failpoint.Hit("passed.compared")
	swapped, err := s.o.States.Swap(ctx, swaps)
	var list []*notice
	for i, r := range changed {
		switch {
		case r.notice == nil:
		case swapped[i]:
			list = append(list, r.notice)
		case err != nil:
			s.stats.Lost.Add(1)
		}
	}
	failpoint.Hit("passed.remembered")
	return errors.Join(models.Wrap("remember what was seen of users", err), s.tell(ctx, list))
}

// tell writes notices to the outbox and sends them to open streams.
func (s *Service) tell(ctx context.Context, list []*notice) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.o.Store.write(ctx, list); err != nil {
		s.stats.Lost.Add(int64(len(list)))
		return err
	}
	s.stats.Notices.Add(int64(len(list)))
	failpoint.Hit("passed.written")
	if err := s.o.Feed.publish(ctx, list); err != nil {
		s.o.Log.WarnContext(ctx, "open streams are not told who has passed their users", "error", err)
	}
	return nil
}
