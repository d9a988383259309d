// Package miniprogram holds the tests of the mini program. They run under a simulated WeChat in Node, in the
// folder test, with the real service.
package miniprogram

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
		"--boards=[{name: steps, time_zone: Asia/Shanghai, uploads: service, hold_above: 99000, open_days: 6}]", "--hot_days=7",
		"--wechat.apps=[{appid: "+appid+", secret: \""+secret+"\", board: steps}]",
		"--wechat.api_url="+wechat.URL,
	)
	return service, wechat
}

// newControl starts a server by which scenarios make WeChat answer to codes with an errcode (POST /?errcode=40226,
// without errcode as ever), and learn how many it was asked for (GET).
func newControl(t *testing.T, wechat *testenv.WeChat) *httptest.Server {
	t.Helper()
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, wechat.Asked())
			return
		}
		errcode := r.URL.Query().Get("errcode")
		if errcode == "" {
			wechat.Answer(nil)
			return
		}
		wechat.Answer(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"errcode":%s,"errmsg":"refused"}`, errcode)
		})
	}))
	t.Cleanup(control.Close)
	return control
}

// today returns the date in China.
func today() string {
	return time.Now().In(testenv.Must(time.LoadLocation("Asia/Shanghai"))).Format(time.DateOnly)
}

// People start the mini program, refuse permissions, lose the network and their sessions, invite each other,
// and look at their days.
func TestMiniProgram(t *testing.T) {
	t.Parallel()
	service, wechat := startService(t)
	control := newControl(t, wechat)
	signed := time.Now().Add(-2 * time.Hour)
	refused := testenv.Must(auth.SignToken([]byte(harness.Secret), "1", "", "", "", signed, time.Hour))
	for {
		day := today()
		cmd := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "test/miniprogram.test.mjs")
		cmd.Env = append(os.Environ(), "SERVICE="+service.URL, "WECHAT="+wechat.URL, "CONTROL="+control.URL,
			"APPID="+appid, "BOARD=steps", "REFUSED_TOKEN="+refused)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if today() == day {
			t.Fatalf("%v\n%s", err, out)
		}
		// Midnight has come in between: the scenarios are about one day.
	}
}
