package crash_test

import (
	"net/http"
	"testing"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
)

// upload starts the uploads of eight users to a process without a queue.
func upload(t testing.TB, url, date string) *harness.Uploads {
	t.Helper()
	return harness.StartUploads(t, http.StatusOK, url, date, 8)
}

// Every acknowledged upload is on the board after the process was killed.
func TestSoakAcknowledgedUploadsSurviveAKill(t *testing.T) {
	t.Parallel()
	for range testenv.Rounds(2, 50) {
		env := harness.Real(t)
		p := testenv.Serve(t, env.Config)
		u := upload(t, p.URL, harness.Today())
		testenv.Eventually(t, "uploads are under way", func() bool { n, _ := u.Counts(); return n > 200 })
		p.Kill()
		u.Check(t, env, env.Redis)
	}
}

// A process that is told to stop under load finishes the calls that it has
// begun, and ends with status 0.
func TestSoakStoppingUnderLoad(t *testing.T) {
	t.Parallel()
	for range testenv.Rounds(1, 20) {
		env := harness.Real(t)
		p := testenv.Serve(t, env.Config)
		u := upload(t, p.URL, harness.Today())
		testenv.Eventually(t, "uploads are under way", func() bool { n, _ := u.Counts(); return n > 200 })
		p.Stop()
		u.Check(t, env, env.Redis)
	}
}

// While Redis is away, uploads are refused. When it is back, the same process
// goes on, and no acknowledged upload is lost.
func TestSoakRedisKilledUnderLoad(t *testing.T) {
	t.Parallel()
	env, server, rdb := withRedis(t)
	p := testenv.Serve(t, env.Config)
	u := upload(t, p.URL, harness.Today())
	for range testenv.Rounds(2, 20) {
		promised, refused := u.Counts()
		testenv.Eventually(t, "uploads are under way", func() bool { n, _ := u.Counts(); return n > promised+200 })
		server.Kill()
		testenv.Eventually(t, "uploads are refused", func() bool { _, n := u.Counts(); return n > refused+20 })
		server.Start()
	}
	promised, _ := u.Counts()
	testenv.Eventually(t, "uploads go on", func() bool { n, _ := u.Counts(); return n > promised+50 })
	u.End()
	u.Check(t, env, rdb)
}
