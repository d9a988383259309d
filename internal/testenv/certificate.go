package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is a certificate and its key, as PEM.
type Certificate struct{ Cert, Key []byte }

// NewCertificate returns a certificate for a host that has signed itself.
func NewCertificate(t testing.TB, host string) Certificate {
	t.Helper()
	private := Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der := Must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))
	encoded := Must(x509.MarshalECPrivateKey(private))
	return Certificate{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})}
}

// Write writes the files to a folder and returns their paths.
func (c Certificate) Write(t testing.TB, dir string) (certPath, keyPath string) {
	t.Helper()
	certPath, keyPath = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, text := range map[string][]byte{certPath: c.Cert, keyPath: c.Key} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certPath, keyPath
}
