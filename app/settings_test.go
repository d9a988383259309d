package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stepboard/app"
	"stepboard/config"
)

// loaded returns the settings of a file, which config accepts.
func loaded(t testing.TB, text string) config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", `jobs: {archive_cron: "@daily"}`, `jobs: {archive_cron: "0 4 * * 1"}`,
		"boards: [{name: walk-2, time_zone: Europe/Berlin, max_score: 17_179_869_183, shards: 1024, global: service}]",
		`boards: [{name: b, kind: event, start: "2026-12-01T00:00:00Z", end: "2026-12-02T00:00:00Z"}, {name: c, kind: rolling}]`,
	} {
		cfg := loaded(t, text)
		if err := app.CheckSettings(&cfg); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The example passes with all of its lines in force, also those that are
// commented out.
func TestCheckSettingsOfTheExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../stepboard.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "settings.yaml")
	commentedOut := regexp.MustCompile(`(?m)^( *)#([a-z]|- |  )`)
	text = commentedOut.ReplaceAll(text, []byte("$1$2"))
	text = bytes.ReplaceAll(text, []byte("whsec_change-me"), []byte("whsec_"+strings.Repeat("c2Vj", 8)))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{File: path, Flags: map[string]string{
		"redis.mode": "sentinel", "auth.hs256_secret": strings.Repeat("s", 32), "auth.hs256_previous_secret": strings.Repeat("p", 32),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.CheckSettings(&cfg); err != nil {
		t.Error(err)
	}
}

func TestCheckSettingsNamesTheSetting(t *testing.T) {
	t.Parallel()
	tests := []struct{ file, want string }{
		{"jobs: {digest_cron: in the evening}", "jobs.digest_cron: cron expression \"in the evening\""},
		{"jobs: {archive_cron: ''}", "jobs.archive_cron: cron expression \"\""},
		{"jobs: {archive_cron: 3 o'clock}", "jobs.archive_cron: cron expression \"3 o'clock\""},
		{"jobs: {archive_cron: '@every 1ms'}", "jobs.archive_cron: cron expression \"@every 1ms\": @every takes a duration"},
		{"boards: [{name: Steps}]", `boards: board name "Steps"`},
		{"boards: [{name: 'a:b'}]", `boards: board name "a:b"`},
		{"boards: [{name: " + strings.Repeat("a", 41) + "}]", "boards: board name"},
		{"boards: [{name: a}, {name: b, kind: yearly}]", `boards: board b: kind: "yearly" is not a kind of board`},
		{"boards: [{name: a}, {name: b, kind: event}]", "boards: board b: start: an event has a start"},
		{`boards: [{name: b, kind: event, start: "2026-12-02T00:00:00Z", end: "2026-12-01T00:00:00Z"}]`, "boards: board b: end: "},
		{"boards: [{name: b, kind: rolling, window: 200}]", "boards: board b: window: 200 is outside 1 … 168 hours"},
		{"boards: [{name: a, time_zone: Asia/Nowhere}]", "boards: board a: time_zone:"},
		{"boards: [{name: a, time_zone: ''}]", "boards: board a: time_zone:"},
		{"boards: [{name: a, time_zone: Local}]", "boards: board a: time_zone:"},
		{"boards: [{name: a, time_zone: ../zone}]", "boards: board a: time_zone:"},
		{"boards: [{name: a, max_score: 0}]", "boards: board a: max_score:"},
		{"boards: [{name: a, max_score: -1}]", "boards: board a: max_score:"},
		{"boards: [{name: a, max_score: 70368744177664}]", "boards: board a: max_score:"},
		{"boards: [{name: a, shards: 0}]", "boards: board a: shards:"},
		{"boards: [{name: a, shards: 1025}]", "boards: board a: shards:"},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			cfg := loaded(t, tt.file)
			if err := app.CheckSettings(&cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s…", err, tt.want)
			}
		})
	}
}
