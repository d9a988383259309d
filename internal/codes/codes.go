// Package invites makes the codes by which users invite each other, to groups and as friends.
package invites

import (
	"context"
	"crypto/rand"
	"strings"

	"stepboard/models"
)

// letters is the length of a code, and alphabet what rand.Text chooses from. A letter has 5 random
// bits, so a code has 80: nobody guesses one, as tries are limited.
const (
	letters  = 16
	alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// ErrNoCode is the error about a code that nobody has given out, or that was renewed since.
var ErrNoCode = models.Errorf(models.CodeNotFound, "this invite code is not valid; ask for a new one")

// New returns a new code.
func New() string { return rand.Text()[:letters] }

// Limiter limits how often a user tries codes. Implemented by limit.Service.
type Limiter interface {
	// TakeJoin counts a try. CodeRateLimited if it is one too many.
	TakeJoin(ctx context.Context, user models.UserID) error
}

// Try counts a try of a code by a user. It returns the code, which may be in small letters and have
// spaces around it, as New has made it. CodeRateLimited if the user has tried too many, whether or not
// they were right; ErrNoCode for a text that New never returns.
func Try(ctx context.Context, limiter Limiter, user models.UserID, text string) (code string, err error) {
	if err := limiter.TakeJoin(ctx, user); err != nil {
		return "", err
	}
	code = strings.ToUpper(strings.TrimSpace(text))
	if len(code) != letters || strings.Trim(code, alphabet) != "" {
		return "", ErrNoCode
	}
	return code, nil
}
