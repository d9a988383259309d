// Package outbound makes the clients with which the service calls others over HTTP, and says whom it may call.
package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// maxHeader bounds the headers of an answer, in bytes.
const maxHeader = 64 << 10

// Options says what a client may do.
type Options struct {
	// Timeout bounds a call, from connecting to the end of the answer; 0 if the context of each call does.
	Timeout time.Duration
	// MaxAnswer bounds the body of an answer, in bytes, beyond which reading it is an *http.MaxBytesError; 0 if who
	// reads it does.
	MaxAnswer int64
	// Idle is how many connections are kept for the next calls; 0 for none, so that nothing outlives a call.
	Idle int
	// Strangers says that others than the operator name the addresses: only public ones are called, and no proxy. With
	// Private they may also be of this machine and of private networks.
	Strangers, Private bool
}

// NewClient returns a client. It follows no redirect: who is called decides neither whom we trust nor who hears what we
// send. The answer to be followed is returned as it is.
func NewClient(o Options) *http.Client {
	transport := NewTransport(o)
	client := &http.Client{
		Timeout: o.Timeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if o.MaxAnswer > 0 {
		client.Transport = bounded{transport, o.MaxAnswer}
	}
	return client
}

// NewTransport returns the transport of a client for libraries that make their own. They must follow no redirect.
func NewTransport(o Options) *http.Transport {
	const connecting = 10 * time.Second
	dialer := &net.Dialer{Timeout: connecting}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connecting, MaxResponseHeaderBytes: maxHeader,
		ExpectContinueTimeout: time.Second, DisableCompression: true, // a short answer must not become a long one
		DisableKeepAlives: o.Idle == 0, MaxIdleConnsPerHost: o.Idle, IdleConnTimeout: time.Minute,
	}
	if o.Strangers {
		transport.Proxy = nil
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return checkAddress(address, o.Private) }
	}
	transport.DialContext = dialer.DialContext
	return transport
}

// bounded is a transport whose answers have at most most bytes.
type bounded struct {
	*http.Transport

	most int64
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = http.MaxBytesReader(nil, res.Body, b.most)
	return res, nil
}

// ErrPrivate is the error of an address that a stranger may not name.
var ErrPrivate = errors.New("it is not a public address: set private_network to permit it")

// internet refuses every address in IANA's registries of addresses with a special purpose.
var internet = ssrf.New()

// checkAddress returns an error if a connection to ip:port is not permitted. It is the address after the name was
// resolved, so a public name can't lead into the private network. Link-local addresses, under which clouds give a machine
// its credentials, are never permitted.
func checkAddress(address string, private bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	switch {
	case ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified():
		return fmt.Errorf("%s is never called", ip)
	case !private && internet.SafeAddr(ip) != nil:
		return ErrPrivate
	}
	return nil
}

// CheckURL returns an error for people if nothing may be sent to an address that a stranger has given:
// unless private networks are permitted, it must be one of HTTPS with a public name on the usual
// port. Which addresses the name has is checked when it is called.
func CheckURL(address string, private bool) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("is no address of HTTPS")
	case private:
		return nil
	case u.Scheme != "https":
		return errors.New("is no address of HTTPS")
	case u.Port() != "" && u.Port() != "443":
		return errors.New("may not be reached: its port is not 443")
	case !IsPublicHost(u.Hostname()):
		return errors.New("may not be reached: it is not a public name or address")
	}
	return nil
}

// IsPublicHost reports whether a host may be reached from the internet, as far as its name or address says.
func IsPublicHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return checkAddress(netip.AddrPortFrom(ip, 443).String(), false) == nil
	}
	for _, private := range []string{"localhost", "local", "internal", "lan", "home.arpa", "invalid", "test", "onion"} {
		if strings.HasSuffix(host, "."+private) {
			return false
		}
	}
	return strings.Contains(host, ".")
}
