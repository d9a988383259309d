package limit

import (
	"context"
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

// places are those of a user who has calls about many days that run or wait.
type places struct {
	reports, exports *semaphore.Weighted
	calls            int
}

// EnterReport waits up to reportWait until a call about many days may run for a user: two of them
// at a time in this process, of which one may be an export. CodeBusy if others of the same user
// don't end in time. The caller calls leave once, if there is no error. Memory: what runs or waits.
func (s *Service) EnterReport(ctx context.Context, user models.UserID, export bool) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, reportWait)
	defer cancel()
	p := s.begin(user)
	if export {
		err = p.exports.Acquire(wait, 1)
	}
	if err == nil {
		if err = p.reports.Acquire(wait, 1); err != nil && export {
			p.exports.Release(1)
		}
	}
	if err != nil {
		s.end(user, p)
		return nil, s.busy(ctx)
	}
	return func() {
		p.reports.Release(1)
		if export {
			p.exports.Release(1)
		}
		s.end(user, p)
	}, nil
}

// begin returns the places of a user for a call, which end ends.
func (s *Service) begin(user models.UserID) *places {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.running[user]
	if p == nil {
		p = &places{reports: semaphore.NewWeighted(maxReports), exports: semaphore.NewWeighted(maxExports)}
		s.running[user] = p
	}
	p.calls++
	return p
}

// end forgets a user without calls.
func (s *Service) end(user models.UserID, p *places) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.calls--; p.calls == 0 {
		delete(s.running, user)
	}
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
