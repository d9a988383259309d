package wechat_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/services/operations/wechat"
)

const appid = "wx4f4bc4dec97d474b"

var (
	key = []byte("sixteen bytes of")
	iv  = bytes.Repeat([]byte{7}, aes.BlockSize)
	now = time.Date(2026, 11, 20, 4, 0, 0, 0, time.UTC)
)

// The vector that WeChat has published with its documentation.
func TestDecryptThePublishedVector(t *testing.T) {
	t.Parallel()
	published := testenv.Must(base64.StdEncoding.DecodeString("tiihtNczf5v6AKRyjwEUhQ=="))
	text := strings.Join([]string{
		"CiyLU1Aw2KjvrjMdj8YKliAjtP4gsMZMQmRzooG2xrDcvSnxIMXFufNstNGTyaGS9uT5geRa0W4oTOb1WT7fJlAC+oNPdbB+3hVbJSRgv+4lGOETKUQz6OYStslQ142d",
		"NCuabNPGBzlooOmB231qMM85d2/fV6ChevvXvQP8Hkue1poOFtnEtpyxVLW1zAo6/1Xx1COxFvrc2d7UL/lmHInNlxuacJXwu0fjpXfz/YqYzBIBzD6WUfTIF9GRHpOn",
		"/Hz7saL8xz+W//FRAUid1OksQaQx4CMs8LOddcQhULW4ucetDf96JcR3g0gfRK4PC7E/r7Z6xNrXd2UIeorGj5Ef7b1pJAYB6Y5anaHqZ9J6nKEBvB4DnNLIVWSgARns",
		"/8wR2SiRS7MNACwTyrGvt9ts8p12PKFdlqYTopNHR1Vf7XjfhQlVsAJdNiKdYmYVoKlaRv85IfVunYzO0IKXsyl7JCUjCpoG20f0a04COwfneQAGGwd5oa+T8yO5hzuy",
		"Db/XcxxmK01EpqOyuxINew==",
	}, "")
	plain, padded := wechat.Decrypt(published, text, "r7BXXKkLb8qrSNn05n0qiA==")
	// Decoded twice as a form, each plus has become a space.
	if again, ok := wechat.Decrypt(published, strings.ReplaceAll(text, "+", " "), "r7BXXKkLb8qrSNn05n0qiA=="); !ok || !bytes.Equal(again, plain) {
		t.Errorf("with spaces it is %q", again)
	}
	var got struct {
		OpenID    string `json:"openId"`
		Watermark struct {
			AppID     string
			Timestamp int64
		}
	}
	if err := json.Unmarshal(plain, &got); err != nil || !padded {
		t.Fatal(padded, err)
	}
	if got.OpenID != "oGZUI0egBJY1zhBYw2KhdUfwVJJE" || got.Watermark.Timestamp != 1477314187 || got.Watermark.AppID != appid {
		t.Errorf("it is %+v", got)
	}
}

// encrypt encrypts a text as it is, which must have whole blocks.
func encrypt(padded []byte) string {
	data := bytes.Clone(padded)
	cipher.NewCBCEncrypter(testenv.Must(aes.NewCipher(key)), iv).CryptBlocks(data, data)
	return base64.StdEncoding.EncodeToString(data)
}

// padded adds the padding of PKCS #7 to a text.
func padded(text string) []byte {
	n := aes.BlockSize - len(text)%aes.BlockSize
	return append([]byte(text), bytes.Repeat([]byte{byte(n)}, n)...)
}

// read reads a text that is encrypted with good padding.
func read(text string) (map[string]int64, error) {
	return wechat.ReadSteps(appid, key, encrypt(padded(text)), base64.StdEncoding.EncodeToString(iv), now)
}

// text returns a document with items and a watermark.
func text(items string, appid string, at time.Time) string {
	return fmt.Sprintf(`{"stepInfoList":[%s],"watermark":{"timestamp":%d,"appid":%q}}`, items, at.Unix(), appid)
}

func item(at time.Time, steps any) string {
	return fmt.Sprintf(`{"timestamp":%d,"step":%v}`, at.Unix(), steps)
}

// The day of an item is the one in China, and of a day the largest counts.
func TestStepsAreOfDaysInChina(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 18, 16, 0, 0, 0, time.UTC) // in China the 19th begins
	got, err := read(text(strings.Join([]string{
		item(midnight, 100), item(midnight.Add(-time.Second), 7), item(midnight.Add(23*time.Hour), 90), item(midnight.AddDate(0, 0, -30), 5), item(midnight.AddDate(0, 0, 1), 0),
	}, ","), appid, now))
	if diff := cmp.Diff(map[string]int64{"2026-10-20": 5, "2026-11-18": 7, "2026-11-19": 100, "2026-11-20": 0}, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// It is so on machines in any zone.
func TestStepsOnAMachineElsewhere(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"America/New_York", "Pacific/Kiritimati"} {
		elsewhere := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStepsAreOfDaysInChina$")
		elsewhere.Env = append(os.Environ(), "TZ="+zone)
		if out, err := elsewhere.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", zone, err, out)
		}
	}
}

func TestUnreadableDocuments(t *testing.T) {
	t.Parallel()
	good := item(now, 100)
	for _, known := range []string{text(good, appid, now), strings.Replace(text(good, appid, now), "{", `{"new_field":{"kind":["text",1,null]},`, 1)} {
		if _, err := read(known); err != nil {
			t.Fatal(known, err)
		}
	}
	for name, document := range map[string]string{
		"nothing":                  "",
		"no JSON":                  "steps",
		"a list":                   "[]",
		"more behind it":           text(good, appid, now) + "{}",
		"no items":                 text("", appid, now),
		"null":                     `{"stepInfoList":null,"watermark":{"timestamp":1,"appid":"` + appid + `"}}`,
		"63 items":                 text(strings.TrimSuffix(strings.Repeat(good+",", 63), ","), appid, now),
		"steps below 0":            text(item(now, -1), appid, now),
		"half steps":               text(item(now, 1.5), appid, now),
		"steps in a text":          text(item(now, `"5"`), appid, now),
		"a key of other bytes":     text(`{"st ep":1,"timestamp":1,"step":5}`, appid, now),
		"no steps":                 text(fmt.Sprintf(`{"timestamp":%d}`, now.Unix()), appid, now),
		"no time":                  text(`{"step":5}`, appid, now),
		"a time below 0":           text(`{"timestamp":-1,"step":5}`, appid, now),
		"a day in the future":      text(item(now.AddDate(0, 0, 1), 5), appid, now),
		"no watermark":             `{"stepInfoList":[` + good + `]}`,
		"another app's":            text(good, "wxother", now),
		"an hour and a second old": text(good, appid, now.Add(-time.Hour-time.Second)),
		"as much ahead":            text(good, appid, now.Add(time.Hour+time.Second)),
	} {
		if got, err := read(document); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	document := text(good, appid, now)
	start := base64.StdEncoding.EncodeToString(iv)
	for name, sent := range map[string][2]string{
		"nothing":                {"", start},
		"no base64":              {"*", start},
		"half a block":           {base64.StdEncoding.EncodeToString([]byte("12345678")), start},
		"no start":               {encrypt(padded(document)), ""},
		"a short start":          {encrypt(padded(document)), base64.StdEncoding.EncodeToString(iv[1:])},
		"padding of zero":        {encrypt(append(padded(document), make([]byte, 16)...)), start},
		"padding of 17":          {encrypt(append(padded(document), bytes.Repeat([]byte{17}, 32)...)), start},
		"padding that differs":   {encrypt(append(padded(document)[:len(padded(document))-2], 5, 2)), start},
		"more than is permitted": {encrypt(padded(document + strings.Repeat(" ", 9<<10))), start},
	} {
		if got, err := wechat.ReadSteps(appid, key, sent[0], sent[1], now); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := wechat.ReadSteps(appid, []byte("another key here"), encrypt(padded(document)), start, now); err == nil {
		t.Error("another key reads it")
	}
}

// Somebody who knows a document of their own can put a block of their choice into it. The block before it is then
// bytes that nobody can foresee, and because of these it is refused, wherever they stand in a text.
func TestForgedDocuments(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2026, 11, 19, 16, 0, 0, 0, time.UTC)
	var items []string
	for day := range 31 {
		items = append(items, item(midnight.AddDate(0, 0, day-30), 1000+37*day))
	}
	plain := padded(text(strings.Join(items, ","), appid, now))
	sealed := testenv.Must(base64.StdEncoding.DecodeString(encrypt(plain)))
	block := func(text []byte, i int) []byte { return text[i*aes.BlockSize : (i+1)*aes.BlockSize] }
	tries := 0
	for m := range len(plain)/aes.BlockSize - 3 {
		before := string(plain[:(m+1)*aes.BlockSize])
		quote := strings.LastIndex(before, `,"`)
		if quote < 0 || !strings.HasPrefix(`step"`, before[quote+2:]) { // not within a key
			continue
		}
		for a := m + 1; a+1 < len(plain)/aes.BlockSize; a++ {
			if block(plain, a+1)[0] != '}' {
				continue
			}
			for steps := 65_000; steps < 65_100; steps++ {
				chosen := make([]byte, aes.BlockSize)
				for i, c := range fmt.Appendf(nil, `":0,"step":%05d`, steps) {
					chosen[i] = block(plain, a)[i] ^ block(sealed, a-1)[i] ^ c
				}
				tries++
				forged := slices.Concat(sealed[:(m+1)*aes.BlockSize], chosen, sealed[a*aes.BlockSize:])
				got, err := wechat.ReadSteps(appid, key, base64.StdEncoding.EncodeToString(forged), base64.StdEncoding.EncodeToString(iv), now)
				if err == nil {
					t.Fatalf("%v is read", got)
				}
			}
		}
	}
	if tries < 100 {
		t.Errorf("only %d documents were forged", tries)
	}
}

// Whatever is sent, it is read or not, and what is read has days of 31 and some, and steps from 0 on.
func FuzzReadSteps(f *testing.F) {
	f.Add(text(item(now, 100), appid, now), []byte("any"), true)
	f.Add(text(item(now, 1e15), appid, now), padded("steps"), false)
	f.Add(`{"stepInfoList":[{"timestamp":1,"step":0},{"Timestamp":2,"STEP":3}],"watermark":{"appid":"`+appid+`","timestamp":1795147200}}`, []byte{}, true)
	f.Fuzz(func(t *testing.T, document string, raw []byte, good bool) {
		data := base64.StdEncoding.EncodeToString(raw)
		if good {
			data = encrypt(padded(document))
		}
		totals, err := wechat.ReadSteps(appid, key, data, base64.StdEncoding.EncodeToString(iv), now)
		if err == nil && (len(totals) == 0 || len(totals) > 62 || !strings.Contains(strings.ToLower(document), "stepinfolist") && good) {
			t.Errorf("%q is %v", document, totals)
		}
		for date, steps := range totals {
			if steps < 0 || date > "2026-11-21" || date < "1970" {
				t.Errorf("%q has %d on %s", document, steps, date)
			}
		}
	})
}
