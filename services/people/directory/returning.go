package directory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"stepboard/models"
)

// returnTimeout bounds how long a call that creates a user again waits until what was kept of
// the erased one is moved. A job moves it otherwise.
const returnTimeout = 5 * time.Second

// IDHash returns the hash of a user id by which its erasure is found when the id returns.
func IDHash(key []byte, user models.UserID) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(user))
	return mac.Sum(nil)
}

// moveKept moves what was kept of erased users to the rows under which their ids have returned.
// The callers that have created these users wait for it.
func (s *Service) moveKept(ctx context.Context, rows []models.RowID) {
	if len(rows) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	if err := s.move(ctx, rows); err != nil {
		s.log.WarnContext(ctx, "what was kept of an erased user holds again later", "error", err)
	}
}
