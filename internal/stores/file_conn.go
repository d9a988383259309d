package stores

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"stepboard/models"
)

const (
	// keptStatements is how many prepared statements a connection keeps.
	keptStatements = 128
	// keptLength is the length, in bytes, of the longest statement that is kept. Longer ones list
	// values, and hardly ever return.
	keptLength = 4096
)

// fileConn is a connection to a database in a file, with statements that it has prepared and that
// are not in use.
type fileConn struct {
	driver.Conn
	prepared map[string]driver.Stmt
}

// prepare returns a prepared statement. release must be called after its use.
func (c *fileConn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt, ok := c.prepared[query]; ok {
		delete(c.prepared, query)
		return stmt, nil
	}
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

// release keeps a prepared statement for the next use, or closes it after an error, which it returns.
func (c *fileConn) release(query string, stmt driver.Stmt, err error) error {
	if _, ok := c.prepared[query]; err != nil || ok || len(query) > keptLength {
		return errors.Join(err, stmt.Close())
	}
	if len(c.prepared) == keptStatements {
		for other, unused := range c.prepared { // any
			err = unused.Close()
			delete(c.prepared, other)
			break
		}
	}
	c.prepared[query] = stmt
	return err
}

func (c *fileConn) exec(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	stmt, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	return result, c.release(query, stmt, err)
}

// run runs a statement without arguments to its end, even if ctx ends before.
func (c *fileConn) run(ctx context.Context, statement string) error {
	_, err := c.exec(context.WithoutCancel(ctx), statement, nil)
	return err
}

// all returns all rows that a query without arguments returns.
func (c *fileConn) all(ctx context.Context, query string) (list [][]driver.Value, err error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, nil)
	if err != nil {
		return nil, err
	}
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return list, rows.Close()
		} else if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		list = append(list, row)
	}
}

// Close closes the connection and its statements.
func (c *fileConn) Close() error {
	for _, stmt := range c.prepared {
		stmt.Close()
	}
	return c.Conn.Close()
}

// typedRows are rows with the types of their columns. SQLite's rows have them.
type typedRows interface {
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeScanType
}

// fileRows are rows of a prepared statement, which is released when they close.
type fileRows struct {
	typedRows
	on    *workConn
	query string
	stmt  driver.Stmt
	err   error
}

// Next implements driver.Rows.
func (r *fileRows) Next(row []driver.Value) error {
	err := r.typedRows.Next(row)
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	r.err = err
	return r.on.failed(err)
}

// Close implements driver.Rows.
func (r *fileRows) Close() error {
	return r.on.done(r.on.conn.release(r.query, r.stmt, errors.Join(r.err, r.typedRows.Close())))
}

// fileConnector opens connections for one kind of work. They are light: each statement outside of a
// transaction, and each transaction, takes one of the file's connections for as long as it runs.
type fileConnector struct {
	file     *file
	readers  *conns
	priority priority
	patience time.Duration
	// refusedAt is that of Database.
	refusedAt *atomic.Int64
}

// Connect implements driver.Connector.
func (c *fileConnector) Connect(context.Context) (driver.Conn, error) {
	return &workConn{fileConnector: c}, nil
}

// Driver implements driver.Connector.
func (c *fileConnector) Driver() driver.Driver { return new(sqlite.Driver) }

// workConn is a connection of a kind of work. It has one of the file's connections during a transaction, or
// a statement until its rows are closed.
//
// The context of a write ends its wait for the writing connection, and nothing else: SQLite would
// roll back a transaction of which one statement is interrupted.
type workConn struct {
	*fileConnector
	// conn is the file's connection, of from.
	conn *fileConn
	from *conns
	// inTx reports that a transaction runs, and broken is an error after which SQLite may have rolled it back.
	inTx   bool
	broken error
}

// take takes a connection, unless a transaction has one, or returns CodeUnavailable.
func (w *workConn) take(ctx context.Context, from *conns) error {
	if w.inTx {
		return w.broken
	}
	conn, err := from.take(ctx, w.priority, w.patience)
	if errors.Is(err, ErrBusy) {
		w.refusedAt.Store(time.Now().UnixMilli())
		return models.Unavailable("wait for the database", err)
	}
	w.conn, w.from = conn, from
	return w.file.failed(err)
}

// context returns the context of a statement.
func (w *workConn) context(ctx context.Context) context.Context {
	if w.from == w.file.writer {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// failed is file.failed. A connection that only reads also refuses to write.
func (w *workConn) failed(err error) error {
	if w.from != w.file.writer && code(err) == sqlite3.SQLITE_READONLY {
		return err
	}
	return w.file.failed(err)
}

// done returns the error of a statement, as failed does. It gives the connection back, unless a transaction
// has it.
func (w *workConn) done(err error) error {
	failed := w.failed(err)
	switch {
	case !w.inTx:
		w.giveBack(err)
	case failed != nil && models.CodeOf(failed) == models.CodeUnavailable:
		w.broken = failed
	}
	return failed
}

// giveBack gives the connection back after a statement or a transaction that ended with an error or nil.
func (w *workConn) giveBack(err error) {
	conn := w.conn
	switch code(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM:
		conn.Close()
		conn = nil
	default:
		if committed := w.file.committed.Load(); committed != nil && w.from == w.file.writer && err == nil {
			(*committed)(conn)
		}
	}
	w.conn, w.broken = nil, nil
	w.from.put(conn)
}

// BeginTx implements driver.ConnBeginTx. A transaction that only reads sees the database as it was
// when it read first. Any other is the only one that writes.
func (w *workConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	from, begin := w.file.writer, "BEGIN IMMEDIATE"
	if opts.ReadOnly {
		from, begin = w.readers, "BEGIN"
	}
	if err := w.take(ctx, from); err != nil {
		return nil, err
	}
	if err := w.conn.run(ctx, begin); err != nil {
		return nil, w.done(err)
	}
	w.inTx = true
	return w, nil
}

// Begin implements driver.Conn.
func (w *workConn) Begin() (driver.Tx, error) {
	return w.BeginTx(context.Background(), driver.TxOptions{})
}

// Commit implements driver.Tx.
func (w *workConn) Commit() error {
	if w.broken != nil {
		return w.Rollback()
	}
	err := w.conn.run(context.Background(), "COMMIT")
	if err != nil {
		_ = w.conn.run(context.Background(), "ROLLBACK") // it may still run
	}
	w.inTx = false
	return w.done(err)
}

// Rollback implements driver.Tx. It returns the error that broke the transaction, if any: SQLite may
// have rolled it back already.
func (w *workConn) Rollback() error {
	err := w.conn.run(context.Background(), "ROLLBACK")
	w.inTx = false
	return w.done(cmp.Or(w.broken, err))
}

// ExecContext implements driver.ExecerContext.
func (w *workConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := w.take(ctx, w.file.writer); err != nil {
		return nil, err
	}
	result, err := w.conn.exec(w.context(ctx), query, args)
	return result, w.done(err)
}

// QueryContext implements driver.QueryerContext. A statement that changes rows and returns some has changed
// them once these are read or closed.
func (w *workConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if writes(query) {
		return w.queryOn(ctx, w.file.writer, query, args)
	}
	rows, err := w.queryOn(ctx, w.readers, query, args)
	if !w.inTx && code(err) == sqlite3.SQLITE_READONLY { // it writes, behind a WITH
		return w.queryOn(ctx, w.file.writer, query, args)
	}
	return rows, err
}

func (w *workConn) queryOn(ctx context.Context, from *conns, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := w.take(ctx, from); err != nil {
		return nil, err
	}
	ctx = w.context(ctx)
	stmt, err := w.conn.prepare(ctx, query)
	if err != nil {
		return nil, w.done(err)
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, w.done(w.conn.release(query, stmt, err))
	}
	return &fileRows{typedRows: rows.(typedRows), on: w, query: query, stmt: stmt}, nil
}

// writes reports whether the first word of a query says that it changes rows. One that begins with
// WITH may, too.
func writes(query string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(query, " \t\r\n("), " ")
	switch strings.ToUpper(strings.TrimSpace(word)) {
	case "INSERT", "UPDATE", "DELETE", "REPLACE":
		return true
	default:
		return false
	}
}

// Ping implements driver.Pinger. It reads the file.
func (w *workConn) Ping(ctx context.Context) error {
	rows, err := w.QueryContext(ctx, "PRAGMA schema_version", nil)
	if err != nil {
		return err
	}
	return rows.Close()
}

// Prepare implements driver.Conn. It is not called: nobody prepares a statement over database/sql.
func (w *workConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

// Close implements driver.Conn. Nothing runs any more.
func (w *workConn) Close() error { return nil }

// code returns the kind of SQLite's error, or 0.
func code(err error) int {
	if refused, ok := errors.AsType[*sqlite.Error](err); ok {
		return refused.Code() & 0xff
	}
	return 0
}

// failed returns CodeUnavailable for an error that says that the file can't be read or written, and
// remembers it for ready. Any other error is returned as it is.
func (f *file) failed(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_PERM:
		err = models.Unavailable("use the database", fmt.Errorf("%s: %w", f.path, err))
		f.failure.Store(&err)
	}
	return err
}
