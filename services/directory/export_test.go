package directory

import (
	"context"

	"stepboard/models"
)

// PutInSQL changes a profile as a writer does that dies right after the commit.
func PutInSQL(ctx context.Context, s *Store, row models.RowID, p models.Profile) error {
	_, err := s.put(ctx, row, p)
	return err
}

// StoreInRedis stores a copy as the process does.
func StoreInRedis(ctx context.Context, s *Service, data string) error {
	r, err := decode(data)
	if err != nil {
		return err
	}
	return s.redis.store(ctx, []models.Record{r})
}

// ForgetRecords empties the process's memory of records.
func ForgetRecords(s *Service) {
	t := s.memory.records
	t.mu.Lock()
	defer t.mu.Unlock()
	for range 2 { // the first time, all count as used
		for i := range t.sets {
			t.removeUnused(&t.sets[i])
		}
	}
}

// RecordTable is a recordTable.
type RecordTable struct{ *recordTable }

// NewRecordTable returns a table of at most the given number of bytes.
func NewRecordTable(bytes int64) RecordTable { return RecordTable{newRecordTable(bytes)} }

// Get is get.
func (t RecordTable) Get(row models.RowID) *models.Record { return t.get(row) }

// Put is put.
func (t RecordTable) Put(r models.Record) *models.Record { return t.put(r) }

// Replace is replace.
func (t RecordTable) Replace(r models.Record) { t.replace(r) }

// Held returns the number of records in the table.
func (t RecordTable) Held() (n int) {
	for i := range t.sets {
		for way := range t.sets[i].records {
			if t.sets[i].records[way].Load() != nil {
				n++
			}
		}
	}
	return n
}

// Held returns the number of copies in the process.
func Held(s *Service) int {
	return RecordTable{s.memory.records}.Held() + s.memory.rows.EstimatedSize()
}

// Encode and Decode are encode and decode.
var (
	Encode = encode
	Decode = decode
)
