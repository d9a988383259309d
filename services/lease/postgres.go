package lease

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// pingEvery is how often the holder asks whether the server is still
	// there. A connection that breaks is noticed at once, one whose server
	// hangs after pingEvery and answerTimeout at the latest.
	pingEvery = 5 * time.Second
	// answerTimeout bounds each wait for the server.
	answerTimeout = 5 * time.Second
)

// key is a lease's 64 bits in SQL. The schema is part of it: installations
// that share a database don't share leases. Quoted where it needs to be, it
// can't be taken for a part of the name, which is $1.
const key = `hashtextextended(format('stepboard lease %I %s', coalesce(current_schema(), ''), $1::text), 0)`

// NewPostgres gives leases among everybody who uses the same schema. Each is a
// session's advisory lock, on a connection that is made for it: taking one
// costs a connection and a round trip, and a long piece of work takes nothing
// from a pool. The server must see that session itself: a pooler in between
// has to keep one server connection for each client connection. config is
// copied.
func NewPostgres(config *pgx.ConnConfig) *Service {
	return newPostgres(config, pingEvery, answerTimeout)
}

func newPostgres(config *pgx.ConnConfig, pingEvery, answerTimeout time.Duration) *Service {
	config = config.Copy()
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = answerTimeout
	}
	// A statement that a session runs once need not be prepared first.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	params := config.RuntimeParams
	params["application_name"] = "stepboard lease"
	// The waits for an answer are bounded here, where the lease is lost by it.
	params["statement_timeout"] = "0"
	// A holder whose machine is gone says no goodbye. By its own defaults the
	// server would keep the lease for it for more than two hours.
	params["tcp_keepalives_idle"] = "15"
	params["tcp_keepalives_interval"] = "5"
	params["tcp_keepalives_count"] = "3"
	params["tcp_user_timeout"] = "30000"
	p := &postgres{config: config, pingEvery: pingEvery, answerTimeout: answerTimeout}
	return &Service{take: p.take}
}

type postgres struct {
	config                   *pgx.ConnConfig
	pingEvery, answerTimeout time.Duration
}

func (p *postgres) take(ctx context.Context, name string, lost func(error)) (release func(), err error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	free, err := p.tryLock(ctx, conn, name)
	if err == nil && !free {
		err = ErrHeld
	}
	if err != nil {
		p.hangUp(ctx, conn)
		return nil, err
	}
	// The lease is held until fn has returned, also while it winds up after
	// the end of ctx.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.watch(watching, conn); err != nil {
			lost(err)
		}
	}()
	return func() {
		stop()
		<-done
		p.unlock(ctx, conn)
		p.hangUp(ctx, conn)
	}, nil
}

// connect makes a connection that is dialled once.
func (p *postgres) connect(ctx context.Context) (*pgx.Conn, error) {
	config := p.config.Copy()
	dial := config.DialFunc
	var connected atomic.Bool
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		// Where a connection fails, the driver dials again to cancel what runs
		// on it. Nothing does, and a server that hangs would keep it for long.
		if connected.Load() {
			return nil, errors.New("there is nothing to cancel")
		}
		return dial(ctx, network, addr)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	connected.Store(true)
	return conn, err
}

func (p *postgres) tryLock(ctx context.Context, conn *pgx.Conn, name string) (free bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.answerTimeout)
	defer cancel()
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+key+")", name).Scan(&free)
	return free, err
}

// watch returns nil when ctx ends, and before that an error when the session,
// and with it the lease, is gone or can't be reached.
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

// listen waits for pingEvery or the end of ctx. Nobody notifies this session,
// so all that it can hear meanwhile is the connection's end, which is an error.
func (p *postgres) listen(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, p.pingEvery)
	defer cancel()
	_, err := conn.WaitForNotification(ctx)
	if conn.IsClosed() {
		return err
	}
	return nil
}

// ping goes on when ctx ends: a ping that is broken off would cost the
// connection.
func (p *postgres) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.answerTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// unlock frees the lease before release returns, whether or not ctx has ended.
// Where it fails, the lease is free when the server notices that nobody is
// there.
func (p *postgres) unlock(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.answerTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()")
}

// hangUp closes the connection, whether or not ctx has ended, and waits for
// what the driver has left running on it.
func (p *postgres) hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.answerTimeout)
	defer cancel()
	conn.Close(ctx)
	// Where the server does not answer, the driver goes on saying goodbye in
	// the background for a while. There is nobody to hear it.
	conn.PgConn().Conn().Close()
	<-conn.PgConn().CleanupDone()
}
