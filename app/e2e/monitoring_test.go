package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/shipping"
	"stepboard/internal/testenv"
)

var (
	metricName = regexp.MustCompile(`\b(?:stepboard|redis|process|go)_[a-z_]+\b`)
	// sampleName matches the metric name of a line of /metrics.
	sampleName = regexp.MustCompile(`(?m)^([a-z_]+)[ {]`)
)

// ofRedisExporter lists metrics of redis_exporter, which the alert rules need,
// too.
var ofRedisExporter = []string{"redis_memory_used_bytes", "redis_memory_max_bytes"}

// rules is a file of alert rules.
type rules struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// readQueries returns all queries of the files under deploy, by the name of
// their panel or alert.
func readQueries(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			found[p.Title+": "+target.Expr] = target.Expr
		}
	}
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("alert %q lacks its name, severity, summary or description", r.Alert)
			}
			found[r.Alert] = r.Expr
		}
	}
	return found
}

// readRules returns the alert rules.
func readRules(t *testing.T) rules {
	t.Helper()
	var alerts rules
	decoder := yaml.NewDecoder(strings.NewReader(string(testenv.Must(os.ReadFile("../../deploy/prometheus/alerts.yml")))))
	decoder.KnownFields(true)
	if err := decoder.Decode(&alerts); err != nil {
		t.Fatal(err)
	}
	return alerts
}

// writeRules writes the dashboard's queries to a file of rules. `.ci/run`
// checks it with promtool.
func writeRules(t *testing.T, queries map[string]string) {
	t.Helper()
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var list []rule
	for _, query := range slices.Sorted(maps.Values(queries)) {
		query = regexp.MustCompile(`\$__\w+`).ReplaceAllString(query, "5m")
		list = append(list, rule{fmt.Sprintf("query:%d", len(list)), query})
	}
	text := testenv.Must(yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": list}}}))
	if err := os.MkdirAll("../../build", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("../../build/dashboard.yml", text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The service exports every metric that the dashboard and the alert rules use.
func TestMonitoringUsesExportedMetrics(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	s := newServer(t, env, newBackend(t).use, func(c *config.Config) {
		c.Ingest.Mode, c.Boards[0].ReviewAbove, c.Boards[0].HoldAbove = "redis", 60_000, 90_000
	})
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", `{"date":"2026-11-20","score":1}`), 202, nil)
	queries := readQueries(t)
	writeRules(t, queries)
	if len(queries) < 30 {
		t.Fatalf("only %d queries are read", len(queries))
	}
	copying := metricsOfCopies(t)
	var missing []string
	defer func() {
		if t.Failed() {
			t.Log("missing: ", missing)
		}
	}()
	// Some metrics appear with the first event that they count.
	testenv.Eventually(t, "every metric is exported", func() bool {
		there := append(copying, ofRedisExporter...)
		for _, m := range sampleName.FindAllStringSubmatch(string(s.call("", "GET", "/metrics", nil).body), -1) {
			there = append(there, m[1])
		}
		missing = nil
		for from, query := range queries {
			for _, name := range metricName.FindAllString(query, -1) {
				if !slices.Contains(there, name) {
					missing = append(missing, name+" of "+from)
				}
			}
		}
		return len(missing) == 0
	})
}

// ships has a status, and nothing else of a Shipper.
type ships struct {
	status shipping.Status
}

func (s ships) Status() shipping.Status  { return s.status }
func (ships) Step(context.Context) error { return nil }
func (ships) Tend(context.Context) error { return nil }
func (ships) Close() error               { return nil }

// metricsOfCopies returns the metrics of a process that copies a data folder's database elsewhere.
func metricsOfCopies(t *testing.T) (names []string) {
	t.Helper()
	s := newServerOf(t, testenv.Local(t), func(o *app.Options) {
		o.Shipping = ships{status: shipping.Status{FullAt: testenv.Noon}}
	})
	for _, m := range sampleName.FindAllStringSubmatch(string(s.call("", "GET", "/metrics", nil).body), -1) {
		if strings.HasPrefix(m[1], "stepboard_backup_") {
			names = append(names, m[1])
		}
	}
	return names
}
