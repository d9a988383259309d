// Package codes makes texts that nobody can guess: codes of invitations, which people type or scan, and keys, which
// programs send.
package codes

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"stepboard/models"
)

// letters is the length of the code of an invitation, shortLetters that of a code for one use, and alphabet what rand.Text
// chooses from. A letter has 5 random bits, so they have 80 and 50: nobody guesses one, as tries are limited.
const (
	letters      = 16
	shortLetters = 10
	alphabet     = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// ErrNoCode is the error about a code that nobody has given out, or that was renewed since.
var ErrNoCode = models.Errorf(models.CodeNotFound, "this invite code is not valid; ask for a new one")

// New returns a new code of an invitation.
func New() string { return rand.Text()[:letters] }

// NewShort returns a new code for one use.
func NewShort() string { return rand.Text()[:shortLetters] }

// Shown returns a code for one use as people read it: in two halves.
func Shown(short string) string { return short[:shortLetters/2] + "-" + short[shortLetters/2:] }

// Kind says what a text may be.
type Kind int

// The kinds of codes, by their length.
const (
	NoCode Kind = iota
	Invitation
	Short
)

// Parse returns a code, which may be in small letters and have spaces and hyphens in it, as New or NewShort has made it,
// and which of them.
func Parse(text string) (code string, kind Kind) {
	code = strings.Map(func(c rune) rune {
		if c == ' ' || c == '-' {
			return -1
		}
		return c
	}, strings.ToUpper(strings.TrimSpace(text)))
	switch {
	case strings.Trim(code, alphabet) != "":
		return "", NoCode
	case len(code) == letters:
		return code, Invitation
	case len(code) == shortLetters:
		return code, Short
	default:
		return "", NoCode
	}
}

// HashOf returns the SHA-256 of a code that Parse has returned, by which it is stored or kept.
func HashOf(code string) []byte {
	sum := sha256.Sum256([]byte(code))
	return sum[:]
}

// Limiter limits how often a user tries codes. Implemented by limit.Service.
type Limiter interface {
	// TakeJoin counts a try. CodeRateLimited if it is one too many.
	TakeJoin(ctx context.Context, user models.UserID) error
}

// Try counts a try of an invitation by a user. It returns the code as Parse does. CodeRateLimited if the user has tried
// too many, whether or not they were right; ErrNoCode for a text that New never returns.
func Try(ctx context.Context, limiter Limiter, user models.UserID, text string) (code string, err error) {
	if err := limiter.TakeJoin(ctx, user); err != nil {
		return "", err
	}
	code, kind := Parse(text)
	if kind != Invitation {
		return "", ErrNoCode
	}
	return code, nil
}

// keyBytes is how many random bytes a key has.
const keyBytes = 20

// keyEncoding writes keys: in small letters, without padding.
var keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Keys are the keys of one kind.
type Keys struct {
	// Prefix begins each of them, and no token.
	Prefix string
}

// New returns a new key of 160 random bits. It is shown once; what is stored of it is its hash.
func (k Keys) New() string {
	var random [keyBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	return k.Prefix + keyEncoding.EncodeToString(random[:])
}

// Hash returns the SHA-256 of a key, of 32 bytes, by which it is looked up; ok is false for a text that New never
// returns.
func (k Keys) Hash(key string) (hash []byte, ok bool) {
	random, ok := strings.CutPrefix(key, k.Prefix)
	if !ok || len(random) != keyEncoding.EncodedLen(keyBytes) {
		return nil, false
	}
	sum := sha256.Sum256([]byte(key))
	return sum[:], true
}
