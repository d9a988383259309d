package ledger

// ReadPages makes a reconciler read so many totals at a time.
func (r *Reconciler) ReadPages(totals int) { r.page = totals }
