package testenv

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Proxy is a TCP proxy between a process and a server. It can cut connections,
// or hold back data in one direction. Held data stays in the proxy until
// Release sends it on or Cut drops it.
type Proxy struct {
	t        testing.TB
	upstream string
	addr     string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	trigger  *trigger      // where holding begins; nil if it begins nowhere
	held     chan struct{} // closed by Cut and Release; nil while nothing is held
	replies  bool          // the server's answers are held, not the client's data
	waiting  int           // number of reads that are held
	wg       sync.WaitGroup
}

// trigger is a position in the data of one direction.
type trigger struct {
	// texts appear one after another before the position. Each must lie within
	// one read, as short commands and answers do.
	texts [][]byte
	// offset is the number of bytes from the beginning of the last text to the
	// position, or wholeRead for the end of the read that contains the text.
	offset  int
	replies bool // the position is in the server's answers
}

const wholeRead = -1

func newTrigger(offset int, replies bool, texts ...string) *trigger {
	tr := &trigger{offset: offset, replies: replies}
	for _, text := range texts {
		tr.texts = append(tr.texts, []byte(text))
	}
	return tr
}

// find looks for the position in the next read; ok is false if it is not in
// this one.
func (tr *trigger) find(next []byte) (at int, ok bool) {
	from := 0
	for len(tr.texts) > 0 {
		text := tr.texts[0]
		start := bytes.Index(next[from:], text)
		if start < 0 {
			return 0, false
		}
		from += start
		if tr.texts = tr.texts[1:]; len(tr.texts) > 0 {
			from += len(text)
		}
	}
	if tr.offset == wholeRead {
		return len(next), true
	}
	if tr.offset += from; tr.offset > len(next) {
		tr.offset -= len(next)
		return 0, false
	}
	return tr.offset, true
}

// NewProxy starts a proxy in front of the server at upstream. The end of the
// test cuts it.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, upstream: upstream, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t))), conns: make(map[net.Conn]bool)}
	p.Start()
	t.Cleanup(p.Cut)
	return p
}

// Addr returns the address the proxy listens on, which stays the same while it
// is cut.
func (p *Proxy) Addr() string { return p.addr }

// Start accepts connections, after Cut at the same address as before.
func (p *Proxy) Start() {
	p.t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // Cut has closed the listener
			}
			p.connect(conn)
		}
	})
}

// Cut closes all connections, refuses new ones and drops held data.
func (p *Proxy) Cut() {
	p.mu.Lock()
	if p.listener != nil {
		if err := p.listener.Close(); err != nil {
			p.t.Error(err)
		}
		p.listener = nil
	}
	for conn := range p.conns {
		conn.Close() // it may be closed already
	}
	clear(p.conns)
	p.release()
	p.mu.Unlock()
	p.wg.Wait()
}

// Redirect closes all connections, and passes new ones on to another server.
func (p *Proxy) Redirect(upstream string) {
	p.t.Helper()
	p.Cut()
	p.upstream = upstream
	p.Start()
}

// Release sends on the held data, including that of processes that have died,
// and stops holding.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

func (p *Proxy) release() {
	if p.held != nil {
		close(p.held)
	}
	p.trigger, p.held, p.waiting = nil, nil, 0
}

// Hold holds back everything that is sent to the server, so that the server
// seems to hang.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold(false)
}

func (p *Proxy) hold(replies bool) {
	p.trigger, p.replies = nil, replies
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// HoldAfter passes on the read that contains text, and holds everything sent to
// the server after it.
func (p *Proxy) HoldAfter(text string) { p.holdFrom(newTrigger(wholeRead, false, text)) }

// HoldAt passes on what is sent to the server up to n bytes after the beginning
// of a text, and holds the rest: n = 0 stops right before the text. Several
// texts must appear one after another, and n counts from the last. Without a
// text, n counts from now.
func (p *Proxy) HoldAt(n int, texts ...string) { p.holdFrom(newTrigger(n, false, texts...)) }

// HoldReply passes on the server's answers up to the last of the texts, and
// holds the rest: the server has done its work, but the client does not learn
// of it.
func (p *Proxy) HoldReply(texts ...string) { p.holdFrom(newTrigger(0, true, texts...)) }

func (p *Proxy) holdFrom(tr *trigger) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger = tr
}

// Holding reports whether data is held right now.
func (p *Proxy) Holding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting > 0
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
	if p.listener == nil { // Cut was called meanwhile
		client.Close()
		server.Close()
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.wg.Go(func() { p.copy(server, client, false) })
	p.wg.Go(func() { p.copy(client, server, true) })
}

// copy moves data until one side closes, and then closes the other.
func (p *Proxy) copy(to, from net.Conn, replies bool) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		pass, held := p.pass(buf[:n], replies)
		if _, err := to.Write(buf[:pass]); err != nil {
			return
		}
		if held == nil {
			continue
		}
		<-held
		if _, err := to.Write(buf[pass:n]); err != nil {
			return
		}
	}
}

// pass returns how many bytes may go on now, and the channel whose closing lets
// the rest go on; nil if there is no rest.
func (p *Proxy) pass(next []byte, replies bool) (n int, held <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trigger != nil && p.trigger.replies == replies {
		if at, ok := p.trigger.find(next); ok {
			p.hold(replies)
			n = at
		}
	}
	if p.held == nil || p.replies != replies || n == len(next) {
		return len(next), nil
	}
	p.waiting++
	return n, p.held
}
