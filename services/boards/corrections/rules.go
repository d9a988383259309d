package corrections

import (
	"sync/atomic"

	"stepboard/models"
)

// Rules holds what this process knows of corrections and of erased users, and answers two
// questions from it: Route says where what a user reports goes, and Show what is shown of
// scores. The boards are built on it, and Service on both. Safe for concurrent use.
type Rules struct {
	erased   *models.RowSet
	snapshot atomic.Pointer[snapshot]
}

// NewRules returns rules that know no corrections before Service.Refresh, and as erased
// users those that are in the set, or will be added to it.
func NewRules(erased *models.RowSet) *Rules {
	r := &Rules{erased: erased}
	r.snapshot.Store(newSnapshot(nil))
	return r
}

// Route returns the key that what a user reports for a bucket is written to: KeyReported
// while a correction of the user's score holds, otherwise KeyBoard. ok is false if it is not
// written at all, because the user was erased (a queue may deliver it again, and a process
// may have accepted it before it heard of the erasure), or because the bucket is one of the
// ledger, which has it. No I/O.
func (r *Rules) Route(bucket *models.Bucket, user models.RowID) (key models.EntryKey, ok bool) {
	switch {
	case r.erased.Has(user):
		return "", false
	case r.find(bucket, user) == nil:
		return models.KeyBoard, true
	default:
		return models.KeyReported, !bucket.FromLedger
	}
}

// Show replaces composites of users in a bucket that is not archived by those that are
// shown, by position: 0 for erased users, and what corrections make of the others. It takes
// two atomic loads if no correction holds and nobody was erased. No I/O.
func (r *Rules) Show(bucket *models.Bucket, users []models.RowID, composites []models.Composite) {
	s := r.snapshot.Load()
	if s.n == 0 && r.erased.Empty() {
		return
	}
	for i, user := range users {
		if r.erased.Has(user) {
			composites[i] = 0
		} else if c := s.of(bucket, user); c != nil {
			composites[i] = compositeOf(c, bucket)
		}
	}
}

// Erased reports whether a user was erased. Of archived scores, to which corrections were
// applied, this alone decides what is shown. No I/O.
func (r *Rules) Erased(user models.RowID) bool { return r.erased.Has(user) }

// find returns the correction of a user's score that holds in a bucket that is not
// archived, or nil. No I/O.
func (r *Rules) find(bucket *models.Bucket, user models.RowID) *models.Correction {
	return r.snapshot.Load().of(bucket, user)
}
