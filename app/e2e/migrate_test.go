package e2e_test

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"

	"stepboard/config"
	"stepboard/internal/testenv"
)

// statusLine matches the output of migrate status.
var statusLine = regexp.MustCompile(`^the schema is at version (\d+); this binary needs (\d+)\n$`)

// schemaStatus runs migrate status and returns the two versions.
func schemaStatus(t testing.TB, args ...string) (current, newest string) {
	t.Helper()
	text := command(append([]string{"migrate", "status"}, args...)...).Succeeds(t)
	m := statusLine.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("prints %q", text)
	}
	return m[1], m[2]
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	env := testenv.RealConfig(t)
	dsn := "--postgres.dsn=" + env.Config.Postgres.DSN
	serve := []string{"serve", withSecret, dsn, "--redis.addrs=" + env.Config.Redis.Addrs[0], "--redis.key_prefix=" + env.Config.Redis.KeyPrefix}

	current, newest := schemaStatus(t, dsn)
	if current != "0" || newest == "0" {
		t.Errorf("an empty schema is at %s of %s", current, newest)
	}
	command(serve...).Fails(t, 1, "version 0", "needs "+newest, "stepboard migrate up", "postgres.auto_migrate")

	applied := command("migrate", "up", dsn).Succeeds(t)
	if lines := strings.Count(applied, "\n"); fmt.Sprint(lines) != newest || strings.Count(applied, "applied ") != lines {
		t.Errorf("%s migrations, and it prints %q", newest, applied)
	}
	if current, _ := schemaStatus(t, dsn); current != newest {
		t.Errorf("migrated, the schema is at %s of %s", current, newest)
	}
	if text := command("migrate", "up", dsn).Succeeds(t); text != "the schema is up to date\n" {
		t.Errorf("the second time it prints %q", text)
	}
	// With the schema up to date, serve fails only because the address is in use.
	var listen net.ListenConfig
	taken := testenv.Must(listen.Listen(t.Context(), "tcp", "127.0.0.1:0"))
	defer func() {
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := command(append(serve, "--log.level=error", "--http.addr="+taken.Addr().String())...)
	o.Fails(t, 1, "http.addr", taken.Addr().String())
}

// A new binary refuses the tables of an old one.
func TestServeRefusesASchemaThatIsBehind(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	if _, err := env.SQL.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	command("serve", withSecret, "--postgres.dsn="+env.Config.Postgres.DSN, "--redis.addrs="+env.Config.Redis.Addrs[0]).
		Fails(t, 1, "stepboard migrate up")
}

// Without the right to INFO no restart of Redis would be noticed: serve refuses to
// start. Commands that detect nothing work.
func TestServeNeedsTheRightToInfo(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	env := testenv.RealOn(t, func(cfg *config.Redis) { cfg.Addrs = []string{server.Addr()} })
	rules := []any{"ACL", "SETUSER", "stepboard", "on", ">hunter22", "allkeys", "+@all", "-info"}
	if err := env.Redis.Do(t.Context(), rules...).Err(); err != nil {
		t.Fatal(err)
	}
	env.Config.Limits = config.Default().Limits // serve warns of missing ones
	flags := append(testenv.Flags(env.Config), withSecret, "--redis.username=stepboard", "--redis.password=hunter22")
	// Nobody can listen at this address, so that serve ends in any case.
	o := command(append(append([]string{"serve"}, flags...), "--http.addr=256.0.0.1:1")...)
	o.Fails(t, 1, "INFO", "+info")
	if strings.Contains(o.Stderr, "hunter22") {
		t.Errorf("a password is shown: %s", o.Stderr)
	}
	command(append([]string{"config", "check"}, flags...)...).Succeeds(t)
	command(append([]string{"rebuild"}, flags...)...).Succeeds(t)
}
