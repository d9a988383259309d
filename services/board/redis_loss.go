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

// errLostAgain is what Remember answers where Redis has lost more than what
// was just made good.
var errLostAgain = errors.New("redis has restarted or was emptied meanwhile")

// clusterCheckpoints is how many notes there are in a cluster. They lie in slots all
// over it, so that every master has some, unless it serves next to none.
const clusterCheckpoints = 128

// LossDetector is what the boards' Redis knows of itself, for one of those that
// watch over it: each has notes of its own, as each makes good other updates.
type LossDetector struct {
	rdb  redis.UniversalClient
	keys []string
}

// LossDetector is the memory of a watcher.
func (s *Store) LossDetector(watcher string) *LossDetector {
	m := &LossDetector{rdb: s.rdb}
	notes := 1
	if _, ok := s.rdb.(*redis.ClusterClient); ok {
		notes = clusterCheckpoints
	}
	for i := range notes {
		m.keys = append(m.keys, s.keys.LossCheckpoint(watcher, i))
	}
	return m
}

// serverRunID begins the scripts that need to know on which server they run.
// One that does not tell, such as the embedded one, looks as if it never
// restarted; that it is empty is noticed all the same.
const serverRunID = `
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or 'unknown'
`

// detectScript compares the server with the one that was noted last. Where they
// differ it leaves a mark, unless one of this server stands already.
//
//	KEYS    the note
//	ARGV    a token that nobody else has
//	result  {the server's run id, that of the note, its moment in milliseconds
//	        since the epoch, the mark}, '' for what there is not
const detectScript = serverRunID + `
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

// Detect compares each server with the one that was noted last. Where one has
// forgotten something it also leaves a mark, and what the mark is for: see
// Remember. What is answered holds for all servers together: the worst loss,
// the oldest note. One round trip.
func (m *LossDetector) Detect(ctx context.Context) (models.LossReport, error) {
	token := rand.Text()
	pipe := m.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(m.keys))
	for i, key := range m.keys {
		cmds[i] = pipe.Eval(ctx, detectScript, []string{key}, token)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return models.LossReport{}, models.Unavailable("ask which Redis it is", err)
	}
	var all models.LossReport
	notes := make([][]string, len(cmds))
	steady := make(map[string]bool) // servers that some note names and lies on
	for i, cmd := range cmds {
		fields, err := cmd.StringSlice()
		if err != nil || len(fields) != 4 {
			return all, fmt.Errorf("read %s: unexpected reply %v", m.keys[i], cmd.Val())
		}
		notes[i] = fields
		steady[fields[0]] = steady[fields[0]] || fields[0] == fields[1]
	}
	for i, fields := range notes {
		lost, noted := models.AllLost, time.Time{}
		if fields[2] != "" {
			at, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				return all, fmt.Errorf("read %s: %w", m.keys[i], err)
			}
			noted = time.UnixMilli(at)
			// A note whose slot has moved lies on another server than the one that
			// it names, and neither has restarted.
			if lost = models.LastWritesLost; steady[fields[0]] && steady[fields[1]] {
				lost = models.NothingLost
			}
		}
		all.Extent = max(all.Extent, lost)
		if i == 0 || noted.Before(all.CheckpointedAt) {
			all.CheckpointedAt = noted
		}
		all.Servers = append(all.Servers, models.ServerState{RunID: fields[0], Token: fields[3]})
	}
	return all, nil
}

// checkpointScript notes that the server has everything up to a moment, unless it
// has forgotten something since Recall: then it is another server, or the mark
// is gone, or where there was none the note itself.
//
//	KEYS    the note
//	ARGV    the server's run id; the mark or ''; the moment, in milliseconds
//	        since the epoch
//	result  1, or 0 where nothing was noted
const checkpointScript = serverRunID + `
local note = redis.call('HMGET', KEYS[1], 'server', 'mark')
if server ~= ARGV[1] or (ARGV[2] == '' and note[1] ~= server) or (ARGV[2] ~= '' and note[2] ~= ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'server', server, 'at', ARGV[3])
redis.call('HDEL', KEYS[1], 'mark')
return 1
`

// Checkpoint notes that the servers have everything up to a moment. They must be
// those that Recall has seen, and must have forgotten nothing since then: what
// was made good meanwhile would else be missing, and nobody would know. Where
// something was lost before and has been again, that is an error, and Recall
// goes on to tell of the loss. One round trip.
func (m *LossDetector) Checkpoint(ctx context.Context, r models.LossReport, upto time.Time) error {
	pipe := m.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(m.keys))
	for i, key := range m.keys {
		cmds[i] = pipe.Eval(ctx, checkpointScript, []string{key}, r.Servers[i].RunID, r.Servers[i].Token, upto.UnixMilli())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return models.Unavailable("note which Redis it is", err)
	}
	for _, cmd := range cmds {
		noted, err := cmd.Bool()
		if err != nil {
			return models.Unavailable("note which Redis it is", err)
		}
		if !noted && r.Extent != models.NothingLost {
			return models.Unavailable("note which Redis it is", errLostAgain)
		}
	}
	return nil
}
