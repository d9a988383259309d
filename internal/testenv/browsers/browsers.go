// Package browsers has, for tests, a push service and the browsers that it reaches.
package browsers

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// Service is a push service. Safe for concurrent use.
type Service struct {
	*httptest.Server

	t  testing.TB
	mu sync.Mutex
	// answer returns the status of the answer to a browser's message.
	answer   func(path string) int
	browsers map[string]*Browser
}

// Browser is a browser with a subscription.
type Browser struct {
	// Endpoint, P256DH and Auth are what a page gets of PushManager.subscribe.
	Endpoint, P256DH, Auth string

	service *Service
	key     *ecdh.PrivateKey
	secret  []byte
	got     []Push
}

// Push is a message that has arrived.
type Push struct {
	// Text is the message, decrypted, and TTL how many seconds it would have been kept.
	Text, TTL string
	// Key is the key of the sender, as PushManager.subscribe takes it, and Subject the sender's address.
	Key, Subject string
}

// New starts a push service, which answers each message with a status; nil means 201.
func New(t testing.TB, answer func(path string) int) *Service {
	t.Helper()
	if answer == nil {
		answer = func(string) int { return http.StatusCreated }
	}
	s := &Service{t: t, answer: answer, browsers: make(map[string]*Browser)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// Browser returns a new browser.
func (s *Service) Browser(name string) *Browser {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	b := &Browser{service: s, key: key, secret: []byte(rand.Text()[:16]), Endpoint: s.URL + "/" + name}
	b.P256DH = base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
	b.Auth = base64.RawURLEncoding.EncodeToString(b.secret)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers["/"+name] = b
	return b
}

// Got returns the messages that have arrived at a browser so far.
func (b *Browser) Got() []Push {
	b.service.mu.Lock()
	defer b.service.mu.Unlock()
	return slices.Clone(b.got)
}

// JSON returns the body of a call that subscribes the browser. The kinds of news are JSON.
func (b *Browser) JSON(tell string) string {
	return fmt.Sprintf(`{"endpoint":%q,"keys":{"p256dh":%q,"auth":%q},"tell":%s}`, b.Endpoint, b.P256DH, b.Auth, tell)
}

func (s *Service) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	b := s.browsers[r.URL.Path]
	s.mu.Unlock()
	if err != nil || b == nil || r.Method != http.MethodPost || r.Header.Get("Content-Encoding") != "aes128gcm" {
		s.t.Errorf("%s %s: %v, %v", r.Method, r.URL.Path, r.Header, err)
		return
	}
	status := s.answer(r.URL.Path)
	if status == http.StatusFound {
		w.Header().Set("Location", "/elsewhere")
	}
	if status < 300 {
		push, err := b.open(r, body)
		if err != nil {
			s.t.Errorf("%s: %v", r.URL.Path, err)
		}
		s.mu.Lock()
		b.got = append(b.got, push)
		s.mu.Unlock()
	}
	w.WriteHeader(status)
}

// open checks who has sent a message (RFC 8292) and decrypts it.
func (b *Browser) open(r *http.Request, body []byte) (p Push, err error) {
	p.TTL = r.Header.Get("TTL")
	token, key, found := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "vapid t="), ", k=")
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil || !found {
		return p, fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw)
	if err != nil {
		return p, err
	}
	var claims jwt.RegisteredClaims
	_, err = jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience(b.service.URL), jwt.WithExpirationRequired())
	if err != nil {
		return p, err
	}
	p.Key, p.Subject = key, claims.Subject
	p.Text, err = b.decrypt(body)
	return p, err
}

// decrypt decrypts a message of one record (RFC 8188, RFC 8291).
func (b *Browser) decrypt(body []byte) (string, error) {
	if len(body) < 86 || body[20] != 65 || binary.BigEndian.Uint32(body[16:]) < uint32(len(body)-86) {
		return "", errors.New("no record of aes128gcm")
	}
	salt, sender, sealed := body[:16], body[21:86], body[86:]
	from, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return "", err
	}
	shared, err := b.key.ECDH(from)
	if err != nil {
		return "", err
	}
	derive := func(secret, salt []byte, info string, length int) (key []byte) {
		if err == nil {
			key, err = hkdf.Key(sha256.New, secret, salt, info, length)
		}
		return key
	}
	ikm := derive(shared, b.secret, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	key := derive(ikm, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce := derive(ikm, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return "", err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return "", err
	}
	padded, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return "", err
	}
	text, last := strings.CutSuffix(strings.TrimRight(string(padded), "\x00"), "\x02")
	if !last {
		return "", errors.New("the record is not the last one")
	}
	return text, nil
}
