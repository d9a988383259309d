package directory

import (
	"github.com/maypok86/otter/v2"

	"stepboard/models"
)

const (
	// idShare is the part of the memory that row ids of callers take; records take
	// the rest.
	idShare = 4
	// idOverhead is the bytes of a row id beside the user id: the cache's own and the
	// map's.
	idOverhead = 170
)

// memory holds copies in the process: row ids of users that have called, and records
// of users that were shown. Those that were used least lately go first.
type memory struct {
	rows    *otter.Cache[models.UserID, models.RowID]
	records *recordTable
}

// newMemory returns a memory of at most the given number of bytes.
func newMemory(bytes int64) *memory {
	return &memory{
		rows: otter.Must(&otter.Options[models.UserID, models.RowID]{
			MaximumWeight: uint64(bytes / idShare),
			Weigher:       func(user models.UserID, _ models.RowID) uint32 { return uint32(idOverhead + len(user)) },
		}),
		records: newRecordTable(bytes - bytes/idShare),
	}
}

func (m *memory) close() { m.rows.StopAllGoroutines() }

// row returns a user's row id; 0 if it is not held.
func (m *memory) row(user models.UserID) models.RowID {
	row, _ := m.rows.GetIfPresent(user)
	return row
}

func (m *memory) putRow(user models.UserID, row models.RowID) { m.rows.Set(user, row) }
