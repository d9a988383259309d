package reviews_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
	"stepboard/services/operations/reviews"
	"stepboard/services/servicetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reviewAbove is the threshold of every board.
const reviewAbove = 50_000

// fixture holds the service and the stores that it reads.
type fixture struct {
	t       *testing.T
	env     *testenv.Env
	catalog *catalog.Catalog
	boards  board.Entries
	reviews *reviews.Service
}

// newFixture returns a service with a daily board, an event and a rolling board of 24 hours.
func newFixture(t *testing.T, env *testenv.Env) *fixture {
	t.Helper()
	start, end := testenv.Noon.Add(-time.Hour), testenv.Noon.Add(48*time.Hour)
	c := catalog.New(catalog.NewStore(env.Gorm), env.Clock.Now, 3, env.Log)
	err := c.Definitions.Define(t.Context(), []models.Board{
		newBoard("steps", func(b *models.Board) { b.Kind, b.OpenDays = models.KindDaily, 2 }),
		newBoard("gifts", func(b *models.Board) { b.Kind, b.StartsAt, b.EndsAt = models.KindEvent, &start, &end }),
		newBoard("active", func(b *models.Board) { b.Kind = models.KindRolling }),
		newBoard("unwatched", func(b *models.Board) { b.Kind, b.ReviewAbove = models.KindDaily, 0 }),
	})
	if err != nil {
		t.Fatal(err)
	}
	boards := servicetest.Entries(env, env.Clock.Now, nil)
	return &fixture{t, env, c, boards, reviews.New(reviews.NewStore(env.Gorm), c, boards, testenv.Numbers{}, env.Clock.Now)}
}

// newBoard returns a definition with three shards.
func newBoard(name string, change func(*models.Board)) models.Board {
	b := models.Board{
		Name: name, TimeZone: "Asia/Shanghai", MaxScore: 100_000, Shards: 3, Global: models.AudienceUsers, ReviewAbove: reviewAbove,
	}
	change(&b)
	return b
}

// bucket returns the current bucket of a board.
func (f *fixture) bucket(boardName string) *models.Bucket {
	f.t.Helper()
	if err := f.catalog.Definitions.Refresh(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	b := testenv.Must(f.catalog.Definitions.Board(boardName))
	return testenv.Must(f.catalog.Buckets.Current(b, f.env.Clock.Now(), models.UTCOffset{}))
}

// raise sets the scores of users 1, 2, … in a bucket, reached now. A score of 0 is none.
func (f *fixture) raise(bucket *models.Bucket, scores ...int64) {
	f.t.Helper()
	f.raiseAt(bucket, f.env.Clock.Now(), scores...)
}

// raiseAt is raise with scores that were reached at a given time.
func (f *fixture) raiseAt(bucket *models.Bucket, reachedAt time.Time, scores ...int64) {
	f.t.Helper()
	var raises []models.Raise
	for i, value := range scores {
		if value == 0 {
			continue
		}
		composite, err := score.Of(bucket).Encode(bucket.Points(value), models.TimestampOf(reachedAt))
		if err != nil {
			f.t.Fatal(err)
		}
		raises = append(raises, models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(i + 1), Composite: composite}})
	}
	for _, err := range f.boards.Raise(f.t.Context(), raises) {
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// find runs the job and checks how many scores were new or had risen.
func (f *fixture) find(want int64) {
	f.t.Helper()
	find := func() (int64, error) { return f.reviews.Find(f.t.Context()) }
	if found, err := testenv.Available(f.t, find); err != nil || found != want {
		f.t.Fatalf("found %d scores, %v; want %d", found, err, want)
	}
}

// open returns the open reviews of a board, newest first.
func (f *fixture) open(boardName string) []models.Review {
	f.t.Helper()
	return testenv.Must(f.reviews.List(f.t.Context(), reviews.Query{Board: boardName, Limit: 2000}))
}

// want checks the open reviews of a board, given as "user score" in any order.
func (f *fixture) want(boardName string, want ...string) {
	f.t.Helper()
	var got []string
	for _, r := range f.open(boardName) {
		got = append(got, fmt.Sprint(r.User, " ", r.Score))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		f.t.Errorf("open reviews of %s (-want +got):\n%s", boardName, diff)
	}
}

// dismiss dismisses the only open review of a board.
func (f *fixture) dismiss(boardName string) models.Review {
	f.t.Helper()
	open := f.open(boardName)
	if len(open) != 1 {
		f.t.Fatalf("%d open reviews of %s", len(open), boardName)
	}
	return testenv.Must(f.reviews.Dismiss(f.t.Context(), reviews.Dismissal{ID: open[0].ID, By: "alice"}))
}

// Scores above review_above are listed on boards of all kinds, once each.
func TestScoresAboveTheThreshold(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		boards := []string{"steps", "gifts", "active", "unwatched"}
		for _, name := range boards {
			f.raise(f.bucket(name), 0, reviewAbove-1, reviewAbove, reviewAbove+1, 100_000)
		}
		f.find(6)
		f.find(0)
		for _, name := range boards[:3] {
			f.want(name, "4 50001", "5 100000")
		}
		f.want("unwatched")
		today := models.DateOf(testenv.Noon)
		for _, r := range f.open("") {
			if isDay := r.Board == "steps"; isDay != (r.Date != nil) || isDay && *r.Date != today {
				t.Errorf("the date of a review of %s is %v", r.Board, r.Date)
			}
			if !r.ReachedAt.Equal(testenv.Noon) || !r.FirstSeenAt.Equal(testenv.Noon) || r.DismissedAt != nil {
				t.Errorf("a review is %+v", r)
			}
		}
		want := map[string]int64{"steps": 2, "gifts": 2, "active": 2}
		if diff := cmp.Diff(want, testenv.Must(f.reviews.Open(t.Context()))); diff != "" {
			t.Errorf("numbers of open reviews (-want +got):\n%s", diff)
		}
	})
}

// An open review follows its score and stays the same review.
func TestAScoreRisesWhileItIsListed(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		f.raise(f.bucket("steps"), 60_000)
		f.find(1)
		before := f.open("steps")
		env.Clock.Advance(time.Minute)
		f.raise(f.bucket("steps"), 70_000)
		f.find(1)
		after := f.open("steps")
		if len(after) != 1 || after[0].ID != before[0].ID || after[0].Score != 70_000 ||
			!after[0].FirstSeenAt.Equal(before[0].FirstSeenAt) || !after[0].ReachedAt.Equal(env.Clock.Now()) {
			t.Errorf("%+v became %+v", before, after)
		}
	})
}

// A dismissed score is listed again if it rises further, and not before.
func TestAScoreRisesAfterItsDismissal(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		f.raise(f.bucket("steps"), 60_000)
		f.find(1)
		first := f.dismiss("steps")
		f.find(0)
		f.want("steps")
		f.raise(f.bucket("steps"), 60_001)
		f.find(1)
		f.want("steps", "1 60001")
		if second := f.dismiss("steps"); second.ID == first.ID {
			t.Error("the first review was opened again")
		}
		f.find(0)
		// The day before is another bucket.
		env.Clock.Advance(24 * time.Hour)
		f.raise(f.bucket("steps"), 55_000)
		f.find(1)
		f.want("steps", "1 55000")
	})
}

// On a rolling board a dismissal holds as long as the increments count whose sum it was.
func TestADismissalOnARollingBoard(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		f.raise(f.bucket("active"), 80_000)
		f.find(1)
		f.dismiss("active")
		env.Clock.Advance(20 * time.Hour)
		f.find(0)
		env.Clock.Advance(5 * time.Hour)
		for testenv.Must(f.boards.Drain(t.Context(), f.bucket("active"))) > 0 {
		}
		f.find(0)
		f.raise(f.bucket("active"), 60_000)
		f.find(1)
		f.want("active", "1 60000")
	})
}

// What is dismissed is the score that was looked at.
func TestDismiss(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		f.raise(f.bucket("gifts"), 60_000)
		f.find(1)
		seen := f.open("gifts")[0]
		f.raise(f.bucket("gifts"), 70_000)
		f.find(1)
		d := reviews.Dismissal{ID: seen.ID, By: "alice", Reason: "a marathon", Score: &seen.Score, DryRun: true}
		dry := testenv.Must(f.reviews.Dismiss(t.Context(), d))
		f.want("gifts", "1 70000")
		d.DryRun = false
		dismissed := testenv.Must(f.reviews.Dismiss(t.Context(), d))
		if diff := cmp.Diff(dry, dismissed, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("the dry run said otherwise:\n%s", diff)
		}
		if dismissed.Score != 60_000 || dismissed.DismissedBy != "alice" || dismissed.DismissReason != "a marathon" ||
			!dismissed.DismissedAt.Equal(env.Clock.Now()) || dismissed.User != "1" {
			t.Errorf("the dismissed review is %+v", dismissed)
		}
		f.want("gifts")
		f.find(1)
		f.want("gifts", "1 70000")

		// Sent again, by somebody else and later, it changes nothing.
		env.Clock.Advance(time.Minute)
		again := testenv.Must(f.reviews.Dismiss(t.Context(), reviews.Dismissal{ID: seen.ID, By: "bob"}))
		if diff := cmp.Diff(dismissed, again, cmp.Comparer(time.Time.Equal)); diff != "" {
			t.Errorf("a second dismissal has changed the review:\n%s", diff)
		}
		if _, err := f.reviews.Dismiss(t.Context(), reviews.Dismissal{ID: 1 << 40, By: "bob"}); models.CodeOf(err) != models.CodeNotFound {
			t.Errorf("an unknown review: %v", err)
		}
		for _, reason := range []string{"\x00", "a\nb", "\xff"} {
			d.Reason = reason
			if _, err := f.reviews.Dismiss(t.Context(), d); models.CodeOf(err) != models.CodeValidationFailed {
				t.Errorf("the reason %q: %v", reason, err)
			}
		}
	})
}

// A review is not listed while a correction of the score holds.
func TestCorrectedScores(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		yesterday := f.bucket("steps")
		f.raise(yesterday, 60_000, 61_000)
		f.raise(f.bucket("gifts"), 70_000, 71_000)
		f.raise(f.bucket("active"), 80_000)
		env.Clock.Advance(24 * time.Hour)
		today := f.bucket("steps")
		f.raise(today, 62_000, 63_000)
		f.find(7)
		lowered, event, live := models.Points(100), "event", "live"
		lift := f.correct(
			models.Correction{Board: "steps", Bucket: &yesterday.Name, Day: yesterday.Day, User: 1, Kind: models.CorrectionSet,
				Points: &lowered, ReachedAt: &testenv.Noon},
			models.Correction{Board: "steps", Day: today.Day, User: 2, Kind: models.CorrectionExclude},
			models.Correction{Board: "gifts", Bucket: &event, User: 1, Kind: models.CorrectionExclude},
			models.Correction{Board: "active", Bucket: &live, User: 1, Kind: models.CorrectionExclude},
		)
		f.want("steps", "1 62000", "2 61000")
		f.want("gifts", "2 71000")
		f.want("active")
		want := map[string]int64{"steps": 2, "gifts": 1, "active": 0}
		if diff := cmp.Diff(want, testenv.Must(f.reviews.Open(t.Context()))); diff != "" {
			t.Errorf("numbers of reviews (-want +got):\n%s", diff)
		}
		lift()
		f.want("steps", "1 60000", "1 62000", "2 61000", "2 63000")
		f.want("active", "1 80000")
	})
}

// correct stores corrections that hold until lift is called.
func (f *fixture) correct(corrections ...models.Correction) (lift func()) {
	f.t.Helper()
	for i := range corrections {
		corrections[i].CreatedAt = f.env.Clock.Now()
	}
	if err := f.env.Gorm.Create(&corrections).Error; err != nil {
		f.t.Fatal(err)
	}
	return func() {
		f.t.Helper()
		now := f.env.Clock.Now()
		if err := f.env.Gorm.Model(&models.Correction{}).Where("lifted_at IS NULL").Update("lifted_at", now).Error; err != nil {
			f.t.Fatal(err)
		}
	}
}

// A day is searched until it is cold: a queue may hold updates of a day that is closed.
func TestUntilWhenADayIsSearched(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		day := f.bucket("steps")
		f.raise(day, 60_000)
		env.Clock.Set(day.ClosesAt)
		f.find(1)
		env.Clock.Set(day.ColdAt.Add(-time.Millisecond))
		f.raiseAt(day, testenv.Noon, 0, 70_000)
		f.find(1)
		env.Clock.Set(day.ColdAt)
		f.raiseAt(day, testenv.Noon, 0, 0, 80_000)
		f.find(0)
		f.want("steps", "1 60000", "2 70000")
	})
}

// More scores than one call reads are all listed, and the pages of the list hold each once.
func TestManyScores(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		f := newFixture(t, env)
		const users = 1203
		scores := make([]int64, users)
		for i := range scores {
			scores[i] = reviewAbove + 1 + int64(i%7)
		}
		f.raise(f.bucket("steps"), scores...)
		f.find(users)
		f.find(0)
		seen := make(map[models.UserID]bool)
		before := int64(0)
		for {
			page := testenv.Must(f.reviews.List(t.Context(), reviews.Query{Board: "steps", Before: before, Limit: 200}))
			for _, r := range page {
				if before != 0 && r.ID >= before || seen[r.User] {
					t.Fatalf("review %d of %s follows %d", r.ID, r.User, before)
				}
				seen[r.User], before = true, r.ID
			}
			if len(page) < 200 {
				break
			}
		}
		if len(seen) != users {
			t.Errorf("%d users are listed, want %d", len(seen), users)
		}
	})
}
