package move

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/failpoint"
	"stepboard/internal/keys"
	"stepboard/internal/stores"
	"stepboard/models"
)

// Parts that are recorded besides tables and archived buckets.
const (
	partBegun    = "begun"
	partComplete = "complete"
)

// table is a table that both databases have, with the columns of Postgres.
type table struct {
	Name    string
	Columns []string
	// Flags says which columns are boolean, which SQLite stores as numbers.
	Flags []bool
	// Identity is the column whose numbers Postgres gives, if there is one.
	Identity string
}

func tableNames(tables []table) []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Name
	}
	return names
}

// notCopied are the tables of Postgres that a folder has nothing for: the schema's version, the
// state of the move, those of processes, which are of the moment, and archived_scores, which
// copyArchive fills.
const notCopied = `'goose_db_version', 'folder_moves', 'processes', 'process_minutes', 'archived_scores'`

// tables returns the tables to copy, by name.
func (m *mover) tables(ctx context.Context) ([]table, error) {
	rows, err := m.to.Archive.Pool.Query(ctx, `
		SELECT t.relname::text, array_agg(a.attname::text ORDER BY a.attnum),
			array_agg(a.atttypid = 'boolean'::regtype ORDER BY a.attnum),
			coalesce(max(a.attname::text) FILTER (WHERE a.attidentity <> ''), '')
		FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
		WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind = 'r' AND NOT t.relispartition
			AND a.attnum > 0 AND NOT a.attisdropped AND t.relname NOT IN (`+notCopied+`)
		GROUP BY t.relname ORDER BY t.relname`)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[table])
	return tables, models.Wrap("list tables", err)
}

// begin applies the schema, and finds out what is copied already. It returns an error if the servers
// have data that is not of this move.
func (m *mover) begin(ctx context.Context) error {
	if _, err := m.to.Migrate(ctx); err != nil {
		return err
	}
	var moved []struct{ Folder, Part string }
	if err := m.to.Gorm.WithContext(ctx).Table("folder_moves").Find(&moved).Error; err != nil {
		return fmt.Errorf("read folder_moves: %w", err)
	}
	for _, part := range moved {
		if part.Folder != m.Folder.Moving {
			return errors.New("postgres has the data of another data folder, or of another move of this one: move needs an empty database")
		}
		m.done[part.Part] = true
	}
	if m.done[partBegun] {
		return nil
	}
	if err := m.checkEmpty(ctx); err != nil {
		return err
	}
	if m.Folder.Moving == "" {
		if err := m.Folder.BeginMove(); err != nil {
			return err
		}
	}
	failpoint.Hit("move.begun")
	return m.record(ctx, partBegun)
}

// checkEmpty returns an error if the servers have data.
func (m *mover) checkEmpty(ctx context.Context) error {
	tables, err := m.tables(ctx)
	if err != nil {
		return err
	}
	for _, name := range append(tableNames(tables), "archived_scores") {
		var has bool
		if err := m.to.SQL.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM "+name+")").Scan(&has); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		if has {
			return fmt.Errorf("postgres has data already, in table %s: move needs an empty database", name)
		}
	}
	return stores.EachServer(ctx, m.to.Redis, func(ctx context.Context, server redis.UniversalClient) error {
		found := server.Scan(ctx, 0, keys.Pattern(m.Config.Redis.KeyPrefix), scanStep).Iterator()
		if found.Next(ctx) {
			return fmt.Errorf("redis has data already, such as key %s: move needs an empty one, or another redis.key_prefix", found.Val())
		}
		return models.Wrap("look for keys in redis", found.Err())
	})
}

// scanStep is how many keys Redis looks at in one command.
const scanStep = 1000

const recordPart = `INSERT INTO folder_moves (folder, part, at) VALUES ($1, $2, now())`

// record records a part that is copied.
func (m *mover) record(ctx context.Context, part string) error {
	if _, err := m.to.SQL.ExecContext(ctx, recordPart, m.Folder.Moving, part); err != nil {
		return fmt.Errorf("record what was moved: %w", err)
	}
	return nil
}

// recordIn returns what records a part in a transaction.
func (m *mover) recordIn(ctx context.Context, part string) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, recordPart, m.Folder.Moving, part)
		return err
	}
}

// copyTable copies a table in one transaction.
func (m *mover) copyTable(ctx context.Context, t table) error {
	if m.done[t.Name] {
		return nil
	}
	//nolint:gosec // Postgres has the names
	rows, err := m.from.Reports.SQL.QueryContext(ctx, "SELECT "+strings.Join(t.Columns, ", ")+" FROM "+t.Name)
	if err != nil {
		return err
	}
	defer rows.Close()
	copied := 0
	values, places := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	for i := range values {
		places[i] = &values[i]
	}
	err = pgx.BeginFunc(ctx, m.to.Archive.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{t.Name}, t.Columns, pgx.CopyFromFunc(func() ([]any, error) {
			if !rows.Next() {
				return nil, rows.Err()
			}
			if copied++; copied%progressEvery == 0 {
				m.Progress("%s: %d rows", t.Name, copied)
			}
			if err := rows.Scan(places...); err != nil {
				return nil, err
			}
			for i, flag := range t.Flags {
				if number, ok := values[i].(int64); ok && flag {
					values[i] = number != 0
				}
			}
			return values, nil
		}))
		if err != nil {
			return withoutRow(err)
		}
		failpoint.Hit("move.copied")
		return m.recordIn(ctx, t.Name)(tx)
	})
	if err == nil {
		failpoint.Hit("move.committed")
	}
	return err
}

// progressEvery is the number of rows between two reports of progress.
const progressEvery = 10_000

// withoutRow returns an error of Postgres without the values of the row that it names, which are
// somebody's.
func withoutRow(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return fmt.Errorf("postgres refuses a row: %s (%s), column %q", refused.Message, refused.Code, refused.ColumnName)
	}
	return err
}

// compareTable compares the number of rows and returns it.
func (m *mover) compareTable(ctx context.Context, t table) (rows int64, err error) {
	query := "SELECT count(*) FROM " + t.Name
	var copied int64
	err = m.from.Reports.SQL.QueryRowContext(ctx, query).Scan(&rows)
	if err == nil {
		err = m.to.Archive.SQL.QueryRowContext(ctx, query).Scan(&copied)
	}
	if err != nil {
		return 0, fmt.Errorf("count table %s: %w", t.Name, err)
	}
	if copied != rows {
		return 0, fmt.Errorf("table %s has %d rows in the folder and %d in Postgres", t.Name, rows, copied)
	}
	return rows, nil
}

// copySequences lets Postgres go on with the numbers behind those that SQLite has ever given, as the
// row id of an erased user must not be given again. It may be repeated.
func (m *mover) copySequences(ctx context.Context, tables []table) error {
	last, err := m.from.Sequences(ctx)
	if err != nil {
		return err
	}
	sequences := map[string]string{"user_versions": "user_versions"}
	for _, t := range tables {
		if t.Identity == "" {
			continue
		}
		var name string
		if err := m.to.SQL.QueryRowContext(ctx, `SELECT pg_get_serial_sequence($1, $2)`, t.Name, t.Identity).Scan(&name); err != nil {
			return fmt.Errorf("sequence of %s: %w", t.Name, err)
		}
		sequences[t.Name] = name
	}
	for name, sequence := range sequences {
		if last[name] == 0 {
			continue // nothing was given yet
		}
		if _, err := m.to.SQL.ExecContext(ctx, `SELECT setval($1::regclass, $2)`, sequence, last[name]); err != nil {
			return fmt.Errorf("sequence of %s: %w", name, err)
		}
	}
	return nil
}
