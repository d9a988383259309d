package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/internal/testenv"
)

// authority is a certificate authority that speaks as much of ACME (RFC 8555) as autocert does, with
// the challenge TLS-ALPN-01 (RFC 8737). It trusts the signatures of its client.
type authority struct {
	t      *testing.T
	URL    string
	root   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued atomic.Int64

	mu         sync.Mutex
	service    string // the address at which it looks for the challenge
	host       string // of the order
	thumbprint string // of the client's key, in base64
	valid      bool   // whether the challenge was met
	chain      []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: testenv.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 1, 0),
	}
	a.root = testenv.Must(x509.ParseCertificate(testenv.Must(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))))
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// ServeHTTP answers the calls of one order, which autocert makes one after the other.
func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Replay-Nonce", rand.Text())
	protected, payload := decodeJWS(a.t, r.Body)
	status, answer := http.StatusOK, any(nil)
	switch r.URL.Path {
	case "/":
		answer = map[string]string{"newNonce": a.URL + "/nonce", "newAccount": a.URL + "/account", "newOrder": a.URL + "/new"}
	case "/nonce":
	case "/account":
		var key struct {
			JWK struct{ Crv, Kty, X, Y string }
		}
		a.decode(protected, &key)
		// A thumbprint is of the members in this order (RFC 7638).
		sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":%q,"kty":%q,"x":%q,"y":%q}`, key.JWK.Crv, key.JWK.Kty, key.JWK.X, key.JWK.Y))
		a.thumbprint = base64.RawURLEncoding.EncodeToString(sum[:])
		w.Header().Set("Location", a.URL+"/account/1")
		status, answer = http.StatusCreated, map[string]string{"status": "valid"}
	case "/new":
		var order struct{ Identifiers []struct{ Value string } }
		a.decode(payload, &order)
		a.host = order.Identifiers[0].Value
		w.Header().Set("Location", a.URL+"/order")
		status, answer = http.StatusCreated, a.order()
	case "/order":
		answer = a.order()
	case "/authorization":
		state := "pending"
		if a.valid {
			state = "valid"
		}
		answer = map[string]any{
			"status": state, "identifier": map[string]string{"type": "dns", "value": a.host},
			"challenges": []any{a.challenge()},
		}
	case "/challenge":
		a.valid = a.meets()
		answer = a.challenge()
	case "/finalize":
		var request struct{ CSR string }
		a.decode(payload, &request)
		a.issue(testenv.Must(base64.RawURLEncoding.DecodeString(request.CSR)))
		answer = a.order()
	case "/certificate":
		_, _ = w.Write(a.chain)
		return
	default:
		status = http.StatusNotFound
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (a *authority) decode(text []byte, v any) {
	if err := json.Unmarshal(text, v); err != nil {
		a.t.Errorf("%s: %v", text, err)
	}
}

func (a *authority) challenge() map[string]string {
	return map[string]string{"type": "tls-alpn-01", "url": a.URL + "/challenge", "token": "token", "status": "pending"}
}

func (a *authority) order() map[string]any {
	order := map[string]any{
		"status": "pending", "authorizations": []string{a.URL + "/authorization"}, "finalize": a.URL + "/finalize",
		"identifiers": []map[string]string{{"type": "dns", "value": a.host}},
	}
	if a.valid {
		order["status"] = "ready"
	}
	if a.chain != nil {
		order["status"], order["certificate"] = "valid", a.URL+"/certificate"
	}
	return order
}

// meets returns whether the service shows that it serves the host and holds the client's key.
func (a *authority) meets() bool {
	conn, err := (&tls.Dialer{Config: &tls.Config{
		ServerName: a.host, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true,
	}}).DialContext(a.t.Context(), "tcp", a.service)
	if err != nil {
		a.t.Errorf("the challenge: %v", err)
		return false
	}
	defer conn.Close()
	sum := sha256.Sum256([]byte("token." + a.thumbprint))
	want := testenv.Must(asn1.Marshal(sum[:]))
	shown := conn.(*tls.Conn).ConnectionState() //nolint:forcetypeassert // of this dialer
	for _, e := range shown.PeerCertificates[0].Extensions {
		if e.Id.String() == "1.3.6.1.5.5.7.1.31" {
			return e.Critical && string(e.Value) == string(want) && shown.NegotiatedProtocol == "acme-tls/1"
		}
	}
	return false
}

func (a *authority) issue(csr []byte) {
	request := testenv.Must(x509.ParseCertificateRequest(csr))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1 + a.issued.Add(1)), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 20),
	}
	der := testenv.Must(x509.CreateCertificate(rand.Reader, template, a.root, request.PublicKey, a.key))
	a.chain = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// decodeJWS returns the parts of a signed call; both are empty if it has no body.
func decodeJWS(t *testing.T, r io.Reader) (protected, payload []byte) {
	t.Helper()
	var parts struct{ Protected, Payload string }
	if err := json.NewDecoder(r).Decode(&parts); err != nil {
		return nil, nil
	}
	return testenv.Must(base64.RawURLEncoding.DecodeString(parts.Protected)), testenv.Must(base64.RawURLEncoding.DecodeString(parts.Payload))
}

// A process obtains its certificate from an authority for the first visitor of its host. The one
// after it has the certificate from the folder.
func TestCertificateFromAnAuthority(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	for range 2 {
		p := testenv.ServeFolder(t, dir, "--http.acme_hosts=steps.example.com", "--http.acme_directory="+a.URL+"/")
		addr := strings.TrimPrefix(p.URL, "http://")
		a.mu.Lock()
		a.service = addr
		a.mu.Unlock()
		roots := x509.NewCertPool()
		roots.AddCert(a.root)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "steps.example.com"}}}
		r := testenv.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/readyz", http.NoBody))
		res, err := client.Do(r)
		if err != nil {
			t.Fatalf("%v; the log: %s", err, p.Log())
		}
		res.Body.Close()
		if issued := a.issued.Load(); res.StatusCode != http.StatusOK || issued != 1 {
			t.Errorf("%d, after %d certificates", res.StatusCode, issued)
		}
		client.CloseIdleConnections()
		p.Stop()
	}
}
