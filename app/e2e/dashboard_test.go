package e2e_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stepboard/internal/testenv"
)

// dashboard is the part of Grafana's file that the tests read.
type dashboard struct {
	UID        string
	Links      []dashboardLink
	Templating struct {
		List []struct{ Name string }
	}
	Panels []dashboardPanel
}

type dashboardLink struct{ URL string }

// dashboardPanel is a panel, or a row, which is the heading of the panels below
// it.
type dashboardPanel struct {
	ID          int
	Type        string
	Title       string
	GridPos     struct{ X, Y, W, H int }
	Links       []dashboardLink
	Targets     []struct{ Expr string }
	FieldConfig struct {
		Defaults struct {
			Unit       string
			Thresholds struct {
				Steps []struct{ Color string }
			}
		}
	}
}

func (p dashboardPanel) isRow() bool { return p.Type == "row" }

// overlaps reports whether two panels share a cell of the grid.
func (p dashboardPanel) overlaps(q dashboardPanel) bool {
	a, b := p.GridPos, q.GridPos
	return a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H
}

// shows reports whether a query of the panel reads the metric.
func (p dashboardPanel) shows(metric string) bool {
	for _, target := range p.Targets {
		if slices.Contains(metricName.FindAllString(target.Expr, -1), metric) {
			return true
		}
	}
	return false
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var board dashboard
	if err := json.Unmarshal(testenv.Must(os.ReadFile("../../deploy/grafana/stepboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	return board
}

// Every panel has queries and a unit, belongs to a row and covers no other one.
func TestDashboardLayout(t *testing.T) {
	t.Parallel()
	board := readDashboard(t)
	if len(board.Panels) == 0 || !board.Panels[0].isRow() {
		t.Error("the first panels belong to no row")
	}
	for i, p := range board.Panels {
		for _, q := range board.Panels[:i] {
			if p.ID == q.ID || p.overlaps(q) {
				t.Errorf("%s and %s have the same id or place", p.Title, q.Title)
			}
		}
		if p.isRow() {
			continue
		}
		if len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s has no queries or no unit", p.Title)
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is wider than the page", p.Title)
		}
	}
}

// One Prometheus may scrape several installations. Every metric is selected by
// the scrape job that the reader has chosen.
func TestDashboardSelectsJobs(t *testing.T) {
	t.Parallel()
	board := readDashboard(t)
	for _, name := range []string{"job", "exporter_job"} {
		if !slices.ContainsFunc(board.Templating.List, func(v struct{ Name string }) bool { return v.Name == name }) {
			t.Errorf("the dashboard has no variable %s", name)
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, at := range metricName.FindAllStringIndex(target.Expr, -1) {
				job := `{job=~"$job"`
				if slices.Contains(ofRedisExporter, target.Expr[at[0]:at[1]]) {
					job = `{job=~"$exporter_job"`
				}
				if !strings.HasPrefix(target.Expr[at[1]:], job) {
					t.Errorf("%s: %s does not select by %s", p.Title, target.Expr, job)
				}
			}
		}
	}
}

// The median and the 95th percentile show what people experience, and the 99th
// what the slowest calls cost.
func TestDashboardShowsPercentiles(t *testing.T) {
	t.Parallel()
	var all string
	for _, p := range readDashboard(t).Panels {
		if p.shows("stepboard_http_request_duration_seconds_bucket") {
			for _, target := range p.Targets {
				all += target.Expr + "\n"
			}
		}
	}
	for _, quantile := range []string{"(0.5,", "(0.95,", "(0.99,"} {
		if !strings.Contains(all, "histogram_quantile"+quantile) {
			t.Errorf("no panel shows the quantile %s of the time to answer", quantile)
		}
	}
}

// For each metric that an alert watches, a panel shows it against thresholds.
func TestDashboardShowsWhatAlertsWatch(t *testing.T) {
	t.Parallel()
	board := readDashboard(t)
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			for _, metric := range metricName.FindAllString(r.Expr, -1) {
				if !slices.ContainsFunc(board.Panels, func(p dashboardPanel) bool {
					return p.shows(metric) && len(p.FieldConfig.Defaults.Thresholds.Steps) >= 2
				}) {
					t.Errorf("%s: no panel shows %s against thresholds", r.Alert, metric)
				}
			}
		}
	}
}

// The dashboard and each panel link to a section of docs/operations.md. Its
// address is a variable, because every team keeps the documents elsewhere.
func TestDashboardLinksToOperations(t *testing.T) {
	t.Parallel()
	anchors := []string{"${docs}"}
	text := string(testenv.Must(os.ReadFile("../../docs/operations.md")))
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		anchors = append(anchors, "${docs}#"+strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"))
	}
	board := readDashboard(t)
	check := func(title string, links []dashboardLink) {
		if len(links) == 0 {
			t.Errorf("%s has no link", title)
		}
		for _, l := range links {
			if !slices.Contains(anchors, l.URL) {
				t.Errorf("%s links to %s, which docs/operations.md does not have", title, l.URL)
			}
		}
	}
	check("the dashboard", board.Links)
	for _, p := range board.Panels {
		if !p.isRow() {
			check(p.Title, p.Links)
		}
	}
}
