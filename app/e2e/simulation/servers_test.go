package simulation_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// onServers is the store of worlds with Redis and Postgres: that of TEST_POSTGRES_DSN.
const onServers = "servers"

// lockTimeout is how long a statement waits for a lock, in milliseconds: of two digits, see
// socket.Write. All steps are taken in one goroutine, so whoever holds the lock waits for this
// statement, or is about to let it go: a broken connection's transaction.
const lockTimeout = "99"

// timeSchema lets statements that ask for the time get the schedule's, because the schema public is
// found before pg_catalog. It also keeps statements from waiting longer for a lock, and lets who ends
// another session wait until its locks are gone, however busy the machine is.
const timeSchema = `
	CREATE SCHEMA simulation;
	CREATE TABLE simulation.clock (now timestamptz NOT NULL);
	INSERT INTO simulation.clock VALUES ('2000-01-01');
	CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT now FROM simulation.clock';
	CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT now FROM simulation.clock';
	CREATE FUNCTION public.set_config(name text, value text, is_local boolean) RETURNS text LANGUAGE sql VOLATILE AS
		$$SELECT pg_catalog.set_config(name, CASE name WHEN 'lock_timeout' THEN '` + lockTimeout + `' ELSE value END, is_local)$$;
	CREATE FUNCTION public.pg_terminate_backend(pid integer) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		PERFORM pg_catalog.pg_terminate_backend(pid);
		WHILE EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.pid = $1) LOOP
			PERFORM pg_sleep(0.001);
		END LOOP;
		RETURN true;
	END $$;
	DO $$
	DECLARE r record;
	BEGIN
		FOR r IN SELECT oid::regclass AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
			EXECUTE 'ALTER TABLE ' || r.name || ' SET (autovacuum_enabled = off)';
		END LOOP;
	END $$`

// dsnOf returns the DSN of a database.
func dsnOf(database string) string {
	base := os.Getenv("TEST_POSTGRES_DSN")
	if base == "" {
		panic("TEST_POSTGRES_DSN is not set: scripts/with-servers starts a Postgres")
	}
	u := must(url.Parse(base))
	u.Path = "/" + database
	return testenv.WithParameter(u.String(), "search_path", "public,pg_catalog")
}

// administer executes statements in the database of TEST_POSTGRES_DSN.
func administer(statements ...string) {
	ctx := context.Background()
	conn := must(pgx.Connect(ctx, os.Getenv("TEST_POSTGRES_DSN")))
	defer conn.Close(ctx)
	for _, statement := range statements {
		must(conn.Exec(ctx, statement))
	}
}

// template makes the database that those of all worlds are copies of, and returns its name.
var template = sync.OnceValue(func() string {
	ctx, name := context.Background(), fmt.Sprintf("simulation_%d", os.Getpid())
	administer("DROP DATABASE IF EXISTS "+name, "CREATE DATABASE "+name)
	server := newGate()
	st := must(connectServers(ctx, "127.0.0.1:1", name, time.Now, server))
	must(st.Migrate(ctx))
	must(st.Pool.Exec(ctx, timeSchema))
	check(st.Close())
	templates = append(templates, name)
	return name
})

// templates has the name of the template, if it was made.
var templates []string

// dropTemplate removes the template at the end of all tests.
func dropTemplate() {
	for _, name := range templates {
		administer("DROP DATABASE " + name)
	}
}

// createDatabase makes the database of a world.
func (w *world) createDatabase() {
	w.database = fmt.Sprintf("%s_%d", template(), databases.Add(1))
	administer("CREATE DATABASE " + w.database + " TEMPLATE " + template())
}

func (w *world) dropDatabase() { administer("DROP DATABASE " + w.database) }

// patience bounds what the service bounds more tightly: an interpreter of scripts, on a busy machine,
// may take seconds.
const patience = 30 * time.Second

// openRedis returns a client of a Redis within this process.
func openRedis(addr string) redis.UniversalClient {
	return redis.NewClient(&redis.Options{
		Addr: addr, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience, MaxRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// connectServers opens the stores of a process of the service, with connections whose statements pass
// a gate instead of the service's own. All kinds of work share them.
func connectServers(ctx context.Context, redisAddr, database string, clock models.Clock, gate *gate) (*stores.Stores, error) {
	cfg := config.Default()
	cfg.Redis.Addrs, cfg.Postgres.DSN = []string{redisAddr}, dsnOf(database)
	st, err := stores.Open(ctx, cfg, clock, nil)
	if err != nil {
		return nil, err
	}
	pool, gormNow := gatedPool(ctx, st.Pool.Config(), gate), st.Gorm.NowFunc
	for _, work := range st.Works() {
		check(work.SQL.Close())
		work.Pool.Close()
	}
	check(st.Redis.Close())
	db := sql.OpenDB(stdlib.GetPoolConnector(pool))
	db.SetMaxIdleConns(0) // the pool keeps them
	shared := stores.Database{Pool: pool, SQL: db, Gorm: must(gorm.Open(postgres.New(postgres.Config{Conn: db}), &gorm.Config{
		NowFunc: gormNow, TranslateError: true, SkipDefaultTransaction: true, DisableAutomaticPing: true, QueryFields: true, Logger: logger.Discard,
	}))}
	st.Redis, st.Database = openRedis(redisAddr), shared
	st.Friends, st.Increments, st.Reports, st.Jobs, st.Archive, st.Probes = shared, shared, shared, shared, shared, shared
	return st, nil
}

// gatedPool returns a pool of other connections with the same settings.
func gatedPool(ctx context.Context, c *pgxpool.Config, gate *gate) *pgxpool.Pool {
	c.MaxConns = 20
	c.ConnConfig.ConnectTimeout = patience
	c.ConnConfig.RuntimeParams["lock_timeout"] = lockTimeout
	c.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	c.ConnConfig.Tracer = tracer{gate}
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // which depends on real time
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !gate.reaches(sqlStore) {
			return nil, errFault
		}
		conn, err := dial(ctx, network, addr)
		return &socket{Conn: conn, gate: gate}, err
	}
	return must(pgxpool.NewWithConfig(ctx, c))
}

// reaches reports whether a store can be reached.
func (g *gate) reaches(store string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.struck = g.struck || g.away[store]
	return !g.dead && !g.away[store]
}

// quiet waits until nothing that a replica does in its database is under way: the driver rolls back
// transactions of calls that have ended, and closes broken connections, in the background.
func quiet(st *stores.Stores) {
	for _, work := range st.Works() {
		for work.Pool != nil && work.Pool.Stat().AcquiredConns() > 0 {
			runtime.Gosched()
		}
	}
}

// tracer passes the statements of a connection through a gate: the driver calls it before each
// statement, BEGIN and COMMIT included, batch and COPY.
type tracer struct{ gate *gate }

func (t tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.HasPrefix(strings.ToLower(data.SQL), "rollback") { // which always succeeds: so does a connection that breaks
		t.before(ctx, conn)
	}
	return ctx
}

func (t tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.before(ctx, conn)
	return ctx
}

func (t tracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	t.before(ctx, conn)
	return ctx
}

func (t tracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	t.after(data.Err)
}

func (t tracer) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	t.after(data.Err)
}

func (t tracer) TraceCopyFromEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceCopyFromEndData) {
	t.after(data.Err)
}

func (t tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (t tracer) before(ctx context.Context, conn *pgx.Conn) {
	f := t.gate.before(ctx, sqlStore)
	if s, ok := conn.PgConn().Conn().(*socket); ok && f != noFault {
		s.fail(f)
	}
}

// Codes of errors that a step may get because another one is under way.
const (
	lockNotAvailable = "55P03" // the other one has locked a row, a table or a bucket
	adminShutdown    = "57P01" // the other one archives the same bucket, and has ended this session
)

// after notes an error that another step under way has caused.
func (t tracer) after(err error) {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == lockNotAvailable || refused.Code == adminShutdown) {
		t.gate.mu.Lock()
		defer t.gate.mu.Unlock()
		t.gate.struck = true
	}
}

// socket is a connection to Postgres that can break at a statement: before the server has received
// it, or after the server has executed it and before its reply has arrived.
type socket struct {
	net.Conn
	gate *gate

	mu sync.Mutex
	// fault is that of the statement under way. All but refuse lose its reply.
	fault fault
	// sent and received are the incomplete messages of both directions since fail.
	sent, received []byte
	// executes says whether the messages sent since the last one that the server replies to
	// execute a statement; replies says the same for each reply that is expected.
	executes bool
	replies  []bool
	closing  sync.Once
}

// fail lets the connection break at the next statement. Nothing is under way.
func (s *socket) fail(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.sent, s.received, s.executes, s.replies = f, nil, nil, false, nil
}

// longWait matches a statement that would let others wait for a lock for seconds.
var longWait = regexp.MustCompile(`SET LOCAL lock_timeout = '\d+s'`)

// Write implements net.Conn. Statements that set lock_timeout set it to lockTimeout.
func (s *socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.fault {
	case noFault:
	case refuse:
		return len(p), nil
	default:
		s.sent = eachMessage(append(s.sent, p...), func(kind byte) {
			switch kind {
			case 'E': // Execute
				s.executes = true
			case 'Q', 'S': // Query, Sync
				s.replies = append(s.replies, s.executes || kind == 'Q')
				s.executes = false
			}
		})
	}
	if bytes.Contains(p, []byte("SET LOCAL lock_timeout")) {
		text := longWait.ReplaceAllFunc(p, func(found []byte) []byte {
			// In milliseconds, and as long as it was.
			head, tail, _ := bytes.Cut(found, []byte("'"))
			return fmt.Appendf(nil, "%s'%*s'", head, len(tail)-1, lockTimeout)
		})
		return s.Conn.Write(text)
	}
	return s.Conn.Write(p)
}

// eachMessage calls do with the kind of each complete message, and returns the rest.
func eachMessage(stream []byte, do func(kind byte)) []byte {
	for len(stream) >= 5 {
		size := 1 + int(uint32(stream[1])<<24|uint32(stream[2])<<16|uint32(stream[3])<<8|uint32(stream[4]))
		if len(stream) < size {
			break
		}
		do(stream[0])
		stream = stream[size:]
	}
	return stream
}

// Read implements net.Conn. When the connection breaks, the server has ended the session before the
// driver learns of it: so what the step does next, on another connection, meets none of its locks.
func (s *socket) Read(p []byte) (int, error) {
	s.mu.Lock()
	f := s.fault
	s.mu.Unlock()
	if f == refuse {
		_ = s.Close()
		return 0, errFault
	}
	n, err := s.Conn.Read(p)
	if f == noFault || err != nil || !s.lost(p[:n]) {
		return n, err
	}
	_ = s.Close()
	return 0, s.gate.after(f)
}

// lost reports whether the server has executed the statement that it was to fail after, when p is
// received.
func (s *socket) lost(p []byte) (lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = eachMessage(append(s.received, p...), func(kind byte) {
		if kind == 'Z' && len(s.replies) > 0 { // ReadyForQuery
			lost = lost || s.replies[0]
			s.replies = s.replies[1:]
		}
	})
	return lost
}

// Close implements net.Conn. It returns when the server has ended the session, and holds no lock
// for it any more.
func (s *socket) Close() error {
	s.closing.Do(func() {
		s.fail(noFault)
		_ = s.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := s.Conn.Write([]byte{'X', 0, 0, 0, 4}); err == nil {
			_, _ = io.Copy(io.Discard, s.Conn)
		}
	})
	return s.Conn.Close()
}

// locking returns a round that locks rows. Steps that come between the statements of others are
// often such rounds, because only here they come into open transactions.
func (w *world) locking() action {
	name := []string{"archive", "archive", "correct-archive", "erase"}[w.random.IntN(4)]
	return action{name: name, quiet: true, do: func(w *world, ctx context.Context, r *replica) { w.doRound(ctx, r, name) }}
}
