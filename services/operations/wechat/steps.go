package wechat

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"stepboard/models"
)

const (
	// maxDocument is the largest document that is decrypted, in bytes. One of 31 days has some 1,500.
	maxDocument = 8 << 10
	// maxItems is how many items a document may have: twice as many as days.
	maxItems = 62
	// maxAge is how old a document may be, and how far ahead.
	maxAge = time.Hour
)

// china is the zone of WeChat's days. It has had no summer time since 1991.
var china = time.FixedZone("Asia/Shanghai", 8*60*60)

// errUnreadable means that a document can't be read. Nobody is told more.
var errUnreadable = errors.New("the document can't be read")

// day is the total of a day.
type day struct {
	date  models.Date
	steps int64
}

// document is what wx.getWeRunData encrypts, as far as it matters.
type document struct {
	Steps *[]struct {
		Timestamp *int64 `json:"timestamp"`
		Step      *int64 `json:"step"`
	} `json:"stepInfoList"`
	Watermark *watermark `json:"watermark"`
}

// watermark says for which app and when a document was encrypted.
type watermark struct {
	AppID     string `json:"appid"`
	Timestamp int64  `json:"timestamp"`
}

// readSteps decrypts a document and returns the totals in it, of each day the largest, oldest first; at least one.
// errUnreadable for anything else.
func readSteps(appid string, key []byte, encryptedData, iv string, now time.Time) ([]day, error) {
	plain, padded := decrypt(key, encryptedData, iv)
	var d document
	// A document with bad padding is parsed, too, for the same work.
	if err := json.Unmarshal(plain, &d); err != nil || !padded || !plainTexts(plain) {
		return nil, errUnreadable
	}
	if d.Steps == nil || len(*d.Steps) == 0 || len(*d.Steps) > maxItems || !d.Watermark.good(appid, now) {
		return nil, errUnreadable
	}
	most := make(map[models.Date]int64)
	for _, item := range *d.Steps {
		if item.Timestamp == nil || item.Step == nil || *item.Step < 0 || *item.Timestamp < 0 || *item.Timestamp > now.Add(maxAge).Unix() {
			return nil, errUnreadable
		}
		date := models.DateOf(time.Unix(*item.Timestamp, 0).In(china))
		most[date] = max(most[date], *item.Step)
	}
	days := make([]day, 0, len(most))
	for _, date := range slices.Sorted(maps.Keys(most)) {
		days = append(days, day{date, most[date]})
	}
	return days, nil
}

// plainText matches the texts of documents: keys and appids.
var plainText = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// plainTexts reports whether all texts of a document are plain. Who knows a document of their own can write another
// block between two of its blocks, at the price of 16 bytes before it that nobody can foresee. Only in a text
// would they be JSON.
func plainTexts(document []byte) bool {
	for tokens := json.NewDecoder(bytes.NewReader(document)); ; {
		token, err := tokens.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if text, ok := token.(string); ok && !plainText.MatchString(text) {
			return false
		}
	}
}

// good reports whether a document was encrypted for an app, and lately.
func (w *watermark) good(appid string, now time.Time) bool {
	return w != nil && w.AppID == appid && now.Sub(time.Unix(w.Timestamp, 0)).Abs() <= maxAge
}

// decrypt decrypts a text in base64 with AES-128 in CBC mode, and reports whether its padding is that of PKCS #7.
// What comes before the padding is looked at in the same time for each padding. Of a text that can't be decrypted
// it returns nothing.
func decrypt(key []byte, encryptedData, iv string) (plain []byte, padded bool) {
	encryptedData, iv = strings.ReplaceAll(encryptedData, " ", "+"), strings.ReplaceAll(iv, " ", "+") // as a form has it that was decoded twice
	if len(encryptedData) > base64.StdEncoding.EncodedLen(maxDocument) {
		return nil, false
	}
	data, err := base64.StdEncoding.DecodeString(encryptedData)
	start, bad := base64.StdEncoding.DecodeString(iv)
	if err != nil || bad != nil || len(start) != aes.BlockSize || len(data) == 0 || len(data)%aes.BlockSize != 0 {
		return nil, false
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, false
	}
	cipher.NewCBCDecrypter(block, start).CryptBlocks(data, data)
	padding := int(data[len(data)-1])
	good := subtle.ConstantTimeLessOrEq(1, padding) & subtle.ConstantTimeLessOrEq(padding, aes.BlockSize)
	for i := 1; i <= aes.BlockSize; i++ {
		counts := subtle.ConstantTimeLessOrEq(i, padding)
		same := subtle.ConstantTimeByteEq(data[len(data)-i], byte(padding))
		good &= subtle.ConstantTimeSelect(counts, same, 1)
	}
	return data[:len(data)-subtle.ConstantTimeSelect(good, padding, 0)], good == 1
}
