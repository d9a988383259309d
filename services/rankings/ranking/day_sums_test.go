package ranking_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/rankings/ranking"
)

// spread is a user's score by date.
type spread map[models.Date]int64

// days returns the days newest first.
func (s spread) days() []ranking.Day {
	var list []ranking.Day
	for date, points := range s {
		list = append(list, ranking.Day{Date: date, Score: points})
	}
	slices.SortFunc(list, func(a, b ranking.Day) int { return int(b.Date - a.Date) })
	return list
}

// brief writes sums as text.
func brief(s ranking.DaySums) string {
	average, best := "none", "none"
	if s.Average != nil {
		average = fmt.Sprint(*s.Average)
	}
	if s.Best != nil {
		best = fmt.Sprint(s.Best.Date, " ", s.Best.Score)
	}
	return fmt.Sprintf("week %d, month %d, average %s, best %s, streak %d of %d",
		s.Week, s.Month, average, best, s.CurrentStreak, s.LongestStreak)
}

// bruteForce walks the calendar day by day, as one would in a spreadsheet.
func (s spread) bruteForce(first, today, finished models.Date, goal int64) string {
	var want ranking.DaySums
	var total, count int64
	run := 0
	for date := first; date <= today; date++ {
		points, walked := s[date]
		year, week := date.UTC().ISOWeek()
		if y, w := today.UTC().ISOWeek(); y == year && w == week {
			want.Week += points
		}
		if date.UTC().Format("2006-01") == today.UTC().Format("2006-01") {
			want.Month += points
		}
		if walked && date <= finished {
			total, count = total+points, count+1
		}
		if walked && (want.Best == nil || points > want.Best.Score) {
			want.Best = &ranking.Day{Date: date, Score: points}
		}
		if walked && points >= goal {
			run++
		} else if date <= finished {
			run = 0
		}
		want.LongestStreak = max(want.LongestStreak, run)
	}
	want.CurrentStreak = run
	if count > 0 {
		average := (2*total + count) / (2 * count)
		want.Average = &average
	}
	return brief(want)
}

func TestSumDays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := models.Date(rapid.IntRange(20_000, 20_800).Draw(t, "first"))
		length := models.Date(rapid.IntRange(1, 60).Draw(t, "length"))
		today := first + length - 1
		finished := today - models.Date(rapid.IntRange(0, 2).Draw(t, "unfinished"))
		goal := rapid.Int64Range(0, 4).Draw(t, "goal")
		s := make(spread)
		for date := first; date <= today; date++ {
			if rapid.IntRange(0, 5).Draw(t, "walked") > 0 {
				s[date] = rapid.Int64Range(0, 5).Draw(t, "score")
			}
		}
		want := s.bruteForce(first, today, finished, goal)
		if got := brief(ranking.SumDays(s.days(), today, finished, goal)); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

// The sums are those of all days, in Redis and in the archive. Today does not end a streak
// before it is over. A stranger's are not found, and a friend who hides has none.
func TestDaySums(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env, 2)
		today := f.day() // a Friday
		f.bucketOf(today - 30)
		f.befriend(2, 1)
		s := make(spread)
		for date := today - 30; date < today; date++ {
			if s[date] = 1000 + int64(date*7919%5000); date == today-9 {
				s[date] = 10
			}
			f.apply(f.raiseOf(f.bucketOf(date), 1, s[date], 1))
		}
		f.bucketOf(today)
		for _, b := range testenv.Must(f.archive.Due(t.Context())) {
			f.mustArchive(f.archive, b)
		}
		check := func(viewer models.RowID, want string) {
			t.Helper()
			q := ranking.HistoryQuery{Board: "steps", Viewer: id(viewer), User: "1"}
			got, err := f.ranking.DaySums(t.Context(), q, 1000)
			if err != nil || brief(got) != want {
				t.Errorf("for %v: %s, %v, want %s", viewer, brief(got), err, want)
			}
		}
		before := s.bruteForce(today-30, today, today-1, 1000)
		check(1, before)
		check(2, before)
		f.apply(f.raiseOf(f.bucketOf(today), 1, 1000, 1))
		s[today] = 1000
		check(1, s.bruteForce(today-30, today, today-1, 1000))
		env.Clock.Advance(48 * time.Hour)
		check(1, s.bruteForce(today-30, today+2, today+1, 1000))
		if err := f.privacy.SetHidden(t.Context(), "1", true); err != nil {
			t.Fatal(err)
		}
		check(2, brief(ranking.DaySums{}))
		_, err := f.ranking.DaySums(t.Context(), ranking.HistoryQuery{Board: "steps", Viewer: "3", User: "1"}, 1)
		if models.CodeOf(err) != models.CodeNotFound {
			t.Errorf("a stranger's: %v", err)
		}
	})
}
