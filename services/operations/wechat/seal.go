package wechat

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// sealer encrypts session keys with AES-256-GCM, by a key that is derived from the service's secret.
// Safe for concurrent use.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret []byte) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "stepboard: session keys of WeChat", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &sealer{aead}, err
}

// seal encrypts the session key of a person in an app.
func (s *sealer) seal(appid, openID string, key []byte) []byte {
	return s.aead.Seal(nil, nil, key, owner(appid, openID)) //nolint:gosec // it makes a random nonce itself
}

// open decrypts what seal has returned for the same person. It returns false if it can't, as with another secret.
func (s *sealer) open(appid, openID string, sealed []byte) ([]byte, bool) {
	key, err := s.aead.Open(nil, nil, sealed, owner(appid, openID))
	return key, err == nil && len(key) == keySize
}

// owner returns the text that binds an encrypted key to its person. An appid has no space.
func owner(appid, openID string) []byte { return []byte(appid + " " + openID) }
