package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
)

// settingsFile writes a settings file and returns its path.
func settingsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	good := settingsFile(t, "auth: {hs256_secret: '"+harness.Secret+"'}\npostgres: {dsn: 'host=db'}")
	tests := []struct {
		name  string
		args  []string
		words []string // in the error; nil if the settings are valid
	}{
		{"good flags", []string{withSecret, unreachable}, nil},
		{"a JWKS", []string{"--auth.jwks_url=https://login.example/keys", unreachable}, nil},
		{"a good file", []string{"--config", good}, nil},
		{"a good file with a bad flag", []string{"--config", good, "--hot_days=1"}, []string{"hot_days: must be at least 2, not 1"}},
		{"a good file whose DSN a flag removes", []string{"--config", good, "--postgres.dsn="}, []string{"postgres.dsn: must be set"}},
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
				o.Fails(t, 1, tt.words...)
			} else if text := o.Succeeds(t); !strings.HasSuffix(text, "the settings are good\n") || tt.name == "a JWKS" != strings.Contains(text, "warning: auth.audience is empty") {
				t.Errorf("prints %q", text)
			}
		})
	}
}

// With --connect the servers are checked, too, and nothing is left in them. Without it, none is
// contacted.
func TestConfigCheckConnects(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	server := testenv.StartRedis(t)
	server.Use(&env.Config.Redis)
	env.Config.Auth.HS256Secret = harness.Secret
	check := func() harness.Outcome {
		return command(append([]string{"config", "check", "--connect"}, testenv.Flags(env.Config)...)...)
	}
	if text := check().Succeeds(t); text != "the settings and the servers are good\n" {
		t.Errorf("prints %q", text)
	}
	walk := env.Config.BoardDefinitions()[0]
	walk.Name, walk.FromSettings = "walk", true
	if err := env.Gorm.Create(&walk).Error; err != nil {
		t.Fatal(err)
	}
	dropped := check()
	dropped.Succeeds(t)
	if !strings.Contains(dropped.Stderr, "not in the settings any more") || !strings.Contains(dropped.Stderr, "walk") {
		t.Errorf("about a board that the settings no longer name: %q", dropped.Stderr)
	}
	empty := harness.RealConfig(t).Config
	unmigrated := append([]string{"config", "check", "--connect"}, testenv.Flags(empty)...)
	command(unmigrated...).Fails(t, 1, "migrate up")
	command(append(unmigrated, "--postgres.auto_migrate")...).Succeeds(t) // serve would migrate
	command(unmigrated...).Fails(t, 1, "migrate up")
	rdb := harness.RedisClient(t, server)
	if keys := testenv.Must(rdb.Keys(t.Context(), "*").Result()); len(keys) > 0 {
		t.Errorf("it leaves %v", keys)
	}
	for _, state := range []struct {
		commands []string
		word     string
	}{
		{[]string{"config set maxmemory-policy allkeys-lru"}, "allkeys-lru"},
		{[]string{"config set maxmemory-policy noeviction", "acl setuser default -zmscore"}, "ZMSCORE"},
	} {
		for _, line := range state.commands {
			var args []any
			for word := range strings.FieldsSeq(line) {
				args = append(args, word)
			}
			testenv.Must(rdb.Do(t.Context(), args...).Result())
		}
		check().Fails(t, 1, state.word)
	}
	server.Kill()
	check().Fails(t, 1, "redis")
	command("config", "check", "--auth.hs256_secret="+harness.Secret, unreachable).Succeeds(t)
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	text := command("config", "print", "--config", settingsFile(t, "hot_days: 9\nlog: {level: warn}"),
		"--log.level=error", "--boards=[{name: walk}]", "--redis.password=hunter22", "--auth.hs256_secret=hunter22hunter22hunter22hunter22", unreachable,
	).Succeeds(t)
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
	command("config", "print", "--hot_days=1").Fails(t, 1, "hot_days")
}

// This test is not parallel: it changes the environment and the working
// directory.
func TestSettingsFromFileAndEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(config.DefaultFile, []byte("hot_days: 4\nhttp: {addr: ':1'}\nlog: {level: warn}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STEPBOARD_HOT_DAYS", "5")
	t.Setenv("STEPBOARD_HTTP__ADDR", ":2")
	text := command("config", "print", "--hot_days=6").Succeeds(t)
	for _, want := range []string{"hot_days: 6\n", "addr: :2\n", "level: warn\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	t.Setenv("STEPBOARD_HTTP_ADDR", ":3")
	for _, name := range []string{"serve", "config check", "migrate up", "token --user=1"} {
		command(strings.Fields(name)...).Fails(t, 1, "STEPBOARD_HTTP_ADDR")
	}
}
