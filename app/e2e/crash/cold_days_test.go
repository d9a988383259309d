package crash_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// coldDays writes days of long ago, one after another, which jobs then archive.
type coldDays struct {
	t       testing.TB
	env     *testenv.Env
	catalog *catalog.Catalog
	store   *board.Store
	sums    map[string]int64 // of scores, by day
}

// coldUsers is the number of users with a score on each day.
const coldUsers = 3000

func newColdDays(t testing.TB, env *testenv.Env) *coldDays {
	t.Helper()
	c := catalog.New(catalog.NewStore(env.Gorm), time.Now, env.Config.HotDays, env.Log)
	if err := c.Definitions.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &coldDays{t: t, env: env, catalog: c, store: board.NewStore(env.Redis, env.Keys, time.Now, nil), sums: make(map[string]int64)}
}

// write writes one more day.
func (c *coldDays) write() {
	c.t.Helper()
	day := harness.NoonDay - 100 - models.Date(len(c.sums))
	bucket, err := c.catalog.Buckets.ForImport(c.t.Context(), testenv.Must(c.catalog.Definitions.Board("steps")), day, time.Now())
	if err != nil {
		c.t.Fatal(err)
	}
	raises := make([]models.Raise, coldUsers)
	for i := range raises {
		points := rand.Int64N(20_000)
		c.sums[day.String()] += points
		composite := testenv.Must(score.Of(bucket).Encode(bucket.Points(points), models.TimestampOf(bucket.StartsAt.Add(time.Hour))))
		raises[i] = models.Raise{Bucket: bucket, Entry: models.Entry{User: models.RowID(i + 1), Composite: composite}}
	}
	for _, err := range c.store.Raise(c.t.Context(), raises) {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// check waits until every day is complete in the archive. A run that began
// while a day was being written has archived only a part of it; the next run
// completes it.
func (c *coldDays) check() {
	c.t.Helper()
	got, partly := make(map[string]int64), make(map[string]string)
	defer func() {
		if len(partly) > 0 || len(got) < len(c.sums) {
			c.t.Errorf("%d of %d days are in the archive, of these in part, as rows, users, ranks, last rank: %v", len(got), len(c.sums), partly)
		}
	}()
	whole := fmt.Sprint(coldUsers, coldUsers, coldUsers, coldUsers)
	testenv.Eventually(c.t, "all days are complete in the archive", func() bool {
		rows, err := c.env.Pool.Query(c.t.Context(), `
			SELECT day::text, count(*), count(DISTINCT user_id), count(DISTINCT rank), max(rank), sum(score)::bigint FROM archived_scores GROUP BY day`)
		if err != nil {
			c.t.Fatal(err)
		}
		defer rows.Close()
		clear(got)
		clear(partly)
		for rows.Next() {
			var day string
			var n, users, ranks, last, sum int64
			if err := rows.Scan(&day, &n, &users, &ranks, &last, &sum); err != nil {
				c.t.Fatal(err)
			}
			if counts := fmt.Sprint(n, users, ranks, last); counts != whole {
				partly[day] = counts
			}
			got[day] = sum
		}
		return rows.Err() == nil && len(got) == len(c.sums) && len(partly) == 0
	})
	if diff := cmp.Diff(c.sums, got); diff != "" {
		c.t.Errorf("sums of scores by day -written +archived:\n%s", diff)
	}
}
