package ledger

import "time"

// ReadPages sets how many totals a reconciler reads at a time.
func (r *Reconciler) ReadPages(totals int) { r.page = totals }

// WaitForLocks sets how long the transactions of a store on Postgres wait for a
// lock.
func (s *Store) WaitForLocks(d time.Duration) {
	if p, ok := s.transactor.(*postgres); ok {
		p.lockWait = d
	}
}
