package lease

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// pingInterval is the interval at which the holder pings the server. A broken
	// connection is noticed at once, a server that hangs after pingInterval and
	// responseTimeout at the latest.
	pingInterval = 5 * time.Second
	// responseTimeout bounds each wait for the server.
	responseTimeout = 5 * time.Second
	// sessionTimeout is how long the server keeps the session of a holder that does
	// not ping it, because its process is frozen. It is longer than a living holder
	// takes to give up its lease.
	sessionTimeout = 25 * time.Second
	// maxIdle is how many sessions are kept for the next leases, each for half the
	// sessionTimeout at most: jobs take leases every few seconds.
	maxIdle = 4
)

// key is the SQL expression of a lease's advisory lock, 64 bits; $1 is the lease's
// name. It includes the schema, so that installations that share a database don't
// share leases. The schema is quoted, so that it can't be mistaken for a part of
// the name.
const key = `hashtextextended(format('stepboard lease %I %s', coalesce(current_schema(), ''), $1::text), 0)`

// NewPostgres returns a service whose leases exclude all callers that use the same
// schema. A lease is a session's advisory lock on a connection of its own, so that long work
// occupies no connection of a pool. Taking one costs a round trip, and a connection unless one
// was used within the last seconds. A pooler in front of Postgres must keep one server connection
// for each client connection. NewPostgres copies config. Close closes the connections that
// are kept.
//
// The server ends the session of a holder whose process is frozen after sessionTimeout.
// When the process continues, it finds its session closed, and the lease is lost.
// Before version 14, Postgres can't do that: there the lease is held until the
// process continues or its connection ends.
func NewPostgres(config *pgx.ConnConfig) *Service {
	return newPostgres(config, pingInterval, responseTimeout, sessionTimeout)
}

func newPostgres(config *pgx.ConnConfig, pingInterval, responseTimeout, sessionTimeout time.Duration) *Service {
	config = config.Copy()
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = responseTimeout
	}
	params := config.RuntimeParams
	params["application_name"] = "stepboard lease"
	// responseTimeout bounds each statement; when it passes, the lease is lost.
	params["statement_timeout"] = "0"
	// The connection of a holder whose machine has failed stays open. By default
	// the server would keep its lease for more than two hours.
	params["tcp_keepalives_idle"] = "15"
	params["tcp_keepalives_interval"] = "5"
	params["tcp_keepalives_count"] = "3"
	params["tcp_user_timeout"] = "30000"
	p := &postgres{config: config, pingInterval: pingInterval, responseTimeout: responseTimeout, sessionTimeout: sessionTimeout}
	return &Service{acquire: p.acquire, close: p.closeIdle}
}

type postgres struct {
	config                                        *pgx.ConnConfig
	pingInterval, responseTimeout, sessionTimeout time.Duration

	mu     sync.Mutex
	idle   []*session // the one used last is the last
	closed bool
}

// session is a connection that holds no lock.
type session struct {
	conn *pgx.Conn
	end  *time.Timer // closes it
}

func (p *postgres) acquire(ctx context.Context, name string, lost func(error)) (release func(), err error) {
	conn, err := p.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	// The lease is held until fn has returned, which may be after the end of ctx.
	watchCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.watch(watchCtx, conn); err != nil {
			lost(err)
		}
	}()
	return func() {
		stop()
		<-done
		if p.unlock(ctx, conn) {
			p.keep(ctx, conn)
		} else {
			p.disconnect(ctx, conn)
		}
	}, nil
}

// lock takes a lease's lock on a connection that was kept or a new one.
func (p *postgres) lock(ctx context.Context, name string) (*pgx.Conn, error) {
	for {
		conn := p.kept()
		wasKept := conn != nil
		if !wasKept {
			var err error
			if conn, err = p.connect(ctx); err != nil {
				return nil, err
			}
		}
		free, err := p.tryLock(ctx, conn, name)
		switch {
		case err == nil && free:
			return conn, nil
		case err == nil:
			p.keep(ctx, conn)
			return nil, ErrHeld
		}
		p.disconnect(ctx, conn)
		if !wasKept || ctx.Err() != nil {
			return nil, err
		}
		// The server has closed it meanwhile, or another server has taken its place.
		p.abandonIdle(ctx)
	}
}

// kept returns a connection that was kept, or nil.
func (p *postgres) kept() *pgx.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if s.end.Stop() { // otherwise it is being closed
			return s.conn
		}
	}
	return nil
}

// keep keeps a connection without locks for the next lease.
func (p *postgres) keep(ctx context.Context, conn *pgx.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		p.abandon(ctx, conn)
		return
	}
	s := &session{conn: conn}
	s.end = time.AfterFunc(p.sessionTimeout/2, func() {
		p.mu.Lock()
		p.idle = slices.DeleteFunc(p.idle, func(other *session) bool { return other == s })
		p.mu.Unlock()
		p.abandon(ctx, conn)
	})
	p.idle = append(p.idle, s)
}

// closeIdle closes the connections that were kept, and keeps none any more.
func (p *postgres) closeIdle() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.abandonIdle(context.Background())
}

func (p *postgres) abandonIdle(ctx context.Context) {
	for conn := p.kept(); conn != nil; conn = p.kept() {
		p.abandon(ctx, conn)
	}
}

// connect opens a connection, for which the driver may dial only once.
func (p *postgres) connect(ctx context.Context) (*pgx.Conn, error) {
	config := p.config.Copy()
	dial := config.DialFunc
	var connected atomic.Bool
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		// If a connection fails, the driver dials again to cancel the statement
		// that runs on it. None does, and a server that hangs would block it for
		// long.
		if connected.Load() {
			return nil, errors.New("no statement to cancel")
		}
		return dial(ctx, network, addr)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	connected.Store(true)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.responseTimeout)
	defer cancel()
	if _, err := conn.Exec(ctx, timeoutQuery, strconv.FormatInt(p.sessionTimeout.Milliseconds(), 10)); err != nil {
		p.disconnect(ctx, conn)
		return nil, err
	}
	return conn, nil
}

const (
	// timeoutQuery lets the server end the session after it was idle for $1 milliseconds. It
	// finds no such setting before Postgres 14, where naming it at the start of the session
	// would be an error.
	timeoutQuery = `SELECT set_config(name, $1, false) FROM pg_settings WHERE name = 'idle_session_timeout'`
	// lockQuery takes a lease's lock if it is free.
	lockQuery = `SELECT pg_try_advisory_lock(` + key + `)`
)

func (p *postgres) tryLock(ctx context.Context, conn *pgx.Conn, name string) (free bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.responseTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, lockQuery, name).Scan(&free)
	return free, err
}

// watch returns nil when ctx ends. Before that it returns an error if the session,
// and with it the lease, has ended or can't be reached.
func (p *postgres) watch(ctx context.Context, conn *pgx.Conn) error {
	for {
		err := p.listen(ctx, conn)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if err := p.ping(ctx, conn); err != nil {
			return err
		}
	}
}

// listen waits for pingInterval or the end of ctx. It returns an error if the
// connection ends meanwhile. No notifications are sent to this session.
func (p *postgres) listen(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, p.pingInterval)
	defer cancel()
	_, err := conn.WaitForNotification(ctx)
	if conn.IsClosed() {
		return err
	}
	return nil
}

// ping is not cancelled by ctx: cancelling it would close the connection.
func (p *postgres) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.responseTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// unlock releases the lock at once, whether or not ctx has ended. If it fails, the
// lock is released when the server notices that the connection has ended.
func (p *postgres) unlock(ctx context.Context, conn *pgx.Conn) (unlocked bool) {
	if conn.IsClosed() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.responseTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
	return err == nil
}

// abandon closes a connection without locks at once.
func (p *postgres) abandon(ctx context.Context, conn *pgx.Conn) {
	conn.PgConn().Conn().Close()
	p.disconnect(ctx, conn)
}

// disconnect closes the connection, whether or not ctx has ended, and waits for the
// driver's goroutines.
func (p *postgres) disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.responseTimeout)
	defer cancel()
	conn.Close(ctx)
	// If the server does not respond, the driver would wait in the background
	// for it to acknowledge the end. Closing the socket ends that wait.
	conn.PgConn().Conn().Close()
	<-conn.PgConn().CleanupDone()
}
