package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// shardUsers is the number of users who upload.
const shardUsers = 40

// A board gets more shards from one day to the next.
func TestMoreShards(t *testing.T) {
	t.Parallel()
	testMoreShards(t, testenv.Real(t))
}

func testMoreShards(t *testing.T, env *testenv.Env) {
	t.Helper()
	testenv.NumberUsers(t, env, shardUsers)
	one := newServer(t, env, func(c *config.Config) { c.Boards[0].Shards = 1 })
	one.waitForStartJobs()
	friends := make([]string, shardUsers-1)
	for i := range friends {
		friends[i] = fmt.Sprintf("%q", fmt.Sprint(i+2))
	}
	one.want(one.service("PUT", "/v1/users/1/friends", `{"friend_ids":[`+strings.Join(friends, ",")+`]}`), http.StatusOK, nil)
	before, after := harness.DayScores{}, harness.DayScores{}
	uploadHalf(one, before, harness.NoonDay)
	checkDay(one, before, harness.NoonDay, models.SourceHot)

	// The settings change while a process with the old ones keeps running.
	sixteen := newServer(t, env, func(c *config.Config) { c.Boards[0].Shards = 16 })
	sixteen.waitForStartJobs()
	env.Clock.Advance(24 * time.Hour)
	uploadHalf(sixteen, after, harness.NoonDay+1)
	var shards []int
	if err := env.Gorm.Raw(`SELECT shards FROM board_buckets WHERE board = 'steps' ORDER BY bucket`).Scan(&shards).Error; err != nil || !slices.Equal(shards, []int{1, 16}) {
		t.Errorf("the days have %d shards, want 1 and 16: %v", shards, err)
	}
	for _, s := range []*server{one, sixteen} {
		// Both days still take uploads, through either process.
		env.Clock.Advance(time.Minute)
		uploadHalf(s, before, harness.NoonDay)
		uploadHalf(s, after, harness.NoonDay+1)
		for _, reader := range []*server{one, sixteen} {
			checkDay(reader, before, harness.NoonDay, models.SourceHot)
			checkDay(reader, after, harness.NoonDay+1, models.SourceHot)
		}
	}

	env.Clock.Advance(5 * 24 * time.Hour)
	sixteen.archiveDue()
	for _, s := range []*server{one, sixteen} {
		checkDay(s, before, harness.NoonDay, models.SourceArchive)
		checkDay(s, after, harness.NoonDay+1, models.SourceArchive)
	}
}

// uploadHalf uploads scores of half of the users. It uses few scores, so that
// many tie, and some are no better than the user's former score.
func uploadHalf(s *server, d harness.DayScores, day models.Date) {
	s.t.Helper()
	var items []string
	for _, user := range rand.Perm(shardUsers)[:shardUsers/2] {
		n := harness.Score{User: models.RowID(user + 1), Points: rand.Int64N(10), At: models.TimestampOf(s.env.Clock.Now())}
		items = append(items, fmt.Sprintf(`{"user_id":"%d","date":%q,"score":%d}`, n.User, day, n.Points))
		d.Add(n)
	}
	var got struct {
		Accepted int        `json:"accepted"`
		Rejected []struct{} `json:"rejected"`
		Held     []int      `json:"held"`
	}
	s.want(s.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[`+strings.Join(items, ",")+`]}`), http.StatusOK, &got)
	if got.Accepted != len(items) {
		s.t.Errorf("%d of %d scores accepted", got.Accepted, len(items))
	}
}

// checkDay compares every list of the day with the sorted scores.
func checkDay(s *server, d harness.DayScores, day models.Date, source models.Source) {
	s.t.Helper()
	sorted := d.Sorted()
	want := make([]string, len(sorted))
	for i, n := range sorted {
		want[i] = fmt.Sprintf("%d. %d: %d at %s", i+1, n.User, n.Points, n.At.Time().Format("15:04:05.000"))
	}
	for _, call := range []string{"friends", "top"} {
		var got []string
		for page := "?limit=7&date=" + day.String(); page != ""; {
			var r models.Ranking
			s.want(s.as("1", "GET", "/v1/boards/steps/"+call+page, nil), http.StatusOK, &r)
			if r.Source != source || int(r.Total) != len(want) {
				s.t.Errorf("%s of %s: %d entries from %s, want %d from %s", call, day, r.Total, r.Source, len(want), source)
			}
			got = append(got, rankLines(r)...)
			page = ""
			if r.NextCursor != nil {
				page = "?limit=7&date=" + day.String() + "&cursor=" + *r.NextCursor
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			s.t.Errorf("%s of %s -want +got:\n%s", call, day, diff)
		}
	}
	for i, n := range sorted {
		var r models.Ranking
		s.want(s.as(testenv.ID(n.User), "GET", "/v1/boards/steps/around?radius=2&date="+day.String(), nil), http.StatusOK, &r)
		first := min(max(0, i-2), len(want)-5) // at the ends of the list the user is not in the middle
		if diff := cmp.Diff(want[first:first+5], rankLines(r)); diff != "" {
			s.t.Errorf("around %v on %s -want +got:\n%s", n.User, day, diff)
		}
	}
}
