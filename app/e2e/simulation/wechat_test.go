package simulation_test

import (
	"context"
	"crypto/aes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"stepboard/config"
	"stepboard/internal/testenv"
	"stepboard/models"
)

// programs are the appids of the mini programs. WeChat gives unionids in both, which are the ids of users.
var programs = []string{"wx1", "wx2"}

// worstKey is how many failures of a key a run may cause: far fewer than lock it.
const worstKey = 10

// wechat decides the steps about mini programs, so that those of other kinds are the same for a seed as without them.
type wechat struct {
	random *rand.Rand
	server *httptest.Server
	// phones are the people in mini programs, by appid and user.
	phones map[string]*weChatPhone
}

// weChatPhone is a person in a mini program.
type weChatPhone struct {
	key int // WeChat's, by its number; the service may have an older one
	// stored is the key that the service has, and unsure that nobody knows.
	stored int
	unsure bool
	// row is the user's at the login.
	row    models.RowID
	failed int // documents that the key could not decrypt, or that may be counted as such
}

// keyOfPhone returns a session key by its number.
func keyOfPhone(appid string, user models.UserID, number int) []byte {
	hash := sha256.Sum256(fmt.Append(nil, appid, user, number))
	return hash[:aes.BlockSize]
}

func newWeChat(seed uint64) *wechat {
	c := &wechat{random: rand.New(rand.NewPCG(seed, 7)), phones: make(map[string]*weChatPhone)}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		appid := r.URL.Query().Get("appid")
		user, number, _ := strings.Cut(r.URL.Query().Get("js_code"), ".")
		var key int
		if _, err := fmt.Sscan(number, &key); err != nil {
			_, _ = w.Write([]byte(`{"errcode":40029}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{
			"openid": appid + user, "unionid": user, "session_key": base64.StdEncoding.EncodeToString(keyOfPhone(appid, models.UserID(user), key)),
		})
	}))
	return c
}

// settings adds the mini programs to those of a replica.
func (c *wechat) settings(cfg *config.Config) {
	cfg.WeChat.APIURL = c.server.URL
	for _, appid := range programs {
		cfg.WeChat.Apps = append(cfg.WeChat.Apps, config.WeChatApp{AppID: appid, Secret: "secret", Board: "steps"})
	}
}

// weChatSomething takes a step about mini programs, or none.
func (w *world) weChatSomething() {
	others := w.random
	w.random = w.wechat.random
	defer func() { w.random = others }()
	r := w.replicas[w.random.IntN(len(w.replicas))]
	if w.random.IntN(8) > 0 || r.app == nil || w.failure != nil {
		return
	}
	a := pick(w, []action{
		{"log in by WeChat", 3, false, (*world).logInByWeChat},
		{"upload from WeChat", 6, false, (*world).uploadFromWeChat},
	}, func(a action) int { return a.weight })
	p := plan{}
	if w.random.IntN(3) == 0 {
		p = w.broken(r, a)
	}
	w.take(r, a, p)
}

// weChatPerson returns somebody in a mini program.
func (w *world) weChatPerson() (appid string, user models.UserID, phone *weChatPhone) {
	appid, user = programs[w.random.IntN(len(programs))], w.person()
	name := appid + string(user)
	if w.wechat.phones[name] == nil {
		w.wechat.phones[name] = &weChatPhone{key: 1}
	}
	return appid, user, w.wechat.phones[name]
}

func (w *world) logInByWeChat(ctx context.Context, r *replica) {
	appid, user, phone := w.weChatPerson()
	if w.random.IntN(8) == 0 {
		got := w.call(ctx, r, "", "POST", "/v1/wechat/sessions", fmt.Sprintf(`{"appid":%q,"code":"used"}`, appid))
		if !got.unknown() && got.status != http.StatusUnauthorized {
			w.failf("a used code is not refused")
		}
		return
	}
	if w.random.IntN(2) == 0 || phone.failed > worstKey {
		phone.key++
	}
	late := w.late(r, user)
	got := w.call(ctx, r, "", "POST", "/v1/wechat/sessions", fmt.Sprintf(`{"appid":%q,"code":"%s.%d"}`, appid, user, phone.key))
	switch {
	case got.unknown() || late:
		phone.unsure = true
	case got.status != http.StatusOK:
		w.failf("a login is refused")
	default:
		if made := decode[struct {
			User models.UserID `json:"user_id"`
		}](w, got.body); made.User != user {
			w.failf("%s is logged in as %s", user, made.User)
		}
		if phone.stored != phone.key {
			phone.failed = 0
		}
		phone.stored, phone.unsure, phone.row = phone.key, false, w.row(user)
	}
}

// uploadFromWeChat sends the total of a day, encrypted with WeChat's key, which the service may not have: then, and after
// an erasure, the session has expired.
func (w *world) uploadFromWeChat(ctx context.Context, r *replica) {
	appid, user, phone := w.weChatPerson()
	if w.random.IntN(8) == 0 {
		phone.key++ // another login, which the service does not see
	}
	works := phone.stored == phone.key && phone.row == w.row(user) && phone.row != 0
	if phone.failed > worstKey || !works && w.random.IntN(4) > 0 { // an answer that the session has expired takes its time
		return
	}
	now := w.now(r)
	day, v := w.openDay(now), value{w.points(), models.TimestampOf(now)}
	data, iv := weChatDocument(appid, keyOfPhone(appid, user, phone.key), w.clock.Now(), day, v.score)
	late := w.late(r, user)
	if works || phone.unsure {
		w.sent(user, day, v)
	}
	got := w.call(ctx, r, w.token(user, ""), "POST", "/v1/wechat/steps", fmt.Sprintf(`{"appid":%q,"encrypted_data":%q,"iv":%q}`, appid, data, iv))
	if got.status != w.accepted() {
		phone.failed++
	}
	switch {
	case got.unknown() || late:
	case got.status == http.StatusConflict && (!works || phone.unsure):
	case got.status != w.accepted() || !works && !phone.unsure || !strings.Contains(string(got.body), `"rejected":[]`):
		w.failf("what WeChat gives is answered with %d", got.status)
	default:
		w.acknowledged(user, day, v)
	}
}

// weChatDocument returns what wx.getWeRunData gives.
func weChatDocument(appid string, key []byte, at time.Time, day models.Date, steps int64) (data, iv string) {
	plain := fmt.Appendf(nil, `{"stepInfoList":[{"timestamp":%d,"step":%d}],"watermark":{"appid":%q,"timestamp":%d}}`,
		day.UTC().Add(-8*time.Hour).Unix(), steps, appid, at.Unix())
	return testenv.EncryptedByWeChat(key, make([]byte, aes.BlockSize), plain)
}
