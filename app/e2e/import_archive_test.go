package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// dayLines returns the ranking of a day as lines: "rank. user score
// reached-at".
func (s *server) dayLines(date string, source models.Source) (lines []string) {
	s.t.Helper()
	r := s.topOf(date)
	if r.Source != source || int(r.Total) != len(r.Entries) {
		s.t.Errorf("%s: %d entries from %s, want %s", date, r.Total, r.Source, source)
	}
	for _, e := range r.Entries {
		lines = append(lines, fmt.Sprintf("%d. %v %d %s", e.Rank, e.User, e.Score, testenv.Must(e.ReachedAt.MarshalText())))
	}
	return lines
}

// topOf returns the first 200 of a day.
func (s *server) topOf(date string) (r models.Ranking) {
	s.t.Helper()
	s.want(s.as("1", "GET", "/v1/boards/steps/top?limit=200&date="+date, nil), http.StatusOK, &r)
	return r
}

// Old days are imported straight into the archive, in any number of runs.
func TestImportOfOldDays(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	s := newServer(t, i.env) // runs all the time
	s.waitForStartJobs()
	want := func(when, date string, source models.Source, lines ...string) {
		t.Helper()
		if diff := cmp.Diff(lines, s.dayLines(date, source)); diff != "" {
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
	testenv.Eventually(t, "the service finds the days", func() bool { return len(s.topOf("2016-04-30").Entries) > 0 })
	const april, may, leap = "2016-04-30T15:59:59.999Z", "2016-05-01T15:59:59.999Z", "2016-02-29T15:59:59.999Z"
	first := []string{"1. 1 700 " + april, "2. 9 500 " + april, "3. 10 500 " + april, "4. 2 0 " + april}
	whole := func(when string) {
		t.Helper()
		want(when, "2016-04-30", models.SourceArchive, first...)
		want(when, "2016-05-01", models.SourceArchive, "1. 1 30 "+may)
		want(when, "2016-02-29", models.SourceArchive, "1. 2 40 "+leap)
		want(when, "2026-11-19", models.SourceHot, "1. 1 50 2026-11-19T15:59:59.999Z")
		want(when, "2016-04-29", models.SourceHot) // has no uploads
	}
	whole("imported")
	if got, want := i.partitions(), []string{"201602", "201604", "201605", "202611", "202612"}; !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	var h history
	s.want(s.as("1", "GET", "/v1/boards/steps/history?from=2016-04-01&to=2016-05-31", nil), http.StatusOK, &h)
	if diff := cmp.Diff([]string{"2016-05-01 archive", "2016-04-30 archive"}, h.dates()); diff != "" || h.Entries[1].GlobalRank != 1 || h.Entries[1].GlobalTotal != 4 {
		t.Errorf("history %+v", h)
	}

	imports(daily, "0 totals raised", "3 days archived")
	whole("imported again")

	// The second import has more users, larger and smaller totals, and the hours
	// of a day.
	imports("user_id,date,steps\n3,2016-04-30,600\n2,2016-04-30,800\n1,2016-04-30,650\n", "2 totals raised", "1 days archived")
	first = []string{"1. 2 800 " + april, "2. 1 700 " + april, "3. 3 600 " + april, "4. 9 500 " + april, "5. 10 500 " + april}
	whole("the second import")
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
	for _, r := range s.archiveRuns("?limit=200").Runs {
		if r.State != models.ArchiveComplete || r.Attempts != 1 {
			t.Errorf("run %+v", r)
		}
	}
}

// keys returns the matching keys of the test in Redis.
func (i *importer) keys(pattern string) []string {
	i.t.Helper()
	keys, err := i.env.Redis.Keys(i.t.Context(), i.env.Keys.Prefix+pattern).Result()
	if err != nil {
		i.t.Fatal(err)
	}
	return keys
}
