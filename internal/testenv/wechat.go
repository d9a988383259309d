package testenv

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// WeChat is a WeChat of its own for a test: the server that exchanges codes, and the app on people's phones.
// It follows WeChat's documentation. Over HTTP, /phone/login and /phone/werun do what LogIn and RunData do,
// for tests in other languages.
type WeChat struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	secrets map[string]string // by appid
	unions  map[string]bool   // the appids that get unionids
	codes   map[string]login  // that were not used
	used    map[string]bool
	keys    map[person][]byte // the valid session key
	asked   int
	answers http.HandlerFunc // in place of the exchange of codes; nil for none
}

// person is somebody in an app.
type person struct{ appid, name string }

type login struct {
	person
	until time.Time
}

// StepDay is an item of stepInfoList.
type StepDay struct {
	// Timestamp is the begin of the day in China, in seconds.
	Timestamp int64 `json:"timestamp"`
	Step      int64 `json:"step"`
}

const (
	codeLifetime = 5 * time.Minute
	// keySize is the size of a session key, in bytes.
	keySize = 16
)

// NewWeChat returns a WeChat that runs until the test ends.
func NewWeChat(t testing.TB) *WeChat {
	t.Helper()
	w := &WeChat{
		t: t, secrets: make(map[string]string), unions: make(map[string]bool), codes: make(map[string]login),
		used: make(map[string]bool), keys: make(map[person][]byte),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sns/jscode2session", w.exchange)
	mux.HandleFunc("POST /phone/login", func(rw http.ResponseWriter, r *http.Request) {
		var in struct{ AppID, Person string }
		w.read(r, &in)
		writeJSON(rw, map[string]any{"code": w.LogIn(in.AppID, in.Person)})
	})
	mux.HandleFunc("POST /phone/werun", func(rw http.ResponseWriter, r *http.Request) {
		var in struct {
			AppID, Person string
			Days          []StepDay
		}
		w.read(r, &in)
		data, iv := w.RunData(in.AppID, in.Person, time.Now(), in.Days...)
		writeJSON(rw, map[string]any{"encryptedData": data, "iv": iv})
	})
	mux.HandleFunc("POST /phone/replace-key", func(rw http.ResponseWriter, r *http.Request) {
		var in struct{ AppID, Person string }
		w.read(r, &in)
		w.ReplaceKey(in.AppID, in.Person)
		writeJSON(rw, map[string]any{})
	})
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Close)
	return w
}

func (w *WeChat) read(r *http.Request, in any) {
	if err := json.NewDecoder(r.Body).Decode(in); err != nil {
		w.t.Errorf("a phone has sent what is no JSON: %v", err)
	}
}

func writeJSON(rw http.ResponseWriter, answer any) {
	rw.Header().Set("Content-Type", "text/plain") // as WeChat does
	_ = json.NewEncoder(rw).Encode(answer)
}

// AddApp adds a mini program. With union it belongs to an account of the open platform, so that people have a
// unionid, the same in all of these.
func (w *WeChat) AddApp(appid, secret string, union bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[appid], w.unions[appid] = secret, union
}

// OpenID returns the openid of a person in an app, and UnionID the unionid.
func OpenID(appid, name string) string { return "o-" + appid + "-" + name }

// UnionID returns the unionid of a person.
func UnionID(name string) string { return "u-" + name }

// LogIn returns what wx.login gives to a mini program.
func (w *WeChat) LogIn(appid, name string) (code string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	code = "code-" + rand.Text()
	w.codes[code] = login{person{appid, name}, time.Now().Add(codeLifetime)}
	return code
}

// RunData returns what wx.getWeRunData gives to a mini program, encrypted with the person's key. at is the
// time of its watermark.
func (w *WeChat) RunData(appid, name string, at time.Time, days ...StepDay) (encryptedData, iv string) {
	plain := Must(json.Marshal(map[string]any{
		"stepInfoList": days, "watermark": map[string]any{"appid": appid, "timestamp": at.Unix()},
	}))
	start := make([]byte, aes.BlockSize)
	_, _ = rand.Read(start)
	return EncryptedByWeChat(w.Key(appid, name), start, plain)
}

// EncryptedByWeChat encrypts a text with a session key and an initialization vector, and returns both in base64.
func EncryptedByWeChat(key, start, plain []byte) (encryptedData, iv string) {
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	data := append(bytes.Clone(plain), bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(Must(aes.NewCipher(key)), start).CryptBlocks(data, data)
	return base64.StdEncoding.EncodeToString(data), base64.StdEncoding.EncodeToString(start)
}

// Key returns the valid key of a person, and ReplaceKey makes another one, as other mini programs' logins and
// WeChat itself do.
func (w *WeChat) Key(appid, name string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key(person{appid, name})
}

// ReplaceKey gives a person another key.
func (w *WeChat) ReplaceKey(appid, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.keys, person{appid, name})
}

func (w *WeChat) key(p person) []byte {
	if w.keys[p] == nil {
		w.keys[p] = make([]byte, keySize)
		_, _ = rand.Read(w.keys[p])
	}
	return w.keys[p]
}

// Answer makes a handler answer in place of the exchange of codes; nil ends that.
func (w *WeChat) Answer(handler http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = handler
}

// Asked returns how often the service has asked.
func (w *WeChat) Asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// exchange is jscode2session.
func (w *WeChat) exchange(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked++
	answers := w.answers
	w.mu.Unlock()
	if answers != nil {
		answers(rw, r)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	query := r.URL.Query()
	refuse := func(code int, text string) { writeJSON(rw, map[string]any{"errcode": code, "errmsg": text}) }
	appid, code := query.Get("appid"), query.Get("js_code")
	one, found := w.codes[code]
	switch secret, known := w.secrets[appid]; {
	case query.Get("grant_type") != "authorization_code":
		refuse(40002, "invalid grant_type")
	case !known:
		refuse(40013, "invalid appid")
	case secret != query.Get("secret"):
		refuse(40125, "invalid appsecret")
	case w.used[code]:
		refuse(40163, "code been used")
	case !found || one.appid != appid || time.Now().After(one.until):
		refuse(40029, "invalid code")
	default:
		delete(w.codes, code)
		w.used[code] = true
		answer := map[string]any{"openid": OpenID(appid, one.name), "session_key": base64.StdEncoding.EncodeToString(w.key(one.person))}
		if w.unions[appid] {
			answer["unionid"] = UnionID(one.name)
		}
		writeJSON(rw, answer)
	}
}
