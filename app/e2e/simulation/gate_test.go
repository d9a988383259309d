package simulation_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"
)

// A fault changes the outcome of one operation on a store.
type fault string

const (
	noFault fault = ""
	// refuse: the operation is not executed and fails.
	refuse fault = "refuse"
	// lose: the operation is executed, and its reply is lost.
	lose fault = "lose"
	// cut: of several commands only the first are executed, and all replies are lost.
	cut fault = "cut"
	// crashBefore, crashAfter: the process dies before or after the operation is executed.
	crashBefore fault = "crash before"
	crashAfter  fault = "crash after"
	// disconnect: the client that waits for the call is gone.
	disconnect fault = "disconnect"
	// interleave: another replica takes steps before the operation is executed.
	interleave fault = "interleave"
)

// Stores that a replica may not reach.
const (
	boardsStore = "redis"
	queueStore  = "queue"
	sqlStore    = "sql"
)

var errFault = errors.New("the connection is broken")

// clientKey is the key of a value that contexts of calls have.
type clientKey struct{}

// plan is the fault of one step: at its nth operation on a store, from 1.
type plan struct {
	fault fault
	at    int
	// act is called for disconnect and interleave.
	act func()
}

// gate stands between a replica and its stores, and makes operations fail. Safe for
// concurrent use.
type gate struct {
	mu     sync.Mutex
	plan   plan
	passed int             // operations of this step
	struck bool            // whether the fault of the plan, or a store that is away, was met
	gone   bool            // whether the client no longer waits for the answer
	dead   bool            // nothing that the process does has any effect
	away   map[string]bool // stores that the replica does not reach
	free   func() bool     // whether other calls do not wait for this one; nil if that does not matter
	died   chan struct{}   // closed when dead becomes true
	dying  func()          // is called at that moment; may be nil
}

func newGate() *gate { return &gate{away: make(map[string]bool), died: make(chan struct{})} }

// begin begins a step with a plan. resume goes on with the step in whose middle it is taken, if there
// is one.
func (g *gate) begin(p plan) (resume func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	outer, passed, struck, gone := g.plan, g.passed, g.struck, g.gone
	g.plan, g.passed, g.struck, g.gone = p, 0, false, false
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.plan, g.passed, g.struck, g.gone = outer, passed, struck, gone
	}
}

// end ends the step. It returns how many operations the step had, and whether a fault was met.
func (g *gate) end() (passed int, struck bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plan = plan{}
	return g.passed, g.struck
}

// kill makes all further operations fail without an effect.
func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.die()
}

func (g *gate) die() {
	if !g.dead {
		g.dead, g.struck = true, true
		if g.dying != nil {
			g.dying()
		}
		close(g.died)
	}
}

func (g *gate) crashed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dead
}

// before is called before each operation. It returns what is to happen to it: noFault,
// refuse, lose or cut.
func (g *gate) before(ctx context.Context, store string) fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead {
		return refuse
	}
	if g.away[store] {
		g.struck = true
		return refuse
	}
	g.passed++
	if g.plan.fault == noFault || g.passed != g.plan.at {
		return noFault
	}
	switch g.plan.fault {
	case crashBefore:
		g.die()
		return refuse
	case disconnect:
		g.struck = true
		// What runs for several calls, in a goroutine of its own, goes on without the client.
		// Then the answer is ignored, so that the step lasts until that work is done.
		if g.gone = ctx.Value(clientKey{}) == nil || within("/batch.(*Batcher"); !g.gone {
			g.plan.act()
		}
	case interleave:
		// The commands of the queue pass the gate in the goroutine of its server.
		if store != queueStore && (g.free == nil || g.free()) {
			act := g.plan.act
			g.mu.Unlock()
			act()
			g.mu.Lock()
		}
	default:
		g.struck = true
		return g.plan.fault
	}
	return noFault
}

// within reports whether a function of this name calls it: a batcher's goroutine, whose context has the values of a call's
// and does not end with it, or a reading for several calls, for whose end the others of the process wait.
func within(name string) bool { return bytes.Contains(debug.Stack(), []byte(name)) }

// after is called after an operation that was executed, with what before has returned. It
// returns an error if the reply is lost.
func (g *gate) after(f fault) error {
	if f == crashAfter {
		g.kill()
	}
	if f == noFault {
		return nil
	}
	return errFault
}

// redisHook passes the commands of a client through a gate.
type redisHook struct{ gate *gate }

func (h redisHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f := h.gate.before(ctx, boardsStore)
		if f == refuse {
			cmd.SetErr(errFault)
			return errFault
		}
		err := next(ctx, cmd)
		if lost := h.gate.after(f); lost != nil {
			cmd.SetErr(lost)
			return lost
		}
		return err
	}
}

func (h redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		f := h.gate.before(ctx, boardsStore)
		var err error
		switch {
		case f == refuse, f == cut && cmds[0].Name() == "multi": // half of a transaction changes nothing
			err = errFault
		case f == cut && len(cmds) > 1:
			_ = next(ctx, firstHalf(cmds))
			err = errFault
		default:
			err = next(ctx, cmds)
			if lost := h.gate.after(f); lost != nil {
				err = lost
			} else {
				return err
			}
		}
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}

// firstHalf returns the first half of the commands of a pipeline. Commands that all have the same
// name are of different keys, in an order that differs from run to run: they are sorted.
func firstHalf(cmds []redis.Cmder) []redis.Cmder {
	other := func(cmd redis.Cmder) bool { return cmd.Name() != cmds[0].Name() || len(cmd.Args()) < 4 }
	if !slices.ContainsFunc(cmds, other) {
		cmds = slices.Clone(cmds)
		slices.SortStableFunc(cmds, func(a, b redis.Cmder) int { return strings.Compare(keyOf(a), keyOf(b)) })
	}
	return cmds[:len(cmds)/2]
}

// keyOf returns the first key of a command or script.
func keyOf(cmd redis.Cmder) string { return fmt.Sprint(cmd.Args()[1], cmd.Args()[3]) }

// queueHook passes the commands of the step under way through the gate of its replica. It
// belongs to the server, because the service makes the client of the queue itself; commands
// inside of scripts are not among those that it looks at.
func queueHook(current func() *gate) server.Hook {
	return func(peer *server.Peer, command string, _ ...string) bool {
		switch command {
		case "EVAL", "EVALSHA", "XREADGROUP", "XACK", "XAUTOCLAIM":
		default:
			return false
		}
		g := current()
		if g == nil {
			return false
		}
		f := g.before(context.Background(), queueStore)
		if f == crashAfter {
			g.kill() // the server has no moment after a command; before is a case, too
			f = refuse
		}
		if f == noFault {
			return false
		}
		peer.WriteError("ERR " + errFault.Error())
		return true
	}
}

// connections passes the statements of a database through a gate. It is gorm's ConnPool.
type connections struct {
	db   *sql.DB
	gate *gate
}

func useGate(g *gorm.DB, db *sql.DB, gate *gate) {
	pool := &connections{db, gate}
	g.ConnPool, g.Statement.ConnPool = pool, pool
}

func (c *connections) GetDBConn() (*sql.DB, error) { return c.db, nil }

func (c *connections) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return c.db.PrepareContext(ctx, query)
}

func (c *connections) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return execute(ctx, c.gate, c.db, query, args)
}

func (c *connections) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return query(ctx, c.gate, c.db, text, args)
}

func (c *connections) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return queryRow(ctx, c.gate, c.db, query, args)
}

func (c *connections) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	if c.gate.before(ctx, sqlStore) != noFault {
		return nil, errFault
	}
	tx, err := c.db.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &transaction{ctx, tx, c.gate}, nil
}

// transaction is a transaction whose statements pass a gate.
type transaction struct {
	ctx  context.Context //nolint:containedctx // that of BeginTx, for Commit, which has none
	tx   *sql.Tx
	gate *gate
}

func (t *transaction) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return t.tx.PrepareContext(ctx, query)
}

func (t *transaction) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return execute(ctx, t.gate, t.tx, query, args)
}

func (t *transaction) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return query(ctx, t.gate, t.tx, text, args)
}

func (t *transaction) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return queryRow(ctx, t.gate, t.tx, query, args)
}

// Commit commits, unless the gate refuses it: then the database rolls back.
func (t *transaction) Commit() error {
	f := t.gate.before(t.ctx, sqlStore)
	if f == refuse {
		return errors.Join(errFault, t.tx.Rollback())
	}
	if err := t.tx.Commit(); err != nil {
		return err
	}
	return t.gate.after(f)
}

// Rollback always succeeds: so does a connection that breaks.
func (t *transaction) Rollback() error { return t.tx.Rollback() }

// executor is an *sql.DB or *sql.Tx.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func execute(ctx context.Context, g *gate, e executor, query string, args []any) (sql.Result, error) {
	f := g.before(ctx, sqlStore)
	if f == refuse {
		return nil, errFault
	}
	result, err := e.ExecContext(ctx, query, args...)
	if lost := g.after(f); lost != nil {
		return nil, lost
	}
	return result, err
}

// query does not lose replies of statements that insert and return rows, because they take
// effect as the rows are read: they are refused instead.
func query(ctx context.Context, g *gate, e executor, text string, args []any) (*sql.Rows, error) {
	f := g.before(ctx, sqlStore)
	if f == crashAfter {
		g.kill()
	}
	if f != noFault {
		return nil, errFault
	}
	return e.QueryContext(ctx, text, args...)
}

func queryRow(ctx context.Context, g *gate, e executor, query string, args []any) *sql.Row {
	f := g.before(ctx, sqlStore)
	if f == crashAfter {
		g.kill()
	}
	if f != noFault {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	return e.QueryRowContext(ctx, query, args...)
}

// wasStruck reports whether this step has met a fault so far.
func (g *gate) wasStruck() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.struck
}

// wasLeft reports whether the client of this step no longer waits for its answer.
func (g *gate) wasLeft() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gone
}

// planned returns the fault of the step's plan.
func (g *gate) planned() fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.plan.fault
}
