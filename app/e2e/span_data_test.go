package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
	stepsfile "stepboard/services/operations/importer"
)

// importedLines is an importer.Report of a file without bad lines.
type importedLines struct{ t *testing.T }

func (importedLines) Line()    {}
func (importedLines) Done(int) {}
func (r importedLines) BadLine(number int, reason error) error {
	return fmt.Errorf("line %d: %w", number, reason)
}
func (importedLines) Note(int, string)               {}
func (r importedLines) Warn(number int, what string) { r.t.Errorf("line %d: %s", number, what) }

// stepsOf returns the lines of the step counts until a day, and what each person walked on
// each date.
func stepsOf(t *testing.T, until string) (file string, walked map[string]map[string]int) {
	t.Helper()
	var lines strings.Builder
	walked = make(map[string]map[string]int)
	for line := range strings.Lines(readData(t, "fitbit-hourly-steps.csv")) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		hour, err := time.Parse("2006-1-2 15:04", fields[1])
		if err != nil { // the header
			lines.WriteString(line)
			continue
		}
		date := hour.Format(time.DateOnly)
		if date > until {
			continue
		}
		lines.WriteString(line)
		if walked[fields[0]] == nil {
			walked[fields[0]] = make(map[string]int)
		}
		walked[fields[0]][date] += testenv.Must(strconv.Atoi(fields[2]))
	}
	return lines.String(), walked
}

// The weeks and the month of real people, of whose days some are in Redis and most in the
// archive, are the sums of the file, among friends and in a group.
func TestSpansOfRealSteps(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	const today = "2016-05-09"
	env.Clock.Set(time.Date(2016, 5, 9, 15, 0, 0, 0, time.UTC)) // an hour before midnight in Shanghai
	s := newServer(t, env)
	s.waitForStartJobs()
	file, walked := stepsOf(t, today)
	board := testenv.Must(s.app.Catalog.Definitions.Board("steps"))
	testenv.Must(s.app.Importer.ImportSteps(t.Context(), strings.NewReader(file), board, stepsfile.StepsImportOptions{}, importedLines{t}))
	people := slices.Sorted(maps.Keys(walked))
	if len(people) != 33 {
		t.Fatalf("%d people", len(people))
	}
	members := `["` + strings.Join(people, `","`) + `"]`
	others := `["` + strings.Join(people[1:], `","`) + `"]`
	s.want(s.service("PUT", "/v1/users/"+people[0]+"/friends", `{"friend_ids":`+others+`}`), http.StatusOK, nil)
	s.want(s.service("PUT", "/v1/groups/walkers/members", `{"member_ids":`+members+`}`), http.StatusOK, nil)
	for _, span := range [][2]string{
		{"2016-04-12", "2016-04-17"}, {"2016-04-18", "2016-04-24"}, {"2016-04-25", "2016-05-01"}, {"2016-05-02", "2016-05-08"},
		{"2016-05-03", today}, {"2016-04-12", today},
	} {
		for _, circle := range []string{"friends", "groups/walkers"} {
			path := fmt.Sprintf("/v1/boards/steps/%s?limit=50&from=%s&to=%s", circle, span[0], span[1])
			var r models.Ranking
			s.want(s.as(models.UserID(people[0]), "GET", path, nil), http.StatusOK, &r)
			checkSums(t, path, r, walked, span)
		}
	}
}

// checkSums compares a ranking with the sums of what was walked in a span.
func checkSums(t *testing.T, path string, r models.Ranking, walked map[string]map[string]int, span [2]string) {
	t.Helper()
	type sum struct{ steps, days int64 }
	want, got := make(map[string]sum), make(map[string]sum)
	for person, days := range walked {
		var total sum
		for date, steps := range days {
			if date >= span[0] && date <= span[1] {
				total.steps, total.days = total.steps+int64(steps), total.days+1
			}
		}
		if total.days > 0 {
			want[person] = total
		}
	}
	for i, e := range r.Entries {
		got[string(e.User)] = sum{e.Score, e.Days}
		if e.Rank != int64(i+1) || i > 0 && e.Score > r.Entries[i-1].Score {
			t.Errorf("%s: place %d has rank %d and %d steps", path, i+1, e.Rank, e.Score)
		}
	}
	if !maps.Equal(got, want) || int(r.Total) != len(want) {
		t.Errorf("%s: %d people, want %d:\n%v\n%v", path, r.Total, len(want), got, want)
	}
}
