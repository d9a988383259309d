package auth

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"stepboard/internal/outbound"
	"stepboard/internal/reading"
	"stepboard/models"
)

const (
	// fetchTimeout bounds one fetch, and so how long the start of the service
	// waits.
	fetchTimeout = 5 * time.Second
	// refreshInterval is the time between regular fetches, and so how long a
	// withdrawn key is still accepted.
	refreshInterval = 5 * time.Minute
	// RefreshEvery is how often Refresh must be called, and so the time between fetches
	// while no keys are known.
	RefreshEvery = 2 * time.Second
	// unknownKeyInterval is the shortest time between two fetches for unknown
	// keys, so that tokens with made-up key ids can't flood the issuer.
	unknownKeyInterval = 10 * time.Second
	// unknownKeyWait bounds how long a request waits for the fetch of its key.
	unknownKeyWait = time.Second
	// maxJWKS is the largest JWKS that is read, in bytes: some thousand keys.
	maxJWKS = 1 << 20
	// minRSABits is the smallest RSA key that is accepted (RFC 7518, section 3.3).
	minRSABits = 2048
)

var (
	errNoKeys    = errors.New("the JWKS has no key that can be used")
	errNotLoaded = errors.New("the JWKS has not been fetched")
	errTooLarge  = fmt.Errorf("the JWKS has more than %d bytes", maxJWKS)
)

// KeySet holds the keys of a JWKS. It fetches them every refreshInterval, and when
// a token names an unknown key. Fetched keys stay in use while the issuer does
// not answer. Safe for concurrent use.
type KeySet struct {
	url      string
	client   *http.Client
	log      *slog.Logger
	keys     atomic.Pointer[jwt.Keyfunc] // nil while no keys are known
	fetching *reading.Shared
	due      time.Time   // when Refresh fetches the keys; it is called by one goroutine
	failed   atomic.Bool // whether the last fetch for an unknown key has failed
}

// NewKeySet fetches the keys, for at most fetchTimeout. If that fails, the key
// set has no keys until Refresh has fetched them.
func NewKeySet(ctx context.Context, url string, log *slog.Logger) *KeySet {
	k := &KeySet{
		url: url, log: log, client: outbound.NewClient(outbound.Options{Timeout: fetchTimeout, MaxAnswer: maxJWKS}),
		fetching: reading.New(time.Minute), due: time.Now().Add(refreshInterval),
	}
	_ = k.fetch(ctx) // it is logged
	return k
}

// Refresh fetches the keys if it is time for that. It must be called every RefreshEvery.
func (k *KeySet) Refresh(ctx context.Context) error {
	if !k.failed.Swap(false) && k.keys.Load() != nil && time.Now().Before(k.due) {
		return nil
	}
	k.due = time.Now().Add(refreshInterval)
	return k.fetching.Do(ctx, k.fetch)
}

// find returns the key that a token names, or all keys if it names none. It
// returns CodeUnavailable while no key is known at all. It is a jwt.Keyfunc.
func (k *KeySet) find(t *jwt.Token) (any, error) {
	key, err := k.lookUp(t)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		k.fetchNow()
		key, err = k.lookUp(t)
	}
	return key, err
}

func (k *KeySet) lookUp(t *jwt.Token) (any, error) {
	keys := k.keys.Load()
	if keys == nil {
		return nil, models.Unavailable("check token", errNotLoaded)
	}
	return (*keys)(t)
}

// fetchNow fetches the keys, or waits for a fetch that is under way, for at most
// unknownKeyWait. It returns at once if the last such fetch was less than
// unknownKeyInterval ago. If it fails, Refresh tries again, for longer.
func (k *KeySet) fetchNow() {
	waiting, cancel := context.WithTimeout(context.Background(), unknownKeyWait)
	defer cancel()
	_ = k.fetching.Seldom(waiting, unknownKeyInterval, func(context.Context) error { // it is logged
		err := k.fetch(waiting)
		k.failed.Store(err != nil)
		return err
	})
}

// fetch replaces the keys. If the issuer does not answer, the previous keys stay.
func (k *KeySet) fetch(ctx context.Context) error {
	keys, err := k.load(ctx)
	if err == nil {
		if k.keys.Swap(&keys) == nil {
			k.log.InfoContext(ctx, "the JWKS was fetched")
		}
		return nil
	}
	if errors.Is(err, errNoKeys) {
		// Either all keys were withdrawn or the answer is wrong. No token can be
		// trusted then, and none can be called invalid.
		k.keys.Store(nil)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		k.log.ErrorContext(ctx, "the JWKS can't be fetched", "error", err)
	}
	return err
}

// load fetches the JWKS once. It leaves out keys of unknown types, and those
// that must not verify a token. Its error does not show the URL, which may have a
// secret in its query.
func (k *KeySet) load(ctx context.Context) (jwt.Keyfunc, error) {
	storage, err := jwkset.NewStorageFromHTTP(k.url, jwkset.HTTPClientStorageOptions{
		Client: k.client, Ctx: ctx, HTTPTimeout: fetchTimeout,
	})
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("fetch JWKS: %w", err)
	}
	all, err := storage.KeyReadAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read JWKS: %w", err)
	}
	usable := slices.DeleteFunc(all, func(key jwkset.JWK) bool {
		reason := unusable(key)
		if reason != "" {
			k.log.WarnContext(ctx, "a key of the JWKS is not used", "kid", key.Marshal().KID, "reason", reason)
		}
		return reason != ""
	})
	if len(usable) == 0 {
		return nil, errNoKeys
	}
	if err := storage.KeyReplaceAll(ctx, usable); err != nil {
		return nil, fmt.Errorf("read JWKS: %w", err)
	}
	keys, err := keyfunc.New(keyfunc.Options{Storage: storage})
	if err != nil {
		return nil, fmt.Errorf("read JWKS: %w", err)
	}
	return keys.Keyfunc, nil
}

// unusable returns why a key must not verify tokens; "" if it may.
func unusable(key jwkset.JWK) string {
	if use := key.Marshal().USE; use != "" && use != jwkset.UseSig {
		return "its use is not sig"
	}
	if ops := key.Marshal().KEYOPS; len(ops) > 0 && !slices.Contains(ops, jwkset.KeyOpsVerify) {
		return "its key_ops have no verify"
	}
	if public, ok := key.Key().(*rsa.PublicKey); ok && public.N.BitLen() < minRSABits {
		return "it has less than 2048 bits"
	}
	return ""
}
