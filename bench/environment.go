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
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"
	"github.com/redis/go-redis/v9"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/keys"
	"stepboard/internal/pause"
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
	started                     []*process // by this environment

	rankings, uploads [][]byte // requests of each viewer

	boardBytes, friendBytes int64 // of Redis
}

// prepare fills the stores that the environment variables name, and starts the servers.
func (e *environment) prepare(ctx context.Context) {
	redisAddr, dsn := os.Getenv("TEST_REDIS_ADDR"), os.Getenv("TEST_POSTGRES_DSN")
	if redisAddr == "" || dsn == "" {
		check(errors.New("TEST_REDIS_ADDR and TEST_POSTGRES_DSN are not set: run make bench, which starts the servers"))
	}
	e.rdb = redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64})
	e.folder = must(os.MkdirTemp("", "stepboard-bench"))
	e.configure(ctx, redisAddr, dsn)
	e.openApp(ctx)
	e.findStores(ctx)
	// The service starts first: as it has never seen this Redis, it drops the friend sets there.
	runCommand(ctx, "go", "build", "-trimpath", "-o", filepath.Join(e.folder, "stepboard"), "stepboard")
	e.service = e.serve(ctx, "service")
	e.fill(ctx)
	e.buildRequests()
}

// configure creates a schema for the run, and makes the settings.
func (e *environment) configure(ctx context.Context, redisAddr, dsn string) {
	schema := "bench_" + strings.ToLower(rand.Text()[:8])
	begin := time.Now().Add(-time.Hour)
	e.flags = map[string]string{
		"http.addr":              "127.0.0.1:0",
		"redis.addrs":            redisAddr,
		"redis.key_prefix":       schema + ":",
		"postgres.dsn":           createSchema(ctx, dsn, schema),
		"auth.hs256_secret":      rand.Text() + rand.Text(),
		"limits.user_per_minute": "0",
		// The load comes from one address.
		"limits.address_per_minute": "0", "limits.streams_per_address": "0",
		"boards": fmt.Sprintf(`[{name: steps, change_stream: false}, {name: %s}, {name: gifts, kind: event, max_score: 1000000000, start: %q, end: %q}, {name: active, kind: rolling, max_score: 8000000}]`,
			nearBoard, begin.Format(time.RFC3339), begin.AddDate(0, 0, 30).Format(time.RFC3339)),
	}
	e.keys.Builder = keys.Builder{Prefix: schema + ":"}
	e.config = must(config.Load(config.Sources{Flags: e.flags}))
}

// createSchema creates a schema for the run and returns its DSN.
func createSchema(ctx context.Context, dsn, schema string) string {
	u := must(url.Parse(dsn))
	conn := must(pgx.Connect(ctx, dsn))
	must(conn.Exec(ctx, "CREATE SCHEMA "+schema))
	check(conn.Close(ctx))
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// openApp starts the service in this process.
func (e *environment) openApp(ctx context.Context) {
	if dir := e.config.Data.Dir; dir != "" {
		e.stores = must(stores.OpenFolder(ctx, dir, time.Now))
	} else {
		e.stores = must(stores.Open(ctx, e.config, time.Now, nil))
	}
	must(e.stores.Migrate(ctx))
	e.app = must(app.Build(ctx, app.Options{
		Config: e.config, Stores: e.stores, Clock: time.Now, Log: slog.New(slog.DiscardHandler), Verifier: auth.NewVerifier(auth.VerifierConfig{}),
	}))
	e.app.Start(ctx)
}

// stop stops the processes that were started and still run.
func (e *environment) stop() (err error) {
	for _, p := range e.started {
		err = errors.Join(err, caught(p.stop))
	}
	return err
}

// close stops the processes and closes the stores.
func (e *environment) close() error {
	errs := []error{e.stop()}
	if e.app != nil {
		errs = append(errs, e.app.Close())
	}
	if e.stores != nil {
		errs = append(errs, e.stores.Close())
	}
	if e.rdb != nil {
		errs = append(errs, e.rdb.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(e.folder))...)
}

// runCommand runs a program until it ends.
func runCommand(ctx context.Context, program string, args ...string) {
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %w: %s", filepath.Base(program), err, out))
	}
}

// serve starts a service on the run's stores.
func (e *environment) serve(ctx context.Context, name string, more ...string) *process {
	args := []string{"serve"}
	for key, value := range e.flags {
		args = append(args, "--"+key+"="+value)
	}
	return e.start(ctx, name, filepath.Join(e.folder, "stepboard"), append(args, more...)...)
}

// memoryGrowth returns by how many bytes the data of Redis and its keys grow during work.
func (e *environment) memoryGrowth(ctx context.Context, work func()) int64 {
	before := redisNumber(ctx, e.rdb, "used_memory")
	work()
	return redisNumber(ctx, e.rdb, "used_memory") - before
}

// redisInfo returns one field of INFO.
func redisInfo(ctx context.Context, rdb *redis.Client, field string) string {
	_, rest, _ := strings.Cut(must(rdb.Info(ctx).Result()), "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

func redisNumber(ctx context.Context, rdb *redis.Client, field string) int64 {
	return must(strconv.ParseInt(redisInfo(ctx, rdb, field), 10, 64))
}

// findStores finds the processes of Redis and Postgres.
func (e *environment) findStores(ctx context.Context) {
	e.redisServer = &process{pid: int(redisNumber(ctx, e.rdb, "process_id"))}
	var backend int
	check(e.stores.Pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend))
	named("find the Postgres of this machine", func() {
		parent := must(must(procfs.NewProc(backend)).Stat()).PPID
		e.postgresServer = &process{pid: parent, withChildren: true}
	})
}

// process is a server; cmd is nil unless it was started here and runs. A nil process is none.
type process struct {
	cmd  *exec.Cmd
	pid  int
	addr string
	// withChildren reports that child processes do the work, too, as in Postgres.
	withChildren bool
}

// startTimeout bounds how long a process may take to start.
const startTimeout = 30 * time.Second

var serving = regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`)

// start starts a program that logs its address, and waits for that. The log is a file, which it
// writes line by line, as it would to a collector.
func (e *environment) start(ctx context.Context, name, program string, args ...string) *process {
	log := must(os.Create(filepath.Join(e.folder, name+".log")))
	cmd := exec.Command(program, args...)
	cmd.Stderr = log
	check(cmd.Start())
	p := &process{cmd: cmd, pid: cmd.Process.Pid}
	e.started = append(e.started, p)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		text, err := os.ReadFile(log.Name())
		if m := serving.FindSubmatch(text); m != nil {
			p.addr = string(m[1])
			return p
		}
		if err == nil {
			err = pause.For(ctx, time.Millisecond)
		}
		if err != nil {
			check(fmt.Errorf("start %s: %w: %s", name, err, text))
		}
	}
}

// stop stops the process, unless it was stopped before, and waits for its end.
func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	cmd := p.cmd
	p.cmd = nil
	check(cmd.Process.Signal(syscall.SIGINT))
	check(cmd.Wait())
}

// family returns the process and, if it is one with children, these; nothing without a process.
func (p *process) family() (list procfs.Procs) {
	if p == nil {
		return nil
	}
	list = append(list, must(procfs.NewProc(p.pid)))
	if !p.withChildren {
		return list
	}
	for _, other := range must(procfs.AllProcs()) {
		if stat, err := other.Stat(); err == nil && stat.PPID == p.pid { // otherwise it may have ended
			list = append(list, other)
		}
	}
	return list
}

// ticksPerSecond is the unit of CPU time in /proc.
const ticksPerSecond = 100

// cpu returns the CPU time that the process has used, with that of its children; 0 without a process.
func (p *process) cpu() time.Duration {
	ticks := 0
	for _, member := range p.family() {
		stat, err := member.Stat()
		if err != nil {
			continue // a child that has ended
		}
		ticks += int(stat.UTime + stat.STime)
		if p.withChildren && member.PID == p.pid {
			ticks += stat.CUTime + stat.CSTime // of the children that have ended
		}
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// machineTime returns the CPU time that all processes, interrupts and other machines on the same
// cores have used.
func machineTime() time.Duration {
	spent := must(must(procfs.NewDefaultFS()).Stat()).CPUTotal
	return time.Duration((spent.User + spent.Nice + spent.System + spent.IRQ + spent.SoftIRQ + spent.Steal) * float64(time.Second))
}

// share returns the process's resident memory in bytes, with that of its children. Of what several
// processes share, each has its part.
func (p *process) share() (bytes uint64) {
	for _, member := range p.family() {
		if memory, err := member.ProcSMapsRollup(); err == nil { // otherwise a child has ended
			bytes += memory.Pss
		}
	}
	return bytes
}

// status returns the process's status; nothing without a process.
func (p *process) status() (status procfs.ProcStatus) {
	if p != nil {
		status = must(must(procfs.NewProc(p.pid)).NewStatus())
	}
	return status
}
