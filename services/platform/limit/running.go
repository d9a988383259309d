package limit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"stepboard/models"
)

const (
	// maxReports and maxExports are how many reports of a user run at a time in a process, and
	// how many of these may be exports.
	maxReports, maxExports = 2, 1
	// reportWait is how long a call waits for another one of the same user to end.
	reportWait = time.Second
)

// running counts the calls of users that run. Memory: what runs or waits.
type running struct {
	most  int64 // at a time of one user
	mu    sync.Mutex
	users map[models.UserID]*places
}

// places are those of one user, who has calls that run or wait.
type places struct {
	free  *semaphore.Weighted
	calls int
}

func newRunning(most int64) *running {
	return &running{most: most, users: make(map[models.UserID]*places)}
}

// enter waits until the user has a free place or ctx ends. The caller calls leave once if there
// is no error.
func (r *running) enter(ctx context.Context, user models.UserID) (leave func(), err error) {
	r.mu.Lock()
	p := r.users[user]
	if p == nil {
		p = &places{free: semaphore.NewWeighted(r.most)}
		r.users[user] = p
	}
	p.calls++
	r.mu.Unlock()
	if err := p.free.Acquire(ctx, 1); err != nil {
		r.end(user, p)
		return nil, err
	}
	return func() {
		p.free.Release(1)
		r.end(user, p)
	}, nil
}

// end forgets a user without calls.
func (r *running) end(user models.UserID, p *places) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.calls--; p.calls == 0 {
		delete(r.users, user)
	}
}

// EnterReport waits up to reportWait until a call about many days may run for a user: two of them
// at a time in this process, of which one may be an export. CodeBusy if others of the same user
// don't end in time. The caller calls leave once, if there is no error.
func (s *Service) EnterReport(ctx context.Context, user models.UserID, export bool) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	leaveExport := func() {}
	if export {
		if leaveExport, err = s.exports.enter(wait, user); err != nil {
			return nil, s.busy(ctx)
		}
	}
	leaveReport, err := s.reports.enter(wait, user)
	if err != nil {
		leaveExport()
		return nil, s.busy(ctx)
	}
	return func() {
		leaveReport()
		leaveExport()
	}, nil
}

// busy returns the error of a call that has waited in vain, because of time or of its client.
func (s *Service) busy(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return models.Unavailable("wait for other calls of the user", err)
	}
	s.stats.Reports.Add(1)
	err := models.Errorf(models.CodeBusy, "other calls of this user about many days are running; try again when they have ended")
	err.Wait = time.Second
	return err
}
