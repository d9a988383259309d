package e2e_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/platform/changes"
)

// copies are copies of the boards steps and gifts, made from change streams alone.
type copies struct {
	s       *server
	store   *board.Store
	streams []changes.Read[board.ChangeStream]
	// held holds the composites by bucket and user, resets the number of resets.
	held   map[string]map[models.RowID]models.Composite
	resets map[string]int
}

// streamedShards is the number of shards of the boards.
const streamedShards = 3

// withChangeStreams defines the boards with or without change streams.
func withChangeStreams(streamed bool) func(*config.Config) {
	return func(cfg *config.Config) {
		withEvents(cfg)
		for i := range cfg.Boards {
			b := &cfg.Boards[i]
			b.Shards, b.ChangeStream = streamedShards, streamed && b.Kind != "rolling"
		}
	}
}

// follow begins to follow both boards before anything is written.
func (s *server) follow() *copies {
	s.t.Helper()
	c := &copies{
		s: s, store: board.NewStore(s.env.Redis, s.env.Keys, s.env.Clock.Now, nil),
		held: map[string]map[models.RowID]models.Composite{}, resets: map[string]int{},
	}
	for _, name := range []string{"steps", "gifts"} {
		for shard := range streamedShards {
			stream := board.ChangeStream{Board: name, Shard: shard}
			c.streams = append(c.streams, changes.Read[board.ChangeStream]{Stream: stream, Count: 1000})
		}
	}
	c.read() // only the newest entries
	return c
}

// read reads all changes.
func (c *copies) read() {
	c.s.t.Helper()
	for i, page := range c.store.Changes().Read(c.s.t.Context(), c.streams) {
		if page.Err != nil || page.Lost != nil || !page.Complete {
			c.s.t.Fatalf("%v: %+v", c.streams[i].Stream, page)
		}
		c.streams[i].After = page.Last
		for _, change := range page.Entries {
			if change.Reset || change.Lowered != nil {
				c.resets[change.Bucket]++
			}
			for _, e := range change.Raised {
				if c.held[change.Bucket] == nil {
					c.held[change.Bucket] = map[models.RowID]models.Composite{}
				}
				c.held[change.Bucket][e.User] = max(c.held[change.Bucket][e.User], e.Composite)
			}
		}
	}
}

// stored returns what Redis has of both boards, by bucket and user.
func (c *copies) stored() map[string]map[models.RowID]models.Composite {
	c.s.t.Helper()
	cat := catalog.New(catalog.NewStore(c.s.env.Gorm), c.s.env.Clock.Now, 3, c.s.env.Log)
	stored := map[string]map[models.RowID]models.Composite{}
	for name, bucket := range map[string]string{"steps": "20261120", "gifts": "event"} {
		stored[bucket] = map[models.RowID]models.Composite{}
		made := testenv.Must(cat.Buckets.Load(c.s.t.Context(), name, bucket))
		for _, part := range testenv.Must(c.store.Parts(c.s.t.Context(), made)) {
			for _, e := range testenv.Must(c.store.ReadPart(c.s.t.Context(), part, board.Top, 1000)) {
				stored[bucket][e.User] = e.Composite
			}
		}
	}
	return stored
}

// writeEverywhere writes scores of ten users to both boards by the calls of the API.
// Uploads have the given status.
func (s *server) writeEverywhere(status int) {
	s.t.Helper()
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":5}`), status, nil)
	scores, gifts := "", []string{}
	for user := 1; user <= 10; user++ {
		scores += fmt.Sprintf(`,{"user_id":"%d","date":"2026-11-20","score":%d}`, user, 100+user%4)
		gifts = append(gifts, harness.IncrementJSON(user, user, fmt.Sprint(user)))
	}
	s.want(s.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[`+scores[1:]+`]}`), status, nil)
	s.want(s.service("POST", "/v1/boards/gifts/increments", harness.IncrementsJSON(gifts...)), 200, nil)
}

// Followers of a board with a change stream have the same scores as Redis, whichever way
// these were written.
func TestChangeStreamsOfEveryWriter(t *testing.T) {
	t.Parallel()
	testEveryWriter(t, testenv.Real(t), "direct", 200)
}

func TestChangeStreamsBehindAQueue(t *testing.T) {
	t.Parallel()
	testEveryWriter(t, testenv.Real(t), "redis", 202)
}

func testEveryWriter(t *testing.T, env *testenv.Env, mode string, status int) {
	t.Helper()
	testenv.NumberUsers(t, env, 10)
	s := newServer(t, env, withChangeStreams(true), func(cfg *config.Config) { cfg.Ingest.Mode = mode })
	c := s.follow()
	s.writeEverywhere(status)
	testenv.Eventually(t, "all scores are on the boards", func() bool {
		stored := c.stored()
		return len(stored["20261120"]) == 10 && len(stored["event"]) == 10
	})
	c.read()
	if diff := cmp.Diff(c.stored(), c.held); diff != "" {
		t.Errorf("(-Redis +copy):\n%s", diff)
	}
	// The ledger was restored to before a user's increment.
	if err := env.Gorm.Exec(`DELETE FROM score_totals WHERE user_id = 3 AND board = 'gifts'`).Error; err != nil {
		t.Fatal(err)
	}
	s.rebuild("1 entries were more than the ledger has, and were lowered or removed")
	c.read()
	if diff := cmp.Diff(map[string]int{"event": 1}, c.resets); diff != "" {
		t.Errorf("resets (-want +got):\n%s", diff)
	}
}

// Without change_stream nothing is written to a stream, even while a process follows it.
func TestNoChangeStreamsByDefault(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	testenv.NumberUsers(t, env, 10)
	s := newServer(t, env, withChangeStreams(false))
	c := s.follow()
	s.writeEverywhere(200)
	for _, read := range c.streams {
		if n := testenv.Must(env.Redis.XLen(t.Context(), env.Keys.Changes(read.Stream.Board, read.Stream.Shard)).Result()); n != 1 {
			t.Errorf("%v has %d entries, want its first alone", read.Stream, n)
		}
	}
	if stored := c.stored(); len(stored["20261120"]) != 10 || len(stored["event"]) != 10 {
		t.Errorf("Redis has %v", stored)
	}
}
