package board

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// Recall compares the server with the one that was noted last. One round trip.
func (s *Store) Recall(ctx context.Context) (models.Recollection, error) {
	pipe := s.rdb.Pipeline()
	info := pipe.Info(ctx, "server")
	noted := pipe.HGetAll(ctx, s.keys.BoardsNoted())
	if _, err := pipe.Exec(ctx); err != nil {
		return models.Recollection{}, models.Unavailable("ask which Redis it is", err)
	}
	_, rest, found := strings.Cut(info.Val(), "run_id:")
	server, _, _ := strings.Cut(rest, "\r")
	if !found || server == "" {
		return models.Recollection{}, errors.New("redis does not tell its run id")
	}
	r := models.Recollection{Server: server, Lost: models.AllLost}
	if len(noted.Val()) == 0 {
		return r, nil
	}
	at, err := strconv.ParseInt(noted.Val()["at"], 10, 64)
	if err != nil {
		return r, fmt.Errorf("read %s: %w", s.keys.BoardsNoted(), err)
	}
	r.Noted = time.UnixMilli(at)
	if r.Lost = models.LastWritesLost; noted.Val()["server"] == server {
		r.Lost = models.NothingLost
	}
	return r, nil
}

// moveNoteScript moves the note on, unless it is gone or of another server.
//
//	KEYS    the note
//	ARGV    the server's run id; the moment, in milliseconds since the epoch
//	result  1, or 0 where nothing was noted
const moveNoteScript = `
if redis.call('HGET', KEYS[1], 'server') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'at', ARGV[2])
return 1
`

var moveNote = redis.NewScript(moveNoteScript)

// Remember notes that the server has everything up to a moment. Where nothing
// was lost it only moves the note on, so that a Redis that is emptied between
// Recall and Remember does not look as if it had everything. One round trip.
func (s *Store) Remember(ctx context.Context, r models.Recollection, upto time.Time) error {
	key, at := s.keys.BoardsNoted(), upto.UnixMilli()
	var err error
	if r.Lost == models.NothingLost {
		err = moveNote.Run(ctx, s.rdb, []string{key}, r.Server, at).Err()
	} else {
		err = s.rdb.HSet(ctx, key, "server", r.Server, "at", at).Err()
	}
	if err != nil {
		return models.Unavailable("note which Redis it is", err)
	}
	return nil
}
