package testenv

import (
	"bytes"
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Proxy stands between a process and a server, and can cut or hold what goes
// through it. What is held goes nowhere until the proxy is cut, where it is
// lost, or released.
type Proxy struct {
	t        testing.TB
	upstream string
	addr     string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	mark     *mark         // where to begin to hold; nil where nobody has asked for it
	held     chan struct{} // closed by Cut and Release; nil while nothing is to be held
	replies  bool          // it is the server's answers that are held
	waiting  int           // how many reads are held
	wg       sync.WaitGroup
}

// mark is a place in what goes through, in one direction.
type mark struct {
	// texts come one after another before it. Each comes in one read, as short
	// commands and answers do.
	texts [][]byte
	// behind is how many bytes lie between the beginning of the last text and
	// the place; behindAll for the end of its read.
	behind  int
	replies bool // it is in what the server answers
}

const behindAll = -1

func newMark(behind int, replies bool, texts ...string) *mark {
	m := &mark{behind: behind, replies: replies}
	for _, text := range texts {
		m.texts = append(m.texts, []byte(text))
	}
	return m
}

// in finds the place in what comes next; ok is false where it is not there.
func (m *mark) in(next []byte) (at int, ok bool) {
	from := 0
	for len(m.texts) > 0 {
		text := m.texts[0]
		start := bytes.Index(next[from:], text)
		if start < 0 {
			return 0, false
		}
		from += start
		if m.texts = m.texts[1:]; len(m.texts) > 0 {
			from += len(text)
		}
	}
	if m.behind == behindAll {
		return len(next), true
	}
	if m.behind += from; m.behind > len(next) {
		m.behind -= len(next)
		return 0, false
	}
	return m.behind, true
}

// NewProxy starts a proxy for a server. It ends with the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, upstream: upstream, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t))), conns: make(map[net.Conn]bool)}
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
	p.listener = l
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
	p.letGo()
	p.mu.Unlock()
	p.wg.Wait()
}

// Release lets through what was held, also what a process sent that is dead by
// now, and everything after it.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letGo()
}

func (p *Proxy) letGo() {
	if p.held != nil {
		close(p.held)
	}
	p.mark, p.held, p.waiting = nil, nil, 0
}

// Hold stops everything on its way to the server: the server hangs, as far as
// anybody can tell.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold(false)
}

func (p *Proxy) hold(replies bool) {
	p.mark, p.replies = nil, replies
	if p.held == nil {
		p.held = make(chan struct{})
	}
}

// HoldAfter lets through what holds the text, and from then on nothing more to
// the server.
func (p *Proxy) HoldAfter(text string) { p.holdFrom(newMark(behindAll, false, text)) }

// HoldAt lets through what comes before a text and n bytes from its beginning
// on, and from then on nothing more to the server: 0 stops right before what
// the text begins, and more in the middle of it. Of several texts, which come
// one after another, it is the last; without any it is n bytes from now on.
func (p *Proxy) HoldAt(n int, texts ...string) { p.holdFrom(newMark(n, false, texts...)) }

// HoldReply lets through what the server answers before the last of the texts,
// and from then on no answer: what was asked for is done, and nobody hears of
// it.
func (p *Proxy) HoldReply(texts ...string) { p.holdFrom(newMark(0, true, texts...)) }

func (p *Proxy) holdFrom(m *mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark = m
}

// Holding tells whether anything is held right now.
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
	if p.listener == nil { // cut meanwhile
		client.Close()
		server.Close()
		return
	}
	p.conns[client], p.conns[server] = true, true
	p.wg.Go(func() { p.copy(server, client, false) })
	p.wg.Go(func() { p.copy(client, server, true) })
}

// copy moves bytes until one side ends, then ends the other.
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

// pass tells how many bytes may go on now, and what the others wait for; nil
// where there are no others.
func (p *Proxy) pass(next []byte, replies bool) (n int, held <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mark != nil && p.mark.replies == replies {
		if at, ok := p.mark.in(next); ok {
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
