package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/auth"
	"stepboard/services/score"
)

// firstUser makes ids of seven digits, as a million users have.
const firstUser = 1_000_001

// setup is the data, the servers and the requests.
type setup struct {
	settings
	rdb    *redis.Client
	stores *stores.Stores
	config config.Config
	folder string
	// eventStart is when the event `gifts` has started.
	eventStart time.Time
	keys       sharedKeys
	service    *process
	bare       *process
	// redisServer is the server's process, where it runs on this machine.
	redisServer *process

	rankings   [][]byte
	uploads    [][]byte
	bareRanks  [][]byte
	bareScores [][]byte

	boardBytes, friendBytes int64
	rssRanking, rssUpload   int64
}

func newSetup(ctx context.Context, s settings) (*setup, error) {
	w := &setup{settings: s, config: config.Default(), eventStart: time.Now().Add(-time.Hour).Truncate(time.Second)}
	redisAddr, dsn := os.Getenv("TEST_REDIS_ADDR"), os.Getenv("TEST_POSTGRES_DSN")
	if redisAddr == "" || dsn == "" {
		return nil, errors.New("TEST_REDIS_ADDR and TEST_POSTGRES_DSN are not set: run make bench, which starts the servers")
	}
	schema := "bench_" + strings.ToLower(rand.Text()[:8])
	var err error
	if w.config.Postgres.DSN, err = makeSchema(ctx, dsn, schema); err != nil {
		return nil, err
	}
	w.config.Redis.Addrs = []string{redisAddr}
	w.config.Redis.KeyPrefix = schema + ":"
	w.config.Auth.HS256Secret = rand.Text() + rand.Text()
	if w.stores, err = stores.Open(ctx, w.config, time.Now, nil); err != nil {
		return nil, err
	}
	w.rdb = redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64})
	if w.redisServer, err = findRedis(ctx, w.rdb); err != nil {
		return nil, err
	}
	if w.folder, err = os.MkdirTemp("", "stepboard-bench"); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{w.fill, w.startServers, w.makeRequests} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

// makeSchema makes a schema of the run's own and answers the DSN that leads
// there.
func makeSchema(ctx context.Context, dsn, schema string) (own string, err error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// close ends the servers.
func (w *setup) close() error {
	var errs []error
	for _, p := range []*process{w.service, w.bare} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	errs = append(errs, w.rdb.Close(), w.stores.Close(), os.RemoveAll(w.folder))
	return errors.Join(errs...)
}

// fill makes the board and the friendships, through the service's own code.
func (w *setup) fill(ctx context.Context) (err error) {
	if _, err := w.stores.Migrate(ctx); err != nil {
		return err
	}
	a, err := w.open(ctx, w.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if w.boardBytes, err = w.grown(ctx, func() error { return fillBoard(ctx, a, "steps", w.board) }); err != nil {
		return err
	}
	return w.fillFriends(ctx, a)
}

// open makes the service's own code run in this process, to fill stores by.
func (w *setup) open(ctx context.Context, cfg config.Config) (*app.App, error) {
	st, err := stores.Open(ctx, cfg, time.Now, nil)
	if err != nil {
		return nil, err
	}
	a, err := app.Build(ctx, app.Options{
		Config: cfg, Stores: st, Clock: time.Now,
		Log: w.log(), Verifier: auth.NewVerifier(auth.VerifierConfig{}), Roles: app.AllRoles(),
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	a.Start(ctx)
	return a, nil
}

// fillBoard gives so many users a score of today.
func fillBoard(ctx context.Context, a *app.App, name string, users int) error {
	b, err := a.Catalog.Definitions.Board(name)
	if err != nil {
		return err
	}
	now := time.Now()
	bucket, err := a.Catalog.Buckets.ForUpload(ctx, b, b.Today(now), now)
	if err != nil {
		return err
	}
	rng := mathrand.New(mathrand.NewPCG(1, 2))
	const batch = 10_000
	for from := 0; from < users; from += batch {
		var raises []models.Raise
		for i := from; i < min(from+batch, users); i++ {
			composite, err := score.Of(bucket).Encode(int64(rng.IntN(30_000)), models.TimestampOf(now)-models.Timestamp(rng.IntN(1000)))
			if err != nil {
				return err
			}
			raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: models.UserID(firstUser + i), Composite: composite}})
		}
		if errs := a.Boards.Raise(ctx, raises); errs != nil {
			return errors.Join(errs...)
		}
	}
	return nil
}

// fillFriends gives the viewers friends and names.
func (w *setup) fillFriends(ctx context.Context, a *app.App) error {
	rng := mathrand.New(mathrand.NewPCG(3, 4))
	names := make(map[models.UserID]models.Profile)
	var edges []models.Edge
	for v := range w.viewers {
		names[viewer(v)] = models.Profile{Nickname: "user " + viewer(v).String()}
		seen := make(map[models.UserID]bool)
		for len(seen) < w.friends {
			// Friends are nobody's viewers, so that each viewer has exactly so many.
			id := models.UserID(firstUser + w.viewers + rng.IntN(w.board-w.viewers))
			if !seen[id] {
				seen[id] = true
				names[id] = models.Profile{Nickname: "user " + id.String()}
				edges = append(edges, models.Edge{A: viewer(v), B: id})
			}
		}
	}
	if err := a.Users.Create(ctx, names); err != nil {
		return err
	}
	for chunk := range slices.Chunk(edges, 2000) {
		if _, _, err := a.Friends.Import(ctx, chunk); err != nil {
			return err
		}
	}
	var err error
	w.friendBytes, err = w.grown(ctx, func() error {
		for v := range w.viewers {
			if _, err := a.Friends.IDs(ctx, viewer(v)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b, err := a.Catalog.Definitions.Board("steps")
	if err != nil {
		return err
	}
	keys := keys.Builder{Prefix: w.config.Redis.KeyPrefix}
	bucket := a.Catalog.Buckets.Current(b, time.Now())
	w.keys = sharedKeys{prefix: w.config.Redis.KeyPrefix, board: keys.Board(bucket, 0)}
	return w.rdb.Copy(ctx, w.keys.board, uploadKey, 0, true).Err()
}

func viewer(v int) models.UserID { return models.UserID(firstUser + v) }

// usedMemory is what Redis says that its data takes.
var usedMemory = regexp.MustCompile(`used_memory_dataset:(\d+)`)

// grown tells by how many bytes Redis grows while work is done.
func (w *setup) grown(ctx context.Context, work func() error) (int64, error) {
	size := func() (n int64, err error) {
		info, err := w.rdb.Info(ctx, "memory").Result()
		if err != nil {
			return 0, err
		}
		m := usedMemory.FindStringSubmatch(info)
		if m == nil {
			return 0, errors.New("redis does not tell its memory")
		}
		_, err = fmt.Sscan(m[1], &n)
		return n, err
	}
	before, err := size()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := size()
	return after - before, err
}

// serverInfo is one field of what Redis says of itself.
func serverInfo(ctx context.Context, rdb *redis.Client, field string) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value, nil
}

// findRedis finds the server's process.
func findRedis(ctx context.Context, rdb *redis.Client) (*process, error) {
	pid, err := serverInfo(ctx, rdb, "process_id")
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(pid)
	return &process{pid: n}, err
}

// startServers starts the service and the bare handler, each a process of its
// own.
func (w *setup) startServers(ctx context.Context) error {
	binary := filepath.Join(w.folder, "stepboard")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(w.folder, "log"))
	if err != nil {
		return err
	}
	// Its log goes to a file, line by line, as it would to a collector.
	serve := exec.Command(binary, w.flags()...)
	serve.Stderr = log
	if w.service, err = startProcess(serve, func() (string, error) { return awaitServing(ctx, log.Name()) }); err != nil {
		return err
	}
	handler := exec.Command(self, "-bare", w.config.Redis.Addrs[0], "-limit", fmt.Sprint(w.limit), "-prefix", w.keys.prefix, "-key", w.keys.board)
	out, err := handler.StdoutPipe()
	if err != nil {
		return err
	}
	w.bare, err = startProcess(handler, func() (string, error) { return bufio.NewReader(out).ReadString('\n') })
	return err
}

// flags are those of a service on the world's stores.
func (w *setup) flags() []string {
	return []string{
		"serve", "--http.addr=127.0.0.1:0", "--redis.addrs=" + w.config.Redis.Addrs[0], "--redis.key_prefix=" + w.config.Redis.KeyPrefix,
		"--postgres.dsn=" + w.config.Postgres.DSN, "--auth.hs256_secret=" + w.config.Auth.HS256Secret,
		fmt.Sprintf(`--boards=[{name: steps}, {name: gifts, kind: event, max_score: 1000000000, start: %q, end: %q}, {name: active, kind: rolling, max_score: 8000000}]`,
			w.eventStart.Format(time.RFC3339), w.eventStart.AddDate(0, 0, 30).Format(time.RFC3339)),
	}
}

// process is a server; cmd is nil unless it was started here.
type process struct {
	cmd  *exec.Cmd
	pid  int
	addr string
	// family says that its children work too, as those of Postgres do.
	family bool
}

// ticksPerSecond is the unit of CPU time in /proc.
const ticksPerSecond = 100

// cpu is the CPU time that the process has spent; 0 without a process.
func (p *process) cpu() time.Duration {
	if p == nil {
		return 0
	}
	spent := cpuTime(p.pid, p.family)
	if !p.family {
		return spent
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid, p.pid))
	if err != nil {
		return spent
	}
	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			spent += cpuTime(pid, false)
		}
	}
	return spent
}

// cpuTime is what a process has spent, and if asked its children that have
// ended.
func cpuTime(pid int, ended bool) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything; utime and stime are the 12th
	// and 13th fields behind it, those of ended children the next two.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[11:15]
	if !ended {
		fields = fields[:2]
	}
	var spent time.Duration
	for _, field := range fields {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		spent += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	return spent
}

func startProcess(cmd *exec.Cmd, addr func() (string, error)) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, pid: cmd.Process.Pid}
	text, err := addr()
	p.addr = strings.TrimSpace(text)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// rss is the process's resident memory in bytes.
func (p *process) rss() int64 { return p.memory("VmRSS:") }

// peak is the most that it ever had.
func (p *process) peak() int64 { return p.memory("VmHWM:") }

func (p *process) memory(field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field)
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		return 0
	}
	return kb << 10
}

var serving = regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`)

// startPatience bounds how long a process may take to start, and a cluster to
// know itself.
const startPatience = 30 * time.Second

// await looks every millisecond whether something has come about, and ends when
// looking fails.
func await(ctx context.Context, what string, is func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		if done, err := is(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for: %s: %w", what, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitServing finds the service's address in its log.
func awaitServing(ctx context.Context, path string) (addr string, err error) {
	var text []byte
	waited := await(ctx, "the service answers", func() (bool, error) {
		if text, err = os.ReadFile(path); err != nil {
			return false, err
		}
		m := serving.FindSubmatch(text)
		if m != nil {
			addr = string(m[1])
		}
		return m != nil, nil
	})
	if waited != nil {
		return "", fmt.Errorf("%w: %s", waited, text)
	}
	return addr, nil
}

// makeRequests writes every request's bytes before anything is measured.
func (w *setup) makeRequests(context.Context) error {
	zone, err := time.LoadLocation("Asia/Shanghai")
	if err != nil {
		return err
	}
	today := time.Now().In(zone).Format(time.DateOnly)
	for v := range w.viewers {
		token, err := w.token(viewer(v), "")
		if err != nil {
			return err
		}
		w.rankings = append(w.rankings, w.rankingRequest("steps", token, ""))
		w.bareRanks = append(w.bareRanks, httpRequest("GET", "/rank/"+viewer(v).String(), "", ""))
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, today, 100+v)
		w.uploads = append(w.uploads, httpRequest("POST", "/v1/boards/steps/scores", token, body))
		w.bareScores = append(w.bareScores, httpRequest("POST", "/score/"+viewer(v).String(), "", body))
	}
	return nil
}

// token lets a user, or who has a scope, call the service for the time of a run.
func (w *setup) token(user models.UserID, scope string) (string, error) {
	return auth.SignToken([]byte(w.config.Auth.HS256Secret), user, scope, "", "", time.Now(), time.Hour)
}

// rankingRequest asks for a friend ranking, with more parameters if need be.
func (w *setup) rankingRequest(board, token, more string) []byte {
	return httpRequest("GET", fmt.Sprintf("/v1/boards/%s/friends?limit=%d%s", board, w.limit, more), token, "")
}

func (w *setup) redisRanking(ctx context.Context) (float64, error) {
	return loop(ctx, 32, w.seconds, func(ctx context.Context, i int) error {
		user := viewer(i % w.viewers).String()
		members, err := w.rdb.SMembers(ctx, w.keys.friends(user)).Result()
		if err != nil {
			return err
		}
		return w.rdb.ZMScore(ctx, w.keys.board, members...).Err()
	})
}

func (w *setup) bareRanking(ctx context.Context) (float64, error) {
	return load(ctx, w.bare.addr, 32, w.seconds, rotate(w.bareRanks))
}

func (w *setup) serviceRanking(ctx context.Context) (float64, error) {
	rate, err := load(ctx, w.service.addr, 32, w.seconds, rotate(w.rankings))
	w.rssRanking = max(w.rssRanking, w.service.rss())
	return rate, err
}

func (w *setup) bareUpload(ctx context.Context) (float64, error) {
	return load(ctx, w.bare.addr, 64, w.seconds, rotate(w.bareScores))
}

func (w *setup) serviceUpload(ctx context.Context) (float64, error) {
	rate, err := load(ctx, w.service.addr, 64, w.seconds, rotate(w.uploads))
	w.rssUpload = max(w.rssUpload, w.service.rss())
	return rate, err
}

func (w *setup) printMemory(context.Context) error {
	fmt.Println("| memory | bytes |")
	fmt.Println("| --- | ---: |")
	fmt.Printf("| Redis, for each user of a board | %.1f |\n", float64(w.boardBytes)/float64(w.board))
	fmt.Printf("| Redis, for each friend in a set of %d | %.1f |\n", w.friends, float64(w.friendBytes)/float64(w.viewers*w.friends))
	fmt.Printf("| service, resident, under rankings | %d |\n", w.rssRanking)
	_, err := fmt.Printf("| service, resident, under uploads | %d |\n", w.rssUpload)
	return err
}

// log drops what the service's own code would log while it fills the stores.
func (w *setup) log() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
