package testenv

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a process and a server, and can cut or hold what goes
// through it.
type Proxy struct {
	t        testing.TB
	upstream string
	addr     string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	last     []byte        // what is let through last
	held     chan struct{} // closed by Cut; nil while nothing is held
	wg       sync.WaitGroup
}

// NewProxy starts a proxy for a server. It ends with the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, upstream: upstream, addr: "127.0.0.1:0", conns: make(map[net.Conn]bool)}
	p.Start()
	t.Cleanup(p.Cut)
	return p
}

// Addr is where it listens, also while it is cut.
func (p *Proxy) Addr() string { return p.addr }

// Start lets connections through, at the same address as before.
func (p *Proxy) Start() {
	p.t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.addr = l, l.Addr().String()
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // cut
			}
			p.connect(conn)
		}
	})
}

// Cut ends all connections and refuses new ones. What was held is lost.
func (p *Proxy) Cut() {
	p.mu.Lock()
	if p.listener != nil {
		if err := p.listener.Close(); err != nil {
			p.t.Error(err)
		}
		p.listener = nil
	}
	for conn := range p.conns {
		conn.Close() // either side may have closed it
	}
	clear(p.conns)
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
	p.mu.Unlock()
	p.wg.Wait()
}

// Hold stops everything on its way to the server, until the proxy is cut: the
// server hangs, as far as anybody can tell.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

// HoldAfter lets through what holds the text, and from then on nothing more to
// the server, until the proxy is cut.
func (p *Proxy) HoldAfter(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = []byte(text)
}

func (p *Proxy) connect(client net.Conn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(context.Background(), "tcp", p.upstream)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil { // cut meanwhile
		client.Close()
		server.Close()
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.wg.Go(func() { p.copy(server, client, true) })
	p.wg.Go(func() { p.copy(client, server, false) })
}

// copy moves bytes until one side ends, then ends the other.
func (p *Proxy) copy(to, from net.Conn, upward bool) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if upward {
			p.mu.Lock()
			held := p.held
			if held == nil && p.last != nil && bytes.Contains(buf[:n], p.last) {
				p.held = make(chan struct{})
			}
			p.mu.Unlock()
			if held != nil {
				<-held
			}
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
