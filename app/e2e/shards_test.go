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

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// A board gets more shards from one day to the next.
func TestMoreShards(t *testing.T) {
	t.Parallel()
	testenv.Each(t, testMoreShards)
}

func testMoreShards(t *testing.T, env *testenv.Env) {
	t.Helper()
	one := newServer(t, env, func(c *config.Config) { c.Boards[0].Shards = 1 })
	one.waitForStartJobs()
	friends := make([]string, shardedUsers-1)
	for i := range friends {
		friends[i] = fmt.Sprintf("%q", fmt.Sprint(i+2))
	}
	one.want(one.service("PUT", "/v1/users/1/friends", `{"friend_ids":[`+strings.Join(friends, ",")+`]}`), http.StatusOK, nil)
	before, after := dayOfScores{}, dayOfScores{}
	before.upload(one, noonDay)
	before.check(one, noonDay, models.SourceHot)

	// The settings change under a process that goes on.
	sixteen := newServer(t, env, func(c *config.Config) { c.Boards[0].Shards = 16 })
	sixteen.waitForStartJobs()
	env.Clock.Advance(24 * time.Hour)
	after.upload(sixteen, noonDay+1)
	var shards []int
	if err := env.Gorm.Raw(`SELECT shards FROM board_buckets WHERE board = 'steps' ORDER BY bucket`).Scan(&shards).Error; err != nil || !slices.Equal(shards, []int{1, 16}) {
		t.Errorf("the days have %d shards, want 1 and 16: %v", shards, err)
	}
	for _, s := range []*server{one, sixteen} {
		// Both days still take uploads, whoever takes them.
		env.Clock.Advance(time.Minute)
		before.upload(s, noonDay)
		after.upload(s, noonDay+1)
		for _, reader := range []*server{one, sixteen} {
			before.check(reader, noonDay, models.SourceHot)
			after.check(reader, noonDay+1, models.SourceHot)
		}
	}

	env.Clock.Advance(5 * 24 * time.Hour)
	sixteen.archiveDue()
	for _, s := range []*server{one, sixteen} {
		before.check(s, noonDay, models.SourceArchive)
		after.check(s, noonDay+1, models.SourceArchive)
	}
}

// upload uploads scores of half of the users, few scores, so that many tie and
// some are no better than what stands there.
func (d dayOfScores) upload(s *server, day models.Date) {
	s.t.Helper()
	var items []string
	for _, user := range rand.Perm(shardedUsers)[:shardedUsers/2] {
		n := standing{user: models.UserID(user + 1), points: rand.Int64N(10), at: models.TimestampOf(s.env.Clock.Now())}
		items = append(items, fmt.Sprintf(`{"user_id":"%d","date":%q,"score":%d}`, n.user, day, n.points))
		d.add(n)
	}
	var got struct {
		Accepted int        `json:"accepted"`
		Rejected []struct{} `json:"rejected"`
	}
	s.want(s.service("POST", "/v1/boards/steps/scores/batch", `{"scores":[`+strings.Join(items, ",")+`]}`), http.StatusOK, &got)
	if got.Accepted != len(items) {
		s.t.Errorf("%d of %d scores accepted", got.Accepted, len(items))
	}
}

// check compares every list of the day with the scores, sorted.
func (d dayOfScores) check(s *server, day models.Date, source models.Source) {
	s.t.Helper()
	sorted := d.sorted()
	want := make([]string, len(sorted))
	for i, n := range sorted {
		want[i] = fmt.Sprintf("%d. %d: %d at %s", i+1, n.user, n.points, n.at.Time().Format("15:04:05.000"))
	}
	for _, call := range []string{"friends", "top"} {
		var got []string
		for page := "?limit=7&date=" + day.String(); page != ""; {
			var r models.Ranking
			s.want(s.as(1, "GET", "/v1/boards/steps/"+call+page, nil), http.StatusOK, &r)
			if r.Source != source || int(r.Total) != len(want) {
				s.t.Errorf("%s of %s: %d entries from %s, want %d from %s", call, day, r.Total, r.Source, len(want), source)
			}
			got = append(got, standings(r)...)
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
		s.want(s.as(n.user, "GET", "/v1/boards/steps/around?radius=2&date="+day.String(), nil), http.StatusOK, &r)
		first := min(max(0, i-2), len(want)-5) // at the ends of the list nobody is in the middle
		if diff := cmp.Diff(want[first:first+5], standings(r)); diff != "" {
			s.t.Errorf("around %v on %s -want +got:\n%s", n.user, day, diff)
		}
	}
}
