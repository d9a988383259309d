package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// versions starts processes of this version and of the one before it.
type versions struct {
	t               *testing.T
	before, present string
}

// bothVersions returns the two, or skips the test: make release-check builds the one before.
func bothVersions(t *testing.T) versions {
	before := os.Getenv("PREVIOUS_BINARY")
	if before == "" {
		t.Skip("PREVIOUS_BINARY names no program; make release-check builds one")
	}
	return versions{t, before, testenv.Binary()}
}

// now makes a version the one that testenv starts from here on.
func (v versions) now(binary string) { v.t.Setenv("TEST_BINARY", binary) }

// rankingIn returns a friend ranking as lines.
func rankingIn(t *testing.T, p *testenv.Process, bearer, date string) string {
	t.Helper()
	var got struct {
		Entries []struct {
			Rank, Score int
			User        string `json:"user_id"`
		}
	}
	if err := json.Unmarshal([]byte(harness.Call(t, p, bearer, "GET", "/v1/boards/steps/friends?date="+date, "", 200)), &got); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range got.Entries {
		lines = append(lines, fmt.Sprintf("%d %s %d", e.Rank, e.User, e.Score))
	}
	return strings.Join(lines, ", ")
}

func upload(t *testing.T, p *testenv.Process, bearer string, score int) {
	t.Helper()
	harness.Call(t, p, bearer, "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), score), 200)
}

// A deployment is upgraded one process at a time: on the schema of this version, processes of both
// versions serve side by side, each shows what the other has stored, and one of the version before
// can be started again.
func TestPreviousVersionBesideThis(t *testing.T) {
	v := bothVersions(t)
	env := harness.RealConfig(t)
	args := testenv.Flags(env.Config)
	v.now(v.before)
	command(append([]string{"migrate", "up"}, "--postgres.dsn="+env.Config.Postgres.DSN)...).Succeeds(t)
	older := testenv.Serve(t, env.Config)
	service, ann, ben := harness.Token(t, "backend", auth.ScopeService), harness.Token(t, "ann", ""), harness.Token(t, "ben", "")
	harness.Call(t, older, service, "PUT", "/v1/users/ann/friends", `{"friend_ids":["ben"]}`, 200)
	upload(t, older, ann, 100)

	v.now(v.present)
	command("migrate", "up", "--postgres.dsn="+env.Config.Postgres.DSN).Succeeds(t)
	upload(t, older, ben, 90)
	newer := testenv.Serve(t, env.Config)
	both := func(want string) {
		t.Helper()
		for _, p := range []*testenv.Process{older, newer} {
			testenv.Eventually(t, "both versions show "+want, func() bool { return rankingIn(t, p, ann, harness.Today()) == want })
		}
	}
	both("1 ann 100, 2 ben 90")
	upload(t, newer, ben, 120)
	both("1 ben 120, 2 ann 100")
	upload(t, older, ann, 130)
	both("1 ann 130, 2 ben 120")
	harness.Call(t, newer, service, "PUT", "/v1/users/cho/friends", `{"friend_ids":["ann"]}`, 200)
	upload(t, older, harness.Token(t, "cho", ""), 125)
	both("1 ann 130, 2 cho 125, 3 ben 120")
	harness.Call(t, older, ben, "PUT", "/v1/muted/cho", "", 204)
	harness.Call(t, newer, ann, "DELETE", "/v1/friends/ben", "", 204)
	both("1 ann 130, 2 cho 125")

	// Each archives a day, and both show both.
	for i, binary := range []string{v.before, v.present} {
		v.now(binary)
		day := time.Now().AddDate(0, 0, -20-i).Format(time.DateOnly)
		file := filepath.Join(t.TempDir(), "steps.csv")
		if err := os.WriteFile(file, []byte("user_id,date,steps\nann,"+day+",7\ncho,"+day+",8\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		command(append([]string{"import", "steps", file}, args...)...).Succeeds(t)
		for _, p := range []*testenv.Process{older, newer} {
			testenv.Eventually(t, "both versions show "+day, func() bool { return rankingIn(t, p, ann, day) == "1 cho 8, 2 ann 7" })
		}
	}

	older.Stop()
	v.now(v.before)
	older = testenv.Serve(t, env.Config)
	both("1 ann 130, 2 cho 125")
	harness.Call(t, older, ann, "DELETE", "/v1/me", `{"confirm":"erase"}`, 202)
	cho := harness.Token(t, "cho", "")
	testenv.Eventually(t, "the erasure has ended", func() bool { return rankingIn(t, newer, cho, harness.Today()) == "1 cho 125" })
}

// A folder of the version before is served as it is.
func TestPreviousVersionFolder(t *testing.T) {
	v := bothVersions(t)
	dir := t.TempDir()
	var shown []string
	for _, binary := range []string{v.before, v.present} {
		v.now(binary)
		p := testenv.ServeFolder(t, dir)
		token := func(args ...string) string {
			return strings.TrimSpace(command(append([]string{"token", "--data", dir}, args...)...).Succeeds(t))
		}
		if len(shown) == 0 {
			harness.Call(t, p.Process, token("--user", "backend", "--scope", auth.ScopeService), "PUT", "/v1/users/ann/friends", `{"friend_ids":["ben"]}`, 200)
			upload(t, p.Process, token("--user", "ann"), 100)
			upload(t, p.Process, token("--user", "ben"), 120)
		}
		shown = append(shown, harness.Call(t, p.Process, token("--user", "ann"), "GET", "/v1/boards/steps/friends", "", 200))
		p.Stop()
	}
	if diff := cmp.Diff(shown[0], shown[1]); diff != "" {
		t.Error(diff)
	}
}
