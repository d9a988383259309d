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

// prepare returns a prepared statement. keep must be called after its use.
func (c *fileConn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt, ok := c.prepared[query]; ok {
		delete(c.prepared, query)
		return stmt, nil
	}
	return c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
}

// keep keeps a prepared statement for the next use.
func (c *fileConn) keep(query string, stmt driver.Stmt) error {
	if _, ok := c.prepared[query]; ok || len(query) > keptLength {
		return stmt.Close()
	}
	var err error
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
	if err != nil {
		return nil, errors.Join(err, stmt.Close())
	}
	return result, c.keep(query, stmt)
}

// run runs a statement without arguments to its end, even if ctx ends before.
func (c *fileConn) run(ctx context.Context, statement string) error {
	_, err := c.exec(context.WithoutCancel(ctx), statement, nil)
	return err
}

// query returns rows; closing them calls done with the error of reading them, if any.
func (c *fileConn) query(ctx context.Context, query string, args []driver.NamedValue, done func(error) error) (driver.Rows, error) {
	stmt, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, stmt.Close())
	}
	return &fileRows{typedRows: rows.(typedRows), close: func(err error) error {
		if err = errors.Join(err, rows.Close()); err != nil {
			return done(errors.Join(err, stmt.Close()))
		}
		return done(c.keep(query, stmt))
	}}, nil
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

// fileRows are rows with something to do when they close.
type fileRows struct {
	typedRows
	err   error
	close func(error) error
}

// Next implements driver.Rows.
func (r *fileRows) Next(row []driver.Value) error {
	err := r.typedRows.Next(row)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return err
}

// Close implements driver.Rows.
func (r *fileRows) Close() error { return r.close(r.err) }

// storedRows are rows in memory.
type storedRows struct {
	columns []string
	rows    [][]driver.Value
}

// store reads and closes rows.
func store(rows driver.Rows) (*storedRows, error) {
	s := &storedRows{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(s.columns))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return s, rows.Close()
		} else if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		s.rows = append(s.rows, row)
	}
}

// Columns implements driver.Rows.
func (s *storedRows) Columns() []string { return s.columns }

// Next implements driver.Rows.
func (s *storedRows) Next(row []driver.Value) error {
	if len(s.rows) == 0 {
		return io.EOF
	}
	copy(row, s.rows[0])
	s.rows = s.rows[1:]
	return nil
}

// Close implements driver.Rows.
func (s *storedRows) Close() error { return nil }

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

// take takes a connection, or returns CodeUnavailable.
func (c *fileConnector) take(ctx context.Context, from *conns) (*fileConn, error) {
	conn, err := from.take(ctx, c.priority, c.patience)
	if errors.Is(err, ErrBusy) {
		c.refusedAt.Store(time.Now().UnixMilli())
		return nil, models.Unavailable("wait for the database", err)
	}
	return conn, c.file.failed(err)
}

// workConn is a connection of a kind of work.
//
// The context of a write ends its wait for the writing connection, and nothing else: SQLite would
// roll back a transaction of which one statement is interrupted.
type workConn struct {
	*fileConnector
	// tx is the transaction that runs, if any.
	tx *fileTx
}

// fileTx is a transaction, which holds a connection.
type fileTx struct {
	on   *workConn
	from *conns
	conn *fileConn
	// broken is an error after which SQLite may have rolled the transaction back.
	broken error
}

// BeginTx implements driver.ConnBeginTx. A transaction that only reads sees the database as it was
// when it read first. Any other is the only one that writes.
func (w *workConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	from, begin := w.file.writer, "BEGIN IMMEDIATE"
	if opts.ReadOnly {
		from, begin = w.readers, "BEGIN"
	}
	conn, err := w.take(ctx, from)
	if err != nil {
		return nil, err
	}
	if err := conn.run(ctx, begin); err != nil {
		return nil, w.giveBack(from, conn, err)
	}
	w.tx = &fileTx{on: w, from: from, conn: conn}
	return w.tx, nil
}

// Begin implements driver.Conn.
func (w *workConn) Begin() (driver.Tx, error) {
	return w.BeginTx(context.Background(), driver.TxOptions{})
}

// giveBack gives a connection back after a statement, and returns the statement's error.
func (w *workConn) giveBack(from *conns, conn *fileConn, err error) error {
	switch code(err) {
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_NOMEM:
		conn.Close()
		from.put(nil)
	default:
		if committed := w.file.committed.Load(); committed != nil && from == w.file.writer && err == nil {
			(*committed)(conn)
		}
		from.put(conn)
	}
	return w.failed(from, err)
}

// failed is file.failed for a connection. One that only reads also refuses to write.
func (w *workConn) failed(from *conns, err error) error {
	if from != w.file.writer && code(err) == sqlite3.SQLITE_READONLY {
		return err
	}
	return w.file.failed(err)
}

// Commit implements driver.Tx.
func (t *fileTx) Commit() error {
	if t.broken != nil {
		return t.Rollback()
	}
	err := t.conn.run(context.Background(), "COMMIT")
	if err != nil {
		_ = t.conn.run(context.Background(), "ROLLBACK") // it may still run
	}
	t.on.tx = nil
	return t.on.giveBack(t.from, t.conn, err)
}

// Rollback implements driver.Tx. It returns the error that broke the transaction, if any: SQLite may
// have rolled it back already.
func (t *fileTx) Rollback() error {
	err := t.conn.run(context.Background(), "ROLLBACK")
	t.on.tx = nil
	return t.on.giveBack(t.from, t.conn, cmp.Or(t.broken, err))
}

// context returns the context of a statement in the transaction.
func (t *fileTx) context(ctx context.Context) context.Context {
	if t.from == t.on.file.writer {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// after returns the error of a statement in the transaction.
func (t *fileTx) after(err error) error {
	err = t.on.failed(t.from, err)
	if err != nil && models.CodeOf(err) == models.CodeUnavailable {
		t.broken = err
	}
	return err
}

// ExecContext implements driver.ExecerContext.
func (w *workConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if t := w.tx; t != nil {
		if t.broken != nil {
			return nil, t.broken
		}
		result, err := t.conn.exec(t.context(ctx), query, args)
		return result, t.after(err)
	}
	conn, err := w.take(ctx, w.file.writer)
	if err != nil {
		return nil, err
	}
	result, err := conn.exec(context.WithoutCancel(ctx), query, args)
	return result, w.giveBack(w.file.writer, conn, err)
}

// QueryContext implements driver.QueryerContext.
func (w *workConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if t := w.tx; t != nil {
		if t.broken != nil {
			return nil, t.broken
		}
		rows, err := t.conn.query(t.context(ctx), query, args, t.after)
		return rows, t.after(err)
	}
	if writes(query) {
		return w.queryWriter(ctx, query, args)
	}
	rows, err := w.queryReader(ctx, query, args)
	if code(err) == sqlite3.SQLITE_READONLY { // it writes, behind a WITH
		return w.queryWriter(ctx, query, args)
	}
	return rows, err
}

// queryReader takes a reading connection until the rows are closed.
func (w *workConn) queryReader(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	conn, err := w.take(ctx, w.readers)
	if err != nil {
		return nil, err
	}
	rows, err := conn.query(ctx, query, args, func(err error) error { return w.giveBack(w.readers, conn, err) })
	if err != nil {
		return nil, w.giveBack(w.readers, conn, err)
	}
	return rows, nil
}

// queryWriter runs a statement that changes rows and returns some, to its end.
func (w *workConn) queryWriter(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	conn, err := w.take(ctx, w.file.writer)
	if err != nil {
		return nil, err
	}
	rows, err := conn.query(context.WithoutCancel(ctx), query, args, func(err error) error { return err })
	var stored *storedRows
	if err == nil {
		stored, err = store(rows)
	}
	if err = w.giveBack(w.file.writer, conn, err); err != nil {
		return nil, err
	}
	return stored, nil
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
	rows, err := w.queryReader(ctx, "PRAGMA schema_version", nil)
	if err != nil {
		return err
	}
	return rows.Close()
}

// Prepare implements driver.Conn. The statement is prepared when it runs.
func (w *workConn) Prepare(query string) (driver.Stmt, error) { return &workStmt{w, query}, nil }

// Close implements driver.Conn.
func (w *workConn) Close() error {
	if w.tx != nil {
		return w.tx.Rollback()
	}
	return nil
}

// ResetSession implements driver.SessionResetter. With IsValid it lets database/sql keep a
// connection after a transaction was cancelled.
func (w *workConn) ResetSession(context.Context) error { return nil }

// IsValid implements driver.Validator.
func (w *workConn) IsValid() bool { return true }

// workStmt is a statement of a workConn.
type workStmt struct {
	conn  *workConn
	query string
}

// NumInput implements driver.Stmt: the number is not known.
func (s *workStmt) NumInput() int { return -1 }

// Close implements driver.Stmt.
func (s *workStmt) Close() error { return nil }

// ExecContext implements driver.StmtExecContext.
func (s *workStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

// QueryContext implements driver.StmtQueryContext.
func (s *workStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

// Exec implements driver.Stmt. It is not called.
func (s *workStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errNoContext }

// Query implements driver.Stmt. It is not called.
func (s *workStmt) Query([]driver.Value) (driver.Rows, error) { return nil, errNoContext }

var errNoContext = errors.New("a statement without a context")

// code returns the kind of SQLite's error, or 0.
func code(err error) int {
	var refused *sqlite.Error
	if errors.As(err, &refused) {
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
