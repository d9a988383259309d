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
func ForgetRecords(s *Service) { s.memory.records.InvalidateAll() }

// Held returns the number of copies in the process.
func Held(s *Service) int { return s.memory.records.EstimatedSize() + s.memory.rows.EstimatedSize() }

// Encode and Decode are encode and decode.
var (
	Encode = encode
	Decode = decode
)
