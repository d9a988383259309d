package crash_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

// folderToMove returns a data folder with people, archived days and a day with uploads, what
// somebody sees, and how that is asked for.
func folderToMove(t *testing.T) (dir, before string, seen func(p *testenv.Process) string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	p := testenv.ServeFolder(t, dir, "--boards=[{"+harness.Steps+"}]")
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(args ...string) string {
		out, stderr, status := testenv.Run(t, append(args, "--data="+dir)...)
		if status != 0 {
			t.Fatalf("%v: %s", args, stderr)
		}
		return strings.TrimSpace(out)
	}
	today := testenv.Must(time.Parse(time.DateOnly, harness.Today()))
	dayOf := func(i int) string { return today.AddDate(0, 0, i-12).Format(time.DateOnly) } // archived at once
	var friends, steps strings.Builder
	steps.WriteString("user_id,date,steps\n")
	for i := range 30 {
		fmt.Fprintf(&friends, "%d %d\n", i, (i+1)%30)
		for day := 1; day <= 5; day++ {
			fmt.Fprintf(&steps, "%d,%s,%d\n", i, dayOf(day), i*100+day)
		}
	}
	run("import", "friends", write(friends.String()))
	run("import", "steps", write(steps.String()))
	backend := run("token", "--user=backend", "--scope=service")
	for i := range 30 {
		harness.Call(t, p.Process, backend, "PUT", fmt.Sprintf("/v1/users/%d", i), fmt.Sprintf(`{"nickname":"N%d"}`, i), http.StatusOK)
	}
	token := run("token", "--user=7")
	harness.Call(t, p.Process, token, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":700}`, harness.Today()), http.StatusOK)
	harness.Call(t, p.Process, token, "DELETE", "/v1/users/29", "", http.StatusForbidden)
	harness.Call(t, p.Process, backend, "DELETE", "/v1/users/29", "", http.StatusAccepted) // goes on after the move
	seen = func(p *testenv.Process) string {
		return harness.Call(t, p, token, "GET", "/v1/boards/steps/friends?date="+dayOf(3), "", http.StatusOK) +
			harness.Call(t, p, token, "GET", "/v1/boards/steps/friends?date="+harness.Today(), "", http.StatusOK)
	}
	before = seen(p.Process)
	if !strings.Contains(before, `"archive"`) || !strings.Contains(before, `"N6"`) {
		t.Fatalf("before the move: %s", before)
	}
	p.Stop()
	return dir, before, seen
}

// copyFolder copies a folder that nobody serves.
func copyFolder(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// rowsOf returns the rows of the tables that both databases have, as text.
func rowsOf(t *testing.T, s *stores.Stores, tables map[string][]string) map[string][]string {
	t.Helper()
	rows := make(map[string][]string)
	for name, columns := range tables {
		var found []map[string]any
		if err := s.Gorm.Raw("SELECT " + strings.Join(columns, ", ") + " FROM " + name).Scan(&found).Error; err != nil {
			t.Fatal(err)
		}
		for _, row := range found {
			var text strings.Builder
			for _, column := range columns {
				value := row[column]
				switch v := value.(type) { // SQLite has no flags, and nanoseconds
				case bool:
					value = map[bool]int{true: 1}[v]
				case time.Time:
					value = v.UTC().Truncate(time.Microsecond)
				}
				fmt.Fprintf(&text, "%s=%v ", column, value)
			}
			rows[name] = append(rows[name], text.String())
		}
		slices.Sort(rows[name])
	}
	return rows
}

// A move that is killed at any step goes on when it is called again. Nothing serves the folder or the
// servers before it is complete, and then every table is equal.
func TestSoakMove(t *testing.T) {
	t.Parallel()
	folder, before, seen := folderToMove(t)
	steps := append(testenv.Failpoints(t, "move"), "move.copied#9", "move.committed#20", "move.archived#3")
	for _, step := range testenv.Forms(t, 1, steps) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			env := harness.RealConfig(t)
			dir := copyFolder(t, folder)
			servers := serversOf(env)
			move := append([]string{"move", "--data=" + dir}, servers...)
			testenv.RunUntil(t, step, move...).Killed()
			if _, stderr, status := testenv.Run(t, "serve", "--data="+dir, "--http.addr=127.0.0.1:0"); status != 1 || !strings.Contains(stderr, "is being moved") {
				t.Errorf("the folder is served: %d %s", status, stderr)
			}
			if step != "move.begun" && step != "move.complete" {
				_, stderr, status := testenv.Run(t, append([]string{"serve", "--auth.hs256_secret=" + harness.Secret, "--http.addr=127.0.0.1:0"}, servers...)...)
				if status != 1 || !strings.Contains(stderr, "only a part of a data folder") {
					t.Errorf("the servers serve: %d %s", status, stderr)
				}
			}
			if out, stderr, status := testenv.Run(t, move...); status != 0 {
				t.Fatalf("the next move: %d %s %s", status, out, stderr)
			}
			checkMoved(t, dir, env)
			p := testenv.Serve(t, env.Config)
			if got := seen(p); got != before {
				t.Errorf("after the move:\n%s\nbefore:\n%s", got, before)
			}
		})
	}
}

// serversOf returns the flags of the servers of an environment.
func serversOf(env *testenv.Env) []string {
	return []string{"--redis.addrs=" + env.Config.Redis.Addrs[0], "--redis.key_prefix=" + env.Config.Redis.KeyPrefix, "--postgres.dsn=" + env.Config.Postgres.DSN}
}

// checkMoved opens the servers to which a folder was moved, compares their tables with those of the
// folder, and lets processes on the servers have the folder's secret.
func checkMoved(t *testing.T, dir string, env *testenv.Env) {
	t.Helper()
	for _, name := range []string{"moving", "moved"} { // so that the folder can be read
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Open(t, env)
	env.Config.Auth.HS256Secret = strings.TrimSpace(string(testenv.Must(os.ReadFile(filepath.Join(dir, "secret")))))
	folder := testenv.Must(stores.OpenFolder(t.Context(), dir, env.Clock.Now))
	defer folder.Close()
	var columns []struct{ Name, Attname string }
	err := folder.Gorm.Raw(`SELECT m.name, c.name AS attname FROM sqlite_master m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT IN ('archive_versions', 'archived_ranks', 'archived_scores', 'hot_batches', 'hot_scores', 'goose_db_version', 'processes')
			AND m.name NOT LIKE 'sqlite_%'`).Scan(&columns).Error
	if err != nil {
		t.Fatal(err)
	}
	tables := make(map[string][]string)
	for _, c := range columns {
		tables[c.Name] = append(tables[c.Name], c.Attname)
	}
	want, got := rowsOf(t, folder, tables), rowsOf(t, env.Stores, tables)
	if len(tables) < 20 || len(want["users"]) != 29 || len(want["friendships"]) == 0 {
		t.Errorf("%d tables, %d users", len(tables), len(want["users"]))
	}
	for name := range tables {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("table %s:\n%v\nin the folder:\n%v", name, got[name], want[name])
		}
	}
	var scores int64
	if err := env.Gorm.Table("archived_scores").Count(&scores).Error; err != nil || scores != 150 {
		t.Errorf("%d archived scores, %v", scores, err)
	}
}
