package outcomes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stepboard/models"
)

const (
	// attemptTimeout bounds an attempt, from connecting to the end of the answer.
	attemptTimeout = 10 * time.Second
	// answerBytes is how much of an answer is read, so that its connection can be used
	// again, and answerHeaderBytes bounds its headers.
	answerBytes       = 16 << 10
	answerHeaderBytes = 16 << 10
)

// sender sends messages to one target. Safe for concurrent use.
type sender interface {
	// target is the text by which deliveries name the target.
	target() string
	// render returns what is sent of a delivery. Its errors are those of Topic.Render.
	render(ctx context.Context, d *models.Delivery) ([]byte, error)
	// send sends what render has returned, and returns the status of the answer, 0 without one. An
	// error says why it does not count as received; ErrEnded if nothing is to be sent there again.
	send(ctx context.Context, d *models.Delivery, body []byte) (status int, err error)
	// close closes connections that are not used.
	close()
}

// webhook is the sender of webhooks.
type webhook struct {
	store   *Store
	url     string
	signers []*standardwebhooks.Webhook
	client  *http.Client
}

// newWebhook returns a sender. It returns an error if a secret is malformed.
func newWebhook(store *Store, t Target) (*webhook, error) {
	s := &webhook{store: store, url: t.URL, client: newClient(t.PrivateNetwork)}
	for _, secret := range t.Secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, errors.New("a secret of a webhook is not in base64") // its text must not be shown
		}
		s.signers = append(s.signers, signer)
	}
	return s, nil
}

// newClient returns a client that follows no redirects, uses no proxy, and connects to
// permitted addresses only. It looks at the address after the name was resolved, so a
// public name can't lead into the private network.
func newClient(private bool) *http.Client {
	dialer := &net.Dialer{Timeout: attemptTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address, private)
	}}
	return &http.Client{
		Timeout:       attemptTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: attemptTimeout,
			MaxIdleConnsPerHost: sendAtOnce, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: answerHeaderBytes,
		},
	}
}

// errPrivate is the error of an address that is not permitted.
var errPrivate = errors.New("it is not a public address: set private_network to permit it")

// internet refuses every address in IANA's registries of addresses with a special purpose.
var internet = ssrf.New()

// checkAddress returns an error if a connection to ip:port is not permitted. Link-local
// addresses, under which clouds give a machine its credentials, are never permitted.
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
		return errPrivate
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
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		if checkAddress(netip.AddrPortFrom(ip, 443).String(), false) != nil {
			return errors.New("may not be reached: it is not a public address")
		}
	} else if !strings.Contains(host, ".") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
		return errors.New("may not be reached: it is not a public name")
	}
	return nil
}

func (s *webhook) target() string { return s.url }

func (s *webhook) close() { s.client.CloseIdleConnections() }

func (s *webhook) render(ctx context.Context, d *models.Delivery) ([]byte, error) {
	return s.store.render(ctx, d)
}

// send signs a message and sends it. The time is the real one, by which receivers check the
// signature.
func (s *webhook) send(ctx context.Context, d *models.Delivery, body []byte) (status int, err error) {
	now, id := time.Now(), d.MessageID
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	signatures := make([]string, len(s.signers))
	for i, signer := range s.signers {
		if signatures[i], err = signer.Sign(id, now, body); err != nil {
			return 0, fmt.Errorf("sign: %w", err)
		}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Stepboard")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	answer, err := s.client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return 0, err
	}
	return statusOf(answer)
}

// statusOf ends an answer, of which only the status counts. It returns an error unless that is 2xx.
func statusOf(answer *http.Response) (status int, err error) {
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerBytes))
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode <= 299:
		return answer.StatusCode, nil
	case answer.StatusCode >= 300 && answer.StatusCode <= 399:
		return answer.StatusCode, errors.New("redirects are not followed")
	default:
		return answer.StatusCode, errors.New(http.StatusText(answer.StatusCode))
	}
}
