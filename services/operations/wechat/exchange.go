package wechat

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stepboard/internal/outbound"
	"stepboard/models"
)

const (
	exchangePath  = "/sns/jscode2session"
	exchangeGrant = "authorization_code"
	// exchangeTimeout bounds a call of WeChat, from connecting to the end of the answer.
	exchangeTimeout = 3 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
	// keySize is the size of a session key, in bytes.
	keySize = 16
	// tooOftenWait is how long somebody should wait who logs in too often: WeChat counts by the minute.
	tooOftenWait = time.Minute
)

// The values of errcode that matter here. Others, such as -1 for busy, may be over soon.
const (
	errcodeBadAppID  = 40013
	errcodeBadCode   = 40029
	errcodeBadSecret = 40125
	errcodeUsedCode  = 40163
	errcodeBlocked   = 40226
	errcodeTooOften  = 45011
)

// errRefused means that WeChat does not know the appid of a mini program, or has another secret for it.
var errRefused = errors.New("the appid or the secret is wrong")

// identity is who has logged in.
type identity struct {
	openID  string
	unionID string // "" without an account of the open platform
	key     []byte
}

// userID returns the id of a user that is made for the person.
func (i identity) userID() models.UserID {
	return models.UserID(cmp.Or(i.unionID, i.openID))
}

// client asks WeChat. Safe for concurrent use.
type client struct {
	url  string
	http *http.Client
}

// newClient returns a client of the API at an address. A connection is used once: net/http prints what comes unasked on an
// idle one, which may be a session key.
func newClient(address string) *client {
	return &client{strings.TrimSuffix(address, "/"), outbound.NewClient(outbound.Options{Timeout: exchangeTimeout})}
}

// answer is what WeChat answers to a code, whatever the status.
type answer struct {
	Code       int    `json:"errcode"`
	OpenID     string `json:"openid"`
	UnionID    string `json:"unionid"`
	SessionKey string `json:"session_key"`
}

// exchange exchanges a code of wx.login. Errors: CodeWeChatCode, CodeForbidden, CodeRateLimited, errRefused; others
// mean that WeChat is away. None of them has the code or the secret in its text.
func (c *client) exchange(ctx context.Context, app App, code string) (identity, error) {
	query := url.Values{"appid": {app.ID}, "secret": {app.Secret}, "js_code": {code}, "grant_type": {exchangeGrant}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+exchangePath+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return identity{}, errors.New("wechat.api_url is no address") // the error has the whole address
	}
	response, err := c.http.Do(request)
	if err != nil {
		return identity{}, fmt.Errorf("ask WeChat: %w", harmless(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return identity{}, fmt.Errorf("read WeChat's answer: %w", harmless(err))
	}
	var a answer
	if len(body) > maxAnswer || json.Unmarshal(body, &a) != nil { // its error could have a part of a key
		return identity{}, fmt.Errorf("WeChat has answered with status %d and no JSON of an answer", response.StatusCode)
	}
	return a.identity(app)
}

// CheckApp returns an error unless the API at an address knows a mini program and its secret. It sends a code that
// nobody has. One call.
func CheckApp(ctx context.Context, address string, app App) error {
	_, err := newClient(address).exchange(ctx, app, "check")
	if models.CodeOf(err) == models.CodeWeChatCode {
		return nil
	}
	if err == nil {
		err = errNoCode
	}
	return err
}

// errNoCode means that a code is taken that WeChat has not made.
var errNoCode = errors.New("it takes any code: it is not WeChat's")

// harmless returns an error that says why a call has failed, without anything of the request and of the answer: texts of
// net/http have parts of both, and so secrets, codes and keys.
func harmless(err error) error {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var slow net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &network):
		return network
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("there was no answer in time")
	default:
		return errors.New("the answer can't be read")
	}
}

// identity returns who has logged in to an app by an answer.
func (a *answer) identity(app App) (identity, error) {
	switch a.Code {
	case 0:
	case errcodeBadCode, errcodeUsedCode:
		return identity{}, models.Errorf(models.CodeWeChatCode, "WeChat does not take this code: call wx.login again and send the new one at once")
	case errcodeBlocked:
		return identity{}, models.Errorf(models.CodeForbidden, "WeChat has blocked this person")
	case errcodeTooOften:
		return identity{}, &models.Error{Code: models.CodeRateLimited, Message: "this person logs in too often for WeChat", Wait: tooOftenWait}
	case errcodeBadAppID, errcodeBadSecret:
		return identity{}, fmt.Errorf("%w: %s, errcode %d", errRefused, app.ID, a.Code)
	default:
		return identity{}, fmt.Errorf("WeChat has answered with errcode %d", a.Code)
	}
	who := identity{openID: a.OpenID, unionID: a.UnionID}
	var err error
	who.key, err = base64.StdEncoding.DecodeString(a.SessionKey)
	if err != nil || len(who.key) != keySize || !models.UserID(a.OpenID).Valid() || a.UnionID != "" && !models.UserID(a.UnionID).Valid() {
		return identity{}, errors.New("WeChat has answered without a good openid and session key")
	}
	return who, nil
}
