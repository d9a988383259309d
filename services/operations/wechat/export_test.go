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
