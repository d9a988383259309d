package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/keys"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/friends"
	"stepboard/services/score"
)

// rounds is how often a test kills: a few times, or many in a soak.
func rounds(few, many int) int {
	if os.Getenv("SOAK") != "" {
		return many
	}
	return few
}

// prepared is a test's part of the servers with the schema in it.
func prepared(t testing.TB) *testenv.Env {
	t.Helper()
	env := testenv.Real(t)
	env.Config.Auth.HS256Secret = secret
	return env
}

// request makes one call of a running process; the error is the connection's.
func request(ctx context.Context, client *http.Client, bearer, method, url, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	raw, err := io.ReadAll(res.Body)
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	return res.StatusCode, string(raw), err
}

// uploaders upload growing totals until they are told to stop, and remember
// the largest total that each user was promised, and the largest that was sent.
type uploaders struct {
	date    string
	promise int // the status of an upload that was taken
	wg      sync.WaitGroup
	stop    chan struct{}

	mu       sync.Mutex
	promised map[models.UserID]int64
	sent     map[models.UserID]int64
	refused  int
	broken   int
}

// upload starts the users' uploads to a process without a queue.
func upload(t testing.TB, url, date string, users int) *uploaders {
	t.Helper()
	return startUploads(t, http.StatusOK, url, date, users)
}

// startUploads starts the users' uploads to a process that answers what it
// takes with the given status.
func startUploads(t testing.TB, promise int, url, date string, users int) *uploaders {
	t.Helper()
	u := &uploaders{
		date: date, promise: promise, stop: make(chan struct{}),
		promised: make(map[models.UserID]int64), sent: make(map[models.UserID]int64),
	}
	for id := models.UserID(1); id <= models.UserID(users); id++ {
		bearer := token(t, id, "")
		u.wg.Go(func() { u.run(t, url, bearer, id) })
	}
	return u
}

func (u *uploaders) run(t testing.TB, url, bearer string, id models.UserID) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for total := int64(1); total <= 100_000; total++ {
		select {
		case <-u.stop:
			return
		default:
		}
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, u.date, total)
		u.mu.Lock()
		u.sent[id] = total
		u.mu.Unlock()
		status, text, err := request(t.Context(), client, bearer, "POST", url+"/v1/boards/steps/scores", body)
		u.mu.Lock()
		switch {
		case err != nil:
			u.broken++
		case status == u.promise:
			u.promised[id] = total
		case status == http.StatusServiceUnavailable:
			u.refused++
		default:
			t.Errorf("status %d: %s", status, text)
		}
		gone := err != nil
		u.mu.Unlock()
		if gone {
			return
		}
	}
}

// count tells how many uploads were promised or refused.
func (u *uploaders) count() (promised, refused int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, total := range u.promised {
		promised += int(total)
	}
	return promised, u.refused
}

// check waits for the uploads to end and compares the board with what was
// promised: never less, and not more than what was sent.
func (u *uploaders) check(t testing.TB, env *testenv.Env, rdb redis.UniversalClient) {
	t.Helper()
	u.wg.Wait()
	checkPromised(t, env, rdb, dayBucket(t, env, u.date), u.promised, u.sent)
}

// checkPromised compares what is on a day's board with what users were promised
// and with what they have sent.
func checkPromised(t testing.TB, env *testenv.Env, rdb redis.UniversalClient, bucket *models.Bucket, promised, sent map[models.UserID]int64) {
	t.Helper()
	users := slices.Collect(maps.Keys(sent))
	composites, err := board.NewStore(rdb, env.Keys, time.Now).Composites(t.Context(), bucket, users)
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range users {
		if total, _ := score.Of(bucket).Decode(composites[i]); total < promised[user] || total > sent[user] {
			t.Errorf("user %v was promised %d of %d and has %d", user, promised[user], sent[user], total)
		}
	}
}

// shanghaiToday is the day of a process whose clock is the real one.
func shanghaiToday() string {
	return time.Now().In(testenv.Must(time.LoadLocation("Asia/Shanghai"))).Format(time.DateOnly)
}

// What was acknowledged is on the board, whenever the process is killed.
func TestSoakAcknowledgedUploadsSurviveAKill(t *testing.T) {
	t.Parallel()
	for range rounds(2, 50) {
		env := prepared(t)
		p := testenv.Serve(t, env.Config)
		u := upload(t, p.URL, shanghaiToday(), 8)
		testenv.Eventually(t, "uploads are under way", func() bool { n, _ := u.count(); return n > 200 })
		p.Kill()
		u.check(t, env, env.Redis)
	}
}

// A process that is told to stop finishes what it has begun, and ends well.
func TestSoakStoppingUnderLoad(t *testing.T) {
	t.Parallel()
	for range rounds(1, 20) {
		env := prepared(t)
		p := testenv.Serve(t, env.Config)
		u := upload(t, p.URL, shanghaiToday(), 8)
		testenv.Eventually(t, "uploads are under way", func() bool { n, _ := u.count(); return n > 200 })
		if status := p.Stop(); status != 0 {
			t.Errorf("status %d: %s", status, p.Log())
		}
		u.check(t, env, env.Redis)
	}
}

// While Redis is away uploads are refused, not lost; when it is back the same
// process goes on, and every promise is kept.
func TestSoakRedisKilledUnderLoad(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server := testenv.StartRedis(t)
	env.Config.Redis.Addrs = []string{server.Addr()}
	p := testenv.Serve(t, env.Config)
	u := upload(t, p.URL, shanghaiToday(), 8)
	for range rounds(2, 20) {
		promised, refused := u.count()
		testenv.Eventually(t, "uploads are under way", func() bool { n, _ := u.count(); return n > promised+200 })
		server.Kill()
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.count(); return n > refused+20 })
		server.Start()
	}
	promised, _ := u.count()
	testenv.Eventually(t, "uploads go on", func() bool { n, _ := u.count(); return n > promised+50 })
	close(u.stop)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() {
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	u.check(t, env, rdb)
}

// A process dies after its change of the friend graph has committed and before
// it has told Redis. Nobody is answered with the old list, and nothing is
// stored while the dead writer's mark stands; it expires within a minute.
func TestAWriterKilledBetweenCommitAndCleanUp(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	link := testenv.NewProxy(t, env.Config.Redis.Addrs[0])
	dying := env.Config
	dying.Redis.Addrs = []string{link.Addr()}
	writer := testenv.Serve(t, dying)
	reader := friends.New(friends.NewStore(env.Gorm), friends.NewCache(env.Redis, env.Keys), env.Log)

	ctx := t.Context()
	if err := reader.Replace(ctx, 1, []models.UserID{2, 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.IDs(ctx, 1); err != nil { // the old list is in Redis
		t.Fatal(err)
	}
	// Its mark arrives, and nothing after it: not its clean-up.
	link.HoldAfter("friends-changing:")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	done := make(chan struct{})
	bearer := token(t, 1, "")
	go func() {
		defer close(done)
		if status, text, err := request(ctx, client, bearer, http.MethodDelete, writer.URL+"/v1/friends/2", ""); err == nil {
			t.Errorf("the dying writer answered %d: %s", status, text)
		}
	}()
	testenv.Eventually(t, "the change is committed", func() bool {
		var n int64
		if err := env.Gorm.Model(&models.Friendship{}).Where("user_id = 1").Count(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	writer.Kill()
	link.Cut()
	<-done

	mark := env.Keys.FriendsChanging(1)
	ttl := env.Redis.PTTL(ctx, mark).Val()
	if ttl <= 0 || ttl > time.Minute {
		t.Fatalf("the dead writer's mark stands for %v: the clean-up was not cut off", ttl)
	}
	for range 3 {
		ids, err := reader.IDs(ctx, 1)
		if err != nil || !slices.Equal(ids, []models.UserID{3}) {
			t.Errorf("friends %v, %v, want 3 alone", ids, err)
		}
	}
	if n := env.Redis.Exists(ctx, env.Keys.Friends(1)).Val(); n != 0 {
		t.Error("a set was stored beside the mark")
	}
	if err := env.Redis.PExpire(ctx, mark, time.Millisecond).Err(); err != nil { // the minute is over
		t.Fatal(err)
	}
	testenv.Eventually(t, "the list is stored again", func() bool {
		ids, err := reader.IDs(ctx, 1)
		if err != nil || !slices.Equal(ids, []models.UserID{3}) {
			t.Fatalf("friends %v, %v, want 3 alone", ids, err)
		}
		return env.Redis.Exists(ctx, env.Keys.Friends(1)).Val() == 1
	})
}

// friendsNoted waits until the first look after friend sets, of a Redis that is
// new, is over: it drops them.
func friendsNoted(t testing.TB, rdb redis.UniversalClient, keys keys.Builder) {
	t.Helper()
	testenv.Eventually(t, "it is noted which Redis has the friend sets", func() bool {
		return rdb.HExists(t.Context(), keys.LossCheckpoint("friends", 0), "at").Val()
	})
}

// A Redis that comes back from an earlier state has a friend list from before a
// change. It is not believed for longer than it takes to notice the restart.
func TestAFriendListFromBeforeARestart(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	server := testenv.StartRedis(t)
	env.Config.Redis.Addrs = []string{server.Addr()}
	rdb := clientOf(t, server)
	p := testenv.Serve(t, env.Config)
	friendsNoted(t, rdb, env.Keys)
	call := func(method, path, body string) (status int, text string) {
		t.Helper()
		status, text, err := request(t.Context(), http.DefaultClient, token(t, 1, ""), method, p.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return status, text
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	f := friends.New(friends.NewStore(env.Gorm), friends.NewCache(rdb, env.Keys), env.Log)
	if err := f.Replace(t.Context(), 1, []models.UserID{2}); err != nil {
		t.Fatal(err)
	}
	status, text, err := request(t.Context(), http.DefaultClient, token(t, 2, ""), "POST", p.URL+"/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":5}`, shanghaiToday()))
	if err != nil || status != http.StatusOK {
		t.Fatal(status, text, err)
	}
	listed := func() bool {
		t.Helper()
		status, text := call("GET", "/v1/boards/steps/friends", "")
		return status == http.StatusOK && strings.Contains(text, `"user_id":"2"`)
	}
	if !listed() {
		t.Fatal("the friend is not listed")
	}
	old := rdb.Dump(t.Context(), env.Keys.Friends(1)).Val()
	if status, text := call("DELETE", "/v1/friends/2", ""); status != http.StatusNoContent || listed() {
		t.Fatalf("%d %s", status, text)
	}
	if err := rdb.RestoreReplace(t.Context(), env.Keys.Friends(1), time.Hour, old).Err(); err != nil {
		t.Fatal(err)
	}
	if !listed() {
		t.Fatal("the list in Redis is not read")
	}
	server.Kill()
	server.Start()
	testenv.Eventually(t, "the old list is dropped", func() bool {
		status, text := call("GET", "/v1/boards/steps/friends", "")
		return status == http.StatusOK && !strings.Contains(text, `"user_id":"2"`)
	})
}

// With Postgres cut off, uploads and hot rankings go on, changes are refused,
// and readyz says which store is away; afterwards the same process goes on.
func TestPostgresCutOff(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	link := testenv.NewProxy(t, testenv.Address(t, env.Config.Postgres.DSN))
	cut := env.Config
	cut.Postgres.DSN = testenv.WithAddress(t, cut.Postgres.DSN, link.Addr())
	p := testenv.Serve(t, cut)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	call := func(method, path, body string) (int, string) {
		t.Helper()
		status, text, err := request(t.Context(), client, token(t, 1, ""), method, p.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return status, text
	}
	want := func(status int, method, path, body string) {
		t.Helper()
		if got, text := call(method, path, body); got != status {
			t.Errorf("%s %s: %d, want %d: %s", method, path, got, status, text)
		}
	}
	friendsNoted(t, env.Redis, env.Keys)
	upload := fmt.Sprintf(`{"date":%q,"score":5}`, shanghaiToday())
	want(200, "POST", "/v1/boards/steps/scores", upload)
	want(200, "GET", "/v1/boards/steps/friends", "")
	link.Cut()
	want(200, "POST", "/v1/boards/steps/scores", upload)
	want(200, "GET", "/v1/boards/steps/friends", "")
	want(503, "PUT", "/v1/me", `{"nickname":"Ann"}`)
	want(503, "GET", "/v1/friends", "")
	want(503, "DELETE", "/v1/friends/2", "")
	if status, text := call("GET", "/readyz", ""); status != 503 || !bytes.Contains([]byte(text), []byte(`"postgres":"unavailable"`)) {
		t.Errorf("readyz: %d %s", status, text)
	}
	link.Start()
	testenv.Eventually(t, "profiles can be set again", func() bool {
		status, _ := call("PUT", "/v1/me", `{"nickname":"Ann"}`)
		return status == 200
	})
}

// A Postgres that hangs, and does not refuse, is answered for in time; it does
// not keep the process from stopping either.
func TestPostgresHangs(t *testing.T) {
	t.Parallel()
	env := prepared(t)
	link := testenv.NewProxy(t, testenv.Address(t, env.Config.Postgres.DSN))
	env.Config.Postgres.DSN = testenv.WithAddress(t, env.Config.Postgres.DSN, link.Addr())
	p := testenv.Serve(t, env.Config)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	link.Hold()
	var wg sync.WaitGroup
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/boards/steps/friends", ""},
		{"GET", "/v1/boards/steps/top?date=2020-01-01", ""},
		{"GET", "/v1/friends", ""},
		{"PUT", "/v1/me", `{"nickname":"Ann"}`},
		{"DELETE", "/v1/friends/2", ""},
		{"GET", "/readyz", ""},
	} {
		wg.Go(func() {
			status, text, err := request(t.Context(), client, token(t, 1, ""), call.method, p.URL+call.path, call.body)
			if err != nil || status != http.StatusServiceUnavailable {
				t.Errorf("%s %s: %d %s %v", call.method, call.path, status, text, err)
			}
		})
	}
	wg.Wait()
	if status := p.Stop(); status != 0 {
		t.Errorf("stopped with status %d: %s", status, p.Log())
	}
}
