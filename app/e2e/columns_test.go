package e2e_test

import (
	"net/http"
	"testing"

	"stepboard/internal/testenv"
)

// A newer version adds columns to the tables while an older process serves. Its
// statements go on working, although they were planned before.
func TestColumnsAreAddedWhileServing(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s, _ := newHistory(t, env)
	var made group
	s.want(s.as("1", "POST", "/v1/groups", `{"name":"Family"}`), http.StatusCreated, &made)
	call := func() {
		t.Helper()
		for range 3 {
			s.want(s.as("1", "GET", "/v1/boards/steps/history?from=2026-10-01&to=2026-11-20", nil), http.StatusOK, nil)
			s.want(s.as("1", "GET", "/v1/friends", nil), http.StatusOK, nil)
			s.want(s.as("1", "POST", "/v1/friends/requests", `{"user_id":"3"}`), http.StatusCreated, nil)
			s.want(s.as("1", "DELETE", "/v1/friends/requests/3", nil), http.StatusNoContent, nil)
			s.want(s.as("1", "GET", "/v1/groups", nil), http.StatusOK, nil)
			s.want(s.as("1", "GET", "/v1/groups/"+made.ID, nil), http.StatusOK, nil)
			s.want(s.service("PUT", "/v1/groups/team/members", `{"member_ids":["1","2"]}`), http.StatusOK, nil)
			s.want(s.admin("GET", "/v1/admin/archives", nil), http.StatusOK, nil)
		}
	}
	call()
	rows, err := env.Pool.Query(t.Context(), `
		SELECT relname FROM pg_class
		WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = current_schema()::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if err := rows.Err(); err != nil || len(tables) < 5 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		if _, err := env.Pool.Exec(t.Context(), `ALTER TABLE `+table+` ADD COLUMN added text`); err != nil {
			t.Fatal(err)
		}
	}
	call()
}
