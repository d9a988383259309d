package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// withUses adds an event for each of the uses that events are for.
func withUses(cfg *config.Config) {
	event := func(name string, maxScore int64, lasts time.Duration) config.Board {
		return config.Board{
			Name: name, Kind: "event", TimeZone: "Asia/Shanghai", MaxScore: maxScore, Shards: 2, Global: "users",
			Start: giftsStart, End: giftsStart.Add(lasts),
		}
	}
	const day = 24 * time.Hour
	sales := event("sales", 100_000_000_000, 45*day)
	sales.Late = 48 * time.Hour
	contest := event("contest", 1000, 2*time.Hour)
	contest.Takes, contest.Late = "best", time.Hour
	laps := event("laps", 600_000, 2*time.Hour)
	laps.Takes, laps.Order = "best", "low"
	cfg.Boards = append(cfg.Boards, laps, event("activity", 100_000_000, 92*day), event("large", 1<<30-1, 92*day), sales, contest)
}

// definedAs returns the definition of a board as operators see it.
func definedAs(s *server, name string) (def struct {
	TickMS          int64     `json:"tick_ms"`
	Final           bool      `json:"final"`
	ClosesAt        time.Time `json:"closes_at"`
	ExtendableUntil time.Time `json:"extendable_until"`
}) {
	s.t.Helper()
	s.read(s.admin("GET", "/v1/admin/boards/"+name, nil), 200, &def)
	return def
}

// An activity of 92 days with scores up to 10^8 is prolonged by 11 days while it runs: what is counted
// keeps its order, and increments count up to the new end. With scores up to 2^30 - 1 it can't be.
func TestAnActivityIsProlonged(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env, withUses)
		const day = 24 * time.Hour
		give := func(user int, id string, status int) {
			t.Helper()
			s.want(s.service("POST", "/v1/boards/activity/increments", fmt.Sprintf(`{"user_id":"%d","delta":100,"event_id":%q}`, user, id)), status, nil)
		}
		move := func(board string, by time.Duration) answer {
			t.Helper()
			return s.admin("PUT", "/v1/admin/boards/"+board, map[string]any{"end": giftsStart.Add(by)})
		}
		env.Clock.Set(giftsStart.Add(90 * day))
		give(1, "a", 200)
		env.Clock.Advance(time.Second)
		give(2, "b", 200)
		if def := definedAs(s, "activity"); def.TickMS != 1000 || def.ExtendableUntil.Before(giftsStart.Add(776*day)) {
			t.Errorf("defined as %+v", def)
		}
		s.refuse(move("large", 103*day), 422, models.CodeValidationFailed)
		s.refuse(move("activity", 91*day), 422, models.CodeValidationFailed)
		s.refuse(move("steps", 103*day), 409, models.CodeBoardKind)
		s.refuse(s.service("PUT", "/v1/admin/boards/activity", map[string]any{"end": giftsStart.Add(103 * day)}), 403, models.CodeForbidden)
		s.want(move("activity", 103*day), 200, nil)
		env.Clock.Set(giftsStart.Add(103*day - time.Millisecond))
		give(3, "c", 200)
		env.Clock.Advance(time.Millisecond)
		give(4, "d", 422)
		testenv.Eventually(t, "it is final", func() bool { return definedAs(s, "activity").Final })
		s.refuse(move("activity", 104*day), 409, models.CodeEventFinal)
		var r models.Ranking
		testenv.Eventually(t, "no increment of it is on its way to Redis, so its ranking is final", func() bool {
			s.want(s.as("1", "GET", "/v1/boards/activity/top", nil), 200, &r)
			return r.Final
		})
		want := []string{"1. 1: 100 at 12:00:00.000", "2. 2: 100 at 12:00:01.000", "3. 3: 100 at 11:59:59.000"}
		if diff := cmp.Diff(want, rankLines(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Equal sales are ranked by when the orders were placed, although the outage of a backend and its
// retries let them arrive in another order; amounts of eleven digits keep each unit.
func TestSalesAreRankedByTheirOrders(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env, withUses)
		placed := func(minutes int) string {
			return giftsStart.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
		}
		env.Clock.Set(giftsStart.Add(24 * time.Hour))
		sell := func(user int, amount int64, id string, minutes, status int) {
			t.Helper()
			s.want(s.service("POST", "/v1/boards/sales/increments",
				fmt.Sprintf(`{"user_id":"%d","delta":%d,"event_id":%q,"occurred_at":%q}`, user, amount, id, placed(minutes))), status, nil)
		}
		sell(4, 0, "joined", 20, 200)
		for range 2 { // the answer to the first attempt was lost
			sell(1, 99_999_999_999, "order-1", 15, 200)
			sell(2, 99_999_999_999, "order-2", 10, 200)
			sell(3, 99_999_999_998, "order-3", 1, 200)
		}
		sell(5, 100_000_000_001, "order-4", 5, 422)
		var r models.Ranking
		s.want(s.as("1", "GET", "/v1/boards/sales/top", nil), 200, &r)
		want := []string{
			"1. 2: 99999999999 at 12:10:00.000", "2. 1: 99999999999 at 12:15:00.000", "3. 3: 99999999998 at 12:01:00.000", "4. 4: 0 at 12:20:00.000",
		}
		if diff := cmp.Diff(want, rankLines(r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A contest counts the best answer, from when it was handed in, and closes an hour after its end.
func TestAContestCountsTheBest(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env, withUses)
		env.Clock.Set(giftsStart.Add(150 * time.Minute)) // half an hour after the end
		hand := func(user, points int, id, at string) answer {
			return s.service("POST", "/v1/boards/contest/increments",
				fmt.Sprintf(`{"user_id":"%d","score":%d,"event_id":%q%s}`, user, points, id, at))
		}
		at := func(minutes int) string {
			return fmt.Sprintf(`,"occurred_at":%q`, giftsStart.Add(time.Duration(minutes)*time.Minute).Format(time.RFC3339))
		}
		s.refuse(hand(1, 900, "1-now", ""), 422, models.CodeEventNotOpen)
		s.refuse(hand(1, 900, "1-after", at(120)), 422, models.CodeOccurredAtInvalid)
		s.refuse(hand(1, 900, "1-before", at(-1)), 422, models.CodeOccurredAtInvalid)
		s.refuse(hand(1, 900, "1-old", at(89)), 422, models.CodeOccurredAtInvalid)
		s.want(hand(1, 900, "1-a", at(110)), 200, nil)
		s.want(hand(1, 800, "1-b", at(119)), 200, nil)
		s.want(hand(1, 900, "1-c", at(105)), 200, nil)
		s.want(hand(2, 900, "2-a", at(106)), 200, nil)
		s.want(hand(3, 0, "3-a", at(100)), 200, nil)
		if def := definedAs(s, "contest"); def.Final || !def.ClosesAt.Equal(giftsStart.Add(3*time.Hour)) {
			t.Errorf("after the end %+v", def)
		}
		env.Clock.Set(giftsStart.Add(3 * time.Hour))
		s.refuse(hand(4, 1000, "4-a", at(119)), 422, models.CodeEventNotOpen)
		testenv.Eventually(t, "it is final", func() bool { return definedAs(s, "contest").Final })
		s.want(hand(2, 900, "2-a", at(106)), 200, nil) // still a duplicate
		check := func(source models.Source) {
			t.Helper()
			var r models.Ranking
			testenv.Eventually(t, "its ranking is final", func() bool {
				s.want(s.as("1", "GET", "/v1/boards/contest/top", nil), 200, &r)
				return r.Final
			})
			want := []string{"1. 1: 900 at 13:45:00.000", "2. 2: 900 at 13:46:00.000", "3. 3: 0 at 13:40:00.000"}
			if diff := cmp.Diff(want, rankLines(r)); diff != "" || r.Source != source {
				t.Errorf("%s (-want +got):\n%s", r.Source, diff)
			}
		}
		check(models.SourceHot)
		bucket := testenv.Must(s.app.Catalog.Buckets.Load(t.Context(), "contest", "event"))
		env.Clock.Set(bucket.ColdAt.Add(time.Hour))
		testenv.Must(s.app.Archive.Archive(t.Context(), bucket, func(int64) {}))
		check(models.SourceArchive)
	})
}

// The fastest of ten laps counts, and the lowest is first.
func TestTheFastestLapIsFirst(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		s := newServer(t, env, withUses)
		env.Clock.Set(giftsStart)
		run := func(user, ms, lap int) (status string, score int) {
			t.Helper()
			env.Clock.Advance(time.Second)
			var got harness.IncrementResults
			s.want(s.service("POST", "/v1/boards/laps/increments", fmt.Sprintf(`{"increments":[{"user_id":"%d","score":%d,"event_id":"%d-%d"}]}`, user, ms, user, lap)), 200, &got)
			r := got.Results[0]
			if r.Score == nil {
				t.Fatalf("%+v", r)
			}
			return r.Status, int(*r.Score)
		}
		best := map[int]int{1: 600_000, 2: 600_000}
		for lap := range 10 {
			for user := 1; user <= 2; user++ {
				ms := 61_000 + (lap*7919+user*104_729)%9000
				best[user] = min(best[user], ms)
				if status, score := run(user, ms, lap); status != "applied" || score != best[user] {
					t.Errorf("lap %d of %d: %s, %d, want %d", lap, user, status, score, best[user])
				}
			}
		}
		if status, score := run(1, 61_000+104_729%9000, 0); status != "duplicate" || score != 61_000+104_729%9000 {
			t.Errorf("again: %s, %d", status, score)
		}
		run(3, 0, 0) // a lap of no time
		run(4, 600_000, 0)
		s.refuse(s.service("POST", "/v1/boards/laps/increments", `{"user_id":"5","score":600001,"event_id":"5"}`), 422, models.CodeScoreOutOfRange)
		var r models.Ranking
		s.want(s.as("1", "GET", "/v1/boards/laps/top", nil), 200, &r)
		var got []string
		for _, e := range r.Entries {
			got = append(got, fmt.Sprint(e.User, " ", e.Score))
		}
		first, second := 1, 2
		if best[2] < best[1] {
			first, second = 2, 1
		}
		want := []string{"3 0", fmt.Sprint(first, " ", best[first]), fmt.Sprint(second, " ", best[second]), "4 600000"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		env.Clock.Set(giftsStart.Add(2 * time.Hour))
		testenv.Eventually(t, "it is final", func() bool { return definedAs(s, "laps").Final })
		bucket := testenv.Must(s.app.Catalog.Buckets.Load(t.Context(), "laps", "event"))
		env.Clock.Set(bucket.ColdAt.Add(time.Hour))
		testenv.Must(s.app.Archive.Archive(t.Context(), bucket, func(int64) {}))
		s.want(s.as("1", "GET", "/v1/boards/laps/top", nil), 200, &r)
		if r.Source != models.SourceArchive || len(r.Entries) != 4 || r.Entries[0].Score != 0 || int(r.Entries[1].Score) != best[first] {
			t.Errorf("archived: %+v", r)
		}
		export := string(s.as("1", "GET", "/v1/me/export", nil).body)
		if !strings.Contains(export, fmt.Sprintf(`"score":%d`, best[1])) {
			t.Errorf("the export lacks %d: %s", best[1], export)
		}
	})
}
