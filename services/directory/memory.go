package directory

import (
	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

const (
	// idShare is the part of the memory that row ids of callers take; records take
	// the rest.
	idShare = 4
	// idOverhead and recordOverhead are the bytes of an entry beside its texts:
	// the cache's own, the map's, and the struct's. TestMemory measures them.
	idOverhead     = 170
	recordOverhead = 250
)

// memory holds copies in the process: row ids of users that have called, and records
// of users that were shown. Those that were used least lately go first.
type memory struct {
	rows    *otter.Cache[models.UserID, models.RowID]
	records *otter.Cache[models.RowID, *models.Record]
}

// newMemory returns a memory of at most the given number of bytes.
func newMemory(bytes int64) *memory {
	return &memory{
		rows: otter.Must(&otter.Options[models.UserID, models.RowID]{
			MaximumWeight: uint64(bytes / idShare),
			Weigher:       func(user models.UserID, _ models.RowID) uint32 { return uint32(idOverhead + len(user)) },
		}),
		records: otter.Must(&otter.Options[models.RowID, *models.Record]{
			MaximumWeight: uint64(bytes - bytes/idShare),
			Weigher: func(_ models.RowID, r *models.Record) uint32 {
				return uint32(recordOverhead + len(r.User) + len(r.Nickname) + len(r.AvatarURL))
			},
		}),
	}
}

func (m *memory) close() {
	m.rows.StopAllGoroutines()
	m.records.StopAllGoroutines()
}

// row returns a user's row id; 0 if it is not held.
func (m *memory) row(user models.UserID) models.RowID {
	row, _ := m.rows.GetIfPresent(user)
	return row
}

func (m *memory) putRow(user models.UserID, row models.RowID) { m.rows.Set(user, row) }

// record returns a user's record; ok is false if it is not held.
func (m *memory) record(row models.RowID) (r models.Record, ok bool) {
	held, ok := m.records.GetIfPresent(row)
	if !ok {
		return models.Record{}, false
	}
	return *held, true
}

// replace replaces the user's record, if it is held and older.
func (m *memory) replace(r models.Record) {
	m.records.ComputeIfPresent(r.Row, func(held *models.Record) (*models.Record, otter.ComputeOp) {
		if held.Version >= r.Version {
			return held, otter.CancelOp
		}
		return &r, otter.WriteOp
	})
}

// put holds a record, unless a newer one is held.
func (m *memory) put(r models.Record) {
	m.records.Compute(r.Row, func(held *models.Record, found bool) (*models.Record, otter.ComputeOp) {
		if found && held.Version >= r.Version {
			return held, otter.CancelOp
		}
		return &r, otter.WriteOp
	})
}
