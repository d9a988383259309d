package app_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ledger"
	"stepboard/services/platform/auth"
)

// buildLocal builds the service on local stores.
func buildLocal(env *testenv.Env) (*app.App, error) {
	verifier := auth.NewVerifier(auth.VerifierConfig{})
	a, err := app.Build(context.Background(), app.Options{
		Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log,
		Verifier: verifier, Roles: app.AllRoles(),
	})
	if err != nil {
		verifier.Close()
	}
	return a, err
}

// Settings about Redis and about queues are refused, by name.
func TestSettingsOfLocalStores(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	for _, tt := range []struct {
		setting string
		change  func(*config.Config)
	}{
		{"rankings.max_staleness", func(c *config.Config) { c.Rankings.MaxStaleness = time.Second }},
		{"ingest.mode", func(c *config.Config) { c.Ingest.Mode = "redis" }},
		{"ingest.mode", func(c *config.Config) { c.Ingest.Mode = "kafka" }},
	} {
		refused := *env
		tt.change(&refused.Config)
		if _, err := buildLocal(&refused); err == nil || !strings.HasPrefix(err.Error(), tt.setting) {
			t.Errorf("%s: %v", tt.setting, err)
		}
	}
}

// A board that the settings no longer name is logged at the start.
func TestDroppedBoardsAreLogged(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	walk := env.Config.BoardDefinitions()[0]
	walk.Name, walk.FromSettings = "walk", true
	if err := env.Gorm.Create(&walk).Error; err != nil {
		t.Fatal(err)
	}
	var log testenv.Buffer
	env.Log = slog.New(slog.NewTextHandler(&log, nil))
	a := testenv.Must(buildLocal(env))
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if line := log.String(); !strings.Contains(line, "not in the settings any more") || !strings.Contains(line, "boards=[walk]") {
		t.Errorf("logs %q", line)
	}
}

// With local stores nothing looks for losses, follows streams or copies boards, and no metric is
// about Redis. What is ready are the database, and nothing else.
func TestWhatLocalStoresDoNotNeed(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	a := testenv.Must(buildLocal(env))
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := []string{
		"archive", "boards", "competitions", "correct", "correct-archive", "corrections", "cursors", "erase", "finish", "holds", "passed", "purge", "reconcile", "reviews", "roll", "status", "users", "write-ahead log",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(a.StartByRounds(t.Context())))); diff != "" {
		t.Errorf("rounds (-want +got):\n%s", diff)
	}
	get := func(h http.Handler, path string) string {
		t.Helper()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if answer.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
		return answer.Body.String()
	}
	if ready := get(a.Handler, "/readyz"); strings.Contains(ready, "redis") || strings.Contains(ready, "postgres") || !strings.Contains(ready, "database") {
		t.Error(ready)
	}
	metrics := get(a.Metrics, "/metrics")
	for _, without := range []string{"stepboard_redis_", "stepboard_near_cache_", `="redis"`, `="unproven"`, "stepboard_clock_drift", `job="sets"`, `job="erase-again"`} {
		if strings.Contains(metrics, without) {
			t.Errorf("there are metrics with %s", without)
		}
	}
	for _, with := range []string{
		`stepboard_near_circles_found_total{found="near"} 0`, "stepboard_near_circles_bytes 0", `stepboard_directory_lookups_total{level="sql",what="id"}`,
		`stepboard_rankings_answers_total{from="memory",list="top"} 0`,
	} {
		if !strings.Contains(metrics, with) {
			t.Errorf("there is no metric %s", with)
		}
	}
}

// When a process on local stores has been built, its boards have what the ledger and the
// corrections say, before it starts.
func TestBoardsOfLocalStoresAreLoaded(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	env.Config.Boards = append(env.Config.Boards, config.Board{
		Name: "gifts", Kind: "event", TimeZone: "UTC", MaxScore: 1000, Shards: 1, Global: "users",
		Start: testenv.Noon.Add(-time.Hour), End: testenv.Noon.Add(time.Hour),
	})
	process := func() *app.App {
		a := testenv.Must(buildLocal(env))
		t.Cleanup(func() {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
		return a
	}
	first, ctx := process(), t.Context()
	users := []models.UserID{"ann", "ben"}
	for i, user := range users {
		results, err := first.Ledger.Add(ctx, "gifts", []ledger.Increment{{User: user, EventID: string(user), Amount: int64(20 + i)}})
		if err != nil || results[0].Status != ledger.Applied {
			t.Fatalf("%v, %v", results, err)
		}
	}
	lowered := int64(5)
	testenv.Must(first.Corrections.Create(ctx, corrections.Request{
		Board: "gifts", User: "ann", Kind: models.CorrectionSet, Score: &lowered, Reason: "test", Actor: "op",
	}))
	rows := testenv.Must(first.Directory.Find(ctx, users...))
	gifts := testenv.Must(first.Catalog.Definitions.Board("gifts"))
	bucket := testenv.Must(first.Catalog.Buckets.Current(gifts, env.Clock.Now(), models.UTCOffset{}))
	want := testenv.Must(first.Entries.Composites(ctx, bucket, rows))
	got := testenv.Must(process().Entries.Composites(ctx, bucket, rows))
	if !slices.Equal(got, want) || got[0] == 0 || got[0] >= got[1] {
		t.Errorf("the boards are loaded with %v, want %v", got, want)
	}
}
