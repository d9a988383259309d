//go:build !race

package nearcache_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/platform/changes"
)

// server is a Redis with the buckets of one board. It runs one command at a time. After
// each it calls pause, in which the test does what happens before the reply arrives.
type server struct {
	now     func() time.Time
	pause   func()
	buckets map[string]map[models.RowID]models.Composite
	streams map[int][]change // by shard
	lastID  int64            // in milliseconds
	down    bool
}

type change struct {
	board.Change
	content string
}

var errDown = models.Unavailable("ask the server", errors.New("it is down"))

func newServer(now func() time.Time) *server {
	return &server{
		now: now, pause: func() {},
		buckets: make(map[string]map[models.RowID]models.Composite), streams: make(map[int][]change),
	}
}

// copy returns a replica that has all that the server has now.
func (s *server) copy() *server {
	replica := *s
	replica.buckets = make(map[string]map[models.RowID]models.Composite)
	for name, bucket := range s.buckets {
		replica.buckets[name] = maps.Clone(bucket)
	}
	replica.streams = make(map[int][]change)
	for shard, stream := range s.streams {
		replica.streams[shard] = slices.Clone(stream)
	}
	return &replica
}

// becomes replaces the server by a replica.
func (s *server) becomes(replica *server) {
	next := replica.copy()
	s.buckets, s.streams = next.buckets, next.streams
	s.lastID = max(s.lastID, next.lastID) // a failover takes longer than a millisecond
}

// add appends an entry to the stream of a shard.
func (s *server) add(shard int, c board.Change, content string) string {
	s.lastID = max(s.lastID+1, s.now().UnixMilli())
	c.ID = strconv.FormatInt(s.lastID, 10) + "-0"
	s.streams[shard] = append(s.streams[shard], change{c, content})
	return c.ID
}

// raise is the script of an upload. It returns the id of the newest entry, "" if the
// stream has none.
func (s *server) raise(bucket *models.Bucket, e models.Entry) (newest string) {
	stored := s.buckets[bucket.Name]
	if stored == nil {
		stored = make(map[models.RowID]models.Composite)
		s.buckets[bucket.Name] = stored
	}
	shard := bucket.Shard(e.User)
	stream := s.streams[shard]
	if stored[e.User] < e.Composite {
		stored[e.User] = e.Composite
		if len(stream) > 0 {
			return s.add(shard, board.Change{Bucket: bucket.Name, Raised: []models.Entry{e}}, "raised")
		}
	}
	return newestOf(stream)
}

func newestOf(stream []change) string {
	if len(stream) == 0 {
		return ""
	}
	return stream[len(stream)-1].ID
}

// lower removes a user's entry.
func (s *server) lower(bucket *models.Bucket, user models.RowID) {
	if s.buckets[bucket.Name][user] == 0 {
		return
	}
	delete(s.buckets[bucket.Name], user)
	if shard := bucket.Shard(user); len(s.streams[shard]) > 0 {
		s.add(shard, board.Change{Bucket: bucket.Name, Lowered: []models.RowID{user}}, "lowered")
	}
}

// freeze removes the entries of a shard.
func (s *server) freeze(bucket *models.Bucket, shard int) {
	maps.DeleteFunc(s.buckets[bucket.Name], func(user models.RowID, _ models.Composite) bool { return bucket.Shard(user) == shard })
	if len(s.streams[shard]) > 0 {
		s.add(shard, board.Change{Bucket: bucket.Name, Reset: true}, "reset")
	}
}

// trim removes all entries of the streams but the newest n.
func (s *server) trim(n int) {
	for shard, stream := range s.streams {
		s.streams[shard] = slices.Clone(stream[max(0, len(stream)-n):])
	}
}

// flush removes everything.
func (s *server) flush() {
	clear(s.buckets)
	clear(s.streams)
}

func (s *server) Read(_ context.Context, reads []changes.Read[board.ChangeStream]) []changes.Page[board.Change] {
	defer s.pause()
	pages := make([]changes.Page[board.Change], len(reads))
	for i, r := range reads {
		pages[i] = s.page(r)
	}
	return pages
}

func (s *server) page(r changes.Read[board.ChangeStream]) (page changes.Page[board.Change]) {
	if s.down {
		return changes.Page[board.Change]{Err: errDown}
	}
	if r.After == (changes.Place{}) {
		return changes.Page[board.Change]{Last: s.newest(r.Stream.Shard), Complete: true}
	}
	stream := s.streams[r.Stream.Shard]
	at := slices.IndexFunc(stream, func(c change) bool { return c.ID == r.After.ID && c.content == r.After.Content })
	if at < 0 {
		return changes.Page[board.Change]{Lost: changes.ErrLost}
	}
	rest := stream[at+1:]
	page = changes.Page[board.Change]{Last: r.After, Complete: len(rest) < r.Count}
	for _, c := range rest[:min(len(rest), r.Count)] {
		page.Entries = append(page.Entries, c.Change)
		page.Last = changes.Place{ID: c.ID, Content: c.content}
	}
	return page
}

// newest returns the newest entry of a stream, which it begins if there is none.
func (s *server) newest(shard int) changes.Place {
	if len(s.streams[shard]) == 0 {
		s.add(shard, board.Change{}, "began "+strconv.FormatInt(s.lastID, 10))
	}
	entries := s.streams[shard]
	last := entries[len(entries)-1]
	return changes.Place{ID: last.ID, Content: last.content}
}

func (s *server) CopyPart(
	_ context.Context, p models.BoardPart, behind models.Entry, n int,
) ([]models.Entry, string, error) {
	defer s.pause()
	if s.down {
		return nil, "", errDown
	}
	var entries []models.Entry
	for user, composite := range s.buckets[p.Bucket.Name] {
		if e := (models.Entry{User: user, Composite: composite}); p.Bucket.Shard(user) == p.Shard && e.Compare(behind) > 0 {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, models.Entry.Compare)
	return entries[:min(n, len(entries))], newestOf(s.streams[p.Shard]), nil
}

func (s *server) CopyRows(_ context.Context, p models.BoardPart, users []models.RowID) ([]models.Entry, string, error) {
	defer s.pause()
	if s.down {
		return nil, "", errDown
	}
	var entries []models.Entry
	for _, user := range users {
		if composite := s.buckets[p.Bucket.Name][user]; composite != 0 {
			entries = append(entries, models.Entry{User: user, Composite: composite})
		}
	}
	return entries, newestOf(s.streams[p.Shard]), nil
}

func (s *server) Server(context.Context, board.ChangeStream) any { return nil }
