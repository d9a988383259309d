package ledger

// ReadPages sets how many totals a reconciler reads at a time.
func (r *Reconciler) ReadPages(totals int) { r.page = totals }
