package e2e_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/score"
	"stepboard/services/platform/auth"
)

// frames returns the payload of an entry with these messages.
func frames(messages ...[]byte) (payload []byte) {
	for _, m := range messages {
		payload = append(binary.AppendUvarint(payload, uint64(len(m))), m...)
	}
	return payload
}

// addEntry appends to the stream as the service does, with any payload.
func addEntry(t testing.TB, env *testenv.Env, updates int, payload []byte) {
	t.Helper()
	ctx := t.Context()
	count := testenv.Must(env.Redis.HIncrBy(ctx, env.Keys.IngestCounts(), "appended", int64(updates)).Result())
	values := map[string]any{"n": updates, "c": count, "u": payload}
	if err := env.Redis.XAdd(ctx, &redis.XAddArgs{Stream: env.Keys.IngestStream(), Values: values}).Err(); err != nil {
		t.Fatal(err)
	}
}

// disorderedMessages returns messages as a stream may hold them at worst: every
// tenth update twice, each shuffled among 1,000 neighbours, and every hundredth
// damaged.
func disorderedMessages(rng *rand.Rand, bucket *models.Bucket, updates int) (messages [][]byte, unreadable int) {
	for i := range updates {
		u := ingest.Update{
			Board: bucket.Board, Bucket: bucket.Name, User: models.RowID(1 + rng.IntN(300)), Score: rng.Int64N(200),
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

// largestComposites returns the largest composite of each user in the readable
// messages.
func largestComposites(t testing.TB, bucket *models.Bucket, messages [][]byte) map[models.RowID]models.Composite {
	t.Helper()
	codec, largest := score.Of(bucket), make(map[models.RowID]models.Composite)
	for _, m := range messages {
		if u, err := ingest.DecodeUpdate(m); err == nil {
			composite, err := codec.Encode(bucket.Points(u.Score), codec.Cut(u.ReachedAt))
			if err != nil {
				t.Fatal(err)
			}
			largest[u.User] = max(largest[u.User], composite)
		}
	}
	return largest
}

// boardOf returns all scores of a board with one shard.
func boardOf(t testing.TB, rdb redis.UniversalClient, key string) map[models.RowID]models.Composite {
	t.Helper()
	held := make(map[models.RowID]models.Composite)
	for _, z := range testenv.Must(rdb.ZRangeWithScores(t.Context(), key, 0, -1).Result()) {
		id := testenv.Must(strconv.ParseInt(z.Member.(string), 10, 64))
		held[models.RowID(id)] = models.Composite(z.Score)
	}
	return held
}

// Updates may come twice, in any order, and among unreadable messages. The
// board gets the largest of each user, and unreadable messages become dead
// letters.
func TestQueueDisorder(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	testenv.NumberUsers(t, env, 300)
	// The only consumer must not take over what it is slow to acknowledge: dead
	// letters would be counted twice.
	p := testenv.Serve(t, env.Config, harness.RedisQueue("--ingest.redis.claim_after=1h")...)
	today := harness.Today()
	first := fmt.Sprintf(`{"date":%q,"score":1}`, today)
	if status, text, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "1", ""), "POST", p.URL+"/v1/boards/steps/scores", first); err != nil || status != http.StatusAccepted {
		t.Fatalf("%d %s %v", status, text, err)
	}
	harness.AwaitDrained(t, p)
	bucket := harness.DayBucket(t, env, today)
	key := env.Keys.Board(bucket, 0)
	mine := boardOf(t, env.Redis, key)[1]

	messages, unreadable := disorderedMessages(rand.New(rand.NewPCG(1, 2)), bucket, 10_000)
	for some := range slices.Chunk(messages, 100) {
		addEntry(t, env, len(some), frames(some...))
	}
	// One entry that can't be decoded, and two updates of an unknown day.
	addEntry(t, env, 1, []byte("garbage"))
	unreadable++
	early := ingest.Update{Board: "steps", Bucket: "20200101", User: 7, Score: 7, ReachedAt: models.TimestampOf(bucket.StartsAt) + 7}
	addEntry(t, env, 2, frames(early.AppendTo(nil), func() []byte { early.User = 8; return early.AppendTo(nil) }()))
	harness.AwaitDrained(t, p)

	want := largestComposites(t, bucket, messages)
	want[1] = max(want[1], mine)
	if got := boardOf(t, env.Redis, key); !maps.Equal(got, want) {
		t.Errorf("the board holds\n%v, want\n%v", got, want)
	}
	if n, _ := harness.Metric(t, p, "stepboard_ingest_dead_letters_total"); int(n) != unreadable+2 {
		t.Errorf("%v dead letters are counted, want %d", n, unreadable+2)
	}
	handleDeadLetters(t, env, p, bucket, unreadable)
}

// handleDeadLetters lists, replays and deletes dead letters by the API and by
// the command: unreadable messages and, newer than those, updates of users 7
// and 8 on 2020-01-01.
func handleDeadLetters(t *testing.T, env *testenv.Env, p *testenv.Process, like *models.Bucket, unreadable int) {
	t.Helper()
	command := func(args ...string) (stdout, stderr string, status int) {
		t.Helper()
		return testenv.Run(t, append(append(append([]string{"dead-letters"}, args[0]), testenv.Flags(env.Config)...), append(harness.RedisQueue(), args[1:]...)...)...)
	}
	call := func(method, path string, want int) string {
		t.Helper()
		status, text, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "1", auth.ScopeAdmin), method, p.URL+"/v1/admin/dead-letters"+path, "")
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
	// An unreadable message can't be replayed.
	if _, stderr, status := command("replay", ids[2]); status != 1 || !strings.Contains(stderr, "still can't be applied") {
		t.Errorf("replay: %d %q", status, stderr)
	}
	call("POST", "/"+ids[3]+"/replay", http.StatusUnprocessableEntity)
	// Once the day exists, its updates can be replayed.
	day := *like
	day.Name = "20200101"
	if err := env.Gorm.Create(&day).Error; err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, status := command("replay", ids[0], "--dry-run"); status != 0 || stdout != "it can be done\n" {
		t.Errorf("dry run: %d %q %q", status, stdout, stderr)
	}
	if stdout, stderr, status := command("replay", ids[0], "--actor", "mei"); status != 0 || stdout != "done\n" {
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
	call("DELETE", "/"+ids[3], http.StatusNoContent)
	handleDeadLettersByFilter(t, env, &day, command, len(ids)-4)
	status, text, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "1", auth.ScopeAdmin), "POST",
		p.URL+"/v1/admin/dead-letters/delete", `{"filter":{}}`)
	if want := fmt.Sprintf(`{"done":%d,"failed":0,"next_through":null}`, len(ids)-4); err != nil || status != http.StatusOK || text != want {
		t.Errorf("delete all: %d %s %v, want %s", status, text, err, want)
	}
	wantAudited(t, p, "dead-letters replay", "mei")
	wantAudited(t, p, "deleteDeadLetters", "1")
	if stdout, stderr, status := command("list"); status != 0 || stdout != "" {
		t.Errorf("list: %d %q %q", status, stdout, stderr)
	}
	if _, stderr, status := command("replay", "nix"); status != 1 || !strings.Contains(stderr, `"nix" is no id`) {
		t.Errorf("replay: %d %q", status, stderr)
	}
}

// wantAudited checks that the audit log has the action, done by the operator.
func wantAudited(t *testing.T, p *testenv.Process, action, actor string) {
	t.Helper()
	path := p.URL + "/v1/admin/audit?action=" + url.QueryEscape(action)
	status, text, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "1", auth.ScopeAdmin), "GET", path, "")
	if err != nil || status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"actor":%q`, actor)) || !strings.Contains(text, `"outcome":"done"`) {
		t.Errorf("the audit log of %q: %d %s %v", action, status, text, err)
	}
}

// handleDeadLettersByFilter replays and deletes dead letters of a bucket by the filters of the
// command, beside a number of unreadable ones, which stay.
func handleDeadLettersByFilter(
	t *testing.T, env *testenv.Env, bucket *models.Bucket, command func(...string) (string, string, int), unreadable int,
) {
	t.Helper()
	at := models.TimestampOf(bucket.StartsAt)
	var letters []models.DeadLetter
	for i := range 3 {
		u := ingest.Update{Board: bucket.Board, Bucket: bucket.Name, User: models.RowID(10 + i), Score: 5, ReachedAt: at}
		letters = append(letters, models.DeadLetter{
			Position: fmt.Sprint("test ", i), Reason: "no bucket", Board: u.Board, Bucket: u.Bucket, Payload: u.AppendTo(nil),
			QueuedAt: testenv.Noon, FailedAt: testenv.Noon,
		})
	}
	if err := env.Gorm.Create(&letters).Error; err != nil {
		t.Fatal(err)
	}
	check := func(want string, args ...string) {
		t.Helper()
		if stdout, stderr, status := command(args...); status != 0 || stdout != want {
			t.Errorf("%v: %d %q %q, want %q", args, status, stdout, stderr, want)
		}
	}
	refuse := func(want string, args ...string) {
		t.Helper()
		if _, stderr, status := command(args...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %q, want %q", args, status, stderr, want)
		}
	}
	refuse("--all", "delete")
	refuse("not both", "delete", "1", "--board", "steps")
	refuse("not both", "replay", "1", "--all")
	if stdout, _, _ := command("list", "--reason", "no bucket"); strings.Count(stdout, "\n") != 3 {
		t.Errorf("those of a reason: %q", stdout)
	}
	check("0 can be done, 0 can't be applied and stay\n", "replay", "--board", "gifts", "--dry-run")
	check("3 can be done, 0 can't be applied and stay\n", "replay", "--bucket", "20200101", "--dry-run")
	check(fmt.Sprintf("3 can be done, %d can't be applied and stay\n", unreadable), "replay", "--all", "--dry-run")
	check("3 done, 0 can't be applied and stay\n", "replay", "--board", "steps", "--reason", "no bucket")
	check("0 done, 0 can't be applied and stay\n", "delete", "--reason", "no bucket")
}
