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
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/boards/score"
	"stepboard/services/people/friends"
	"stepboard/services/platform/auth"
)

// firstUser is the row id of the first user. Row ids are dense, and the user id of each
// is its decimal text.
const firstUser = 1

// environment holds the data, the servers and the requests of a run.
type environment struct {
	settings
	rdb    *redis.Client
	stores *stores.Stores
	config config.Config
	folder string
	// eventStart is the start of the event board gifts.
	eventStart time.Time
	keys       sharedKeys
	service    *process
	bare       *process
	// redisServer is the process of Redis.
	redisServer *process

	rankings   [][]byte
	uploads    [][]byte
	bareRanks  [][]byte
	bareScores [][]byte

	boardBytes, friendBytes int64
	rssRanking, rssUpload   int64
}

func newEnvironment(ctx context.Context, s settings) (*environment, error) {
	e := &environment{settings: s, config: config.Default(), eventStart: time.Now().Add(-time.Hour).Truncate(time.Second)}
	redisAddr, dsn := os.Getenv("TEST_REDIS_ADDR"), os.Getenv("TEST_POSTGRES_DSN")
	if redisAddr == "" || dsn == "" {
		return nil, errors.New("TEST_REDIS_ADDR and TEST_POSTGRES_DSN are not set: run make bench, which starts the servers")
	}
	schema := "bench_" + strings.ToLower(rand.Text()[:8])
	var err error
	if e.config.Postgres.DSN, err = createSchema(ctx, dsn, schema); err != nil {
		return nil, err
	}
	e.config.Redis.Addrs = []string{redisAddr}
	e.config.Redis.KeyPrefix = schema + ":"
	e.config.Auth.HS256Secret = rand.Text() + rand.Text()
	if e.stores, err = stores.Open(ctx, e.config, time.Now, nil); err != nil {
		return nil, err
	}
	e.rdb = redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64})
	if e.redisServer, err = findRedis(ctx, e.rdb); err != nil {
		return nil, err
	}
	if e.folder, err = os.MkdirTemp("", "stepboard-bench"); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{e.fill, e.startServers, e.buildRequests} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

// createSchema creates a schema for the run and returns its DSN.
func createSchema(ctx context.Context, dsn, schema string) (own string, err error) {
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

// close stops the servers.
func (e *environment) close() error {
	var errs []error
	for _, p := range []*process{e.service, e.bare} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	errs = append(errs, e.rdb.Close(), e.stores.Close(), os.RemoveAll(e.folder))
	return errors.Join(errs...)
}

// fill creates the users, the board and the friendships, all but the users through the
// service's own code.
func (e *environment) fill(ctx context.Context) (err error) {
	if _, err := e.stores.Migrate(ctx); err != nil {
		return err
	}
	if err := fillUsers(ctx, e.stores, max(e.board, ledgerUsers)); err != nil {
		return err
	}
	a, err := e.open(ctx, e.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if e.boardBytes, err = e.memoryGrowth(ctx, func() error { return fillBoard(ctx, a, "steps", e.board) }); err != nil {
		return err
	}
	return e.fillFriends(ctx, a)
}

// fillUsers creates users with names and pictures.
func fillUsers(ctx context.Context, st *stores.Stores, users int) error {
	_, err := st.Pool.Exec(ctx, `
		INSERT INTO users (user_id, external_id, nickname, avatar_url, version, changed_at, created_at)
		SELECT i, i::text, $3::text || i, $4::text || i || $5::text, nextval('user_versions'), now() - interval '1 day', now() - interval '1 day'
		FROM generate_series($1::bigint, $1 + $2 - 1) AS i`,
		firstUser, users, namePrefix, picturePrefix, pictureSuffix)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		"SELECT setval(pg_get_serial_sequence('users', 'user_id'), max(user_id)) FROM users",
		"VACUUM ANALYZE users", // otherwise autovacuum might run during a measurement
	} {
		if _, err := st.Pool.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// The profile of a user is made of these texts and the user id.
const (
	namePrefix    = "user "
	picturePrefix = "https://example.com/avatars/"
	pictureSuffix = ".jpg"
)

// open builds and starts the service in this process, to fill the stores with it.
func (e *environment) open(ctx context.Context, cfg config.Config) (*app.App, error) {
	st, err := stores.Open(ctx, cfg, time.Now, nil)
	if err != nil {
		return nil, err
	}
	a, err := app.Build(ctx, app.Options{
		Config: cfg, Stores: st, Clock: time.Now,
		Log: e.log(), Verifier: auth.NewVerifier(auth.VerifierConfig{}), Roles: app.AllRoles(),
	})
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	a.Start(ctx)
	return a, nil
}

// fillBoard gives the first users a score of today.
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
			raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(firstUser + i), Composite: composite}})
		}
		if errs := a.Boards.Raise(ctx, raises); errs != nil {
			return errors.Join(errs...)
		}
	}
	return nil
}

// fillFriends gives the viewers friends.
func (e *environment) fillFriends(ctx context.Context, a *app.App) error {
	rng := mathrand.New(mathrand.NewPCG(3, 4))
	var edges []friends.Edge
	for v := range e.viewers {
		seen := make(map[models.RowID]bool)
		for len(seen) < e.friends {
			// No friend is a viewer, so that each viewer has exactly e.friends friends.
			id := models.RowID(firstUser + e.viewers + rng.IntN(e.board-e.viewers))
			if !seen[id] {
				seen[id] = true
				edges = append(edges, friends.Edge{A: userID(viewer(v)), B: userID(id)})
			}
		}
	}
	for chunk := range slices.Chunk(edges, 50_000) {
		rows, err := a.Friends.Resolve(ctx, chunk)
		if err != nil {
			return err
		}
		if _, _, err := a.Friends.Import(ctx, rows); err != nil {
			return err
		}
	}
	var err error
	e.friendBytes, err = e.memoryGrowth(ctx, func() error {
		for v := range e.viewers {
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
	keys := keys.Builder{Prefix: e.config.Redis.KeyPrefix}
	bucket, err := a.Catalog.Buckets.Current(b, time.Now(), models.UTCOffset{})
	if err != nil {
		return err
	}
	e.keys = sharedKeys{prefix: e.config.Redis.KeyPrefix, board: keys.Board(bucket, 0)}
	return e.rdb.Copy(ctx, e.keys.board, uploadKey, 0, true).Err()
}

func viewer(v int) models.RowID { return models.RowID(firstUser + v) }

// userID returns the user id of a row.
func userID(row models.RowID) models.UserID { return models.UserID(row.String()) }

// startServers starts the service and the bare handler as separate processes.
func (e *environment) startServers(ctx context.Context) error {
	binary := filepath.Join(e.folder, "stepboard")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, ".").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(e.folder, "log"))
	if err != nil {
		return err
	}
	// The service logs to a file, line by line, as it would to a collector.
	serve := exec.Command(binary, e.flags()...)
	serve.Stderr = log
	if e.service, err = startProcess(serve, func() (string, error) { return awaitServing(ctx, log.Name()) }); err != nil {
		return err
	}
	handler := exec.Command(self, "-bare", e.config.Redis.Addrs[0], "-limit", fmt.Sprint(e.limit), "-prefix", e.keys.prefix, "-key", e.keys.board)
	out, err := handler.StdoutPipe()
	if err != nil {
		return err
	}
	e.bare, err = startProcess(handler, func() (string, error) { return bufio.NewReader(out).ReadString('\n') })
	return err
}

// flags returns the flags of a service that uses the run's stores.
func (e *environment) flags() []string {
	return []string{
		"serve", "--http.addr=127.0.0.1:0", "--redis.addrs=" + e.config.Redis.Addrs[0], "--redis.key_prefix=" + e.config.Redis.KeyPrefix,
		"--limits.user_per_minute=0", "--limits.address_per_minute=0", // the load comes from one address
		"--postgres.dsn=" + e.config.Postgres.DSN, "--auth.hs256_secret=" + e.config.Auth.HS256Secret,
		fmt.Sprintf(`--boards=[{name: steps}, {name: near, change_stream: true}, {name: gifts, kind: event, max_score: 1000000000, start: %q, end: %q}, {name: active, kind: rolling, max_score: 8000000}]`,
			e.eventStart.Format(time.RFC3339), e.eventStart.AddDate(0, 0, 30).Format(time.RFC3339)),
	}
}

// log returns a logger that discards everything.
func (e *environment) log() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
