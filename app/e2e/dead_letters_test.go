package e2e_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/ingest"
)

// frames returns the payload of an entry with these messages.
func frames(messages ...[]byte) (payload []byte) {
	for _, m := range messages {
		payload = append(binary.AppendUvarint(payload, uint64(len(m))), m...)
	}
	return payload
}

// addEntry appends to the stream as the service does, with the payload of one update.
func addEntry(t testing.TB, env *testenv.Env, payload []byte) {
	t.Helper()
	ctx := t.Context()
	count := testenv.Must(env.Redis.HIncrBy(ctx, env.Keys.IngestCounts(), "appended", 1).Result())
	values := map[string]any{"n": 1, "c": count, "u": payload}
	if err := env.Redis.XAdd(ctx, &redis.XAddArgs{Stream: env.Keys.IngestStream(), Values: values}).Err(); err != nil {
		t.Fatal(err)
	}
}

// Operators list, apply and delete dead letters by the command, one of them or those of a filter, and the
// audit log names them.
func TestDeadLettersByCommand(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	testenv.NumberUsers(t, env, 4)
	env.Config.Clock.Offset = time.Until(testenv.Noon)
	s := newServer(t, env) // defines the board
	run := func(args ...string) harness.Outcome {
		t.Helper()
		return command(append(append(append([]string{"dead-letters"}, args[0]), testenv.Flags(env.Config)...), append(harness.RedisQueue(), args[1:]...)...)...)
	}
	s.want(s.as("1", "POST", "/v1/boards/steps/scores", totalOf(models.DateOf(testenv.Noon), 1)), http.StatusOK, nil)
	bucket := *testenv.Must(s.app.Catalog.Buckets.Load(t.Context(), "steps", "20261120"))
	letters := []models.DeadLetter{{Position: "test", Reason: "garbage", Payload: []byte("garbage"), QueuedAt: testenv.Noon, FailedAt: testenv.Noon}}
	for user := range 4 {
		u := ingest.Update{Board: "steps", Bucket: "20200101", User: models.RowID(user + 1), Score: 5, ReachedAt: models.TimestampOf(bucket.StartsAt)}
		letters = append(letters, models.DeadLetter{
			Position: fmt.Sprint("test ", user), Reason: "no bucket", Board: u.Board, Bucket: u.Bucket, Payload: u.AppendTo(nil), QueuedAt: testenv.Noon, FailedAt: testenv.Noon,
		})
	}
	if err := env.Gorm.Create(&letters).Error; err != nil {
		t.Fatal(err)
	}
	if list := run("list").Succeeds(t); strings.Count(list, "\n") != 5 || strings.Count(run("list", "--reason=no bucket").Succeeds(t), "\n") != 4 {
		t.Errorf("listed: %s", list)
	}
	id := func(i int) string { return fmt.Sprint(letters[i].ID) }
	run("replay", id(0)).Fails(t, 1, "still can't be applied")
	run("replay", "nix").Fails(t, 1, `"nix" is no id`)
	run("delete").Fails(t, 1, "--all")
	run("delete", "1", "--board=steps").Fails(t, 1, "not both")
	run("replay", "1", "--all").Fails(t, 1, "not both")
	bucket.Name = "20200101" // once the day exists, its updates can be applied
	if err := env.Gorm.Create(&bucket).Error; err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"it can be done\n", []string{"replay", id(1), "--dry-run"}},
		{"done\n", []string{"replay", id(1), "--actor=mei"}},
		{"0 can be done, 0 can't be applied and stay\n", []string{"replay", "--board=gifts", "--dry-run"}},
		{"3 can be done, 0 can't be applied and stay\n", []string{"replay", "--bucket=20200101", "--dry-run"}},
		{"3 can be done, 1 can't be applied and stay\n", []string{"replay", "--all", "--dry-run"}},
		{"3 done, 0 can't be applied and stay\n", []string{"replay", "--board=steps", "--reason=no bucket"}},
		{"0 done, 0 can't be applied and stay\n", []string{"delete", "--reason=no bucket"}},
		{"done\n", []string{"delete", id(0)}},
		{"", []string{"list"}},
	} {
		if got := run(tt.args...).Succeeds(t); got != tt.want {
			t.Errorf("%v prints %q, want %q", tt.args, got, tt.want)
		}
	}
	if n := testenv.Must(env.Redis.ZCard(t.Context(), env.Keys.Board(&bucket, 0)).Result()); n != 4 {
		t.Errorf("%d users are on the board", n)
	}
	if log := string(s.admin("GET", "/v1/admin/audit?action=dead-letters+replay", nil).body); !strings.Contains(log, `"actor":"mei"`) || !strings.Contains(log, `"outcome":"done"`) {
		t.Errorf("the audit log has %s", log)
	}
}
