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

// reasonsSQL is a day of scores in Postgres, as somebody would keep it who has
// no Redis.
type reasonsSQL struct {
	pool   *pgxpool.Pool
	server *process
	day    time.Time
	limit  int
}

// newReasonsSQL fills two tables with a day: reason_scores with an index for
// ranks among everybody, reason_plain without.
func (w *setup) newReasonsSQL(ctx context.Context, day models.Date, entries func(context.Context, func(models.UserID, int64, time.Time) error) error) (*reasonsSQL, error) {
	cfg, err := pgxpool.ParseConfig(w.config.Postgres.DSN)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = reasonReaders
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	q := &reasonsSQL{pool: pool, day: day.UTC(), limit: w.limit}
	var rows [][]any
	if err := entries(ctx, func(user models.UserID, score int64, at time.Time) error {
		rows = append(rows, []any{q.day, int64(user), score, at})
		return nil
	}); err != nil {
		return nil, err
	}
	for _, table := range []string{"reason_plain", "reason_scores"} {
		if err := q.fill(ctx, table, rows); err != nil {
			return nil, fmt.Errorf("%s: %w", table, err)
		}
	}
	// VACUUM, so that an index alone can answer, as it can after a night.
	for _, statement := range []string{
		"CREATE INDEX ON reason_scores (day, score DESC, reached_at, user_id)",
		"VACUUM ANALYZE reason_plain", "VACUUM ANALYZE reason_scores", "VACUUM ANALYZE friendships",
	} {
		if _, err := pool.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	q.server, err = findPostgres(ctx, pool)
	return q, err
}

func (q *reasonsSQL) fill(ctx context.Context, table string, rows [][]any) error {
	_, err := q.pool.Exec(ctx, `CREATE TABLE `+table+` (day date NOT NULL, user_id bigint NOT NULL, score bigint NOT NULL,
		reached_at timestamptz NOT NULL, PRIMARY KEY (day, user_id)) WITH (fillfactor = 70)`)
	if err != nil {
		return err
	}
	_, err = q.pool.CopyFrom(ctx, pgx.Identifier{table}, []string{"day", "user_id", "score", "reached_at"}, pgx.CopyFromRows(rows))
	return err
}

// findPostgres finds the server's process: the parent of each connection's.
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
	return &process{pid: pid, family: true}, err
}

// friends is the first page of a ranking, and the own line.
func (q *reasonsSQL) friends(ctx context.Context, user models.UserID) (answer, error) {
	rows, err := q.pool.Query(ctx, `
		SELECT rank, user_id, score, reached_at, total FROM (
			SELECT row_number() OVER (ORDER BY s.score DESC, s.reached_at, s.user_id::text COLLATE "C" DESC) AS rank,
				count(*) OVER () AS total, s.user_id, s.score, s.reached_at
			FROM (SELECT friend_id AS user_id FROM friendships WHERE user_id = $1 UNION ALL SELECT $1::bigint) AS f
			JOIN reason_plain AS s ON s.day = $3 AND s.user_id = f.user_id
		) AS ranked WHERE rank <= $2 OR user_id = $1 ORDER BY rank`, int64(user), q.limit, q.day)
	if err != nil {
		return answer{}, err
	}
	var (
		a                      answer
		rank, id, score, total int64
		reachedAt              time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&rank, &id, &score, &reachedAt, &total}, func() error {
		if rank <= int64(q.limit) {
			a.page = append(a.page, strconv.FormatInt(id, 10))
		}
		if id == int64(user) {
			a.rank = rank
		}
		return nil
	})
	return a, err
}

// ahead is a rank among everybody: one more than who is ahead. Two counts, so
// that each is one range of the index.
func (q *reasonsSQL) ahead(ctx context.Context, user models.UserID) (answer, error) {
	var a answer
	err := q.pool.QueryRow(ctx, `
		SELECT 1 + (SELECT count(*) FROM reason_scores AS s WHERE s.day = me.day AND s.score > me.score)
			+ (SELECT count(*) FROM reason_scores AS s WHERE s.day = me.day AND s.score = me.score
				AND (s.reached_at < me.reached_at OR s.reached_at = me.reached_at AND s.user_id::text COLLATE "C" > me.user_id::text COLLATE "C"))
		FROM reason_scores AS me WHERE me.day = $2 AND me.user_id = $1`, int64(user), q.day).Scan(&a.rank)
	return a, err
}

// upsert raises users to a score, unless a better one stands there.
func (q *reasonsSQL) upsert(table string) func(context.Context, raiseBatch) error {
	statement := `INSERT INTO ` + table + ` AS t (day, user_id, score, reached_at)
		SELECT $4, u, $2, $3 FROM unnest($1::bigint[]) AS u
		ON CONFLICT (day, user_id) DO UPDATE SET score = excluded.score, reached_at = excluded.reached_at
		WHERE excluded.score > t.score OR excluded.score = t.score AND excluded.reached_at < t.reached_at`
	return func(ctx context.Context, b raiseBatch) error {
		_, err := q.pool.Exec(ctx, statement, b.users, b.points, b.at, q.day)
		return err
	}
}
