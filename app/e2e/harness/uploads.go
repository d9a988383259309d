package harness

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/board"
	"stepboard/services/score"
)

// Uploads upload growing totals until they are told to stop, and remember
// the largest total that each user was promised, and the largest that was sent.
type Uploads struct {
	Date    string
	promise int // the status of an upload that was taken
	wg      sync.WaitGroup
	stop    chan struct{}

	mu       sync.Mutex
	Promised map[models.UserID]int64
	sent     map[models.UserID]int64
	refused  int
	broken   int
}

// StartUploads starts the users' uploads to a process that answers what it
// takes with the given status.
func StartUploads(t testing.TB, promise int, url, date string, users int) *Uploads {
	t.Helper()
	u := &Uploads{
		Date: date, promise: promise, stop: make(chan struct{}),
		Promised: make(map[models.UserID]int64), sent: make(map[models.UserID]int64),
	}
	for id := models.UserID(1); id <= models.UserID(users); id++ {
		bearer := Token(t, id, "")
		u.wg.Go(func() { u.run(t, url, bearer, id) })
	}
	return u
}

func (u *Uploads) run(t testing.TB, url, bearer string, id models.UserID) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for total := int64(1); total <= 100_000; total++ {
		select {
		case <-u.stop:
			return
		default:
		}
		body := fmt.Sprintf(`{"date":%q,"score":%d}`, u.Date, total)
		u.mu.Lock()
		u.sent[id] = total
		u.mu.Unlock()
		status, text, err := Request(t.Context(), client, bearer, "POST", url+"/v1/boards/steps/scores", body)
		u.mu.Lock()
		switch {
		case err != nil:
			u.broken++
		case status == u.promise:
			u.Promised[id] = total
		case status == http.StatusServiceUnavailable:
			u.refused++
		default:
			t.Errorf("status %d: %s", status, text)
		}
		gone := err != nil
		u.mu.Unlock()
		if gone {
			return
		}
	}
}

// Counts tells how many uploads were promised or refused.
func (u *Uploads) Counts() (promised, refused int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, total := range u.Promised {
		promised += int(total)
	}
	return promised, u.refused
}

// Check waits for the uploads to end and compares the board with what was
// promised: never less, and not more than what was sent.
func (u *Uploads) Check(t testing.TB, env *testenv.Env, rdb redis.UniversalClient) {
	t.Helper()
	u.wg.Wait()
	CheckPromised(t, env, rdb, DayBucket(t, env, u.Date), u.Promised, u.sent)
}

// CheckPromised compares what is on a day's board with what users were promised
// and with what they have sent.
func CheckPromised(t testing.TB, env *testenv.Env, rdb redis.UniversalClient, bucket *models.Bucket, promised, sent map[models.UserID]int64) {
	t.Helper()
	users := slices.Collect(maps.Keys(sent))
	composites, err := board.NewStore(rdb, env.Keys, time.Now).Composites(t.Context(), bucket, users)
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range users {
		if total, _ := score.Of(bucket).Decode(composites[i]); total < promised[user] || total > sent[user] {
			t.Errorf("user %v was promised %d of %d and has %d", user, promised[user], sent[user], total)
		}
	}
}

// Enqueue starts uploads of eight users to a process with a queue.
func Enqueue(t testing.TB, p *testenv.Process) *Uploads {
	t.Helper()
	return StartUploads(t, http.StatusAccepted, p.URL, Today(), 8)
}

// AwaitMore waits until so many more uploads were promised.
func (u *Uploads) AwaitMore(t testing.TB, n int) {
	t.Helper()
	before, _ := u.Counts()
	testenv.Eventually(t, "uploads are under way", func() bool { now, _ := u.Counts(); return now > before+n })
}

// End ends the uploads.
func (u *Uploads) End() {
	close(u.stop)
	u.wg.Wait()
}

// Applied tells whether everything that was promised is on the board by now.
func (u *Uploads) Applied(t testing.TB, env *testenv.Env, rdb redis.UniversalClient) func() bool {
	t.Helper()
	bucket := DayBucket(t, env, u.Date)
	return func() bool {
		for user, promised := range u.Promised {
			composite, err := rdb.ZScore(t.Context(), env.Keys.Board(bucket, 0), user.String()).Result()
			if err != nil {
				return false
			}
			if total, _ := score.Of(bucket).Decode(models.Composite(composite)); total < promised {
				return false
			}
		}
		return true
	}
}
