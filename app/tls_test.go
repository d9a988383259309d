package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/services/platform/auth"
)

func TestCertificatesThatCanNotBeUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := testenv.NewCertificate(t, "a.example.com").Write(t, dir)
	_, other := testenv.NewCertificate(t, "a.example.com").Write(t, t.TempDir())
	for name, tt := range map[string]struct {
		cert, key string
		words     []string
	}{
		"a missing certificate":     {filepath.Join(dir, "nix"), key, []string{"http.tls_cert: ", "nix: no such file"}},
		"a missing key":             {cert, filepath.Join(dir, "nix"), []string{"http.tls_key: ", "nix: no such file"}},
		"a folder":                  {dir, key, []string{"http.tls_cert: ", "is a directory"}},
		"a key of another one":      {cert, other, []string{"http.tls_cert " + cert, "http.tls_key " + other, "does not match"}},
		"a key for the certificate": {key, key, []string{"http.tls_cert " + key, "certificate"}},
	} {
		cfg := config.Default()
		cfg.HTTP.TLSCert, cfg.HTTP.TLSKey = tt.cert, tt.key
		_, err := NewTLS(cfg, slog.New(slog.DiscardHandler))
		for _, word := range tt.words {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, without %q", name, err, word)
			}
		}
	}
}

// A certificate that was renewed on the disk is served without a restart. While only one of its
// files is new, the one before is served.
func TestARenewedCertificateIsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := testenv.NewClock(testenv.Noon)
	var log bytes.Buffer
	f := &certificateFiles{clock: clock.Now, log: slog.New(slog.NewTextHandler(&log, nil))}
	f.certPath, f.keyPath = testenv.NewCertificate(t, "old.example.com").Write(t, dir)
	if err := f.reload(); err != nil {
		t.Fatal(err)
	}
	served := func() string { return testenv.Must(f.get(nil)).Leaf.DNSNames[0] }
	renewed := testenv.NewCertificate(t, "new.example.com")
	if err := os.WriteFile(f.certPath, renewed.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Advance(reloadEvery)
	if got := served(); got != "old.example.com" || !strings.Contains(log.String(), "does not match") {
		t.Errorf("%s is served while its files don't fit; the log: %s", got, log.String())
	}
	renewed.Write(t, dir)
	if got := served(); got != "old.example.com" {
		t.Errorf("the files are read again at once: %s", got)
	}
	clock.Advance(reloadEvery)
	if got := served(); got != "new.example.com" {
		t.Errorf("%s is served after the renewal", got)
	}
	if err := os.Remove(f.keyPath); err != nil {
		t.Fatal(err)
	}
	clock.Advance(reloadEvery)
	if got := served(); got != "new.example.com" {
		t.Errorf("%s is served without the files", got)
	}
}

// encrypted returns both ends of an encrypted connection after the handshake, over a pipe without
// a buffer.
func encrypted(t *testing.T) (server, client *tls.Conn) {
	t.Helper()
	p := testenv.NewCertificate(t, "a.example.com")
	certificate := testenv.Must(tls.X509KeyPair(p.Cert, p.Key))
	near, far := net.Pipe()
	server = tls.Server(near, &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true})
	client = tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- client.HandshakeContext(t.Context()) }()
	if err := server.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil { // also within a bubble of synctest, which ends by itself
		t.Fatal(err)
	}
	return server, client
}

// A client that reads nothing can't hold up the accepting of others, or the end of the process: its
// connection is closed without telling it, once it waits for a request.
func TestClosingAnEncryptedConnectionTakesNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := testenv.Must(newConnections(1, nil))
		server, client := encrypted(t)
		c := &connection{Conn: &answerConn{Conn: server}, since: time.Now()}
		b.admit(c)
		b.begin(c)
		b.note(c, http.StateIdle)
		began := time.Now()
		b.admit(from("192.0.2.2"))
		if took := time.Since(began); !c.evicted || took != 0 {
			t.Errorf("closed: %t, after %v", c.evicted, took)
		}
		if n, err := client.NetConn().Read(make([]byte, 100)); n != 0 || err != io.EOF { //nolint:errorlint // of a pipe
			t.Errorf("the client gets %d bytes, %v", n, err)
		}
		// After an answer that ends with its connection, the client is told.
		server, client = encrypted(t)
		c = &connection{Conn: &answerConn{Conn: server}}
		go c.Close()
		if n, err := client.Read(make([]byte, 100)); n != 0 || err != io.EOF { //nolint:errorlint // exactly that
			t.Errorf("the client gets %d bytes, %v", n, err)
		}
	})
}

// Only listed hosts get certificates, and they lie in the data folder.
func TestCertificatesFromAnAuthority(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		http.Error(w, "closed today", http.StatusForbidden)
	}))
	t.Cleanup(authority.Close)
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Data.Dir, cfg.HTTP.ACMEHosts, cfg.HTTP.ACMEDirectory = dir, []string{"a.example.com", "b.example.com"}, authority.URL
	m := newACME(cfg)
	var log bytes.Buffer
	get := certificatesOf(m, slog.New(slog.NewTextHandler(&log, nil)))
	stored := testenv.NewCertificate(t, "a.example.com")
	if err := m.Cache.Put(t.Context(), "a.example.com", append(stored.Key, stored.Cert...)); err != nil {
		t.Fatal(err)
	}
	if info := testenv.Must(os.Stat(filepath.Join(dir, "certificates"))); info.Mode().Perm() != 0o700 {
		t.Errorf("the certificates' folder has mode %v", info.Mode())
	}
	hello := func(host string) (string, error) {
		cert, err := get(&tls.ClientHelloInfo{
			ServerName: host, SupportedCurves: []tls.CurveID{tls.CurveP256},
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		})
		if err != nil {
			return "", err
		}
		return testenv.Must(x509.ParseCertificate(cert.Certificate[0])).DNSNames[0], nil
	}
	if host, err := hello("a.example.com"); err != nil || host != "a.example.com" {
		t.Errorf("a stored certificate: %s, %v", host, err)
	}
	if _, err := hello("c.example.com"); err == nil || calls.Load() > 0 || log.Len() > 0 {
		t.Errorf("another host: %v, %d calls of the authority, log %s", err, calls.Load(), log.String())
	}
	if _, err := hello("b.example.com"); err == nil || calls.Load() == 0 || !strings.Contains(log.String(), "b.example.com") {
		t.Errorf("a refusing authority: %v, %d calls, log %s", err, calls.Load(), log.String())
	}
	secure := testenv.Must(NewTLS(cfg, slog.New(slog.DiscardHandler)))
	if got := strings.Join(secure.NextProtos, " "); got != "http/1.1 acme-tls/1" {
		t.Errorf("clients are offered %s", got)
	}
}

// Over TLS, answers and refusals are those of plain connections, and HTTP/2 is not spoken.
func TestAnswersOverTLS(t *testing.T) {
	t.Parallel()
	env := testenv.Local(t)
	p := testenv.NewCertificate(t, "a.example.com")
	env.Config.HTTP.TLSCert, env.Config.HTTP.TLSKey = p.Write(t, t.TempDir())
	a := testenv.Must(Build(t.Context(), Options{
		Config: env.Config, Stores: env.Stores, Clock: env.Clock.Now, Log: env.Log, TLS: testenv.Must(NewTLS(env.Config, env.Log)),
		Verifier: auth.NewVerifier(auth.VerifierConfig{}), Roles: AllRoles(),
	}))
	listener := testenv.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx, listener) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Cert)
	secure := &tls.Config{RootCAs: roots, ServerName: "a.example.com"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true}}
	for range 2 {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+"/openapi.json", http.NoBody))
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := testenv.Must(io.ReadAll(res.Body)); !json.Valid(got) || len(got) < 10*answerBuffer || res.Proto != "HTTP/1.1" {
			t.Errorf("%s, %d bytes", res.Proto, len(got))
		}
		res.Body.Close()
	}
	if open, _ := a.connections.counts(); open != 1 {
		t.Errorf("%d connections are counted", open)
	}
	dialer := tls.Dialer{Config: secure}
	conn := testenv.Must(dialer.DialContext(t.Context(), "tcp", listener.Addr().String()))
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /v1/users/%zz HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := testenv.Must(io.ReadAll(conn)); !bytes.Contains(got, []byte("application/problem+json")) {
		t.Errorf("a refused request: %s", got)
	}
	client.CloseIdleConnections()
	stop()
	if err := errors.Join(testenv.Receive(t, "the service ends", ran), a.Close()); err != nil {
		t.Error(err)
	}
}
