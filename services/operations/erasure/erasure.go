package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"stepboard/internal/column"
	"stepboard/internal/failpoint"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/people/cache"
	"stepboard/services/people/directory"
	"stepboard/services/platform/revoked"
)

const (
	// settleTime is how long after its beginning an erasure may find something new, and the
	// time between two sweeps. Processes hear of an erasure within two seconds, and what
	// they have accepted by then is stored within seconds.
	settleTime = time.Minute
	// guardTime is how long the copies in Redis are looked at after an erasure: an older
	// state of Redis may be restored meanwhile. After that its buckets are archived.
	guardTime = 40 * 24 * time.Hour
	// guardUsers is how many users Guard looks for at a time.
	guardUsers = 500
)

// Options holds what a Service is built on.
type Options struct {
	Store     *Store
	Directory Users
	Entries   board.Corrector
	Sets      cache.Copies
	// Revoked keeps the keys that were revoked, which a restored database must not revive.
	Revoked *revoked.Keys
	// Subjects are what is stored about users, in the order in which a sweep removes it.
	Subjects []models.Subject
	// Forget removes what Redis has of users besides entries, copies and sets, and returns of how many
	// there was anything.
	Forget func(ctx context.Context, users ...models.RowID) (int64, error)
	// Pending reports whether the archive has yet to apply corrections of a user.
	Pending func(ctx context.Context, user models.RowID) (bool, error)
	Clock   models.Clock
	Log     *slog.Logger
}

// Users finds users, and has copies of them. Implemented by directory.Service.
type Users interface {
	models.Finder
	// Forget makes this process treat a user as erased at once.
	Forget(ctx context.Context, user models.UserID, row models.RowID)
	// DropCopies removes what Redis has of users who were erased.
	DropCopies(ctx context.Context, users ...directory.Erased) (dropped int64, err error)
}

// Service erases users, keeps what must hold again when a user id returns, and exports what is
// stored about them. Safe for concurrent use.
type Service struct{ o Options }

// New returns a service.
func New(o Options) *Service { return &Service{o} }

// Subjects returns those of the options.
func (s *Service) Subjects() []models.Subject { return s.o.Subjects }

// Begin erases a user. The user id is free when it returns; other processes see that
// within two seconds, and a job removes what is stored. A user who is being erased has no
// second erasure: it returns the one under way. CodeUserNotFound if there is no such user,
// CodeRateLimited if the user id was erased erasureLimit times within a day, CodeUnavailable. In a
// dry run it changes nothing, and the erasure has no id.
func (s *Service) Begin(ctx context.Context, user models.UserID, dryRun bool) (models.Erasure, error) {
	return s.begin(ctx, user, dryRun, erasureLimit, nil)
}

// begin is Begin with another limit than three; 0 means none. If leave is given, it may keep the user.
func (s *Service) begin(ctx context.Context, user models.UserID, dryRun bool, limit int, leave leaving) (models.Erasure, error) {
	secret, err := s.o.Store.Key(ctx)
	if err != nil {
		return models.Erasure{}, models.Unavailable("erase a user", err)
	}
	e, err := s.o.Store.begin(ctx, user, secret, s.now(), limit, dryRun, leave)
	if errors.Is(err, errNotStored) {
		return models.Erasure{}, models.NoUser(user)
	}
	if err != nil {
		return models.Erasure{}, models.Public("erase a user", err)
	}
	if dryRun {
		return e, nil
	}
	failpoint.Hit("erasure.begun")
	s.o.Directory.Forget(context.WithoutCancel(ctx), user, e.Row)
	return e, nil
}

func (s *Service) now() time.Time { return models.TimestampOf(s.o.Clock()).Time() }

// Run makes a sweep for each erasure that is due for one, oldest first, and returns how
// much it has removed. It also moves what is kept of those whose ids have returned. It is called
// every few seconds. Two queries without erasures.
func (s *Service) Run(ctx context.Context) (removed int64, err error) {
	unfinished, err := s.o.Store.unfinished(ctx)
	if err != nil {
		return 0, err
	}
	if len(unfinished) > 0 {
		if err := s.o.Store.noteReturned(ctx); err != nil {
			return 0, err
		}
	}
	var failed []error
	for _, e := range unfinished {
		now := s.now()
		if !due(&e, now) {
			continue
		}
		n, err := s.sweep(ctx, e, now)
		removed += n
		if err != nil {
			failed = append(failed, fmt.Errorf("erasure %d: %w", e.ID, err))
		}
	}
	// Processes have died meanwhile that were to move what is kept, or the erasures were not finished.
	returned, err := s.o.Store.returned(ctx)
	failed = append(failed, err, s.Return(ctx, returned))
	return removed, errors.Join(failed...)
}

// Unfinished returns how many erasures are not finished, and how long ago the oldest of
// them began. One query.
func (s *Service) Unfinished(ctx context.Context) (n int, age time.Duration, err error) {
	unfinished, err := s.o.Store.unfinished(ctx)
	if err != nil || len(unfinished) == 0 {
		return 0, 0, err
	}
	return len(unfinished), s.now().Sub(unfinished[0].BegunAt), nil
}

// due reports whether an erasure needs a sweep now.
func due(e *models.Erasure, now time.Time) bool {
	return e.SweptAt == nil || now.Sub(*e.SweptAt) >= settleTime
}

// finishes reports whether an erasure is finished by a sweep that began at a time and has
// removed so much.
func finishes(e *models.Erasure, began time.Time, removed int64) bool {
	return removed == 0 && began.Sub(e.BegunAt) >= settleTime
}

// sweep removes everything that is stored about a user.
func (s *Service) sweep(ctx context.Context, e models.Erasure, began time.Time) (removed int64, err error) {
	for _, subject := range s.o.Subjects {
		n, err := s.erase(ctx, &subject, e.Row)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("%s: %w", subject.Name, err)
		}
		failpoint.Hit("erasure.part")
	}
	finished := finishes(&e, began, removed)
	if err := s.o.Store.swept(ctx, &e, began, removed, finished); err != nil {
		return removed, err
	}
	if finished {
		s.o.Log.InfoContext(ctx, "an erasure is finished", "id", e.ID, "sweeps", e.Sweeps+1)
	}
	return removed, nil
}

// erase removes what is stored about a user of a subject. What must wait until the archive has
// applied the user's corrections, which a job does within seconds, stays meanwhile: the archived
// score would else stay as it was. It returns 1 then, so that another sweep follows.
func (s *Service) erase(ctx context.Context, subject *models.Subject, user models.RowID) (int64, error) {
	if subject.AfterCorrections {
		pending, err := s.o.Pending(ctx, user)
		if err != nil {
			return 0, err
		}
		if pending {
			return 1, nil
		}
	}
	return subject.Erase(ctx, user)
}

// Guard looks in Redis for users who were erased within guardTime, because Redis may have
// returned to a state before their erasure, and because a process that was stopped meanwhile
// may have stored something for them. It removes what it finds, and returns the number
// of entries and keys. It is called every minute. It costs a query if there are no erasures,
// otherwise two, and for each guardUsers Entries.Remove and four round trips.
func (s *Service) Guard(ctx context.Context) (removed int64, err error) {
	list, err := s.o.Store.finishedSince(ctx, s.now().Add(-guardTime))
	if err != nil || len(list) == 0 {
		return 0, err
	}
	buckets, err := s.o.Store.hotBuckets(ctx, s.now())
	if err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(list, guardUsers) {
		rows := column.Of(chunk, func(e models.Erasure) models.RowID { return e.Row })
		copies := column.Of(rows, func(row models.RowID) directory.Erased { return directory.Erased{Row: row} })
		for _, remove := range []func() (int64, error){
			func() (int64, error) { return s.o.Entries.Remove(ctx, buckets, rows) },
			func() (int64, error) { return s.o.Directory.DropCopies(ctx, copies...) },
			func() (int64, error) { return s.o.Sets.RemoveOf(ctx, rows) },
			func() (int64, error) { return s.o.Forget(ctx, rows...) },
		} {
			n, err := remove()
			removed += n
			if err != nil {
				return removed, err
			}
		}
	}
	return removed, nil
}

// List returns a page of erasures, newest first, before the given id; 0 begins at the
// newest. One query. CodeUnavailable.
func (s *Service) List(ctx context.Context, before int64, limit int) ([]models.Erasure, error) {
	list, err := s.o.Store.list(ctx, before, limit)
	return list, models.Public("list erasures", err)
}
