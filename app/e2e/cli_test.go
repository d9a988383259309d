package e2e_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

// withSecret is the flag without which no token is signed.
const withSecret = "--auth.hs256_secret=" + secret

// outcome is what one run of the command line did.
type outcome struct {
	status         int
	stdout, stderr string
}

// command runs the command line in this process.
func command(args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := app.Main(args, &stdout, &stderr)
	return outcome{status: status, stdout: stdout.String(), stderr: stderr.String()}
}

// succeeds expects a run without a complaint and answers what it printed.
func (o outcome) succeeds(t testing.TB) string {
	t.Helper()
	if o.status != 0 || o.stderr != "" {
		t.Fatalf("status %d: %s", o.status, o.stderr)
	}
	return o.stdout
}

// fails expects a status, nothing on stdout, and one line on stderr that has
// all of these in it.
func (o outcome) fails(t testing.TB, status int, words ...string) {
	t.Helper()
	if o.status != status || o.stdout != "" {
		t.Errorf("status %d, want %d, after printing %q", o.status, status, o.stdout)
	}
	line, more, ended := strings.Cut(o.stderr, "\n")
	if !strings.HasPrefix(line, "stepboard: ") || !ended || more != "" {
		t.Errorf("not one line of ours: %q", o.stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%q does not say %q", line, word)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no command", nil, "name a command: demo, serve"},
		{"an unknown command", []string{"sevre"}, `unknown command "sevre"`},
		{"an unknown flag", []string{"version", "--nix"}, "unknown flag: --nix"},
		{"an unknown flag before the command", []string{"--nix", "version"}, "unknown flag: --nix"},
		{"an unknown setting as a flag", []string{"serve", "--http.adr=:1"}, "unknown flag: --http.adr"},
		{"a flag of another command", []string{"version", "--user", "1"}, "unknown flag: --user"},
		{"a flag without its value", []string{"serve", "--http.addr"}, "needs an argument: --http.addr"},
		{"too many words", []string{"version", "now"}, `"now"`},
		{"words after serve", []string{"serve", "here"}, `"here"`},
		{"migrate what?", []string{"migrate"}, "migrate needs one of status, up"},
		{"migrate to where?", []string{"migrate", "down"}, `unknown command "down"`},
		{"config what?", []string{"config"}, "config needs one of check, print"},
		{"import what?", []string{"import"}, "import needs one of friends, steps"},
		{"import without a file", []string{"import", "friends"}, "received 0"},
		{"import of two files", []string{"import", "steps", "a", "b"}, "received 2"},
		{"a token for nobody", []string{"token", withSecret}, `"user" not set`},
		{"a duration that is none", []string{"token", withSecret, "--user=1", "--ttl=long"}, `"long" for "--ttl"`},
		{"a number that is none", []string{"demo", "--users=many"}, `"many" for "--users"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command(tt.args...).fails(t, 2, tt.want, "--help")
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		command string
		// settings says that the command takes every setting as a flag.
		settings bool
		flags    []string
	}{
		{"", false, nil},
		{"demo", false, []string{"--addr", "--users", "--seed", "--graph", "--steps"}},
		{"serve", true, nil},
		{"migrate", false, nil},
		{"migrate up", true, nil},
		{"migrate status", true, nil},
		{"import", false, nil},
		{"import friends", true, []string{"--offset"}},
		{"import steps", true, []string{"--board"}},
		{"token", true, []string{"--user", "--scope", "--ttl"}},
		{"config", false, nil},
		{"config check", true, nil},
		{"config print", true, nil},
		{"version", false, nil},
	}
	for _, tt := range tests {
		t.Run("stepboard "+tt.command, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(tt.command)
			text := command(append(args, "--help")...).succeeds(t)
			flags := tt.flags
			if tt.settings {
				flags = append(flags, "--config")
				for _, s := range config.Settings() {
					flags = append(flags, "--"+s.Key)
				}
			}
			for _, want := range append(flags, "Usage:", strings.TrimSpace("stepboard "+tt.command)) {
				if !strings.Contains(text, want) {
					t.Errorf("nothing of %s in:\n%s", want, text)
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	text := command("version").succeeds(t)
	if want := "stepboard " + app.Version + ", commit "; !strings.HasPrefix(text, want) || !strings.HasSuffix(text, ", "+runtime.Version()+"\n") {
		t.Errorf("prints %q", text)
	}
}

func TestTokenCommand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want auth.Caller
		ttl  time.Duration
	}{
		{"a user's", nil, auth.Caller{User: 1001}, 24 * time.Hour},
		{"an empty scope is a user's", []string{"--scope="}, auth.Caller{User: 1001}, 24 * time.Hour},
		{"a backend's", []string{"--scope=service"}, auth.Caller{Service: true}, 24 * time.Hour},
		{"an administrator's", []string{"--scope=admin"}, auth.Caller{Admin: true}, 24 * time.Hour},
		{"one for all", []string{"--scope=service admin"}, auth.Caller{Service: true, Admin: true}, 24 * time.Hour},
		{"a short one", []string{"--ttl=90s"}, auth.Caller{User: 1001}, 90 * time.Second},
		{"the shortest", []string{"--ttl=1s"}, auth.Caller{User: 1001}, time.Second},
		{"the largest user", []string{"--user=9007199254740991"}, auth.Caller{User: models.MaxUserID}, 24 * time.Hour},
		{"with issuer and audience", []string{"--auth.issuer=https://issuer.example", "--auth.audience=stepboard"}, auth.Caller{User: 1001}, 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := time.Now().Truncate(time.Second)
			text := strings.TrimSuffix(command(append([]string{"token", "--user=1001", withSecret}, tt.args...)...).succeeds(t), "\n")
			expires := expiry(t, text)
			if earliest, latest := before.Add(tt.ttl), time.Now().Add(tt.ttl); expires.Before(earliest) || expires.After(latest) {
				t.Errorf("expires at %v, want %v … %v", expires, earliest, latest)
			}
			if tt.ttl == time.Second {
				return // it may be over by now
			}
			verify := auth.VerifierConfig{Secret: []byte(secret)}
			if strings.Contains(tt.name, "issuer") {
				verify.Issuer, verify.Audience = "https://issuer.example", "stepboard"
			}
			v := auth.NewVerifier(verify)
			defer v.Close()
			caller, err := v.Verify(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *caller); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// expiry is when a token ends, by its own word.
func expiry(t testing.TB, text string) time.Time {
	t.Helper()
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(text, &claims); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return claims.ExpiresAt.Time
}

func TestTokensThatAreNotSigned(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		words []string
	}{
		{"without a secret", []string{"--user=1"}, []string{"auth.hs256_secret", "must be set"}},
		{"with a JWKS only", []string{"--user=1", "--auth.jwks_url=https://login.example/keys"}, []string{"auth.hs256_secret", "must be set"}},
		{"a short secret", []string{"--user=1", "--auth.hs256_secret=short"}, []string{"auth.hs256_secret", "32 bytes"}},
		{"user 0", []string{"--user=0", withSecret}, []string{`--user "0"`, "from 1"}},
		{"a negative user", []string{"--user=-1", withSecret}, []string{`--user "-1"`}},
		{"a name for a user", []string{"--user=ann", withSecret}, []string{`--user "ann"`}},
		{"no user", []string{"--user=", withSecret}, []string{`--user ""`}},
		{"a zero in front", []string{"--user=01", withSecret}, []string{`--user "01"`}},
		{"a user of 2^53", []string{"--user=9007199254740992", withSecret}, []string{`--user "9007199254740992"`}},
		{"an unknown scope", []string{"--user=1", "--scope=root", withSecret}, []string{`--scope "root"`, "service, admin"}},
		{"one unknown scope", []string{"--user=1", "--scope=service root", withSecret}, []string{`--scope "root"`}},
		{"scopes with a comma", []string{"--user=1", "--scope=service,admin", withSecret}, []string{`--scope "service,admin"`}},
		{"no time", []string{"--user=1", "--ttl=0s", withSecret}, []string{"--ttl 0s"}},
		{"a negative time", []string{"--user=1", "--ttl=-1h", withSecret}, []string{"--ttl -1h0m0s"}},
		{"less than a token can tell", []string{"--user=1", "--ttl=999ms", withSecret}, []string{"--ttl 999ms", "1s or more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command(append([]string{"token"}, tt.args...)...).fails(t, 1, tt.words...)
		})
	}
}

// settingsFile writes a settings file.
func settingsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// unreachable is a database that refuses every connection.
const unreachable = "--postgres.dsn=postgres://u:hunter22@127.0.0.1:1/stepboard"

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	good := settingsFile(t, "auth: {hs256_secret: '"+secret+"'}\npostgres: {dsn: 'host=db'}")
	tests := []struct {
		name  string
		args  []string
		words []string // of the complaint; none where all is good
	}{
		{"good flags", []string{withSecret, unreachable}, nil},
		{"a JWKS", []string{"--auth.jwks_url=https://login.example/keys", unreachable}, nil},
		{"a good file", []string{"--config", good}, nil},
		{"a good file with a bad flag", []string{"--config", good, "--hot_days=1"}, []string{"hot_days: must be at least 2, not 1"}},
		{"a good file, what it says taken back", []string{"--config", good, "--postgres.dsn="}, []string{"postgres.dsn: must be set"}},
		{"nothing", nil, []string{"auth.hs256_secret", "auth.jwks_url"}},
		{"no database", []string{withSecret}, []string{"postgres.dsn: must be set"}},
		{"a missing file", []string{"--config", "nix.yaml"}, []string{"nix.yaml", "no such file"}},
		{"several faults", []string{"--hot_days=99", "--log.level=loud"}, []string{"hot_days: must be at most 30, not 99; log.level: must be one of"}},
		{"wrong types", []string{"--hot_days=x", "--redis.tls=x"}, []string{"redis.tls: must be true or false; hot_days: must be a whole number"}},
		{"an unknown key", []string{"--config", settingsFile(t, "redis: {address: a}")}, []string{"unknown setting: redis.address"}},
		{"a file that is no YAML", []string{"--config", settingsFile(t, "- a\n- b")}, []string{"settings.yaml", "line 1"}},
		{"bad boards", []string{"--boards=[{name: A}]"}, []string{`boards: board name "A"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := command(append([]string{"config", "check"}, tt.args...)...)
			if tt.words != nil {
				o.fails(t, 1, tt.words...)
			} else if text := o.succeeds(t); text != "the settings are good\n" {
				t.Errorf("prints %q", text)
			}
		})
	}
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	text := command("config", "print", "--config", settingsFile(t, "hot_days: 9\nlog: {level: warn}"),
		"--log.level=error", "--boards=[{name: walk}]", "--redis.password=hunter22", "--auth.hs256_secret=hunter22hunter22hunter22hunter22", unreachable,
	).succeeds(t)
	if strings.Contains(text, "hunter22") {
		t.Errorf("a secret is printed:\n%s", text)
	}
	var got struct {
		HotDays  int               `yaml:"hot_days"`
		Log      map[string]string `yaml:"log"`
		Postgres struct{ DSN string }
		Boards   []struct{ Name, Kind string }
	}
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.HotDays != 9 || got.Log["level"] != "error" || got.Log["format"] != "json" || got.Postgres.DSN != "postgres://u:xxxxx@127.0.0.1:1/stepboard" {
		t.Errorf("prints\n%s", text)
	}
	if len(got.Boards) != 1 || got.Boards[0].Name != "walk" || got.Boards[0].Kind != "daily" {
		t.Errorf("boards %+v", got.Boards)
	}
	command("config", "print", "--hot_days=1").fails(t, 1, "hot_days")
}

// Not parallel: it changes the environment and the working folder.
func TestSettingsFromOutside(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(config.DefaultFile, []byte("hot_days: 4\nhttp: {addr: ':1'}\nlog: {level: warn}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STEPBOARD_HOT_DAYS", "5")
	t.Setenv("STEPBOARD_HTTP__ADDR", ":2")
	text := command("config", "print", "--hot_days=6").succeeds(t)
	for _, want := range []string{"hot_days: 6\n", "addr: :2\n", "level: warn\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	t.Setenv("STEPBOARD_HTTP_ADDR", ":3")
	for _, name := range []string{"serve", "config check", "migrate up", "token --user=1"} {
		command(strings.Fields(name)...).fails(t, 1, "STEPBOARD_HTTP_ADDR")
	}
}

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		words []string
	}{
		{"without a way to check tokens", []string{unreachable}, []string{"auth.hs256_secret", "auth.jwks_url"}},
		{"without a database", []string{withSecret}, []string{"postgres.dsn"}},
		{"with an unknown setting", []string{"--config", settingsFile(t, "redis: {address: a}"), withSecret, unreachable}, []string{"redis.address"}},
		{"with a bad value", []string{withSecret, unreachable, "--redis.addrs=localhost"}, []string{"redis.addrs[0]", `"localhost"`}},
		{"with a DSN that is none", []string{withSecret, "--postgres.dsn=postgres://u@db:port/stepboard"}, []string{"postgres.dsn"}},
		{"with a database that does not answer", []string{withSecret, unreachable}, []string{"connect to postgres", "127.0.0.1:1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := command(append([]string{"serve"}, tt.args...)...)
			o.fails(t, 1, tt.words...)
			if strings.Contains(o.stderr, "hunter22") {
				t.Errorf("a password is shown: %s", o.stderr)
			}
		})
	}
}

func TestOtherCommandsNeedADatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"migrate up", "migrate status", "archive", "import friends FILE", "import steps FILE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command(strings.Fields(name)...).fails(t, 1, "postgres.dsn")
		})
	}
}

// statusLine is what migrate status prints.
var statusLine = regexp.MustCompile(`^the schema is at version (\d+); this binary needs (\d+)\n$`)

// schemaStatus runs migrate status.
func schemaStatus(t testing.TB, args ...string) (current, newest string) {
	t.Helper()
	text := command(append([]string{"migrate", "status"}, args...)...).succeeds(t)
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
	command(serve...).fails(t, 1, "version 0", "needs "+newest, "stepboard migrate up", "postgres.auto_migrate")

	applied := command("migrate", "up", dsn).succeeds(t)
	if lines := strings.Count(applied, "\n"); fmt.Sprint(lines) != newest || strings.Count(applied, "applied ") != lines {
		t.Errorf("%s migrations, and it prints %q", newest, applied)
	}
	if current, _ := schemaStatus(t, dsn); current != newest {
		t.Errorf("migrated, the schema is at %s of %s", current, newest)
	}
	if text := command("migrate", "up", dsn).succeeds(t); text != "the schema is up to date\n" {
		t.Errorf("the second time it prints %q", text)
	}
	// It gets past the schema now: what stops it is an address that is taken.
	var listen net.ListenConfig
	taken, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := taken.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := command(append(serve, "--log.level=error", "--http.addr="+taken.Addr().String())...)
	o.fails(t, 1, "http.addr", taken.Addr().String())
}

// A new binary on the tables of an old one.
func TestServeRefusesASchemaThatIsBehind(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	if _, err := env.SQL.ExecContext(t.Context(), "DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)"); err != nil {
		t.Fatal(err)
	}
	command("serve", withSecret, "--postgres.dsn="+env.Config.Postgres.DSN, "--redis.addrs="+env.Config.Redis.Addrs[0]).
		fails(t, 1, "stepboard migrate up")
}

// A demo that can't start says which flag is wrong.
func TestDemoFlags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nobody", []string{"--users=0"}, "--users 0"},
		{"a negative number", []string{"--users=-1"}, "--users -1"},
		{"more than fit", []string{"--users=1000000"}, "--users 1000000"},
		{"no address", []string{"--addr=nowhere"}, "--addr"},
		{"a graph that is not there", []string{"--graph=nix.txt"}, "nix.txt"},
		{"steps that are not there", []string{"--steps=nix.csv"}, "nix.csv"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command(append([]string{"demo"}, tt.args...)...).fails(t, 1, tt.want)
		})
	}
}
