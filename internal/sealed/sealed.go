// Package sealed encrypts what others keep for the service, or what its database keeps of others.
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// Sealer encrypts with AES-256-GCM, by a key that is derived from a secret. Safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// New returns a sealer. Two purposes have different keys, whatever the secret.
func New(secret []byte, purpose string) (*Sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "stepboard: "+purpose, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Sealer{aead}, err
}

// Seal encrypts a text and binds it to whose it is.
func (s *Sealer) Seal(text []byte, whose string) []byte {
	return s.aead.Seal(nil, nil, text, []byte(whose)) //nolint:gosec // it makes a random nonce itself
}

// Open decrypts what Seal has returned for the same owner. It returns false if it can't, as with another secret.
func (s *Sealer) Open(sealed []byte, whose string) ([]byte, bool) {
	text, err := s.aead.Open(nil, nil, sealed, []byte(whose))
	return text, err == nil
}
