package auth

import (
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stepboard/models"
)

// SignToken returns an HS256 token of a user that is valid from now for ttl. It
// is for the `token` command and the demo; users' tokens come from the app's
// own backend.
func SignToken(secret []byte, user models.UserID, scope, issuer, audience string, now time.Time, ttl time.Duration) (string, error) {
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: string(user), Issuer: issuer,
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
		},
		Scope: scope,
	}
	if audience != "" {
		c.Audience = jwt.ClaimStrings{audience}
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(secret)
	return token, models.Wrap("sign token", err)
}
