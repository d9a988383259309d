package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/services/platform/auth"
)

// environment holds the data, the servers and the requests of a run.
type environment struct {
	settings
	flags  map[string]string // the settings of services, by key
	config config.Config     // the same
	folder string            // of binaries and logs

	rdb    *redis.Client
	stores *stores.Stores
	// app is the service in this process, without a role. It fills the stores.
	app  *app.App
	keys sharedKeys

	redisServer, postgresServer *process // nil with a data folder
	service                     *process

	rankings, uploads [][]byte // requests of each viewer

	boardBytes, friendBytes int64 // of Redis
}

// newEnvironment fills the stores that the environment variables name, and starts the servers.
func newEnvironment(ctx context.Context, s settings) (_ *environment, err error) {
	redisAddr, dsn := os.Getenv("TEST_REDIS_ADDR"), os.Getenv("TEST_POSTGRES_DSN")
	if redisAddr == "" || dsn == "" {
		return nil, errors.New("TEST_REDIS_ADDR and TEST_POSTGRES_DSN are not set: run make bench, which starts the servers")
	}
	e := &environment{settings: s, rdb: redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64})}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.folder, err = os.MkdirTemp("", "stepboard-bench"); err != nil {
		return nil, err
	}
	if err := e.configure(ctx, redisAddr, dsn); err != nil {
		return nil, err
	}
	// The service starts first: as it has never seen this Redis, it drops the friend sets there.
	for _, step := range []func(context.Context) error{e.openApp, e.findStores, e.startService, e.fill, e.buildRequests} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// configure creates a schema for the run, and makes the settings.
func (e *environment) configure(ctx context.Context, redisAddr, dsn string) error {
	schema := "bench_" + strings.ToLower(rand.Text()[:8])
	dsn, err := createSchema(ctx, dsn, schema)
	if err != nil {
		return err
	}
	begin := time.Now().Add(-time.Hour)
	e.flags = map[string]string{
		"http.addr":              "127.0.0.1:0",
		"redis.addrs":            redisAddr,
		"redis.key_prefix":       schema + ":",
		"postgres.dsn":           dsn,
		"auth.hs256_secret":      rand.Text() + rand.Text(),
		"limits.user_per_minute": "0",
		// The load comes from one address.
		"limits.address_per_minute": "0", "limits.streams_per_address": "0",
		"boards": fmt.Sprintf(`[{name: steps}, {name: %s, change_stream: true}, {name: gifts, kind: event, max_score: 1000000000, start: %q, end: %q}, {name: active, kind: rolling, max_score: 8000000}]`,
			nearBoard, begin.Format(time.RFC3339), begin.AddDate(0, 0, 30).Format(time.RFC3339)),
	}
	e.keys.Builder = keys.Builder{Prefix: schema + ":"}
	e.config, err = config.Load(config.Sources{Flags: e.flags})
	return err
}

// createSchema creates a schema for the run and returns its DSN.
func createSchema(ctx context.Context, dsn, schema string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+schema)
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), errors.Join(err, conn.Close(ctx))
}

// openApp starts the service in this process.
func (e *environment) openApp(ctx context.Context) (err error) {
	if dir := e.config.Data.Dir; dir != "" {
		e.stores, err = stores.OpenFolder(ctx, dir, time.Now)
	} else {
		e.stores, err = stores.Open(ctx, e.config, time.Now, nil)
	}
	if err != nil {
		return err
	}
	if _, err := e.stores.Migrate(ctx); err != nil {
		return err
	}
	e.app, err = app.Build(ctx, app.Options{
		Config: e.config, Stores: e.stores, Clock: time.Now, Log: slog.New(slog.DiscardHandler), Verifier: auth.NewVerifier(auth.VerifierConfig{}),
	})
	if err == nil {
		e.app.Start(ctx)
	}
	return err
}

// close stops the servers.
func (e *environment) close() error {
	errs := []error{e.service.stop()}
	if e.app != nil {
		errs = append(errs, e.app.Close())
	}
	if e.stores != nil {
		errs = append(errs, e.stores.Close())
	}
	return errors.Join(append(errs, e.rdb.Close(), os.RemoveAll(e.folder))...)
}

// startService builds and starts the service.
func (e *environment) startService(ctx context.Context) (err error) {
	out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(e.folder, "stepboard"), "stepboard").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w: %s", err, out)
	}
	e.service, err = e.serve(ctx, "service")
	return err
}

// serve starts a service on the run's stores.
func (e *environment) serve(ctx context.Context, name string, more ...string) (*process, error) {
	args := []string{"serve"}
	for key, value := range e.flags {
		args = append(args, "--"+key+"="+value)
	}
	return e.start(ctx, name, filepath.Join(e.folder, "stepboard"), append(args, more...)...)
}

// startBare starts the bare handler, as a process of its own.
func (e *environment) startBare(ctx context.Context) (*process, error) {
	if err := e.rdb.Copy(ctx, e.keys.board, uploadKey, 0, true).Err(); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return e.start(ctx, "bare", self,
		"-bare", e.config.Redis.Addrs[0], "-limit", fmt.Sprint(e.limit), "-prefix", e.keys.Prefix, "-key", e.keys.board)
}
