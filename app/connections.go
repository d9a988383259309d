package app

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stepboard/handlers"
	"stepboard/services/platform/limit"
)

const (
	// probeConnections is how many connections above http.max_connections are accepted for
	// probes.
	probeConnections = 16
	// silentFor is how long a new connection may send no request before it counts as idle.
	silentFor = time.Second
)

// connections bounds the open connections to a listener. Above the bound, it closes an idle
// connection for each new one: the one that is idle for longest, of the address that has most
// idle ones. If none is idle, it accepts a few that may only probe. Safe for concurrent use.
type connections struct {
	most   int
	spared []netip.Prefix // whose idle connections are not closed

	mu      sync.Mutex
	open    int       // without those for probes
	probing int       // those for probes
	idle    int       // those that may be closed
	silent  list.List // of *connection that has sent no request, by the time of its accept
	clients map[string]*client
	byIdle  byIdle
	// changed has a value after a connection was closed or became idle.
	changed chan struct{}

	closedIdle atomic.Int64
}

// connection is an open connection. Its fields but resting and forProbes belong to the mutex of
// connections.
type connection struct {
	net.Conn

	// resting reports that the connection waits for a request.
	resting atomic.Bool
	client  *client // nil if it is spared
	// list holds the connection at place, while it waits for a request and is not spared.
	list      *list.List
	place     *list.Element
	since     time.Time // when it was accepted, or became idle
	forProbes bool
	evicted   bool
}

// client is an address with open connections. An IPv6 address counts as its /64.
type client struct {
	address string
	open    int
	idle    list.List // of *connection, the one that is idle for longest first
	index   int       // in byIdle
}

// newConnections returns the bookkeeping for a number of connections. The idle ones of this
// machine (127.0.0.1 and ::1) and of trusted proxies are spared. It returns an error if one of
// these is neither an address nor a network.
func newConnections(most int, trustedProxies []string) (*connections, error) {
	c := &connections{most: most, clients: make(map[string]*client), changed: make(chan struct{}, 1)}
	for _, text := range append([]string{"127.0.0.1", "::1"}, trustedProxies...) {
		network, err := netip.ParsePrefix(text)
		if addr, invalid := netip.ParseAddr(text); invalid == nil {
			network, err = addr.Unmap().Prefix(addr.Unmap().BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("trusted proxies: %w", err)
		}
		c.spared = append(c.spared, network)
	}
	return c, nil
}

// boundedListener is a listener whose connections are bounded. Its Accept must not be called
// concurrently.
type boundedListener struct {
	net.Listener

	connections *connections
	close       sync.Once
	closed      chan struct{}
}

// Accept waits for the next connection, and for room for it.
func (l *boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, since: time.Now()}
	c.resting.Store(true)
	for !l.connections.admit(c) {
		select {
		case <-l.connections.changed:
		case <-time.After(silentFor): // a silent connection may count as idle by now
		case <-l.closed:
			_ = conn.Close() // nobody has used it
			return nil, fmt.Errorf("accept: %w", net.ErrClosed)
		}
	}
	return c, nil
}

// Close closes the connection. One that waits for a request ends as if its client had closed it:
// TLS would first tell the client, and may wait five seconds for one that reads nothing.
func (c *connection) Close() error {
	if c.resting.Load() {
		return belowTLS(c.Conn).Close()
	}
	return c.Conn.Close()
}

// belowTLS returns the connection that carries an encrypted one; conn if it is not encrypted.
func belowTLS(conn net.Conn) net.Conn {
	answers, ok := conn.(*answerConn)
	if !ok {
		return conn
	}
	if secure, ok := answers.Conn.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return conn
}

// Close closes the listener, and ends Accept.
func (l *boundedListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// admit counts a connection that was accepted, and closes idle ones to make room for it. It
// returns false if there is no room, not even for probes.
func (b *connections) admit(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.open >= b.most && b.evict() {
	}
	switch {
	case b.open < b.most:
		b.open++
	case b.probing < probeConnections:
		b.probing++
		c.forProbes = true
	default:
		return false
	}
	if address := peer(c); !slices.ContainsFunc(b.spared, func(p netip.Prefix) bool { return p.Contains(address) }) {
		name := limit.Network(address.String())
		if c.client = b.clients[name]; c.client == nil {
			c.client = &client{address: name}
			b.clients[name] = c.client
			heap.Push(&b.byIdle, c.client)
		}
		c.client.open++
		c.list, c.place = &b.silent, b.silent.PushBack(c)
	}
	return true
}

// evict closes a connection that may be closed; it returns false if there is none.
func (b *connections) evict() bool {
	for e := b.silent.Front(); e != nil; e = b.silent.Front() {
		c := e.Value.(*connection)
		if time.Since(c.since) < silentFor {
			break
		}
		b.silent.Remove(e)
		b.wait(c)
	}
	if len(b.byIdle) == 0 || b.byIdle[0].idle.Len() == 0 {
		return false
	}
	c := b.byIdle[0].idle.Front().Value.(*connection)
	b.remove(c)
	c.evicted = true
	b.closedIdle.Add(1)
	_ = c.Close()
	return true
}

// wait adds a connection to the idle ones of its client.
func (b *connections) wait(c *connection) {
	c.since = time.Now()
	c.list, c.place = &c.client.idle, c.client.idle.PushBack(c)
	b.idle++
	heap.Fix(&b.byIdle, c.client.index)
}

// busy removes a connection from the list that it waits in.
func (b *connections) busy(c *connection) {
	if c.place == nil {
		return
	}
	c.list.Remove(c.place)
	if c.list == &c.client.idle {
		b.idle--
		heap.Fix(&b.byIdle, c.client.index)
	}
	c.list, c.place = nil, nil
}

// remove removes a connection that is closed.
func (b *connections) remove(c *connection) {
	b.busy(c)
	if c.forProbes {
		b.probing--
	} else {
		b.open--
	}
	if c.client == nil {
		return
	}
	if c.client.open--; c.client.open == 0 {
		heap.Remove(&b.byIdle, c.client.index)
		delete(b.clients, c.client.address)
	}
}

// begin is called before a request is handled. It returns false if its connection was closed
// as an idle one while the request arrived: nobody would get the answer, so the request must
// not be handled.
func (b *connections) begin(c *connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy(c)
	c.resting.Store(false)
	return !c.evicted
}

// note follows the states of connections. It is a ConnState of an http.Server. StateActive does
// not tell of a request that was sent together with the one before it, so begin is called in
// its place.
func (b *connections) note(conn net.Conn, state http.ConnState) {
	c := conn.(*connection)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case c.evicted || state == http.StateNew || state == http.StateActive:
		return
	case state == http.StateIdle:
		c.resting.Store(true)
		if c.client != nil {
			b.busy(c) // OPTIONS * is answered without begin
			b.wait(c)
		}
	default:
		b.remove(c)
	}
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// counts returns the numbers of open connections, those for probes included, and of idle ones
// that may be closed.
func (b *connections) counts() (open, idle int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open + b.probing, b.idle
}

// peer returns the address of the other end of a connection; the zero Addr if it has none.
func peer(conn net.Conn) netip.Addr {
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return addr.AddrPort().Addr().Unmap().WithZone("")
}

// connectionKey is the key of a request's *connection.
type connectionKey struct{}

// withConnection returns the context of the requests on a connection. It is a ConnContext of an
// http.Server.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	c := conn.(*connection)
	if c.forProbes {
		ctx = handlers.ForProbes(ctx)
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// handle returns a handler of the requests on bounded connections.
func (b *connections) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connectionKey{}).(*connection)
		if !b.begin(c) {
			panic(http.ErrAbortHandler)
		}
		if c.forProbes {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// byIdle is a heap of clients, the one with most idle connections first; of several, that with
// the one that is idle for longest.
type byIdle []*client

func (h byIdle) Len() int { return len(h) }

func (h byIdle) Less(i, j int) bool {
	one, two := &h[i].idle, &h[j].idle
	if one.Len() != two.Len() || one.Len() == 0 {
		return one.Len() > two.Len()
	}
	return one.Front().Value.(*connection).since.Before(two.Front().Value.(*connection).since)
}

func (h byIdle) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is part of heap.Interface.
func (h *byIdle) Push(c any) {
	client := c.(*client)
	client.index = len(*h)
	*h = append(*h, client)
}

// Pop is part of heap.Interface.
func (h *byIdle) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}
