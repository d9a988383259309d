package auth

import (
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stepboard/models"
)

// SignToken returns an HS256 token of a user that is valid from now for ttl. It
// is for the `token` command, the demo and logins by WeChat.
func SignToken(secret []byte, user models.UserID, scope, issuer, audience string, now time.Time, ttl time.Duration) (string, error) {
	return sign(secret, user, claims{Scope: scope}, issuer, audience, now, ttl)
}

// sessionPrefix begins the sid of a session of this service: tokens of identity providers have one in another form.
const sessionPrefix = "stepboard-"

// SignSession is SignToken for a session of the user.
func SignSession(secret []byte, user models.UserID, scope string, session int64, issuer, audience string, now time.Time, ttl time.Duration) (string, error) {
	return sign(secret, user, claims{Scope: scope, Session: sessionPrefix + strconv.FormatInt(session, 10)}, issuer, audience, now, ttl)
}

// sign signs a token with the scope and session of the claims.
func sign(secret []byte, user models.UserID, c claims, issuer, audience string, now time.Time, ttl time.Duration) (string, error) {
	c = claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: string(user), Issuer: issuer,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		Scope: c.Scope, Session: c.Session,
	}
	if audience != "" {
		c.Audience = jwt.ClaimStrings{audience}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret)
	return token, models.Wrap("sign token", err)
}
