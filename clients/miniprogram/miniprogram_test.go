// Package miniprogram holds the tests of the mini program. They run under a simulated WeChat in Node, in the
// folder test, with the real service.
package miniprogram

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

func TestMain(m *testing.M) {
	status := m.Run()
	testenv.RemoveBinary()
	os.Exit(status)
}

const (
	appid  = "wx0123456789abcdef"
	secret = "the app's secret"
)

// startService starts a WeChat, and the service on a data folder with one mini program.
func startService(t *testing.T) (service *testenv.Command, wechat *testenv.WeChat) {
	t.Helper()
	wechat = testenv.NewWeChat(t)
	wechat.AddApp(appid, secret, false)
	service = testenv.ServeFolder(t, t.TempDir(),
		"--boards=[{name: steps, time_zone: Asia/Shanghai, uploads: service, open_days: 6}]", "--hot_days=7",
		"--wechat.apps=[{appid: "+appid+", secret: \""+secret+"\", board: steps}]",
		"--wechat.api_url="+wechat.URL,
	)
	return service, wechat
}

// People start the mini program, refuse permissions, lose the network and their sessions, invite each other,
// and look at their days.
func TestMiniProgram(t *testing.T) {
	t.Parallel()
	service, wechat := startService(t)
	run(t, service.URL, wechat)
}

func run(t *testing.T, service string, wechat *testenv.WeChat) {
	t.Helper()
	signed := time.Now().Add(-2 * time.Hour)
	refused := testenv.Must(auth.SignToken([]byte(harness.Secret), "1", "", "", "", signed, time.Hour))
	cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "test/miniprogram.test.mjs")
	cmd.Env = append(os.Environ(), "SERVICE="+service, "WECHAT="+wechat.URL, "APPID="+appid, "BOARD=steps", "REFUSED_TOKEN="+refused)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
