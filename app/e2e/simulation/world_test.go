package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/concurrent"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
	"stepboard/services/platform/lease"
)

// replicas is the number of processes of the service.
const replicas = 3

// world is one run: the stores, the replicas, the clock and the model.
type world struct {
	t      testing.TB
	store  string // onFile or onServers
	random *rand.Rand
	clock  *testenv.Clock
	boards *miniredis.Miniredis // the boards' Redis; on a file nobody uses it
	queue  *miniredis.Miniredis // that of the queue, likewise
	// serverID is the replication id of the boards' Redis.
	serverID atomic.Value
	servers  int
	// database names the database, and truth is a connection to it that has no faults.
	database string
	// folder is the data folder, and copied the copy that a process has left that has died.
	folder, copied string
	truth          *stores.Stores
	stream         redis.UniversalClient // a connection to the queue that has no faults
	queued         bool                  // whether uploads go through the queue
	shards         int
	near           bool // whether some replicas have near caches
	replicas       []*replica
	receiver       *receiver
	tokens         map[string]string
	names          map[string]string // of groups and invite codes, by id or code, which are random
	rows           map[models.UserID]models.RowID
	groupIDs       map[string]string // the ids of groups by name
	model          *model
	// walking decides the steps about passing, so that those of other kinds are the same for a seed as
	// without them.
	walking *rand.Rand
	passing passing
	// contesting decides the steps about the contests, likewise.
	contesting *rand.Rand
	contests   []*contest
	// holding decides the steps about held totals, likewise.
	holding *rand.Rand
	holds   holdings
	// phoning decides the steps about phones, likewise.
	phoning *rand.Rand
	phones  []*phone
	copies  copies
	wechat  *wechat
	signIns signIns
	// competing decides the steps about competitions, likewise.
	competing competitions
	backup    map[string]key // of the boards' Redis
	restored  bool           // whether Redis ever went back to a backup
	mu        sync.Mutex
	working   []*gate  // the gates of the steps under way, the innermost last; under mu
	lines     []string // what has happened
	// steps counts the steps that have begun, changing those under way that change what the
	// model knows.
	steps, changing int
	// inner counts the steps about contests in the middle of others.
	inner int
	// operations is the largest number of operations that steps of a name have had.
	operations map[string]int
	// outageEnds is the step before which stores come back that are away.
	outageEnds int
	// failure is the failure that a step of interleave has found.
	failure error
	refused bool // whether a call of this step was answered 503
}

// replica is one process of the service.
type replica struct {
	name   string
	app    *app.App // nil while it can't start
	rounds map[string]func(context.Context) error
	gate   *gate
	stores *stores.Stores
	// shipper ships its folder; nil for other stores.
	shipper *shipping.Shipper
	skew    atomic.Int64 // how far its clock is ahead, in nanoseconds
	// staleness is how old its rankings may be; 0 without a near cache.
	staleness time.Duration
	// server is the boards' Redis that it has last asked whether something is lost: a number
	// that world.servers had.
	server int
}

// failed is the panic of a run that has found a fault.
type failed string

// failf ends the run: it has found a fault.
func (w *world) failf(format string, args ...any) {
	panic(failed(fmt.Sprintf(format, args...)))
}

// note adds a line to what has happened.
func (w *world) note(format string, args ...any) {
	indent := strings.Repeat("    ", max(0, len(w.working)-1))
	w.lines = append(w.lines, indent+strings.ReplaceAll(fmt.Sprintf(format, args...), w.database, "simulation"))
}

// randomText matches the parts of answers that are random: they differ between two runs of a seed.
var randomText = regexp.MustCompile(`"(next_cursor|invite_code|join_code|group_id|key|path|name|members|not_counting|my_team|token)":("[^"]*"|\d+|\{"rank":\d+)`)

// randomName matches the ids of people who have signed up, and sign-in codes.
var randomName = regexp.MustCompile(`u_[a-z2-7]{16}|[A-Z2-7]{5}-[A-Z2-7]{5}`)

// must ends the run if an operation without faults has failed.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(err error) { must(0, err) }

// databases counts the databases of all runs, so that each has a name of its own.
var databases atomic.Int64

// newWorld starts the stores and the replicas. close ends them.
func newWorld(t testing.TB, store string, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		t: t, store: store, random: random, clock: testenv.NewClock(testenv.Noon.Add(time.Duration(random.IntN(24)) * time.Hour)),
		boards: miniredis.NewMiniRedis(), queue: miniredis.NewMiniRedis(), database: fmt.Sprintf("simulation-%d", databases.Add(1)),
		queued: random.IntN(2) == 0, shards: 1 + random.IntN(2), near: random.IntN(2) == 0, receiver: newReceiver(),
		tokens: make(map[string]string), names: make(map[string]string), rows: make(map[models.UserID]models.RowID),
		groupIDs: make(map[string]string), operations: make(map[string]int), walking: rand.New(rand.NewPCG(seed, 1)), contesting: rand.New(rand.NewPCG(seed, 2)), holding: rand.New(rand.NewPCG(seed, 3)), phoning: rand.New(rand.NewPCG(seed, 4)),
		holds: newHoldings(), copies: newCopies(seed), competing: newCompetitions(seed), wechat: newWeChat(seed),
		signIns: signIns{random: rand.New(rand.NewPCG(seed, 8))},
	}
	check(w.boards.Start())
	check(w.queue.Start())
	w.newServer()
	w.boards.Server().SetPreHook(w.info)
	w.queue.Server().SetPreHook(queueHook(w.gateAtWork))
	w.openDatabase()
	w.setTime()
	if w.store != onFile {
		w.setFirstRow()
	}
	w.stream = openRedis(w.queue.Addr())
	w.model = newModel(w.clock.Now())
	w.contests = w.newContests()
	if w.store == onFile {
		w.queued, w.near = false, false
	}
	for i := range w.processes() {
		r := &replica{name: fmt.Sprintf("r%d", i)}
		if w.near {
			r.staleness = []time.Duration{0, 2 * time.Second, 10 * time.Second}[i]
		}
		w.replicas = append(w.replicas, r)
		w.startReplica(r)
	}
	return w
}

// openDatabase makes the database and opens the connection that has no faults.
func (w *world) openDatabase() {
	switch w.store {
	case onServers:
		w.createDatabase()
		w.truth = must(w.connect(w.clock.Now, newGate()))
	case onFile:
		w.makeFolder()
	}
}

// connect connects to the stores through a gate.
func (w *world) connect(now models.Clock, gate *gate) (*stores.Stores, error) {
	if w.store == onFile {
		return w.openFolder(now, gate)
	}
	return connectServers(w.t.Context(), w.boards.Addr(), w.database, now, gate)
}

// work notes that a replica works until done is called.
func (w *world) work(g *gate) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.working = append(w.working, g)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.working = w.working[:len(w.working)-1]
	}
}

// gateAtWork returns the gate of the step under way; nil between steps.
func (w *world) gateAtWork() *gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.working) == 0 {
		return nil
	}
	return w.working[len(w.working)-1]
}

// now returns the time of a replica's clock.
func (w *world) now(r *replica) time.Time {
	return w.clock.Now().Add(time.Duration(r.skew.Load()))
}

// newServer gives the boards' Redis another replication id, as a restart does.
func (w *world) newServer() {
	w.servers++
	w.serverID.Store(fmt.Sprintf("%040x", w.servers))
}

// info is the hook of the boards' Redis, which by itself knows no replication id.
func (w *world) info(peer *server.Peer, command string, args ...string) bool {
	if command != "INFO" || len(args) != 1 || args[0] != "replication" {
		return false
	}
	peer.WriteBulk("# Replication\r\nmaster_replid:" + w.serverID.Load().(string) + "\r\n")
	return true
}

// setTime gives the stores the time of the clock.
func (w *world) setTime() {
	w.boards.SetTime(w.clock.Now())
	w.queue.SetTime(w.clock.Now())
	if w.store == onServers {
		check(w.truth.Gorm.Exec(`UPDATE simulation.clock SET now = ?`, w.clock.Now()).Error)
	}
}

// advance moves the clock, and with it the expiry of keys.
func (w *world) advance(d time.Duration) {
	w.clock.Advance(d)
	w.setTime()
	w.boards.FastForward(d)
	w.queue.FastForward(d)
}

// config returns the settings of a replica.
func (w *world) config(r *replica) config.Config {
	cfg := config.Default()
	cfg.Directory.Memory = 4 << 20
	cfg.Limits = config.Limits{}
	cfg.Auth.HS256Secret = harness.Secret
	if w.store != onFile {
		cfg.Redis.Addrs = []string{w.boards.Addr()}
	}
	cfg.Boards = []config.Board{
		{
			Name: "steps", Kind: "daily", TimeZone: "Asia/Shanghai", OpenDays: 2, MaxScore: 100_000, Shards: w.shards,
			Global: "users", ChangeStream: w.near, HoldAbove: holdAbove,
		},
		{
			Name: "gifts", Kind: "event", TimeZone: "UTC", MaxScore: 1_000_000, Shards: w.shards, Global: "users",
			Start: w.model.eventStart, End: w.model.eventEnd,
		},
	}
	for _, c := range w.contests {
		cfg.Boards = append(cfg.Boards, c.setting(w))
	}
	w.wechat.settings(&cfg)
	cfg.SignIn.Join, cfg.SignIn.SessionTTL, cfg.SignIn.NewPerDay = "invited", sessionTTL, newPerDay
	cfg.Rankings.MaxStaleness = r.staleness
	cfg.Webhooks = []config.Webhook{w.receiver.target()}
	if w.queued {
		cfg.Ingest.Mode, cfg.Ingest.Redis.Addrs = "redis", []string{w.queue.Addr()}
		cfg.Ingest.BatchSize = 1 // a round takes what one command receives
		cfg.Ingest.Redis.Keep = 1000 * time.Hour
	}
	return cfg
}

// startReplica starts a replica, unless one of its stores is away.
func (w *world) startReplica(r *replica) {
	r.app = nil
	gate := newGate()
	if r.gate != nil {
		gate.away = r.gate.away
	}
	r.gate = gate
	now := func() time.Time { return w.now(r) }
	r.stores = must(w.connect(now, gate))
	var ships app.Shipping
	if w.store == onFile {
		w.ship(r, now)
		ships = r.shipper
	}
	if w.queued {
		// The queue's own client gives up after a second.
		r.stores.Queue = openRedis(w.queue.Addr())
	}
	if r.stores.Redis != nil {
		r.stores.Redis.AddHook(redisHook{gate})
	}
	gate.begin(plan{})
	defer w.work(gate)()
	verifier := auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)})
	random := rand.New(rand.NewPCG(w.random.Uint64(), 0))
	built, err := app.Build(w.t.Context(), app.Options{
		Config: w.config(r), Stores: r.stores, Clock: now, Machine: now, Elapsed: w.clock.Now, Random: random.Int64N,
		Log: testenv.Log(), Verifier: verifier, Leases: lease.NewLocal(), Roles: app.AllRoles(), Shipping: ships,
	})
	_, struck := gate.end()
	if err != nil {
		verifier.Close()
		w.letGo()
		if r.shipper != nil {
			check(r.shipper.Close())
		}
		check(r.stores.Close())
		if !struck {
			w.failf("%s does not start: %v", r.name, err)
		}
		return
	}
	r.app, r.server = built, w.servers
	r.rounds = built.StartByRounds(concurrent.InOrder(w.t.Context()))
	for name := range r.rounds {
		if !slices.Contains(w.allRounds(), name) && !slices.Contains(realTime, name) && !slices.Contains(apart, name) {
			w.failf("no step does the round %q of the background work", name)
		}
	}
	w.knowsErasures(r, len(w.model.erasures))
	w.loaded(r)
}

// stopReplica ends a replica: with its flushes, or at once if its gate is dead.
func (w *world) stopReplica(r *replica) {
	if r.app == nil {
		return
	}
	defer w.work(r.gate)()
	w.letGo()
	if err := r.app.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
		w.note("%s: close: %v", r.name, err)
	}
	r.app = nil
	w.afterCrash(r)
}

// close ends everything.
func (w *world) close() {
	for _, r := range w.replicas {
		r.gate.kill()
		w.stopReplica(r)
	}
	check(w.stream.Close())
	if w.store == onFile {
		check(w.truth.SQL.Close())
	} else {
		check(w.truth.Close())
	}
	if w.store == onServers {
		w.dropDatabase()
	}
	w.boards.Close()
	w.queue.Close()
	w.receiver.server.Close()
	w.wechat.server.Close()
}

// token returns a token of a user, or of a scope.
func (w *world) token(user models.UserID, scope string) string {
	name := string(user) + " " + scope
	if w.tokens[name] == "" {
		w.tokens[name] = harness.Token(w.t, user, scope)
	}
	return w.tokens[name]
}

// reply is the answer to a call; status is 0 if the process has died or the client has gone meanwhile.
type reply struct {
	status int
	body   []byte
	cookie string // that the answer sets; empty for none
}

// unknown reports whether the call may have had its effect or not.
func (r reply) unknown() bool { return r.status == 0 || r.status >= 500 }

// call makes a call to a replica, whose gate has the plan of the step.
func (w *world) call(ctx context.Context, r *replica, token, method, path, body string) reply {
	return w.callOn(ctx, r, token, "", method, path, body)
}

// callOn is call on a device that has a cookie; empty for none.
func (w *world) callOn(ctx context.Context, r *replica, token, cookie, method, path, body string) reply {
	request := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+token)
	if strings.HasPrefix(path, "/v1/session") {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Cookie", cookie)
	}
	request.Header.Set("X-Request-Id", fmt.Sprintf("step-%d", w.steps))
	answer := httptest.NewRecorder()
	r.app.Handler.ServeHTTP(answer, request)
	cookie, _, _ = strings.Cut(answer.Header().Get("Set-Cookie"), ";")
	got := reply{answer.Code, answer.Body.Bytes(), cookie}
	if r.gate.crashed() || r.gate.wasLeft() {
		got = reply{}
	}
	text := randomText.ReplaceAllString(w.plain(string(got.body)), `"$1":"…"`)
	w.note("%s: %s %s %s → %d %s", r.name, method, w.plain(path), w.plain(body), got.status, text)
	if got.status >= 500 && got.status != http.StatusServiceUnavailable {
		w.failf("status %d", got.status)
	}
	w.refused = w.refused || got.status == http.StatusServiceUnavailable
	return got
}

// plain returns the path or the body of a call or answer with names instead of its random parts.
func (w *world) plain(text string) string {
	for id, name := range w.names {
		text = strings.ReplaceAll(text, id, name)
	}
	if path, _, ok := strings.Cut(text, "&cursor="); ok {
		text = path + "&cursor=…"
	}
	return randomName.ReplaceAllString(text, "…")
}

// abandoned counts the consumers of crashed processes, which end when their retries do.
var abandoned sync.WaitGroup

// round does one round of a replica's background work. It returns an error if the round had
// no success.
func (w *world) round(ctx context.Context, r *replica, name string) error {
	do := r.rounds[name]
	if do == nil {
		return nil
	}
	done := make(chan error, 1)
	abandoned.Go(func() { done <- do(ctx) })
	var err error
	select {
	case err = <-done:
	case <-r.gate.died:
		err = errFault
	}
	if r.gate.crashed() {
		err = errFault
	}
	w.note("%s: %s: %v", r.name, name, err)
	return err
}
