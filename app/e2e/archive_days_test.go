package e2e_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// at is the command line of a process whose clock shows the given time.
func (i *importer) at(now time.Time, args ...string) []string {
	i.env.Config.Clock.Offset = time.Until(now)
	return append(args, testenv.Flags(i.env.Config)...)
}

// summary is what archive prints of a bucket, without the time that it took.
var summary = regexp.MustCompile(`(?m), in [0-9.]+(µs|ms|s)$`)

func TestArchiveCommand(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	if text := command(i.at(testenv.Noon, "archive")...).succeeds(t); text != "nothing is due\n" {
		t.Errorf("with nothing due it prints %q", text)
	}
	if status, said, _ := i.run("steps", "user_id,date,steps\n1,2026-11-17,100\n2,2026-11-17,250\n1,2026-11-18,7\n1,2026-11-19,8\n"); status != 0 {
		t.Fatal(said)
	}
	archive := func(now time.Time, args ...string) string {
		t.Helper()
		return summary.ReplaceAllString(command(i.at(now, append([]string{"archive"}, args...)...)...).succeeds(t), "")
	}
	// One day later the 17th has turned cold, and it is due an hour after.
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
		command(i.at(midnight.Add(2*time.Hour), append([]string{"archive"}, tt.args...)...)...).fails(t, 1, tt.words...)
	}
	command("archive", "now").fails(t, 2, "--help")
	// A day that is archived already is looked at again, and that is all.
	if text := archive(midnight.Add(2*time.Hour), "--bucket", "2026-11-17"); text != first {
		t.Errorf("again it prints %q", text)
	}
	// All that has piled up, each with its line; of the 20th nobody has
	// uploaded anything.
	want := "steps 2026-11-18: run 1 moved 1 entries; the archive holds 1, sum of scores 7\n" +
		"steps 2026-11-19: run 1 moved 1 entries; the archive holds 1, sum of scores 8\n" +
		"steps 2026-11-20: run 1 moved 0 entries; the archive holds 0, sum of scores 0\n"
	if text := archive(midnight.Add(3*24*time.Hour + time.Hour)); text != want {
		t.Errorf("it prints %q", text)
	}
	// With several boards a day needs the name of one.
	boards := `--boards=[{name: steps}, {name: walk}]`
	later := midnight.Add(3*24*time.Hour + time.Hour)
	command(i.at(later, "archive", "--bucket", "2026-11-17", boards)...).fails(t, 1, "--bucket 2026-11-17", "--board")
	if text := archive(later, "--bucket", "2026-11-17", "--board", "steps", boards); text != first {
		t.Errorf("of one of two boards it prints %q", text)
	}
	if text := archive(later, "--board", "walk", boards); text != "nothing is due\n" {
		t.Errorf("of a new board it prints %q", text)
	}
}

// One day that fails does not keep the others.
func TestArchiveCommandGoesOnBehindAFailure(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	if status, said, _ := i.run("steps", "user_id,date,steps\n1,2026-11-17,1\n1,2026-11-18,2\n1,2026-11-19,3\n"); status != 0 {
		t.Fatal(said)
	}
	// The 18th can't be stored.
	for _, statement := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.day = '2026-11-18' THEN RETURN NULL; END IF; RETURN NEW; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT ON archived_scores FOR EACH ROW EXECUTE FUNCTION refuse()`,
	} {
		i.exec(statement)
	}
	args := i.at(testenv.Noon.AddDate(0, 0, 3).Add(5*time.Hour), "archive")
	o := command(args...)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	// Of the 20th there is nothing, and that is archived too.
	if o.status != 1 || len(lines) != 3 || !strings.HasPrefix(lines[0], "steps 2026-11-17: run 1 moved 1") ||
		!strings.HasPrefix(lines[1], "steps 2026-11-19: run 1 moved 1") || !strings.HasPrefix(lines[2], "steps 2026-11-20: run 1 moved 0") {
		t.Errorf("status %d: %q", o.status, o.stdout)
	}
	if !regexp.MustCompile(`^stepboard: archive 2026-11-18 of board steps: verification failed: read 1 rows, .*; the archive would hold 0 rows, .*\n$`).MatchString(o.stderr) {
		t.Errorf("it says %q", o.stderr)
	}
	i.exec(`DROP TRIGGER refuse ON archived_scores`)
	if text := command(args...).succeeds(t); !strings.HasPrefix(text, "steps 2026-11-18: run 1 moved 1 entries; the archive holds 1, sum of scores 2, in ") {
		t.Errorf("mended, it prints %q", text)
	}
}

// exec runs a statement in the test's schema.
func (i *importer) exec(statement string) {
	i.t.Helper()
	if _, err := i.env.Pool.Exec(i.t.Context(), statement); err != nil {
		i.t.Fatalf("%s: %v", statement, err)
	}
}

// partitions lists the months of the archive.
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

// day is what is answered of a day: "rank user score reached-at" of everybody.
func (s *server) day(date string, source models.Source) (lines []string) {
	s.t.Helper()
	var r models.Ranking
	s.want(s.as(1, "GET", "/v1/boards/steps/top?limit=200&date="+date, nil), http.StatusOK, &r)
	if r.Source != source || int(r.Total) != len(r.Entries) {
		s.t.Errorf("%s: %d entries from %s, want %s", date, r.Total, r.Source, source)
	}
	for _, e := range r.Entries {
		lines = append(lines, fmt.Sprintf("%d. %v %d %s", e.Rank, e.User, e.Score, testenv.Must(e.ReachedAt.MarshalText())))
	}
	return lines
}

// Old days go straight to the archive, in as many goes as it takes.
func TestImportOfOldDays(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	s := newServer(t, i.env) // has been running all the time
	s.waitForStartJobs()
	want := func(when, date string, source models.Source, lines ...string) {
		t.Helper()
		if diff := cmp.Diff(lines, s.day(date, source)); diff != "" {
			t.Errorf("%s, %s -want +got:\n%s", when, date, diff)
		}
	}
	imports := func(text string, words ...string) {
		t.Helper()
		status, said, _ := i.run("steps", text)
		if status != 0 {
			t.Errorf("status %d: %s", status, said)
		}
		for _, word := range words {
			if !strings.Contains(said, word) {
				t.Errorf("%q does not say %q", said, word)
			}
		}
	}
	want("before", "2016-04-30", models.SourceHot)
	daily := "user_id,date,steps\n" +
		"9,2016-04-30,500\n10,2016-04-30,500\n1,2016-04-30,700\n2,2016-04-30,0\n" +
		"1,2016-05-01,30\n2,2016-02-29,40\n1,2026-11-19,50\n"
	imports(daily, "7 totals raised", "3 days archived")
	const april, may, leap = "2016-04-30T15:59:59.999Z", "2016-05-01T15:59:59.999Z", "2016-02-29T15:59:59.999Z"
	first := []string{"1. 1 700 " + april, "2. 9 500 " + april, "3. 10 500 " + april, "4. 2 0 " + april}
	whole := func(when string) {
		t.Helper()
		want(when, "2016-04-30", models.SourceArchive, first...)
		want(when, "2016-05-01", models.SourceArchive, "1. 1 30 "+may)
		want(when, "2016-02-29", models.SourceArchive, "1. 2 40 "+leap)
		want(when, "2026-11-19", models.SourceHot, "1. 1 50 2026-11-19T15:59:59.999Z")
		want(when, "2016-04-29", models.SourceHot) // nobody has uploaded anything
	}
	whole("imported")
	if got, want := i.partitions(), []string{"201602", "201604", "201605", "202611", "202612"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	var h history
	s.want(s.as(1, "GET", "/v1/boards/steps/history?from=2016-04-01&to=2016-05-31", nil), http.StatusOK, &h)
	if diff := cmp.Diff([]string{"2016-05-01 archive", "2016-04-30 archive"}, h.dates()); diff != "" || h.Entries[1].GlobalRank != 1 || h.Entries[1].GlobalTotal != 4 {
		t.Errorf("history %+v", h)
	}

	imports(daily, "7 totals raised", "3 days archived")
	whole("imported again")

	// The second go has more users, better and worse totals, and the hours of a
	// day.
	imports("user_id,date,steps\n3,2016-04-30,600\n2,2016-04-30,800\n1,2016-04-30,650\n", "1 days archived")
	first = []string{"1. 2 800 " + april, "2. 1 700 " + april, "3. 3 600 " + april, "4. 9 500 " + april, "5. 10 500 " + april}
	whole("the second go")
	imports("Id,ActivityHour,StepTotal\n10,2016-4-30 8:00,400\n10,2016-4-30 9:00,100\n4,2016-4-30 23:00,500\n", "2 totals raised", "1 days archived")
	first = []string{
		"1. 2 800 " + april, "2. 1 700 " + april, "3. 3 600 " + april,
		"4. 10 500 2016-04-30T02:00:00.000Z", "5. 9 500 " + april, "6. 4 500 2016-04-30T16:00:00.000Z",
	}
	whole("the hours")
	imports(daily)
	whole("the first again")
	if left := i.keys("board:*2016*"); len(left) != 0 {
		t.Errorf("Redis still has %v", left)
	}
	for _, r := range s.list("?limit=200").Runs {
		if r.State != models.ArchiveComplete || r.Attempts != 1 {
			t.Errorf("run %+v", r)
		}
	}
}

// What is imported into a day that is cold, and still in Redis, comes late: it
// is not seen before the archive has merged it.
func TestImportIntoADayOnItsWay(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	s := newServer(t, i.env)
	s.waitForStartJobs()
	imports := func(now time.Time, text, word string) {
		t.Helper()
		i.env.Config.Clock.Offset = time.Until(now)
		if status, said, _ := i.run("steps", "user_id,date,steps\n"+text); status != 0 || !strings.Contains(said, word) {
			t.Errorf("status %d: %s", status, said)
		}
	}
	const at = "2026-11-17T15:59:59.999Z"
	imports(testenv.Noon, "1,2026-11-17,100\n2,2026-11-17,250\n", "2 totals raised, 0 bad lines")
	midnight := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	imports(midnight.Add(30*time.Minute), "3,2026-11-17,300\n1,2026-11-17,400\n", "1 days left to the next archival")
	i.env.Clock.Set(midnight.Add(30 * time.Minute))
	if diff := cmp.Diff([]string{"1. 2 250 " + at, "2. 1 100 " + at}, s.day("2026-11-17", models.SourceHot)); diff != "" {
		t.Errorf("before it is archived -want +got:\n%s", diff)
	}
	i.env.Clock.Set(midnight.Add(time.Hour))
	imports(midnight.Add(time.Hour), "4,2026-11-17,350\n", "1 days archived")
	want := []string{"1. 1 400 " + at, "2. 4 350 " + at, "3. 3 300 " + at, "4. 2 250 " + at}
	if diff := cmp.Diff(want, s.day("2026-11-17", models.SourceArchive)); diff != "" {
		t.Errorf("archived -want +got:\n%s", diff)
	}
	if left := i.keys("board:*20261117*"); len(left) != 0 {
		t.Errorf("Redis still has %v", left)
	}
}

// keys lists keys of the test's Redis.
func (i *importer) keys(pattern string) []string {
	i.t.Helper()
	keys, err := i.env.Redis.Keys(i.t.Context(), i.env.Keys.Prefix+pattern).Result()
	if err != nil {
		i.t.Fatal(err)
	}
	return keys
}

// Months that are kept no longer are dropped by the job; their days are empty
// then, and no error.
func TestDaysThatAreKeptNoLonger(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	csv := "user_id,date,steps\n1,2016-04-30,5\n1,2026-09-30,6\n1,2026-10-01,7\n1,2026-11-10,8\n1,2026-11-19,9\n"
	serve := func(left ...string) (*server, *testenv.Process) {
		t.Helper()
		i.env.Config.Clock.Offset = time.Until(testenv.Noon)
		p := testenv.Serve(t, i.env.Config, "--archive.retain_months=1")
		s := &server{t: t, env: i.env, url: p.URL}
		s.waitForStartJobs()
		if got := i.partitions(); !slices.Equal(got, left) {
			t.Errorf("partitions %v, want %v", got, left)
		}
		return s, p
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for range 2 {
		if status, said, _ := i.run("steps", csv); status != 0 || !strings.Contains(said, "4 days archived") {
			t.Errorf("status %d: %s", status, said)
		}
		if got, want := i.partitions(), []string{"201604", "202609", "202610", "202611"}; !slices.Equal(got[:4], want) {
			t.Errorf("partitions %v, want %v", got, want)
		}
		s, p := serve("202610", "202611", "202612")
		for date, want := range map[string]int{"2016-04-30": 0, "2026-09-30": 0, "2026-10-01": 1, "2026-11-10": 1} {
			for _, call := range []string{"friends", "top", "around"} {
				var r models.Ranking
				s.want(s.as(1, "GET", "/v1/boards/steps/"+call+"?date="+date, nil), http.StatusOK, &r)
				if int(r.Total) != want || len(r.Entries) != want || (r.Me != nil) != (want > 0) || r.Entries == nil || !r.Final {
					t.Errorf("%s of %s: %+v", call, date, r)
				}
			}
			s.want(s.as(1, "GET", "/v1/boards/steps/me?date="+date, nil), http.StatusOK, nil)
		}
		for query, want := range map[string][]string{
			"?from=2016-04-01&to=2016-05-31": {},
			"?from=2026-01-01":               {"2026-11-19 hot", "2026-11-10 archive", "2026-10-01 archive"},
		} {
			var h history
			s.want(s.as(1, "GET", "/v1/boards/steps/history"+query, nil), http.StatusOK, &h)
			if diff := cmp.Diff(want, h.dates()); diff != "" {
				t.Errorf("%s -want +got:\n%s", query, diff)
			}
		}
		if status := p.Stop(); status != 0 {
			t.Errorf("stopped with status %d: %s", status, p.Log())
		}
	}
}

// Where somebody has taken a month out of the archive, nothing is made in its
// place: it says which table stands there, and the days wait in Redis.
func TestAMonthThatWasTakenOut(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	if status, said, _ := i.run("steps", "user_id,date,steps\n1,2016-04-20,5\n"); status != 0 {
		t.Fatal(said)
	}
	i.exec(`ALTER TABLE archived_scores DETACH PARTITION archived_scores_201604`)
	const complaint = "table archived_scores_201604 is no partition of archived_scores: attach it, or rename it"
	csv := "user_id,date,steps\n1,2016-04-20,6\n2,2016-04-21,7\n3,2016-05-01,8\n"
	status, said, _ := i.run("steps", csv)
	if status != 1 || !strings.HasPrefix(said, "stepboard: after 3 lines: the totals are kept, and the next archival brings them to where they are read: archive 2016-04-20 of board steps: "+complaint) || strings.Count(said, "\n") != 1 {
		t.Errorf("status %d: %s", status, said)
	}
	o := command(i.at(testenv.Noon, "archive")...)
	if o.status != 1 || strings.Count(o.stderr, complaint) != 2 || !strings.HasPrefix(o.stdout, "steps 2016-05-01: run 1 moved 1 entries") {
		t.Errorf("archive: status %d, %q, %q", o.status, o.stdout, o.stderr)
	}
	s := newServer(t, i.env)
	s.waitForStartJobs() // its job fails too
	failed := make(map[string]bool)
	for _, r := range s.list("?state=failed").Runs {
		failed[r.Bucket] = strings.Contains(r.Error, complaint) && r.FinishedAt != nil
	}
	if diff := cmp.Diff(map[string]bool{"20160420": true, "20160421": true}, failed); diff != "" {
		t.Errorf("failed runs -want +got:\n%s", diff)
	}
	var r models.Ranking
	s.want(s.as(1, "GET", "/v1/boards/steps/top?date=2016-04-20", nil), http.StatusOK, &r)
	if r.Total != 0 {
		t.Errorf("without its month the day is answered as %+v", r)
	}
	i.exec(`ALTER TABLE archived_scores ATTACH PARTITION archived_scores_201604 FOR VALUES FROM ('2016-04-01') TO ('2016-05-01')`)
	if text := command(i.at(testenv.Noon, "archive")...).succeeds(t); strings.Count(text, "\n") != 2 {
		t.Errorf("mended, it prints %q", text)
	}
	if diff := cmp.Diff([]string{"1. 1 6 2016-04-20T15:59:59.999Z"}, s.day("2016-04-20", models.SourceArchive)); diff != "" {
		t.Errorf("mended -want +got:\n%s", diff)
	}
	if left := i.keys("board:*2016*"); len(left) != 0 {
		t.Errorf("Redis still has %v", left)
	}
}
