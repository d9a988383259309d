package directory

import (
	"context"
	"slices"

	"stepboard/models"
)

// PutInSQL changes a profile as a writer does that dies right after the commit.
func PutInSQL(ctx context.Context, s *Store, row models.RowID, p models.Profile) error {
	_, err := s.put(ctx, row, p)
	return err
}

// RenameInSQL renames a user as a writer does that dies right after the commit.
func RenameInSQL(ctx context.Context, s *Store, user, to models.UserID) error {
	_, err := s.rename(ctx, nil, user, to)
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
	for i := range t.sets {
		for at := range t.sets[i] {
			t.sets[i][at].Store(0)
		}
	}
}

// RecordTable is a recordTable.
type RecordTable struct{ *recordTable }

// NewRecordTable returns a table of at most the given number of bytes.
func NewRecordTable(bytes int64) RecordTable { return RecordTable{newRecordTable(bytes)} }

// GetAll is get.
func (t RecordTable) GetAll(rows []models.RowID, records []models.PublicRecord) { t.get(rows, records) }

// Get returns a row's record and its version; false if it is not held. The record counts
// as used.
func (t RecordTable) Get(row models.RowID) (r models.PublicRecord, version int64, ok bool) {
	t.get([]models.RowID{row}, make([]models.PublicRecord, 1))
	return t.held(row)
}

// Put is put.
func (t RecordTable) Put(r models.Record) models.PublicRecord { return t.put(r) }

// Replace is replace.
func (t RecordTable) Replace(r models.Record) { t.replace(r) }

// Held returns the number of records in the table.
func (t RecordTable) Held() (n int) {
	for i := range t.sets {
		for at := range t.sets[i] {
			if t.sets[i][at].Load() != 0 {
				n++
			}
		}
	}
	return n
}

// HeldRecords returns the number of records in the process.
func HeldRecords(s *Service) int { return RecordTable{s.memory.records}.Held() }

// DecodeHeld decodes a record as the process holds it, and encodes it again.
func DecodeHeld(data string, begins []string) (again string, ok bool) {
	var r models.PublicRecord
	row, version, ok := decodeHeld(data, begins, &r)
	if !ok {
		return "", false
	}
	record := models.Record{
		Row: row, User: r.User, Version: version,
		Profile: models.Profile{Nickname: r.Nickname, AvatarURL: r.AvatarURL.String(), CoverURL: r.CoverURL},
	}
	return string(appendHeld(nil, &record, r.AvatarURL.Begin, slices.Index(begins, r.AvatarURL.Begin))), true
}

// Encode and Decode are encode and decode.
var (
	Encode = encode
	Decode = decode
)

// HoldID holds a user's row id in the process.
func HoldID(s *Service, user models.UserID, row models.RowID) { s.memory.ids.put(user, row) }

// HoldsID reports whether the process holds a user's row id.
func HoldsID(s *Service, user models.UserID) bool { return IDTable{s.memory.ids}.Get(user) != 0 }

// IDTable is an idTable.
type IDTable struct{ *idTable }

// NewIDTable returns a table of at most the given number of bytes.
func NewIDTable(bytes int64) IDTable { return IDTable{newIDTable(bytes)} }

// GetAll is get.
func (t IDTable) GetAll(users []models.UserID, rows []models.RowID) { t.get(users, rows) }

// Get returns a user's row id; 0 if it is not held.
func (t IDTable) Get(user models.UserID) models.RowID {
	var row [1]models.RowID
	t.get([]models.UserID{user}, row[:])
	return row[0]
}

// Put is put.
func (t IDTable) Put(user models.UserID, row models.RowID) { t.put(user, row) }

// Held returns the number of row ids in the table.
func (t IDTable) Held() (n int) {
	for i := range t.sets {
		for at := range t.sets[i].entries {
			if t.sets[i].entries[at].Load() != 0 {
				n++
			}
		}
	}
	return n
}

// HoldRecord holds a record in the process.
func HoldRecord(s *Service, r models.Record) { s.memory.records.put(r) }

// HoldsRecord reports whether the process holds a row's record.
func HoldsRecord(s *Service, row models.RowID) bool {
	_, _, ok := s.memory.records.held(row)
	return ok
}
