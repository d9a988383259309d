package ledger

import "time"

// ReadPages sets how many totals a reconciler reads at a time.
func (r *Reconciler) ReadPages(totals int) { r.page = totals }

// WaitForRaises sets how long a call waits for its buckets to be raised.
func (s *Service) WaitForRaises(d time.Duration) { s.patience = d }

// WaitForLocks sets how long the transactions of a store on Postgres wait for a
// lock.
func (s *Store) WaitForLocks(d time.Duration) {
	if p, ok := s.transactor.(*postgres); ok {
		p.lockWait = d
	}
}
