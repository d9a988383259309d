package board

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/models"
)

// errForgotAgain is what Remember answers where Redis has lost more than what
// was just made good.
var errForgotAgain = errors.New("redis has restarted or was emptied meanwhile")

// Memory is what the boards' Redis knows of itself, for one of those that
// watch over it: each has a note of its own, as each makes good other updates.
type Memory struct {
	rdb redis.Scripter
	key string
}

// Memory is the memory of a watcher.
func (s *Store) Memory(watcher string) *Memory {
	return &Memory{rdb: s.rdb, key: s.keys.BoardsNoted(watcher)}
}

// serverRunID begins the scripts that need to know on which server they run.
const serverRunID = `
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
`

// recallScript compares the server with the one that was noted last. Where they
// differ it leaves a mark, unless one of this server stands already.
//
//	KEYS    the note
//	ARGV    a token that nobody else has
//	result  {the server's run id, that of the note, its moment in milliseconds
//	        since the epoch, the mark}, '' for what there is not
const recallScript = serverRunID + `
local note = redis.call('HMGET', KEYS[1], 'server', 'at', 'mark')
if note[1] == server then
  return {server, server, note[2], ''}
end
local mark = note[3]
if not mark or string.sub(mark, 1, #server) ~= server then
  mark = server .. '.' .. ARGV[1]
  redis.call('HSET', KEYS[1], 'mark', mark)
end
return {server, note[1] or '', note[2] or '', mark}
`

var recall = redis.NewScript(recallScript)

// Recall compares the server with the one that was noted last. Where it has
// forgotten something it also leaves a mark, and what the mark is for: see
// Remember. One round trip.
func (m *Memory) Recall(ctx context.Context) (models.Recollection, error) {
	fields, err := recall.Run(ctx, m.rdb, []string{m.key}, rand.Text()).StringSlice()
	if err != nil {
		return models.Recollection{}, models.Unavailable("ask which Redis it is", err)
	}
	if len(fields) != 4 {
		return models.Recollection{}, fmt.Errorf("read %s: unexpected reply %v", m.key, fields)
	}
	r := models.Recollection{Server: fields[0], Lost: models.AllLost, Mark: fields[3]}
	if fields[2] == "" {
		return r, nil
	}
	at, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return r, fmt.Errorf("read %s: %w", m.key, err)
	}
	r.Noted = time.UnixMilli(at)
	if r.Lost = models.LastWritesLost; fields[1] == r.Server {
		r.Lost = models.NothingLost
	}
	return r, nil
}

// rememberScript notes that the server has everything up to a moment, unless it
// has forgotten something since Recall: then it is another server, or the mark
// is gone, or where there was none the note itself.
//
//	KEYS    the note
//	ARGV    the server's run id; the mark or ''; the moment, in milliseconds
//	        since the epoch
//	result  1, or 0 where nothing was noted
const rememberScript = serverRunID + `
local note = redis.call('HMGET', KEYS[1], 'server', 'mark')
if server ~= ARGV[1] or (ARGV[2] == '' and note[1] ~= server) or (ARGV[2] ~= '' and note[2] ~= ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'server', server, 'at', ARGV[3])
redis.call('HDEL', KEYS[1], 'mark')
return 1
`

var remember = redis.NewScript(rememberScript)

// Remember notes that the server has everything up to a moment. It must be the
// server that Recall has seen, and must have forgotten nothing since then: what
// was made good meanwhile would else be missing, and nobody would know. Where
// something was lost before and has been again, that is an error, and Recall
// goes on to tell of the loss. One round trip.
func (m *Memory) Remember(ctx context.Context, r models.Recollection, upto time.Time) error {
	noted, err := remember.Run(ctx, m.rdb, []string{m.key}, r.Server, r.Mark, upto.UnixMilli()).Bool()
	if err != nil {
		return models.Unavailable("note which Redis it is", err)
	}
	if !noted && r.Lost != models.NothingLost {
		return models.Unavailable("note which Redis it is", errForgotAgain)
	}
	return nil
}
