package lease

import (
	"context"
	"errors"
	"net"
	"strconv"
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
)

// key is the SQL expression of a lease's advisory lock, 64 bits; $1 is the lease's
// name. It includes the schema, so that installations that share a database don't
// share leases. The schema is quoted, so that it can't be mistaken for a part of
// the name.
const key = `hashtextextended(format('stepboard lease %I %s', coalesce(current_schema(), ''), $1::text), 0)`

// NewPostgres returns a service whose leases exclude all callers that use the same
// schema. A lease is a session's advisory lock on a connection of its own: taking
// one costs a connection and a round trip, and long work occupies no connection of
// a pool. A pooler in front of Postgres must keep one server connection for each
// client connection. NewPostgres copies config.
//
// The server ends the session of a holder whose process is frozen after 25 seconds.
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
	// Each statement runs once in a session, so preparing it would not pay.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
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
	return &Service{acquire: p.acquire}
}

type postgres struct {
	config                                        *pgx.ConnConfig
	pingInterval, responseTimeout, sessionTimeout time.Duration
}

func (p *postgres) acquire(ctx context.Context, name string, lost func(error)) (release func(), err error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	free, err := p.tryLock(ctx, conn, name)
	if err == nil && !free {
		err = ErrHeld
	}
	if err != nil {
		p.disconnect(ctx, conn)
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
		p.unlock(ctx, conn)
		p.disconnect(ctx, conn)
	}, nil
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
	return conn, err
}

// lockQuery takes a lease's lock if it is free, and lets the server end the session
// after it was idle for $2 milliseconds. It finds no such setting before Postgres 14,
// where naming it at the start of the session would be an error.
const lockQuery = `
	SELECT pg_try_advisory_lock(` + key + `)
	FROM (SELECT count(set_config(name, $2, false)) FROM pg_settings WHERE name = 'idle_session_timeout') AS settings`

func (p *postgres) tryLock(ctx context.Context, conn *pgx.Conn, name string) (free bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.responseTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, lockQuery, name, strconv.FormatInt(p.sessionTimeout.Milliseconds(), 10)).Scan(&free)
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
func (p *postgres) unlock(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.responseTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
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
