package app

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
)

// peerConn is a net.Conn from an address, which knows whether it is closed.
type peerConn struct {
	net.Conn

	addr   net.Addr
	closed atomic.Bool
}

func (c *peerConn) RemoteAddr() net.Addr { return c.addr }

func (c *peerConn) Close() error {
	c.closed.Store(true)
	return nil
}

func from(address string) *connection {
	return &connection{Conn: &peerConn{addr: &net.TCPAddr{IP: net.ParseIP(address)}}, since: time.Now()}
}

func (c *connection) isClosed() bool { return c.Conn.(*peerConn).closed.Load() }

// A connection of a test, and what happens to it before the bound is reached.
type step struct {
	address string
	state   string // "idle", "busy", or "silent": it has sent nothing
}

func TestWhichIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		conns []step
		want  []int // the connections that are closed for three new ones, by index
	}{
		{"the address with most", []step{{"192.0.2.1", "idle"}, {"192.0.2.2", "idle"}, {"192.0.2.2", "idle"}, {"192.0.2.2", "idle"}}, []int{1, 2, 0}},
		{"of several the longest idle", []step{{"192.0.2.3", "idle"}, {"192.0.2.1", "idle"}, {"192.0.2.2", "idle"}, {"192.0.2.4", "idle"}}, []int{0, 1, 2}},
		{"busy ones do not count", []step{{"192.0.2.1", "busy"}, {"192.0.2.1", "busy"}, {"192.0.2.1", "idle"}, {"192.0.2.2", "idle"}, {"192.0.2.2", "idle"}}, []int{3, 2, 4}},
		{"never a busy one", []step{{"192.0.2.1", "busy"}, {"192.0.2.1", "idle"}, {"192.0.2.2", "busy"}}, []int{1}},
		{"a network of IPv6", []step{{"192.0.2.1", "idle"}, {"2001:db8::1", "idle"}, {"2001:db8::2", "idle"}, {"2001:db8:0:1::", "idle"}}, []int{1, 0, 2}},
		{"not this machine", []step{{"127.0.0.1", "idle"}, {"127.0.0.1", "idle"}, {"::1", "idle"}, {"127.0.0.2", "idle"}}, []int{3}},
		{"not a trusted proxy", []step{{"10.1.2.3", "idle"}, {"10.1.2.3", "idle"}, {"192.0.2.77", "idle"}, {"11.0.0.1", "idle"}}, []int{3}},
		{"one that has sent nothing", []step{{"192.0.2.1", "silent"}, {"192.0.2.1", "silent"}, {"192.0.2.2", "idle"}}, []int{0, 2, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := testenv.Must(newConnections(len(tt.conns), []string{"10.0.0.0/8", "192.0.2.77"}))
			conns := make([]*connection, len(tt.conns))
			for i, s := range tt.conns {
				conns[i] = from(s.address)
				if !b.admit(conns[i]) || conns[i].forProbes {
					t.Fatalf("%s: connection %d has no room", tt.name, i)
				}
				<-time.After(time.Millisecond)
			}
			for i, s := range tt.conns {
				if s.state != "silent" && !b.begin(conns[i]) {
					t.Errorf("%s: a request on connection %d is refused", tt.name, i)
				}
				if s.state == "idle" {
					b.note(conns[i], http.StateIdle)
				}
				<-time.After(time.Millisecond)
			}
			<-time.After(silentFor)
			var closed []int
			for range 3 {
				c := from("192.0.2.200")
				if !b.admit(c) {
					t.Errorf("%s: a new connection has no room", tt.name)
				}
				b.begin(c)
				for i, c := range conns {
					if c.isClosed() && !slices.Contains(closed, i) {
						closed = append(closed, i)
					}
				}
			}
			if diff := cmp.Diff(tt.want, closed); diff != "" {
				t.Errorf("%s: closed (-want +got):\n%s", tt.name, diff)
			}
		})
	}
}

// A connection that has just been accepted is not closed before its request has had time to
// arrive.
func TestANewConnectionIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := testenv.Must(newConnections(1, nil))
		first, second := from("192.0.2.1"), from("192.0.2.1")
		b.admit(first)
		<-time.After(silentFor - 1)
		b.admit(second)
		if first.isClosed() || !second.forProbes {
			t.Errorf("closed %t, the second is for probes: %t", first.isClosed(), second.forProbes)
		}
		<-time.After(1)
		third := from("192.0.2.2")
		if !b.admit(third) || !first.isClosed() || third.forProbes {
			t.Errorf("the silent one is closed: %t, the third is for probes: %t", first.isClosed(), third.forProbes)
		}
	})
}

// If no connection is idle, a few are accepted for probes. Further ones wait.
func TestRoomForProbes(t *testing.T) {
	t.Parallel()
	b := testenv.Must(newConnections(2, nil))
	var busy []*connection
	for i := range 2 + probeConnections {
		c := from("127.0.0.1")
		if !b.admit(c) || c.forProbes != (i >= 2) {
			t.Fatalf("connection %d: for probes: %t", i, c.forProbes)
		}
		b.begin(c)
		busy = append(busy, c)
	}
	waiting := from("127.0.0.1")
	if b.admit(waiting) {
		t.Fatal("there is room for ever more")
	}
	b.note(busy[2], http.StateClosed)
	if !b.admit(waiting) || !waiting.forProbes {
		t.Error("there is no room after a probe")
	}
	b.note(busy[0], http.StateClosed)
	last := from("127.0.0.1")
	if !b.admit(last) || last.forProbes {
		t.Error("there is no room after a connection")
	}
	if open, idle := b.counts(); open != 2+probeConnections || idle != 0 {
		t.Errorf("%d open, %d idle", open, idle)
	}
	for _, c := range append(busy, waiting, last) {
		if c != busy[0] && c != busy[2] {
			b.note(c, http.StateClosed)
		}
	}
	if open, _ := b.counts(); open != 0 || len(b.clients) != 0 || b.silent.Len() != 0 {
		t.Errorf("%d open, %d clients, %d silent", open, len(b.clients), b.silent.Len())
	}
}

// A listener that waits for room ends when it is closed.
func TestAcceptEndsWithItsListener(t *testing.T) {
	t.Parallel()
	b := testenv.Must(newConnections(1, nil))
	for range 1 + probeConnections {
		b.admit(from("127.0.0.1"))
	}
	inner := testenv.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	l := &boundedListener{Listener: inner, connections: b, closed: make(chan struct{})}
	client := testenv.Must(new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String()))
	defer client.Close()
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := testenv.Receive(t, "Accept returns", accepted); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// Clients reuse connections while the server closes idle ones for others. A request is either
// answered, or its connection is closed and it was not handled: so it may be sent again, as
// after the end of a keep-alive. A connection with a request is never closed.
func TestClosingIdleConnectionsIsHarmless(t *testing.T) {
	t.Parallel()
	const most, clients, requests = 4, 12, 60
	b := testenv.Must(newConnections(most, nil))
	var handled sync.Map
	server := &http.Server{
		ReadHeaderTimeout: readHeaderTimeout, ConnState: b.note, ConnContext: withConnection,
		Handler: b.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handled.Store(r.URL.Path, true)
			w.Header().Set("Content-Length", "2")
			fmt.Fprint(w, "ok")
		})),
	}
	inner := testenv.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(&boundedListener{Listener: inner, connections: b, closed: make(chan struct{})})
	}()
	var running sync.WaitGroup
	var closed atomic.Int64
	for n := range clients {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n%3))}}
		running.Go(func() {
			var conn net.Conn
			for i := range requests {
				if conn == nil {
					conn = testenv.Must(dialer.DialContext(t.Context(), "tcp", inner.Addr().String()))
				}
				path := fmt.Sprintf("/%d/%d", n, i)
				keep, err := roundTrip(conn, path)
				if _, found := handled.Load(path); err != nil && found {
					t.Errorf("a request was handled, and its answer is lost: %v", err)
				}
				if err != nil {
					closed.Add(1)
				}
				if err != nil || !keep {
					_ = conn.Close()
					conn = nil
				}
			}
			if conn != nil {
				_ = conn.Close()
			}
		})
	}
	testenv.Wait(t, "all that runs ends", &running)
	t.Logf("%d connections were closed for others, %d of them in sight of a request", b.closedIdle.Load(), closed.Load())
	if b.closedIdle.Load() == 0 {
		t.Error("no idle connection was closed")
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := testenv.Receive(t, "the server ends", served); !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	testenv.Eventually(t, "no connection is counted", func() bool { open, idle := b.counts(); return open == 0 && idle == 0 })
}

// roundTrip sends a request on a connection, and reports whether the connection may be used again.
func roundTrip(conn net.Conn, path string) (keep bool, err error) {
	if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: stepboard\r\nContent-Length: 0\r\n\r\n"); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false, err
	}
	text, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(text) != "ok") {
		err = fmt.Errorf("%d %s", res.StatusCode, text)
	}
	return !res.Close, errors.Join(err, res.Body.Close())
}

// A request on a connection that was closed as it arrived is not handled, and one that was sent
// together with the request before it keeps its connection busy.
func TestARequestThatMeetsTheClosing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := testenv.Must(newConnections(1, nil))
		c := from("192.0.2.1")
		b.admit(c)
		b.begin(c)
		b.note(c, http.StateIdle)
		if !b.begin(c) { // without StateActive
			t.Error("a request is refused")
		}
		b.admit(from("192.0.2.2"))
		if c.isClosed() {
			t.Error("a busy connection is closed")
		}
		b.note(c, http.StateIdle)
		b.admit(from("192.0.2.2"))
		if !c.isClosed() || b.begin(c) {
			t.Errorf("closed: %t; a request on it is handled", c.isClosed())
		}
		b.note(c, http.StateClosed)
		if open, _ := b.counts(); open != 2 {
			t.Errorf("%d open", open)
		}
	})
}

func TestTrustedProxiesMustBeAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"proxy", "10.0.0.0/99"} {
		if _, err := newConnections(1, []string{text}); err == nil || !strings.Contains(err.Error(), "trusted proxies") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
