package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stepboard/app"
	"stepboard/internal/testenv"
	"stepboard/models"
)

const (
	// strangers is the number of people. Nearly all of them are strangers to those who call,
	// and enough that Postgres may join with everybody.
	strangers = 100_000
	// rowsOfCall is the average number of rows and entries of indexes that a call may read. A
	// caller has 200 friends.
	rowsOfCall = 3000
)

// strangersSQL fills the tables. The people 1 to 30 are friends of 200 others each, and have
// some of everything else.
const strangersSQL = `
	ALTER TABLE users SET (autovacuum_enabled = off); ALTER TABLE friendships SET (autovacuum_enabled = off);
	ALTER TABLE friend_requests SET (autovacuum_enabled = off); ALTER TABLE privacy_choices SET (autovacuum_enabled = off);
	ALTER TABLE likes SET (autovacuum_enabled = off); ALTER TABLE groups SET (autovacuum_enabled = off);
	ALTER TABLE group_members SET (autovacuum_enabled = off); ALTER TABLE push_subscriptions SET (autovacuum_enabled = off);
	INSERT INTO users (external_id, friend_count, created_at) SELECT g, CASE WHEN g <= 30 THEN 200 ELSE 50 END, now() FROM generate_series(1, %[1]d) g;
	CREATE TEMPORARY TABLE pairs AS SELECT u, u + 100 + 37 * f AS f FROM generate_series(1, 30) u, generate_series(1, 200) f
		UNION SELECT u, u + 1 FROM generate_series(10000, %[1]d - 1) u;
	INSERT INTO friendships SELECT u, f, now() FROM pairs UNION SELECT f, u, now() FROM pairs;
	INSERT INTO friend_requests SELECT u, f + 1, false, now() FROM pairs WHERE f %% 2 = 0 OR u > 30 UNION SELECT f + 1, u, true, now() FROM pairs WHERE f %% 2 = 0 OR u > 30;
	INSERT INTO privacy_choices SELECT u, CASE WHEN u %% 2 = 0 THEN 'blocked' ELSE 'muted' END, f + 2, '', '', now() FROM pairs WHERE f %% 3 = 0 OR u > 30;
	INSERT INTO likes SELECT u, '%[2]s'::date, 'steps', f, false, now() FROM pairs;
	INSERT INTO groups (external_id, name, created_at) SELECT 'g' || u, '', now() FROM generate_series(1, 20000) u;
	INSERT INTO group_members SELECT CASE WHEN u <= 30 THEN u ELSE u %% 20000 + 1 END, f, now() FROM pairs
		UNION SELECT u, u, now() FROM generate_series(1, 30) u;
	INSERT INTO push_subscriptions (user_id, endpoint, endpoint_hash, p256dh, auth, tell_passed, tell_likes, tell_requests, tell_digest, time_zone, created_at)
		SELECT u, 'https://push.example/' || u, sha256(u::text::bytea), '', '', true, true, true, true, '', now() FROM generate_series(101, %[1]d) u;
	ALTER TABLE upload_addresses SET (autovacuum_enabled = off);
	INSERT INTO upload_addresses (user_id, key_hash, board, name, time_zone, created_at)
		SELECT u, sha256(u::text::bytea), 'steps', 'phone', 'UTC', now() FROM generate_series(101, %[1]d) u;
	DROP TABLE pairs`

// No call reads much more than is about its caller: right after an import, when Postgres has
// no statistics, with them, and if nearly everybody hides.
func TestCallsReadByIndex(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	env := testenv.RealConfig(t)
	pool := testenv.Must(pgxpool.New(t.Context(), env.Config.Postgres.DSN))
	t.Cleanup(pool.Close)
	env.Config.Postgres.DSN = testenv.WithParameter(env.Config.Postgres.DSN, "application_name", env.Config.Redis.KeyPrefix)
	testenv.Open(t, env)
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	today := "2026-11-20"
	exec := func(statement string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(fmt.Sprintf(strangersSQL, strangers, today))
	next := 0
	for _, state := range []struct{ name, prepare string }{
		{"no statistics", ""},
		{"statistics", "ANALYZE"},
		{"hidden people", "UPDATE users SET hidden = true WHERE user_id > 30; ANALYZE"},
		{"hidden people without statistics", "DELETE FROM pg_statistic WHERE starelid = 'users'::regclass"},
	} {
		exec(state.prepare)
		before := rowsRead(t, pool, env.Config.Redis.KeyPrefix)
		calls := 0
		t.Run(state.name, func(t *testing.T) {
			env := *env // the end of the service closes its connections
			s := newServerOf(t, testenv.Open(t, &env), func(o *app.Options) {
				o.Roles, o.Config.Push.Subject = app.Roles{API: true}, "mailto:ops@example.com"
			})
			for range 3 {
				next++
				calls += callEverything(s, next, today)
			}
		})
		total, most := int64(0), ""
		for name, read := range rowsRead(t, pool, env.Config.Redis.KeyPrefix) {
			read -= before[name]
			total += read
			if read > rowsOfCall {
				most += fmt.Sprintf(" %s %d", name, read)
			}
		}
		if total > int64(calls)*rowsOfCall {
			t.Errorf("%s: %d calls have read %d rows and entries of indexes:%s", state.name, calls, total, most)
		}
	}
}

// rowsRead returns how many rows of each table without an index, and how many entries of each
// index, the connections of this name have read so far. Each reports that at its end, so it
// waits until all of them are closed.
func rowsRead(t *testing.T, pool *pgxpool.Pool, name string) map[string]int64 {
	t.Helper()
	testenv.Eventually(t, "the connections are closed", func() (closed bool) {
		err := pool.QueryRow(t.Context(), `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1`, name).Scan(&closed)
		if err != nil {
			t.Fatal(err)
		}
		return closed
	})
	rows, err := pool.Query(t.Context(), `SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE schemaname = current_schema()
		UNION SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = current_schema()`)
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]int64)
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { read[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return read
}

// callEverything makes each call of a user once, and returns their number.
func callEverything(s *server, user int, today string) (calls int) {
	me := models.UserID(fmt.Sprint(user))
	friend, stranger := fmt.Sprint(user+100+37), fmt.Sprint(user+100+38)
	group := fmt.Sprintf("/groups/g%d", user)
	steps := "/v1/boards/steps"
	var invite struct {
		Code string `json:"invite_code"`
	}
	s.want(s.as(me, "GET", "/v1/me/invite", nil), 200, &invite)
	calls++
	made := s.addAddress(me)
	calls++
	for _, c := range []struct{ method, path, body string }{
		{"POST", steps + "/scores", fmt.Sprintf(`{"date":%q,"score":1000}`, today)},
		{"GET", steps + "/friends?include=likes", ""},
		{"GET", steps + "/friends?from=" + today + "&to=" + today, ""},
		{"GET", steps + group, ""},
		{"GET", steps + "/friends/absent", ""},
		{"GET", steps + group + "/absent", ""},
		{"GET", steps + "/me", ""},
		{"GET", steps + "/top", ""},
		{"GET", steps + "/around", ""},
		{"GET", steps + "/history?for=" + friend, ""},
		{"GET", steps + "/summary?for=" + friend, ""},
		{"GET", steps + "/likes/" + string(me), ""},
		{"GET", "/v1/friends", ""},
		{"GET", "/v1/friends/requests", ""},
		{"GET", "/v1/friends/invites/" + invite.Code, ""},
		{"GET", "/v1/groups", ""},
		{"GET", "/v1" + group, ""},
		{"GET", "/v1/blocked", ""},
		{"GET", "/v1/muted", ""},
		{"GET", "/v1/me", ""},
		{"GET", "/v1/me/privacy", ""},
		{"PUT", "/v1/me/push", `{"tell":["passed"]}`},
		{"GET", "/v1/me/push", ""},
		{"GET", "/v1/me/upload-addresses", ""},
		{"POST", made.Path, fmt.Sprintf(`{"date":%q,"score":1}`, today)},
		{"GET", "/v1/me/export", ""},
		{"DELETE", "/v1/me/push", ""},
		{"POST", "/v1/friends/requests", fmt.Sprintf(`{"user_id":%q}`, stranger)},
		{"PUT", "/v1/blocked/" + stranger, ""},
		{"DELETE", "/v1/friends/" + friend, ""},
		{"PUT", "/v1/me/privacy", `{"hidden":true}`},
		{"PUT", "/v1/me/privacy", `{"hidden":false}`},
	} {
		var body any
		if c.body != "" {
			body = c.body
		}
		if a := s.as(me, c.method, c.path, body); a.status >= http.StatusMultipleChoices {
			s.t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
		calls++
	}
	return calls
}
