package e2e_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"stepboard/app/cli"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
)

// withSecret is the flag that signing a token needs.
const withSecret = "--auth.hs256_secret=" + harness.Secret

// command runs the command line in this process.
func command(args ...string) harness.Outcome {
	var stdout, stderr bytes.Buffer
	status := cli.Main(args, &stdout, &stderr)
	return harness.Outcome{Status: status, Stdout: stdout.String(), Stderr: stderr.String()}
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
			command(tt.args...).Fails(t, 2, tt.want, "--help")
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		command string
		// settings is set if the command takes every setting as a flag.
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
			text := command(append(args, "--help")...).Succeeds(t)
			flags := tt.flags
			if tt.settings {
				flags = append(flags, "--config", "stepboard help settings")
			}
			if n := strings.Count(text, "\n"); n > 60 || strings.Contains(text, "--http.addr") {
				t.Errorf("it has %d lines: %s", n, text)
			}
			for _, want := range append(flags, "Usage:", strings.TrimSpace("stepboard "+tt.command)) {
				if !strings.Contains(text, want) {
					t.Errorf("nothing of %s in:\n%s", want, text)
				}
			}
		})
	}
}

// A topic of its own has the settings.
func TestHelpSettings(t *testing.T) {
	t.Parallel()
	text := command("help", "settings").Succeeds(t)
	for _, s := range config.Settings() {
		if !strings.Contains(text, "\n  --"+s.Key+"\n") {
			t.Errorf("nothing of %s", s.Key)
		}
	}
}

// versionOf matches what a program says of itself that was built from a checkout, and others.
var versionOf = regexp.MustCompile(`^stepboard (\d+\.\d+\.\d+\S*|devel), commit ([0-9a-f]{40}|unknown), (go\S+)\n$`)

// version returns the version of the program that tests start.
func version(t *testing.T) string {
	t.Helper()
	text, stderr, _ := testenv.Run(t, "version")
	parts := versionOf.FindStringSubmatch(text)
	if parts == nil {
		t.Fatalf("prints %q, %s", text, stderr)
	}
	if info, err := os.Stat("../../.git"); err == nil && info.IsDir() && (parts[1] == "devel" || parts[2] == "unknown") {
		t.Errorf("a program of a checkout prints %q", text)
	}
	return parts[1]
}

// A program and its metrics say which version it is: that of the tag or commit.
func TestVersion(t *testing.T) {
	t.Parallel()
	want := version(t)
	p := testenv.ServeFolder(t, t.TempDir(), withSecret)
	_, text := harness.Get(t, p.Process, "/metrics")
	if line := `go_build_info{checksum="",path="stepboard",version="v` + want; want != "devel" && !strings.Contains(text, line) {
		t.Errorf("the metrics lack %s", line)
	}
}

// unreachable is the flag of a database that refuses every connection.
const unreachable = "--postgres.dsn=postgres://u:hunter22@127.0.0.1:1/stepboard"

func TestServeRefusesToStart(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		words []string
	}{
		{"without a way to check tokens", []string{unreachable}, []string{"auth.hs256_secret", "auth.jwks_url"}},
		{"without a database", []string{withSecret}, []string{"postgres.dsn", "data.dir (--data DIR)"}},
		{"with an unknown setting", []string{"--config", settingsFile(t, "redis: {address: a}"), withSecret, unreachable}, []string{"redis.address"}},
		{"with a bad value", []string{withSecret, unreachable, "--redis.addrs=localhost"}, []string{"redis.addrs[0]", "must be host:port"}},
		{"with a DSN that is none", []string{withSecret, "--postgres.dsn=postgres://u@db:port/stepboard"}, []string{"postgres.dsn"}},
		{"with a database that does not answer", []string{withSecret, unreachable, "--startup_timeout=1s"}, []string{"connect to postgres", "127.0.0.1:1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := command(append([]string{"serve"}, tt.args...)...)
			o.Fails(t, 1, tt.words...)
			if strings.Contains(o.Stderr, "hunter22") {
				t.Errorf("a password is shown: %s", o.Stderr)
			}
		})
	}
}

func TestOtherCommandsNeedADatabase(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"migrate up", "migrate status", "archive", "import friends FILE", "import steps FILE"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command(strings.Fields(name)...).Fails(t, 1, "postgres.dsn")
		})
	}
}
