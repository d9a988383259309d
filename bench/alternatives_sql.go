package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/models"
)

// alternativesSQL is a day of scores in Postgres, as a service without Redis would
// store it.
type alternativesSQL struct {
	pool   *pgxpool.Pool
	server *process
	day    time.Time
	limit  int
}

// newAlternativesSQL fills two tables with a day: scores_ranked with an index for
// global ranks, scores_plain without it.
func (e *environment) newAlternativesSQL(ctx context.Context, day models.Date, entries func(context.Context, func(models.RowID, int64, time.Time) error) error) (*alternativesSQL, error) {
	cfg, err := pgxpool.ParseConfig(e.config.Postgres.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = alternativeReaders
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	q := &alternativesSQL{pool: pool, day: day.UTC(), limit: e.limit}
	var rows [][]any
	if err := entries(ctx, func(user models.RowID, score int64, at time.Time) error {
		rows = append(rows, []any{q.day, int64(user), score, at})
		return nil
	}); err != nil {
		return nil, err
	}
	for _, table := range []string{"scores_plain", "scores_ranked"} {
		if err := q.fill(ctx, table, rows); err != nil {
			return nil, fmt.Errorf("%s: %w", table, err)
		}
	}
	// VACUUM allows index-only scans, as on a table that is vacuumed regularly.
	for _, statement := range []string{
		"CREATE INDEX ON scores_ranked (day, score DESC, reached_at, user_id)",
		"VACUUM ANALYZE scores_plain", "VACUUM ANALYZE scores_ranked", "VACUUM ANALYZE friendships",
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	q.server, err = findPostgres(ctx, pool)
	return q, err
}

func (q *alternativesSQL) fill(ctx context.Context, table string, rows [][]any) error {
	_, err := q.pool.Exec(ctx, `CREATE TABLE `+table+` (day date NOT NULL, user_id bigint NOT NULL, score bigint NOT NULL,
		reached_at timestamptz NOT NULL, PRIMARY KEY (day, user_id)) WITH (fillfactor = 70)`)
	if err != nil {
		return err
	}
	_, err = q.pool.CopyFrom(ctx, pgx.Identifier{table}, []string{"day", "user_id", "score", "reached_at"}, pgx.CopyFromRows(rows))
	return err
}

// findPostgres returns the process of Postgres, the parent of each connection's.
func findPostgres(ctx context.Context, pool *pgxpool.Pool) (*process, error) {
	var backend int
	if err := pool.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return nil, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", backend))
	if err != nil {
		return nil, fmt.Errorf("postgres is not on this machine: %w", err)
	}
	_, rest, _ := strings.Cut(string(status), "\nPPid:")
	line, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	return &process{pid: pid, withChildren: true}, err
}

// friends reads the first page of a ranking, and the viewer's rank.
func (q *alternativesSQL) friends(ctx context.Context, user models.RowID) (result, error) {
	rows, err := q.pool.Query(ctx, `
		SELECT rank, user_id, score, reached_at, total FROM (
			SELECT row_number() OVER (ORDER BY s.score DESC, s.reached_at, s.user_id::text COLLATE "C" DESC) AS rank,
				count(*) OVER () AS total, s.user_id, s.score, s.reached_at
			FROM (SELECT friend_id AS user_id FROM friendships WHERE user_id = $1 UNION ALL SELECT $1::bigint) AS f
			JOIN scores_plain AS s ON s.day = $3 AND s.user_id = f.user_id
		) AS ranked WHERE rank <= $2 OR user_id = $1 ORDER BY rank`, int64(user), q.limit, q.day)
	if err != nil {
		return result{}, err
	}
	var (
		res                    result
		rank, id, score, total int64
		reachedAt              time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&rank, &id, &score, &reachedAt, &total}, func() error {
		if rank <= int64(q.limit) {
			res.page = append(res.page, strconv.FormatInt(id, 10))
		}
		if id == int64(user) {
			res.rank = rank
		}
		return nil
	})
	return res, err
}

// ahead returns a global rank: one more than the number of users ahead. It counts
// twice, so that each count is one range of the index.
func (q *alternativesSQL) ahead(ctx context.Context, user models.RowID) (result, error) {
	var res result
	err := q.pool.QueryRow(ctx, `
		SELECT 1 + (SELECT count(*) FROM scores_ranked AS s WHERE s.day = me.day AND s.score > me.score)
			+ (SELECT count(*) FROM scores_ranked AS s WHERE s.day = me.day AND s.score = me.score
				AND (s.reached_at < me.reached_at OR s.reached_at = me.reached_at AND s.user_id::text COLLATE "C" > me.user_id::text COLLATE "C"))
		FROM scores_ranked AS me WHERE me.day = $2 AND me.user_id = $1`, int64(user), q.day).Scan(&res.rank)
	return res, err
}

// upsert raises users to a score, unless a better one is stored.
func (q *alternativesSQL) upsert(table string) func(context.Context, raiseBatch) error {
	statement := `INSERT INTO ` + table + ` AS t (day, user_id, score, reached_at)
		SELECT $4, u, $2, $3 FROM unnest($1::bigint[]) AS u
		ON CONFLICT (day, user_id) DO UPDATE SET score = excluded.score, reached_at = excluded.reached_at
		WHERE excluded.score > t.score OR excluded.score = t.score AND excluded.reached_at < t.reached_at`
	return func(ctx context.Context, b raiseBatch) error {
		_, err := q.pool.Exec(ctx, statement, b.users, b.points, b.at, q.day)
		return err
	}
}
