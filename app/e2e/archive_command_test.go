package e2e_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
)

// at returns the arguments of a command whose clock shows the given time.
func (i *importer) at(now time.Time, args ...string) []string {
	i.env.Config.Clock.Offset = time.Until(now)
	return slices.Concat(args[:1], testenv.Flags(i.env.Config), args[1:])
}

// summary matches the duration at the end of the lines that archive prints.
var summary = regexp.MustCompile(`(?m), in [0-9.]+(µs|ms|s)$`)

func TestArchiveCommand(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	if text := command(i.at(testenv.Noon, "archive")...).Succeeds(t); text != "nothing is due\n" {
		t.Errorf("with nothing due it prints %q", text)
	}
	if status, said, _ := i.run("steps", "user_id,date,steps\n1,2026-11-17,100\n2,2026-11-17,250\n1,2026-11-18,7\n1,2026-11-19,8\n"); status != 0 {
		t.Fatal(said)
	}
	archive := func(now time.Time, args ...string) string {
		t.Helper()
		return summary.ReplaceAllString(command(i.at(now, append([]string{"archive"}, args...)...)...).Succeeds(t), "")
	}
	// The 17th turns cold at this midnight and is due an hour later.
	midnight := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	if text := archive(midnight.Add(50 * time.Minute)); text != "nothing is due\n" {
		t.Errorf("before the hour is over it prints %q", text)
	}
	first := "steps 2026-11-17: run 1 moved 2 entries; the archive holds 2, sum of scores 350\n"
	if text := archive(midnight.Add(time.Hour), "--board", "steps"); text != first {
		t.Errorf("it prints %q", text)
	}
	for _, tt := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--bucket", "2026-11-18"}, []string{"2026-11-18 of board steps stays in Redis until 2026-11-21T17:00:00Z"}},
		{[]string{"--bucket", "2026-11-22"}, []string{"--bucket 2026-11-22", "has not begun"}},
		{[]string{"--bucket", "2026-11-16"}, []string{"--bucket 2026-11-16", "nothing was ever written to this bucket of board steps"}},
		{[]string{"--bucket", "2016-04-12", "--board", "steps"}, []string{"--bucket 2016-04-12", "nothing was ever written"}},
		{[]string{"--bucket", "2026-02-30"}, []string{"--bucket 2026-02-30", "YYYY-MM-DD"}},
		{[]string{"--bucket", "20261117"}, []string{"--bucket 20261117", "YYYY-MM-DD"}},
		{[]string{"--board", "nix"}, []string{"--board nix", "no board of this name"}},
		{[]string{"--board", "nix", "--bucket", "2026-11-17"}, []string{"--board nix"}},
	} {
		command(i.at(midnight.Add(2*time.Hour), append([]string{"archive"}, tt.args...)...)...).Fails(t, 1, tt.words...)
	}
	command("archive", "now").Fails(t, 2, "--help")
	// Archiving a day again changes nothing.
	if text := archive(midnight.Add(2*time.Hour), "--bucket", "2026-11-17"); text != first {
		t.Errorf("again it prints %q", text)
	}
	// Every day that is due has a line of its own. The 20th has no uploads.
	want := "steps 2026-11-18: run 1 moved 1 entries; the archive holds 1, sum of scores 7\n" +
		"steps 2026-11-19: run 1 moved 1 entries; the archive holds 1, sum of scores 8\n" +
		"steps 2026-11-20: run 1 moved 0 entries; the archive holds 0, sum of scores 0\n"
	if text := archive(midnight.Add(3*24*time.Hour + time.Hour)); text != want {
		t.Errorf("it prints %q", text)
	}
	// With several boards, --bucket needs --board.
	boards := `--boards=[{name: steps}, {name: walk}]`
	later := midnight.Add(3*24*time.Hour + time.Hour)
	command(i.at(later, "archive", "--bucket", "2026-11-17", boards)...).Fails(t, 1, "--bucket 2026-11-17", "--board")
	if text := archive(later, "--bucket", "2026-11-17", "--board", "steps", boards); text != first {
		t.Errorf("of one of two boards it prints %q", text)
	}
	if text := archive(later, "--board", "walk", boards); text != "nothing is due\n" {
		t.Errorf("of a new board it prints %q", text)
	}
}

// partitions returns the months of the archive.
func (i *importer) partitions() (months []string) {
	i.t.Helper()
	err := i.env.Gorm.Raw(`
		SELECT substr(c.relname, 17) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'archived_scores'::regclass ORDER BY 1`).Scan(&months).Error
	if err != nil {
		i.t.Fatal(err)
	}
	return months
}

// The job drops months that are older than the retention. Their days are then
// empty, which is not an error.
func TestRetention(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	csv := "user_id,date,steps\n1,2016-04-30,5\n1,2026-09-30,6\n1,2026-10-01,7\n1,2026-11-10,8\n1,2026-11-19,9\n"
	if status, said, _ := i.run("steps", csv); status != 0 || !strings.Contains(said, "4 days archived") {
		t.Errorf("status %d: %s", status, said)
	}
	if got, want := i.partitions(), []string{"201604", "202609", "202610", "202611"}; !slices.Equal(got[:4], want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	i.env.Config.Clock.Offset = time.Until(testenv.Noon)
	p := testenv.Serve(t, i.env.Config, "--archive.retain_months=1")
	s := &server{t: t, env: i.env, url: p.URL}
	s.waitForStartJobs()
	if got, left := i.partitions(), []string{"202610", "202611", "202612"}; !slices.Equal(got, left) {
		t.Errorf("partitions %v, want %v", got, left)
	}
	for query, want := range map[string][]string{
		"?from=2016-04-01&to=2016-05-31": {},
		"?from=2026-01-01":               {"2026-11-19 hot", "2026-11-10 archive", "2026-10-01 archive"},
	} {
		var h history
		s.want(s.as("1", "GET", "/v1/boards/steps/history"+query, nil), http.StatusOK, &h)
		if diff := cmp.Diff(want, h.dates()); diff != "" {
			t.Errorf("%s -want +got:\n%s", query, diff)
		}
	}
	p.Stop()
}
