package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// The program imports a real friendship graph and real step counts, twice.
// Every user's friend ranking, page by page, is the brute-force one. As 4,039
// users share the steps of 33 people, each score occurs about 120 times, so
// ties count.
func TestEveryFriendRankingOfTheRealGraph(t *testing.T) {
	t.Parallel()
	testenv.Sometimes(t)
	zone := testenv.Must(time.LoadLocation("Asia/Shanghai"))
	friends := readGraph(t)
	walkers := readWalkers(t, zone)
	day := time.Date(2016, 4, 20, 0, 0, 0, 0, zone)
	next := day.AddDate(0, 0, 1)

	scores := make(map[int]dayScore)
	var csv strings.Builder
	csv.WriteString("Id,ActivityHour,StepTotal\n")
	for user := range friends {
		w := walkers[(user-1)%len(walkers)]
		if d, ok := w.day(day, next); ok {
			scores[user] = d
		}
		for hour, steps := range w {
			if !hour.Before(day) && hour.Before(next) {
				fmt.Fprintf(&csv, "%d,%s,%d\n", user, hour.Format("2006-1-2 15:04"), steps)
			}
		}
	}
	steps := filepath.Join(t.TempDir(), "steps.csv")
	if err := os.WriteFile(steps, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}

	cfg := testenv.RealConfig(t).Config
	cfg.Auth.HS256Secret = harness.Secret
	cfg.Clock.Offset = time.Until(next.Add(12 * time.Hour)).Round(time.Second)
	settings := testenv.Flags(cfg)
	mustRun(t, append([]string{"migrate", "up"}, settings...)...)
	edges := testenv.RealData(t, "ego-facebook-edges.txt")
	importAll := func() string {
		said := mustRun(t, append([]string{"import", "friends", edges, "--offset", "1"}, settings...)...)
		return said + mustRun(t, append([]string{"import", "steps", steps}, settings...)...)
	}
	first := importAll()
	if !strings.Contains(first, "88234 new friendships") {
		t.Errorf("import said %q", first)
	}

	p := testenv.Serve(t, cfg)
	asked := rankedDay{day.Format(time.DateOnly), models.SourceHot, false}
	rows := rowTexts(t, cfg.Postgres.DSN)
	users := slices.Sorted(maps.Keys(friends))
	answers := checkRankings(t, p.URL, asked, users, friends, scores, rows)
	again := importAll()
	if !strings.Contains(again, " 0 new friendships") {
		t.Errorf("the second import said %q", again)
	}
	some := everyNth(users, 10, 0)
	if repeated := checkRankings(t, p.URL, asked, some, friends, scores, rows); !slices.Equal(everyNth(answers, 10, 0), repeated) {
		t.Error("importing again has changed an answer")
	}
	p.Stop()
}

// rankedDay is a day whose rankings are read, and the expected source and state
// of its answers.
type rankedDay struct {
	date   string
	source models.Source
	final  bool
}

// everyNth returns each nth element of a list, from the given one on.
func everyNth[T any](list []T, n, from int) (some []T) {
	for i := from; i < len(list); i += n {
		some = append(some, list[i])
	}
	return some
}

// checkRankings compares the rankings of users with the brute-force ones and
// returns the answers.
func checkRankings(
	t *testing.T, url string, asked rankedDay, users []int, friends graph, scores map[int]dayScore, rows map[int]string,
) []string {
	t.Helper()
	answers := make([]string, len(users))
	client := newClient()
	defer client.CloseIdleConnections()
	inParallel(len(users), func(i int) {
		answers[i] = checkRanking(t, client, url, asked, users[i], bruteForce(users[i], friends[users[i]], scores, rows))
	})
	return answers
}

// checkRanking compares one user's ranking, page by page, and returns the
// answers.
func checkRanking(t *testing.T, client *http.Client, url string, asked rankedDay, user int, want []ranked) string {
	bearer := harness.Token(t, testenv.ID(user), "")
	var got []models.RankedEntry
	var all strings.Builder
	cursor := ""
	for {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/boards/steps/friends?limit=100&date="+asked.date+"&cursor="+cursor, nil)
		if err != nil {
			t.Error(err)
			return ""
		}
		r.Header.Set("Authorization", "Bearer "+bearer)
		res, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return ""
		}
		var page models.Ranking
		body, err := io.ReadAll(res.Body)
		err = errors.Join(err, res.Body.Close(), json.Unmarshal(body, &page))
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("user %d: %d %s %v", user, res.StatusCode, body, err)
			return ""
		}
		all.Write(body)
		got = append(got, page.Entries...)
		if page.Source != asked.source || page.Final != asked.final || *page.Date != asked.date {
			t.Errorf("user %d: %s, %s, final %v, want %+v", user, *page.Date, page.Source, page.Final, asked)
		}
		checkOwn(t, user, page, want)
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if len(got) != len(want) {
		t.Errorf("user %d: %d lines, want %d", user, len(got), len(want))
		return ""
	}
	for i, e := range got {
		if e.Rank != int64(i+1) || e.User != testenv.ID(want[i].user) || e.Score != int64(want[i].score) || !e.ReachedAt.Time().Equal(want[i].reachedAt) {
			t.Errorf("user %d: line %d is %+v, want %+v", user, i+1, e, want[i])
			return ""
		}
	}
	return all.String()
}

// checkOwn checks the viewer's own line and the total of a page.
func checkOwn(t *testing.T, user int, page models.Ranking, want []ranked) {
	own := 1 + slices.IndexFunc(want, func(r ranked) bool { return r.user == user })
	switch {
	case page.Total != int64(len(want)):
		t.Errorf("user %d: total %d, want %d", user, page.Total, len(want))
	case own == 0 && page.Me != nil:
		t.Errorf("user %d: has no score, but the line %+v", user, page.Me)
	case own > 0 && (page.Me == nil || page.Me.Rank != int64(own)):
		t.Errorf("user %d: own line %+v, want rank %d", user, page.Me, own)
	}
}
