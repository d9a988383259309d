package app

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"stepboard/config"
	"stepboard/models"
)

// NewTLS returns how connections are encrypted: with the certificate of http.tls_cert, or with
// those of http.acme_hosts, which lie in a folder below data.dir. It returns nil if neither is
// set, and an error if the certificate can't be used.
//
// Clients are offered HTTP/1.1 only. HTTP/2 would carry any number of calls and streams over one
// connection, so http.max_connections would bound nothing, and net/http would refuse malformed
// requests in its own words.
func NewTLS(cfg config.Config, log *slog.Logger) (*tls.Config, error) {
	// An answer is one record, and so one system call.
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
	switch {
	case cfg.HTTP.TLSCert != "":
		f := &certificateFiles{certPath: cfg.HTTP.TLSCert, keyPath: cfg.HTTP.TLSKey, clock: time.Now, log: log}
		if err := f.reload(); err != nil {
			return nil, err
		}
		c.GetCertificate = f.get
	case len(cfg.HTTP.ACMEHosts) > 0:
		c.GetCertificate = certificatesOf(newACME(cfg), log)
		c.NextProtos = append(c.NextProtos, acme.ALPNProto) // the challenge TLS-ALPN-01
	default:
		return nil, nil //nolint:nilnil // as documented
	}
	return c, nil
}

// reloadEvery is how long a certificate is served without a look at its files.
const reloadEvery = time.Second

// certificateFiles serves a certificate and its key from two files. It reads them again while
// clients connect, at most once a second, so a renewed certificate needs no restart. While the files
// don't fit each other, or can't be read, it serves what they last were. Safe for concurrent use.
type certificateFiles struct {
	certPath, keyPath string
	clock             models.Clock
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]

	mu        sync.Mutex
	read      time.Time
	cert, key []byte // what current was made of
}

// get returns the certificate. It is a GetCertificate of a tls.Config.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if f.mu.TryLock() { // otherwise another connection is reading the files
		if f.clock().Sub(f.read) >= reloadEvery {
			if err := f.reload(); err != nil {
				f.log.Error("the renewed certificate can't be used; the one before is served", "error", err)
			}
		}
		f.mu.Unlock()
	}
	return f.current.Load(), nil
}

// reload reads the files, and the certificate if they have changed. The caller holds the lock, or
// is alone. Its errors name the setting.
func (f *certificateFiles) reload() error {
	f.read = f.clock()
	cert, err := os.ReadFile(f.certPath)
	if err != nil {
		return fmt.Errorf("http.tls_cert: %w", err)
	}
	key, err := os.ReadFile(f.keyPath)
	if err != nil {
		return fmt.Errorf("http.tls_key: %w", err)
	}
	if bytes.Equal(cert, f.cert) && bytes.Equal(key, f.key) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("http.tls_cert %s and http.tls_key %s: %w", f.certPath, f.keyPath, err)
	}
	f.cert, f.key = cert, key
	f.current.Store(&pair)
	return nil
}

// newACME returns what obtains certificates for http.acme_hosts, and renews them. It keeps them in a
// folder of their own in the data folder, with mode 0700.
func newACME(cfg config.Config) *autocert.Manager {
	return &autocert.Manager{
		Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(cfg.HTTP.ACMEHosts...),
		Cache:  autocert.DirCache(filepath.Join(cfg.Data.Dir, "certificates")),
		Client: &acme.Client{DirectoryURL: cfg.HTTP.ACMEDirectory}, // "" is that of Let's Encrypt
	}
}

// certificatesOf returns a GetCertificate of a tls.Config with a manager's certificates. It logs why
// there is none for one of the manager's hosts. Scanners, which ask for others, are not logged.
func certificatesOf(m *autocert.Manager, log *slog.Logger) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := m.GetCertificate(hello)
		if err != nil && m.HostPolicy(hello.Context(), hello.ServerName) == nil {
			log.ErrorContext(hello.Context(), "no certificate could be obtained", "host", hello.ServerName, "error", err)
		}
		return cert, err
	}
}
