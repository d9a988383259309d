package archive

import "time"

// SetLimits sets how many rows lie between two reports of progress, and how long
// a run may take.
func (s *Service) SetLimits(progressEvery int64, deadline time.Duration) {
	s.progressEvery, s.deadline = progressEvery, deadline
}
