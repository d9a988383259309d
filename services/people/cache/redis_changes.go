package cache

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/models"
	"stepboard/services/platform/changes"
)

// The streams of changes name each set before and after its change. They are written
// only while somebody follows them: a stream that does not exist is not written to, and
// one that nobody keeps expires.
//
// An entry follows what it reports: the mark that keeps the sets from being stored, the
// removal of the sets, the new generation. So a set that was read in Redis after
// the entry was read is not the one from before the change.

// queueAppend queues an entry of a stream, which is not written if the stream does not
// exist.
func (s *Store) queueAppend(ctx context.Context, pipe redis.Pipeliner, stream int, entry []byte) {
	pipe.XAdd(ctx, &redis.XAddArgs{
		Stream: s.keys.SetsChanges(stream), NoMkStream: true, Values: []any{changes.Field, entry},
	})
}

// queueChanged queues an entry for each stream and kind that has some of the sets.
func (s *Store) queueChanged(ctx context.Context, pipe redis.Pipeliner, sets []Set) {
	type entry struct {
		stream int
		kind   keys.Sets
	}
	owners := make(map[entry][]int64)
	for _, of := range sets {
		e := entry{s.streamOf(keys.StripeOf(of.Owner)), of.Kind}
		owners[e] = append(owners[e], of.Owner)
	}
	for e, named := range owners {
		s.queueAppend(ctx, pipe, e.stream, encodeChanged(e.kind, named))
	}
}

// queueDropped queues an entry for each stream that has some of the stripes.
func (s *Store) queueDropped(ctx context.Context, pipe redis.Pipeliner, stripes []int) {
	queued := make(map[int]bool)
	for _, stripe := range stripes {
		if stream := s.streamOf(stripe); !queued[stream] {
			queued[stream] = true
			s.queueAppend(ctx, pipe, stream, newEntry(entryDropped, 0))
		}
	}
}

// execAppends executes a pipeline with entries of streams, some of which may not exist.
func execAppends(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	if err == nil || !errors.Is(err, redis.Nil) {
		return err
	}
	for _, cmd := range cmds { // Nil is no error, but may have come before one
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return nil
}

// ChangesRead asks for the entries of one stream.
type ChangesRead struct {
	Stream int
	// After is the entry that was read last. The zero place begins to follow the stream
	// at its newest entry, and creates the stream if it does not exist.
	After changes.Place
	// Keep, if it is not zero, makes the stream last, and removes the entries before it.
	Keep changes.Place
}

// ChangesPage holds the entries of a stream that follow ChangesRead.After.
type ChangesPage struct {
	// Changed holds the sets that the entries name.
	Changed []Set
	// Dropped reports that all sets of the stream were dropped.
	Dropped bool
	// Last is the entry that was read last.
	Last changes.Place
	// Missing reports that the entry After is not in the stream, so that later ones may
	// be missing, too.
	Missing bool
	// Complete reports that the stream had no further entries.
	Complete bool
	// Server is the id of the server that has the stream: another one after each restart,
	// and on another server.
	Server string
	// Err is nil, or says why the stream was not read. The other fields are zero then.
	Err error
}

// ByServer groups streams by the server that has them, as far as this client knows. No
// I/O, except before the first command of a client.
func (s *Store) ByServer(ctx context.Context, streams []int) [][]int {
	groups := make(map[redis.UniversalClient][]int)
	for _, stream := range streams {
		server, err := s.server(ctx, stream)
		if err != nil {
			server = nil // Changes reports it
		}
		groups[server] = append(groups[server], stream)
	}
	return slices.Collect(maps.Values(groups))
}

// server returns the client of the server that has a stream.
func (s *Store) server(ctx context.Context, stream int) (redis.UniversalClient, error) {
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		return cluster.MasterForKey(ctx, s.keys.SetsChanges(stream))
	}
	return s.rdb, nil
}

// changesCount is how many entries of a stream one call reads.
const changesCount = 200

// Changes reads streams that are on one server, as ByServer has grouped them: a page
// for each read, in their order. One round trip.
func (s *Store) Changes(ctx context.Context, reads []ChangesRead) []ChangesPage {
	pages := make([]ChangesPage, len(reads))
	server, err := s.server(ctx, reads[0].Stream)
	if err != nil {
		for i := range pages {
			pages[i].Err = models.Unavailable("find the server of a stream of changes", err)
		}
		return pages
	}
	pipe := server.Pipeline()
	info := pipe.Info(ctx, "replication")
	parse := make([]func() (ChangesPage, error), len(reads))
	for i, r := range reads {
		if r.After == (changes.Place{}) {
			parse[i] = s.queueFollow(ctx, pipe, r)
		} else {
			parse[i] = s.queueRead(ctx, pipe, r)
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	id, infoErr := serverID(info)
	for i := range reads {
		page, err := parse[i]()
		if err == nil {
			err = infoErr
		}
		if err != nil {
			s.moved(ctx, err)
			pages[i].Err = models.Unavailable("read the changes of cached sets", err)
			continue
		}
		pages[i], pages[i].Server = page, id
	}
	return pages
}

// moved makes the client look where the slots of a cluster are, if one has moved.
func (s *Store) moved(ctx context.Context, err error) {
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok && redis.HasErrorPrefix(err, "MOVED") {
		cluster.ReloadState(ctx)
	}
}

// queueFollow queues the beginning of following a stream, and returns what parses its
// reply.
func (s *Store) queueFollow(ctx context.Context, pipe redis.Pipeliner, r ChangesRead) func() (ChangesPage, error) {
	parse := changes.Newest(ctx, pipe, s.keys.SetsChanges(r.Stream), newEntry(entryBegan, 0))
	return func() (ChangesPage, error) {
		newest, err := parse()
		return ChangesPage{Last: newest, Complete: true}, err
	}
}

// queueRead queues the reading of a stream, and returns what parses its reply.
func (s *Store) queueRead(ctx context.Context, pipe redis.Pipeliner, r ChangesRead) func() (ChangesPage, error) {
	key := s.keys.SetsChanges(r.Stream)
	var kept []redis.Cmder
	if r.Keep != (changes.Place{}) {
		kept = append(kept, pipe.XTrimMinID(ctx, key, r.Keep.ID), pipe.PExpire(ctx, key, changes.Lifetime))
	}
	parse := changes.After(ctx, pipe, key, r.After, changesCount)
	return func() (ChangesPage, error) {
		read, err := parse()
		for _, cmd := range kept {
			err = errors.Join(err, cmd.Err())
		}
		if err != nil {
			return ChangesPage{}, err
		}
		page := ChangesPage{Last: read.Last, Missing: read.Missing, Complete: read.Complete}
		for _, entry := range read.Entries {
			changed, dropped := decodeEntry(entry.Content)
			page.Changed = append(page.Changed, changed...)
			page.Dropped = page.Dropped || dropped
		}
		return page, nil
	}
}

// serverID returns the replication id in a reply to INFO. The embedded server has none.
func serverID(info *redis.StringCmd) (string, error) {
	text, err := info.Result()
	if err != nil {
		if strings.Contains(err.Error(), "is not supported") {
			return "embedded", nil
		}
		return "", err
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "master_replid:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("INFO has no master_replid")
}
