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
	"stepboard/services/boards/board"
	"stepboard/services/boards/score"
)

// Uploads is users who upload growing totals until End. It records the largest
// total that each user has sent, and the largest that the service has accepted.
type Uploads struct {
	// Date is the day of the totals.
	Date     string
	accepted int // the status of an accepted upload
	wg       sync.WaitGroup
	stop     chan struct{}

	mu sync.Mutex
	// Promised holds the largest accepted total of each user. Read it after End.
	Promised map[models.UserID]int64
	sent     map[models.UserID]int64
	refused  int
	broken   int
}

// StartUploads starts the users' uploads to a process that answers accepted
// ones with the given status.
func StartUploads(t testing.TB, accepted int, url, date string, users int) *Uploads {
	t.Helper()
	u := &Uploads{
		Date: date, accepted: accepted, stop: make(chan struct{}),
		Promised: make(map[models.UserID]int64), sent: make(map[models.UserID]int64),
	}
	for number := range users {
		id := testenv.ID(number + 1)
		bearer := Token(t, id, "")
		u.wg.Go(func() { u.run(t, url, bearer, id) })
	}
	return u
}

// Pace is the pause between two calls of a client that calls until it is told to stop. Clients
// without one take the processors from the processes that they test, and find nothing more.
const Pace = 5 * time.Millisecond

// run uploads the totals of one user until End, or until the connection breaks.
func (u *Uploads) run(t testing.TB, url, bearer string, id models.UserID) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for total := int64(1); total <= 100_000; total++ {
		select {
		case <-u.stop:
			return
		case <-time.After(Pace):
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
		case status == u.accepted:
			u.Promised[id] = total
		case status == http.StatusServiceUnavailable:
			u.refused++
		default:
			t.Errorf("status %d: %s", status, text)
		}
		disconnected := err != nil
		u.mu.Unlock()
		if disconnected {
			return
		}
	}
}

// Counts returns how many uploads were accepted, and how many were refused with
// 503.
func (u *Uploads) Counts() (promised, refused int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, total := range u.Promised {
		promised += int(total)
	}
	return promised, u.refused
}

// Accepted returns the largest accepted total of a user; 0 if there is none.
func (u *Uploads) Accepted(user models.UserID) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.Promised[user]
}

// Check waits until the users have stopped and compares the board with what was
// accepted and sent, as CheckPromised does.
func (u *Uploads) Check(t testing.TB, env *testenv.Env, rdb redis.UniversalClient) {
	t.Helper()
	testenv.Wait(t, "the calls end", &u.wg)
	CheckPromised(t, env, rdb, DayBucket(t, env, u.Date), u.Promised, u.sent)
}

// CheckPromised expects every user's total on the day's board to be at least
// the largest accepted one and at most the largest sent one.
func CheckPromised(t testing.TB, env *testenv.Env, rdb redis.UniversalClient, bucket *models.Bucket, promised, sent map[models.UserID]int64) {
	t.Helper()
	stored := slices.Collect(maps.Values(Users(t, env.Gorm)))
	users := slices.DeleteFunc(slices.Collect(maps.Keys(sent)), func(user models.UserID) bool {
		return promised[user] == 0 && !slices.Contains(stored, user) // the process was killed before it made this user
	})
	composites, err := board.NewStore(rdb, env.Keys, time.Now, nil).Composites(t.Context(), bucket, Rows(t, env.Gorm, users))
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range users {
		if total, _ := score.Of(bucket).Decode(composites[i]); int64(total) < promised[user] || int64(total) > sent[user] {
			t.Errorf("user %v has %[4]d; %[2]d were accepted, %[3]d sent", user, promised[user], sent[user], total)
		}
	}
}

// Enqueue starts uploads of eight users to a process with a queue.
func Enqueue(t testing.TB, p *testenv.Process) *Uploads {
	t.Helper()
	return StartUploads(t, http.StatusAccepted, p.URL, Today(), 8)
}

// AwaitMore waits until more than n further uploads were accepted.
func (u *Uploads) AwaitMore(t testing.TB, n int) {
	t.Helper()
	before, _ := u.Counts()
	testenv.Eventually(t, "uploads are under way", func() bool { now, _ := u.Counts(); return now > before+n })
}

// End stops the uploads and waits until all are answered.
func (u *Uploads) End() {
	close(u.stop)
	u.wg.Wait()
}

// Applied returns a condition: that the board has every accepted total.
func (u *Uploads) Applied(t testing.TB, env *testenv.Env, rdb redis.UniversalClient) func() bool {
	t.Helper()
	bucket := DayBucket(t, env, u.Date)
	users := slices.Collect(maps.Keys(u.Promised))
	rows := Rows(t, env.Gorm, users)
	return func() bool {
		for i, user := range users {
			composite, err := rdb.ZScore(t.Context(), env.Keys.Board(bucket, 0), rows[i].String()).Result()
			if err != nil {
				return false
			}
			if total, _ := score.Of(bucket).Decode(models.Composite(composite)); int64(total) < u.Promised[user] {
				return false
			}
		}
		return true
	}
}
