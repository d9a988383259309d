package crash_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// A process is killed at each step of a digest. Another one goes on where it has stopped: each
// user is told once, under one id.
func TestSoakDigestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range testenv.Forms(t, 0, testenv.Failpoints(t, "digest")) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			testKilledDigest(t, step)
		})
	}
}

func testKilledDigest(t *testing.T, step string) {
	t.Helper()
	o := &outcomesRun{t: t, env: harness.Real(t), target: newTarget(t)}
	o.target.calmDown()
	o.flags = append(o.target.flags(), "--jobs.digest_cron=0 0 * * *")
	p := testenv.Serve(t, o.env.Config, append(o.flags, "--webhooks=[]")...)
	const people = 1200 // three batches
	var scores []string
	for user := range people {
		scores = append(scores, fmt.Sprintf(`{"user_id":"walker%d","date":%q,"score":%d}`, user, harness.Today(), 100+user))
	}
	for chunk := range slices.Chunk(scores, 600) {
		o.service(p, "POST", "/v1/boards/steps/scores/batch", `{"scores":[`+strings.Join(chunk, ",")+`]}`)
	}
	p.Stop()
	if step == "digest.batch_written" || step == "digest.committed" {
		step += "#2"
	}
	testenv.ServeUntil(t, step, o.env.Config, o.flags...).Killed()
	o.env.Config.Clock.Offset = time.Minute // what the dead process has taken is free by then
	p = testenv.Serve(t, o.env.Config, o.flags...)
	testenv.Eventually(t, "the digest is finished and delivered", func() bool {
		var waiting, open int64
		err := o.env.Gorm.Raw(`SELECT (SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting') AS waiting,
			(SELECT count(*) FROM digests WHERE finished_at IS NULL) AS open`).Row().Scan(&waiting, &open)
		return err == nil && waiting == 0 && open == 0
	})
	p.Stop()
	told := make(map[string]int)
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	for body, ids := range o.target.ids {
		var m struct {
			Type string
			Data struct {
				Users []struct {
					UserID string `json:"user_id"`
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		for _, user := range m.Data.Users {
			told[user.UserID] += len(ids)
		}
	}
	for user := range people {
		if id := fmt.Sprintf("walker%d", user); told[id] != 1 {
			t.Fatalf("%s was told %d times", id, told[id])
		}
	}
}
