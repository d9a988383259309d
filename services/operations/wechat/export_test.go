package wechat

import "time"

// Decrypt is decrypt, for the vector that WeChat has published.
var Decrypt = decrypt

// ReadSteps is readSteps, with days as texts.
func ReadSteps(appid string, key []byte, encryptedData, iv string, now time.Time) (map[string]int64, error) {
	days, err := readSteps(appid, key, encryptedData, iv, now)
	if err != nil {
		return nil, err
	}
	totals := make(map[string]int64)
	for _, d := range days {
		totals[d.date.String()] = d.steps
	}
	return totals, nil
}

// Seal and Open encrypt and decrypt a session key with a secret.
func Seal(secret, appid, openID string, key []byte) []byte {
	s, _ := newSealer([]byte(secret))
	return s.seal(appid, openID, key)
}

// Open is the opposite of Seal.
func Open(secret, appid, openID string, sealed []byte) ([]byte, bool) {
	s, _ := newSealer([]byte(secret))
	return s.open(appid, openID, sealed)
}
