package e2e_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
	"stepboard/services/catalog"
	"stepboard/services/ingest"
	"stepboard/services/score"
)

// onStream is how a process is told to use a queue in Redis, and to notice
// soon what happens.
func onStream(more ...string) []string {
	return append([]string{"--ingest.mode=redis", "--ingest.flush_interval=50ms", "--ingest.redis.claim_after=1s"}, more...)
}

// only is onStream for a process with one role.
func only(role string, more ...string) []string { return onStream(append(more, "--only", role)...) }

// get makes one call without a token.
func get(t testing.TB, p *testenv.Process, path string) (status int, text string) {
	t.Helper()
	status, text, err := request(t.Context(), http.DefaultClient, "", http.MethodGet, p.URL+path, "")
	if err != nil {
		t.Fatal(err)
	}
	return status, text
}

// metric is what a process measures; ok is false where it does not measure it.
func metric(t testing.TB, p *testenv.Process, name string) (value float64, ok bool) {
	t.Helper()
	_, text := get(t, p, "/metrics")
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			return testenv.Must(strconv.ParseFloat(strings.TrimSpace(rest), 64)), true
		}
	}
	return 0, false
}

// drained waits until the process says that everything is acknowledged.
func drained(t testing.TB, p *testenv.Process) {
	t.Helper()
	testenv.Eventually(t, "the queue is drained", func() bool {
		lag, ok := metric(t, p, "stepboard_ingest_lag_messages")
		return ok && lag == 0
	})
}

// enqueue starts uploads of eight users to a process with a queue.
func enqueue(t testing.TB, p *testenv.Process) *uploaders {
	t.Helper()
	return startUploads(t, http.StatusAccepted, p.URL, shanghaiToday(), 8)
}

// more waits until so many more uploads were promised.
func (u *uploaders) more(t testing.TB, n int) {
	t.Helper()
	before, _ := u.count()
	testenv.Eventually(t, "uploads are under way", func() bool { now, _ := u.count(); return now > before+n })
}

// end ends the uploads.
func (u *uploaders) end() {
	close(u.stop)
	u.wg.Wait()
}

// dayBucket is the bucket of a day, once something was uploaded to it.
func dayBucket(t testing.TB, env *testenv.Env, date string) *models.Bucket {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), time.Now, 3, env.Log)
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	bucket, err := c.Find(t.Context(), testenv.Must(c.Board("steps")), testenv.Must(models.ParseDate(date)))
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

// kept tells whether everything that was promised is on the board by now.
func (u *uploaders) kept(t testing.TB, env *testenv.Env, rdb redis.UniversalClient) func() bool {
	t.Helper()
	bucket := dayBucket(t, env, u.date)
	return func() bool {
		for user, promised := range u.promised {
			composite, err := rdb.ZScore(t.Context(), env.Keys.Board(bucket, 0), user.String()).Result()
			if err != nil {
				return false
			}
			if total, _ := score.Of(bucket).Decode(models.Composite(composite)); total < promised {
				return false
			}
		}
		return true
	}
}

// clientOf connects to a Redis of the test's own.
func clientOf(t testing.TB, s *testenv.RedisServer) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return rdb
}

// One process with a queue: an upload is answered 202 and reaches its board.
func TestQueueOfOneProcess(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	p := testenv.Serve(t, env.Config, onStream()...)
	if status, text := get(t, p, "/readyz"); status != http.StatusOK || !strings.Contains(text, `"queue":"ok"`) {
		t.Errorf("readyz: %d %s", status, text)
	}
	u := enqueue(t, p)
	u.more(t, 500)
	u.end()
	drained(t, p)
	u.check(t, env, env.Redis)
	status, text, err := request(t.Context(), http.DefaultClient, token(t, 1, ""), http.MethodGet, p.URL+"/v1/boards/steps/me?date="+u.date, "")
	if want := fmt.Sprintf(`"score":%d`, u.promised[1]); err != nil || status != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("the user is told %d %s %v, want %s", status, text, err, want)
	}
	for name, least := range map[string]float64{
		"stepboard_ingest_messages_total": 100, "stepboard_ingest_raises_total": 8,
		"stepboard_ingest_batch_messages_count": 1, "stepboard_ingest_queue_up": 1,
		"stepboard_ingest_lag_seconds": 0, "stepboard_ingest_dead_letters_total": 0, "stepboard_ingest_retries_total": 0,
	} {
		if value, ok := metric(t, p, name); !ok || value < least {
			t.Errorf("%s is %v, %v, want %v", name, value, ok, least)
		}
	}
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
	// There is nothing to make good.
	stdout, stderr, code := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(env.Config)...), onStream()...)...)
	if code != 0 || !strings.Contains(stdout, " updates applied again") {
		t.Errorf("rebuild: %d %q %q", code, stdout, stderr)
	}
	u.check(t, env, env.Redis)
}

// Processes with one role each do their own work, and no other.
func TestQueueRolesApart(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	api := testenv.Serve(t, env.Config, only("api")...)
	consumers := []*testenv.Process{testenv.Serve(t, env.Config, only("consumer")...), testenv.Serve(t, env.Config, only("consumer")...)}
	jobs := testenv.Serve(t, env.Config, only("jobs")...)
	u := enqueue(t, api)
	for i, c := range consumers {
		testenv.Eventually(t, fmt.Sprintf("consumer %d has work", i), func() bool {
			n, _ := metric(t, c, "stepboard_ingest_messages_total")
			return n > 0
		})
	}
	u.end()
	drained(t, api)
	u.check(t, env, env.Redis)
	for _, p := range []*testenv.Process{api, jobs} {
		if n, ok := metric(t, p, "stepboard_ingest_messages_total"); ok {
			t.Errorf("a process without consumer has consumed %v messages", n)
		}
	}
	for _, p := range append(consumers, jobs) {
		for path, want := range map[string]int{
			"/healthz": 200, "/readyz": 200, "/metrics": 200,
			"/v1/boards": 404, "/v1/boards/steps/top": 404, "/openapi.json": 404, "/": 404,
		} {
			if status, text := get(t, p, path); status != want {
				t.Errorf("%s: %d, want %d: %s", path, status, want, text)
			}
		}
	}
	for _, p := range append(consumers, jobs, api) {
		if status := p.Stop(); status != 0 {
			t.Errorf("stopped with status %d: %s", status, p.Log())
		}
	}
}

// A role that there is not, or that has nothing to do, is refused.
func TestQueueRolesRefused(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--only", "nix"}, `--only "nix": use api, consumer or jobs`},
		{[]string{"--only", "api,nix"}, `--only "nix": use api, consumer or jobs`},
		{[]string{"--only", "consumer"}, "--only consumer: with ingest.mode direct there is no queue to consume"},
		{only("consumer", "--ingest.redis.addrs=127.0.0.1:1"), "ingest.redis: "},
	} {
		stdout, stderr, status := testenv.Run(t, append(append([]string{"serve"}, testenv.Flags(env.Config)...), tt.flags...)...)
		if last := lastLine(stderr); status != 1 || stdout != "" || !strings.HasPrefix(last, "stepboard: ") || !strings.Contains(last, tt.want) {
			t.Errorf("%v: status %d, %q %q, want %q", tt.flags, status, stdout, stderr, tt.want)
		}
	}
	// Without a queue there is only the ledger to rebuild from.
	stdout, stderr, status := testenv.Run(t, append([]string{"rebuild"}, testenv.Flags(env.Config)...)...)
	if status != 0 || !strings.Contains(stdout, "0 totals applied again") || strings.Contains(stdout, "updates") {
		t.Errorf("rebuild: %d %q %q", status, stdout, stderr)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Consumers die under load, again and again, and others go on with what they
// held.
func TestSoakQueueConsumersKilled(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	api := testenv.Serve(t, env.Config, only("api")...)
	killConsumers(t, env, api, rounds(3, 50), only("consumer"))
}

// killConsumers kills one of two consumers after another under load and starts
// another one each time. It gives back those that run in the end, when all
// that was promised was found on the board.
func killConsumers(t *testing.T, env *testenv.Env, api *testenv.Process, kills int, flags []string) []*testenv.Process {
	t.Helper()
	consumers := []*testenv.Process{testenv.Serve(t, env.Config, flags...), testenv.Serve(t, env.Config, flags...)}
	u := enqueue(t, api)
	for i := range kills {
		dying := &consumers[i%len(consumers)]
		testenv.Eventually(t, "it has work", func() bool {
			n, _ := metric(t, *dying, "stepboard_ingest_messages_total")
			return n > 0
		})
		u.more(t, 50)
		(*dying).Kill()
		u.more(t, 50)
		*dying = testenv.Serve(t, env.Config, flags...)
	}
	u.end()
	drained(t, api)
	u.check(t, env, env.Redis)
	return consumers
}

// Consumers are replaced one after another under load, and end well.
func TestSoakQueueRollingRestart(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	api := testenv.Serve(t, env.Config, only("api")...)
	consumers := []*testenv.Process{testenv.Serve(t, env.Config, only("consumer")...), testenv.Serve(t, env.Config, only("consumer")...)}
	u := enqueue(t, api)
	for i := range 2 * rounds(1, 20) {
		old := &consumers[i%len(consumers)]
		u.more(t, 50)
		if status := (*old).Stop(); status != 0 {
			t.Errorf("stopped with status %d: %s", status, (*old).Log())
		}
		*old = testenv.Serve(t, env.Config, only("consumer")...)
	}
	u.end()
	drained(t, api)
	u.check(t, env, env.Redis)
}

// twoRedises are a test's settings with the boards on a server of their own,
// and what tells where the stream is.
func twoRedises(t testing.TB, env *testenv.Env) (server *testenv.RedisServer, cfg config.Config, stream string) {
	t.Helper()
	server = testenv.StartRedis(t)
	cfg = env.Config
	stream = "--ingest.redis.addrs=" + cfg.Redis.Addrs[0]
	cfg.Redis.Addrs = []string{server.Addr()}
	return server, cfg, stream
}

// noted tells whether the guard has looked at the boards' Redis.
func noted(ctx context.Context, rdb redis.UniversalClient, keys keys.Builder) func() bool {
	return func() bool { return rdb.HExists(ctx, keys.LossCheckpoint("queue", 0), "at").Val() }
}

// lastWrites is more, in bytes, than the last update of each user in a Redis's
// log.
const lastWrites = 8 << 10

// The boards' Redis dies under load and forgets its last writes, which had
// been acknowledged to the queue. They are applied again.
func TestSoakQueueBoardsForget(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server, cfg, stream := twoRedises(t, env)
	rdb := clientOf(t, server)
	api := testenv.Serve(t, cfg, only("api", stream)...)
	testenv.Serve(t, cfg, only("consumer", stream)...)
	testenv.Serve(t, cfg, only("consumer", stream)...)
	testenv.Eventually(t, "the guard has looked", noted(t.Context(), rdb, env.Keys))
	u := enqueue(t, api)
	for range rounds(2, 10) {
		u.more(t, 500)
		server.Kill()
		server.Forget(lastWrites)
		u.more(t, 100) // the queue takes them meanwhile
		server.Start()
	}
	u.more(t, 50)
	u.end()
	drained(t, api)
	testenv.Eventually(t, "what was forgotten is applied again", u.kept(t, env, rdb))
	// Now nothing comes after it that would make it good.
	for range rounds(1, 10) {
		server.Kill()
		server.Forget(lastWrites)
		server.Start()
		testenv.Eventually(t, "what was forgotten is applied again", u.kept(t, env, rdb))
	}
	u.check(t, env, rdb)
}

// The boards' Redis is emptied under load. Everything is applied again, and a
// rebuild finds nothing to change.
func TestSoakQueueBoardsFlushed(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server, cfg, stream := twoRedises(t, env)
	rdb := clientOf(t, server)
	api := testenv.Serve(t, cfg, only("api", stream)...)
	consumer := testenv.Serve(t, cfg, only("consumer", stream)...)
	u := enqueue(t, api)
	for range rounds(1, 10) {
		u.more(t, 300)
		testenv.Eventually(t, "the guard has looked", noted(t.Context(), rdb, env.Keys))
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	u.more(t, 50)
	u.end()
	drained(t, api)
	testenv.Eventually(t, "what was forgotten is applied again", u.kept(t, env, rdb))
	// Now nothing comes after it that would make it good.
	for range rounds(1, 10) {
		testenv.Eventually(t, "the guard has looked", noted(t.Context(), rdb, env.Keys))
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "what was forgotten is applied again", u.kept(t, env, rdb))
	}
	u.check(t, env, rdb)

	// The same by the command, with nobody else at it.
	if status := consumer.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, consumer.Log())
	}
	board := env.Keys.Board(dayBucket(t, env, u.date), 0)
	before := rdb.ZRangeWithScores(t.Context(), board, 0, -1).Val()
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		stdout, stderr, status := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(cfg)...), onStream(stream)...)...)
		if status != 0 || !strings.Contains(stdout, "updates applied again") {
			t.Fatalf("rebuild: %d %q %q", status, stdout, stderr)
		}
		if after := rdb.ZRangeWithScores(t.Context(), board, 0, -1).Val(); len(before) != 8 || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("after the rebuild the board is\n%v, want\n%v", after, before)
		}
	}
}

// A consumer with a backlog does not note that the boards have what they are
// still to get: a Redis that dies right after it got that may forget it, however
// long ago it was appended.
func TestQueueBacklogIsNotNoted(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server, cfg, stream := twoRedises(t, env)
	rdb := clientOf(t, server)
	// looked waits until the guard has noted something anew.
	looked := func() (upto int64) {
		t.Helper()
		key := env.Keys.LossCheckpoint("queue", 0)
		if err := rdb.HSet(t.Context(), key, "at", 1).Err(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the guard has looked", func() bool {
			var err error
			if upto, err = rdb.HGet(t.Context(), key, "at").Int64(); err != nil {
				t.Fatal(err)
			}
			return upto != 1
		})
		return upto
	}
	api := testenv.Serve(t, cfg, only("api", stream)...)
	first := testenv.Serve(t, cfg, only("consumer", stream)...)
	testenv.Eventually(t, "the guard has looked", noted(t.Context(), rdb, env.Keys))
	if status := first.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, first.Log())
	}
	u := enqueue(t, api)
	u.more(t, 50)
	u.end()
	oldest := testenv.Must(env.Redis.XRangeN(t.Context(), env.Keys.IngestStream(), "-", "+", 1).Result())[0]
	ms, _, _ := strings.Cut(oldest.ID, "-")
	appended := testenv.Must(strconv.ParseInt(ms, 10, 64))

	slow := testenv.Serve(t, cfg, only("consumer", stream, "--ingest.flush_interval=1h")...)
	for range 2 {
		if upto := looked(); upto > appended {
			t.Fatalf("%d is noted, and what was appended at %d still waits", upto, appended)
		}
	}
	if status := slow.Stop(); status != 0 { // it applies what it holds
		t.Errorf("stopped with status %d: %s", status, slow.Log())
	}
	u.check(t, env, rdb)
}

// frames is an entry's payload, of messages as they are.
func frames(messages ...[]byte) (payload []byte) {
	for _, m := range messages {
		payload = append(binary.AppendUvarint(payload, uint64(len(m))), m...)
	}
	return payload
}

// addEntry appends to the stream as the service does, whatever the payload is.
func addEntry(t testing.TB, env *testenv.Env, updates int, payload []byte) {
	t.Helper()
	ctx := t.Context()
	count := testenv.Must(env.Redis.HIncrBy(ctx, env.Keys.IngestCounts(), "appended", int64(updates)).Result())
	values := map[string]any{"n": updates, "c": count, "u": payload}
	if err := env.Redis.XAdd(ctx, &redis.XAddArgs{Stream: env.Keys.IngestStream(), Values: values}).Err(); err != nil {
		t.Fatal(err)
	}
}

// disorder is what a stream may hold at worst: every tenth update twice, all of
// them shuffled among the 1,000 beside them, and every hundredth unreadable.
func disorder(rng *rand.Rand, bucket *models.Bucket, updates int) (messages [][]byte, unreadable int) {
	for i := range updates {
		u := ingest.Update{
			Board: bucket.Board, Bucket: bucket.Name, User: models.UserID(1 + rng.IntN(300)), Score: rng.Int64N(200),
			ReachedAt: models.TimestampOf(bucket.StartsAt) + models.Timestamp(rng.Int64N(3_600_000)),
		}
		encoded := u.AppendTo(nil)
		messages = append(messages, encoded)
		switch {
		case i%10 == 0:
			messages = append(messages, encoded)
		case i%100 == 1:
			damaged := bytes.Clone(encoded)
			damaged[rng.IntN(len(damaged))] ^= 0x40
			messages = append(messages, damaged)
			unreadable++
		}
	}
	for near := range slices.Chunk(messages, 1000) {
		rng.Shuffle(len(near), func(i, j int) { near[i], near[j] = near[j], near[i] })
	}
	return messages, unreadable
}

// best is the largest composite of each user in a bucket, of the messages that
// can be read.
func best(t testing.TB, bucket *models.Bucket, messages [][]byte) map[models.UserID]models.Composite {
	t.Helper()
	codec, largest := score.Of(bucket), make(map[models.UserID]models.Composite)
	for _, m := range messages {
		if u, err := ingest.DecodeUpdate(m); err == nil {
			composite, err := codec.Encode(u.Score, codec.Cut(u.ReachedAt))
			if err != nil {
				t.Fatal(err)
			}
			largest[u.User] = max(largest[u.User], composite)
		}
	}
	return largest
}

// boardOf is everything on an unsharded board.
func boardOf(t testing.TB, rdb redis.UniversalClient, key string) map[models.UserID]models.Composite {
	t.Helper()
	held := make(map[models.UserID]models.Composite)
	for _, z := range testenv.Must(rdb.ZRangeWithScores(t.Context(), key, 0, -1).Result()) {
		id := testenv.Must(strconv.ParseInt(z.Member.(string), 10, 64))
		held[models.UserID(id)] = models.Composite(z.Score)
	}
	return held
}

// Updates that come twice, in any order, and among bytes that are none, end as
// the largest of each user; what can't be read is kept for a person to see.
func TestQueueDisorder(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	p := testenv.Serve(t, env.Config, onStream()...)
	first := fmt.Sprintf(`{"date":%q,"score":1}`, shanghaiToday())
	if status, text, err := request(t.Context(), http.DefaultClient, token(t, 1, ""), "POST", p.URL+"/v1/boards/steps/scores", first); err != nil || status != http.StatusAccepted {
		t.Fatalf("%d %s %v", status, text, err)
	}
	drained(t, p)
	bucket := dayBucket(t, env, shanghaiToday())
	key := env.Keys.Board(bucket, 0)
	mine := boardOf(t, env.Redis, key)[1]

	messages, unreadable := disorder(rand.New(rand.NewPCG(1, 2)), bucket, 10_000)
	for some := range slices.Chunk(messages, 100) {
		addEntry(t, env, len(some), frames(some...))
	}
	// One that can't even be taken apart, and two for days that nobody knows.
	addEntry(t, env, 1, []byte("garbage"))
	unreadable++
	early := ingest.Update{Board: "steps", Bucket: "20200101", User: 7, Score: 7, ReachedAt: models.TimestampOf(bucket.StartsAt) + 7}
	addEntry(t, env, 2, frames(early.AppendTo(nil), func() []byte { early.User = 8; return early.AppendTo(nil) }()))
	drained(t, p)

	want := best(t, bucket, messages)
	want[1] = max(want[1], mine)
	if got := boardOf(t, env.Redis, key); !maps.Equal(got, want) {
		t.Errorf("the board holds\n%v, want\n%v", got, want)
	}
	if n, _ := metric(t, p, "stepboard_ingest_dead_letters_total"); int(n) != unreadable+2 {
		t.Errorf("%v dead letters are counted, want %d", n, unreadable+2)
	}
	settleLetters(t, env, p, bucket, unreadable)
}

// settleLetters settles dead letters of messages that can't be read, and, newer
// than those, of users 7 and 8 on 2020-01-01: by the API and by the command.
func settleLetters(t *testing.T, env *testenv.Env, p *testenv.Process, like *models.Bucket, unreadable int) {
	t.Helper()
	command := func(args ...string) (stdout, stderr string, status int) {
		t.Helper()
		return testenv.Run(t, append(append(append([]string{"dead-letters"}, args[0]), testenv.Flags(env.Config)...), append(onStream(), args[1:]...)...)...)
	}
	call := func(method, path string, want int) string {
		t.Helper()
		status, text, err := request(t.Context(), http.DefaultClient, token(t, 1, auth.ScopeAdmin), method, p.URL+"/v1/admin/dead-letters"+path, "")
		if err != nil || status != want {
			t.Errorf("%s %s: %d %s %v, want %d", method, path, status, text, err, want)
		}
		return text
	}
	var ids []string
	for cursor := ""; ; {
		var page struct {
			Letters []struct{ ID, Reason, Position string } `json:"dead_letters"`
			Next    *string                                 `json:"next_cursor"`
		}
		if err := json.Unmarshal([]byte(call("GET", "?limit=30"+cursor, 200)), &page); err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Letters {
			if l.Reason == "" || !strings.HasPrefix(l.Position, "stream ") {
				t.Errorf("letter %+v", l)
			}
			ids = append(ids, l.ID)
		}
		if page.Next == nil {
			break
		}
		cursor = "&cursor=" + *page.Next
	}
	stdout, stderr, status := command("list")
	if lines := strings.Count(stdout, "\n"); status != 0 || lines != unreadable+2 || len(ids) != lines {
		t.Fatalf("list: %d, %d lines, %d by the API, want %d: %s", status, lines, len(ids), unreadable+2, stderr)
	}
	for i, line := range strings.Split(strings.TrimSpace(stdout), "\n") {
		if !strings.HasPrefix(line, ids[i]+"\t") {
			t.Errorf("line %q, want letter %s", line, ids[i])
		}
	}
	// Nothing makes these readable.
	if _, stderr, status := command("replay", ids[2]); status != 1 || !strings.Contains(stderr, "still can't be applied") {
		t.Errorf("replay: %d %q", status, stderr)
	}
	call("POST", "/"+ids[3]+"/replay", http.StatusUnprocessableEntity)
	// The day appears, and these can be applied.
	day := *like
	day.Name = "20200101"
	if err := env.Gorm.Create(&day).Error; err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, status := command("replay", ids[0]); status != 0 || stdout != "done\n" {
		t.Errorf("replay: %d %q %q", status, stdout, stderr)
	}
	call("POST", "/"+ids[1]+"/replay", http.StatusNoContent)
	if held := boardOf(t, env.Redis, env.Keys.Board(&day, 0)); len(held) != 2 || held[7] == 0 || held[8] == 0 {
		t.Errorf("what was replayed is %v", held)
	}
	call("POST", "/"+ids[1]+"/replay", http.StatusNotFound)
	if stdout, stderr, status := command("delete", ids[2]); status != 0 || stdout != "done\n" {
		t.Errorf("delete: %d %q %q", status, stdout, stderr)
	}
	for _, id := range ids[3:] {
		call("DELETE", "/"+id, http.StatusNoContent)
	}
	if stdout, stderr, status := command("list"); status != 0 || stdout != "" {
		t.Errorf("list: %d %q %q", status, stdout, stderr)
	}
	if _, stderr, status := command("replay", "nix"); status != 1 || !strings.Contains(stderr, `"nix" is no id`) {
		t.Errorf("replay: %d %q", status, stderr)
	}
}

// The stream's Redis is away, or hangs, under load: uploads are refused, and
// the same processes go on when it is back.
func TestSoakQueueStreamCutOff(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	link := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	p := testenv.Serve(t, env.Config, onStream("--ingest.redis.addrs="+link.Addr())...)
	u := enqueue(t, p)
	for i := range rounds(2, 10) {
		u.more(t, 100)
		_, refused := u.count()
		if i%2 == 0 {
			link.Cut()
		} else {
			link.Hold()
		}
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.count(); return n > refused })
		if status, text := get(t, p, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, `"queue":"unavailable"`) {
			t.Errorf("readyz: %d %s", status, text)
		}
		if i%2 == 0 {
			link.Start()
		} else {
			link.Release() // what was refused may happen after all
		}
	}
	u.more(t, 50)
	u.end()
	drained(t, p)
	u.check(t, env, env.Redis)
}

// A stream that holds as much as it may refuses uploads, until something that
// was applied is forgotten.
func TestQueueFull(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	small := []string{"--ingest.redis.max_updates=1000", "--ingest.redis.keep=1s", "--ingest.rewind=1s"}
	api := testenv.Serve(t, env.Config, only("api", small...)...)
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"user_id":"%d","date":%q,"score":%d}`, i+1, shanghaiToday(), i+1)
	}
	send := func(bearer, path, body string) (status int, retryAfter string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL+"/v1/boards/steps/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode, res.Header.Get("Retry-After")
	}
	status, _ := send(token(t, 1, auth.ScopeService), "scores/batch", `{"scores":[`+strings.Join(items, ",")+`]}`)
	if status != http.StatusAccepted {
		t.Fatalf("batch: %d", status)
	}
	one := fmt.Sprintf(`{"date":%q,"score":99999}`, shanghaiToday())
	if status, retryAfter := send(token(t, 1, ""), "scores", one); status != http.StatusServiceUnavailable || retryAfter == "" {
		t.Fatalf("a full stream answers %d, Retry-After %q", status, retryAfter)
	}
	testenv.Serve(t, env.Config, only("consumer", small...)...)
	testenv.Eventually(t, "there is room again", func() bool {
		status, _ := send(token(t, 1, ""), "scores", one)
		return status == http.StatusAccepted
	})
	drained(t, api)
	bucket := dayBucket(t, env, shanghaiToday())
	held := boardOf(t, env.Redis, env.Keys.Board(bucket, 0))
	if len(held) != len(items) {
		t.Errorf("%d users on the board, want %d", len(held), len(items))
	}
	for user, composite := range held {
		want := int64(user)
		if user == 1 {
			want = 99_999
		}
		if total, _ := score.Of(bucket).Decode(composite); total != want {
			t.Errorf("user %v has %d, want %d", user, total, want)
		}
	}
}
