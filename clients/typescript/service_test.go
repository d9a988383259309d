package typescript

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

// gateway passes calls on to a service, unless the test lets it refuse or hold them.
type gateway struct {
	*httptest.Server
	mu      sync.Mutex
	refuses bool
	holds   string        // the end of the paths that are held; "" holds none
	release chan struct{} // closed when they are not held any more
	refused int           // how many calls were refused
	held    int           // how many calls were held
}

func newGateway(t *testing.T, service string) *gateway {
	t.Helper()
	g := &gateway{release: make(chan struct{})}
	upstream := httputil.NewSingleHostReverseProxy(testenv.Must(url.Parse(service)))
	upstream.FlushInterval = -1 // events go on at once
	upstream.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.stop(w, r) {
			return
		}
		upstream.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// stop refuses or holds a call if it should. It returns whether the call has ended.
func (g *gateway) stop(w http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	refuses, release := g.refuses, g.release
	holds := g.holds != "" && strings.HasSuffix(r.URL.Path, g.holds)
	if refuses {
		g.refused++
	} else if holds {
		g.held++
	}
	g.mu.Unlock()
	if refuses {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	if holds {
		select {
		case <-release:
		case <-r.Context().Done():
			return true
		}
	}
	return false
}

// set changes what the gateway does. Calls that it holds go on.
func (g *gateway) set(refuses bool, holds string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.release)
	g.refuses, g.holds, g.release, g.refused, g.held = refuses, holds, make(chan struct{}), 0, 0
}

// stopped returns how many calls were refused or held since the last set.
func (g *gateway) stopped() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused + g.held
}

// script is a process that uses the client.
type script struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Writer
	ended chan error
	mu    sync.Mutex
	lines []string
	over  bool // whether its output has ended
}

// startScript starts test/service.mjs. The end of the test kills it.
func startScript(t *testing.T, args ...string) *script {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "node", append([]string{"test/service.mjs"}, args...)...)
	s := &script{t: t, cmd: cmd, ended: make(chan error, 1)}
	s.stdin = testenv.Must(s.cmd.StdinPipe())
	stdout := testenv.Must(s.cmd.StdoutPipe())
	s.cmd.Stderr = t.Output()
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			s.mu.Lock()
			s.lines = append(s.lines, scanner.Text())
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-reading
	})
	return s
}

func (s *script) do(command string) {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, command+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// printed returns how many of the script's lines are this one.
func (s *script) printed(line string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.lines), func(l string) bool { return l != line }))
}

// until waits until the script prints a line that it has not printed before.
func (s *script) until(line string) {
	s.t.Helper()
	s.eventually(line, func() bool { return slices.Contains(s.lines, line) })
}

// eventually waits until a condition on the lines holds, unless the script has ended.
func (s *script) eventually(line string, condition func() bool) {
	s.t.Helper()
	testenv.Eventually(s.t, "the client prints "+line, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.over && !condition() {
			s.t.Fatalf("the client ends without printing %s: %q", line, s.lines)
		}
		return condition()
	})
}

// next returns the number of lines so far, for untilAfter.
func (s *script) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// untilAfter waits until the script prints a line with this beginning after the first n.
func (s *script) untilAfter(n int, beginning string) {
	s.t.Helper()
	s.eventually(beginning, func() bool {
		return slices.ContainsFunc(s.lines[n:], func(l string) bool { return strings.HasPrefix(l, beginning) })
	})
}

// stop lets the script end by itself: nothing of the client may keep it alive.
func (s *script) stop() {
	s.t.Helper()
	s.do("stop")
	if err := <-s.ended; err != nil {
		s.t.Error(err)
	}
}

// startService starts the service, and a proxy and a gateway in front of it. tokens are an
// expired token of user 1 and a valid one.
func startService(t *testing.T) (service *testenv.Process, g *gateway, p *testenv.Proxy, tokens string) {
	t.Helper()
	service = testenv.Serve(t, harness.Real(t).Config)
	g = newGateway(t, service.URL)
	p = testenv.NewProxy(t, g.Listener.Addr().String())
	signed := time.Now().Add(-2 * time.Hour)
	expired := testenv.Must(auth.SignToken([]byte(harness.Secret), "1", "", "", "", signed, time.Hour))
	return service, g, p, expired + "," + harness.Token(t, "1", "")
}

// upload uploads user 1's total of today, past the client.
func upload(t *testing.T, service *testenv.Process, score int) {
	t.Helper()
	body := fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), score)
	bearer, path := harness.Token(t, "1", ""), service.URL+"/v1/boards/steps/scores"
	status, text, err := harness.Request(t.Context(), http.DefaultClient, bearer, http.MethodPost, path, body)
	if err != nil || status != http.StatusOK {
		t.Fatal(status, text, err)
	}
}

// Every total arrives, through refusals, a killed app, lost answers, slow answers and an
// expired token. What can't be accepted is reported once.
func TestUploads(t *testing.T) {
	t.Parallel()
	service, g, p, tokens := startService(t)
	storage := filepath.Join(t.TempDir(), "storage")
	today := harness.Today()
	yesterday := testenv.Must(time.Parse(time.DateOnly, today)).AddDate(0, 0, -1).Format(time.DateOnly)

	g.set(true, "")
	first := startScript(t, "uploads", "http://"+p.Addr(), tokens, storage)
	first.do("add " + yesterday + " 100")
	first.do("add " + today + " 200")
	first.until("stored " + today + " 200")
	testenv.Eventually(t, "an upload is refused", func() bool { return g.stopped() > 0 })
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-first.ended; err == nil {
		t.Error("the killed process ended by itself")
	}
	g.set(false, "")
	s := startScript(t, "uploads", "http://"+p.Addr(), tokens, storage)
	s.until("accepted " + yesterday + " 100")
	s.until("accepted " + today + " 200")

	p.HoldReply(`"score":300`) // the service has it, and the client does not learn of it
	s.do("add " + today + " 300")
	testenv.Eventually(t, "the answer is held", p.Holding)
	p.Cut()
	p.Start()
	s.until("accepted " + today + " 300")

	g.set(false, "/scores")
	s.do("add " + today + " 400")
	testenv.Eventually(t, "the upload is held", func() bool { return g.stopped() > 0 })
	s.do("add " + today + " 500")
	s.do("add 2020-01-01 5")
	s.until("stored 2020-01-01 5")
	g.set(false, "")
	s.until("accepted " + today + " 500")
	s.until("refused 2020-01-01 5 date_closed")
	s.do("pending")
	s.until("pending []")
	if n := s.printed("refused 2020-01-01 5 date_closed"); n != 1 {
		t.Errorf("the closed day was reported %d times", n)
	}
	s.stop()

	bearer := harness.Token(t, "1", "")
	for day, score := range map[string]int{today: 500, yesterday: 100} {
		path := service.URL + "/v1/boards/steps/me?date=" + day
		status, text, err := harness.Request(t.Context(), http.DefaultClient, bearer, http.MethodGet, path, "")
		if err != nil || status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"score":%d,`, score)) {
			t.Errorf("%s: %d %s %v, want score %d", day, status, text, err, score)
		}
	}
}

// The live ranking follows the service through cut connections, held streams and
// refusals, and returns to the stream each time.
func TestLive(t *testing.T) {
	t.Parallel()
	service, g, p, tokens := startService(t)
	upload(t, service, 10)
	s := startScript(t, "live", "http://"+p.Addr(), tokens)
	s.until("live 10")
	upload(t, service, 20)
	s.until("live 20")

	p.Cut()
	s.until("offline 0")
	p.Start()
	upload(t, service, 30)
	s.until("live 30")

	g.set(false, "/stream")
	p.Cut() // ends the stream
	p.Start()
	testenv.Eventually(t, "a stream is held", func() bool { return g.stopped() > 0 })
	upload(t, service, 40)
	s.until("polling 40")
	g.set(true, "")
	s.until("error 503")
	n := s.next()
	g.set(false, "")
	s.untilAfter(n, "live 40")
	s.stop()
}
