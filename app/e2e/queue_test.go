package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// One process with a queue: an upload is answered 202 and reaches its board.
func TestQueueOfOneProcess(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	p := testenv.Serve(t, env.Config, harness.RedisQueue()...)
	if status, text := harness.Get(t, p, "/readyz"); status != http.StatusOK || !strings.Contains(text, `"queue":"ok"`) {
		t.Errorf("readyz: %d %s", status, text)
	}
	u := harness.Enqueue(t, p)
	u.AwaitMore(t, 500)
	u.End()
	harness.AwaitDrained(t, p)
	u.Check(t, env, env.Redis)
	status, text, err := harness.Request(t.Context(), http.DefaultClient, harness.Token(t, "1", ""), http.MethodGet, p.URL+"/v1/boards/steps/me?date="+u.Date, "")
	if want := fmt.Sprintf(`"score":%d`, u.Promised["1"]); err != nil || status != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("the user's own score: %d %s %v, want %s", status, text, err, want)
	}
	for name, least := range map[string]float64{
		"stepboard_ingest_messages_total": 100, "stepboard_ingest_raises_total": 8,
		"stepboard_ingest_batch_messages_count": 1, "stepboard_ingest_queue_up": 1,
		"stepboard_ingest_lag_seconds": 0, "stepboard_ingest_dead_letters_total": 0, "stepboard_ingest_retries_total": 0,
	} {
		if value, ok := harness.Metric(t, p, name); !ok || value < least {
			t.Errorf("%s is %v, %v, want %v", name, value, ok, least)
		}
	}
	p.Stop()
	// A rebuild changes nothing.
	stdout, stderr, code := testenv.Run(t, append(append([]string{"rebuild"}, testenv.Flags(env.Config)...), harness.RedisQueue()...)...)
	if code != 0 || !strings.Contains(stdout, " updates applied again") {
		t.Errorf("rebuild: %d %q %q", code, stdout, stderr)
	}
	u.Check(t, env, env.Redis)
}

// Processes with one role each do the work of that role only.
func TestSeparateRoles(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	api := testenv.Serve(t, env.Config, harness.Role("api")...)
	consumers := []*testenv.Process{testenv.Serve(t, env.Config, harness.Role("consumer")...), testenv.Serve(t, env.Config, harness.Role("consumer")...)}
	jobs := testenv.Serve(t, env.Config, harness.Role("jobs")...)
	u := harness.Enqueue(t, api)
	for i, c := range consumers {
		testenv.Eventually(t, fmt.Sprintf("consumer %d has work", i), func() bool {
			n, _ := harness.Metric(t, c, "stepboard_ingest_messages_total")
			return n > 0
		})
	}
	u.End()
	harness.AwaitDrained(t, api)
	u.Check(t, env, env.Redis)
	for _, p := range []*testenv.Process{api, jobs} {
		if n, ok := harness.Metric(t, p, "stepboard_ingest_messages_total"); ok {
			t.Errorf("a process without consumer has consumed %v messages", n)
		}
	}
	for _, p := range append(consumers, jobs) {
		for path, want := range map[string]int{
			"/healthz": 200, "/readyz": 200, "/metrics": 200,
			"/v1/boards": 404, "/v1/boards/steps/top": 404, "/openapi.json": 404, "/": 404,
		} {
			if status, text := harness.Get(t, p, path); status != want {
				t.Errorf("%s: %d, want %d: %s", path, status, want, text)
			}
		}
	}
	for _, p := range append(consumers, jobs, api) {
		p.Stop()
	}
}

// A role that does not exist, or that has nothing to do, is refused.
func TestRefusedRoles(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--only", "nix"}, `--only "nix": use api, consumer or jobs`},
		{[]string{"--only", "api,nix"}, `--only "nix": use api, consumer or jobs`},
		{[]string{"--only", "consumer"}, "--only consumer: with ingest.mode direct there is no queue to consume"},
		{harness.Role("consumer", "--ingest.redis.addrs=127.0.0.1:1", "--startup_timeout=1s"), "ingest.redis: "},
	} {
		command(append(append([]string{"serve"}, testenv.Flags(env.Config)...), tt.flags...)...).Fails(t, 1, tt.want)
	}
	// Without a queue, a rebuild reads only the ledger.
	if text := command(append([]string{"rebuild"}, testenv.Flags(env.Config)...)...).Succeeds(t); !strings.Contains(text, "0 totals applied again") || strings.Contains(text, "updates") {
		t.Errorf("rebuild prints %q", text)
	}
}

// The checkpoint of the queue never passes an update that is not applied yet.
// Otherwise a Redis that dies right after it got the update could lose it for
// good, however long ago the update was appended.
func TestCheckpointExcludesTheBacklog(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	server, cfg, stream := harness.SeparateRedis(t, env)
	rdb := harness.RedisClient(t, server)
	// checkpoint waits until the loss detector has written its checkpoint again.
	checkpoint := func() (upto int64) {
		t.Helper()
		key := env.Keys.LossCheckpoint("queue", 0)
		if err := rdb.HSet(t.Context(), key, "at", 1).Err(); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, "the checkpoint is written", func() bool {
			var err error
			if upto, err = rdb.HGet(t.Context(), key, "at").Int64(); err != nil {
				t.Fatal(err)
			}
			return upto != 1
		})
		return upto
	}
	api := testenv.Serve(t, cfg, harness.Role("api", stream)...)
	first := testenv.Serve(t, cfg, harness.Role("consumer", stream)...)
	harness.AwaitCheckpoint(t, rdb, env.Keys, "queue")
	first.Stop()
	u := harness.Enqueue(t, api)
	u.AwaitMore(t, 50)
	u.End()
	oldest := testenv.Must(env.Redis.XRangeN(t.Context(), env.Keys.IngestStream(), "-", "+", 1).Result())[0]
	ms, _, _ := strings.Cut(oldest.ID, "-")
	appended := testenv.Must(strconv.ParseInt(ms, 10, 64))

	slow := testenv.Serve(t, cfg, harness.Role("consumer", stream, "--ingest.flush_interval=1h")...)
	for range 2 {
		if upto := checkpoint(); upto > appended {
			t.Fatalf("the checkpoint is %d, and an update that was appended at %d still waits", upto, appended)
		}
	}
	slow.Stop() // it applies the updates that it holds
	u.Check(t, env, rdb)
}
