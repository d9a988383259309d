package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"

	"stepboard/models"
)

const (
	// keysTimeout bounds one fetch, and with it how long the start may wait.
	keysTimeout = 5 * time.Second
	// keysRefresh is how often the keys are fetched again: how long a key that
	// is withdrawn is still taken.
	keysRefresh = 5 * time.Minute
	// keysRetry is the pause between fetches while there are no keys at all.
	keysRetry = 2 * time.Second
	// keysPause lies between fetches for the sake of unknown keys, so that
	// made-up key ids can't drive us to flood the issuer.
	keysPause = 10 * time.Second
	// keysWait is how long a request waits for the fetch that may bring its
	// key.
	keysWait = time.Second
)

var (
	errNoKeys    = errors.New("the JWKS has no key that can be used")
	errNotLoaded = errors.New("the JWKS has not been fetched")
)

// KeySet holds the keys of a JWKS and keeps them fresh: they are fetched every
// five minutes, and when a token names a key that is unknown. A key set that
// has been fetched stays in use while its address does not answer. Safe for
// concurrent use. Close stops it.
type KeySet struct {
	url     string
	client  *http.Client
	log     *slog.Logger
	keys    atomic.Pointer[jwt.Keyfunc] // nil while there are none
	wanted  chan chan struct{}          // asks run to fetch; it closes what it gets
	pause   time.Duration               // from Start to the next fetch
	stop    context.CancelFunc          // ends run; nil before Start
	running sync.WaitGroup
}

// NewKeySet fetches the keys, which takes at most five seconds. If that fails,
// the key set has no keys yet. Start fetches them again in the background.
func NewKeySet(ctx context.Context, url string, log *slog.Logger) *KeySet {
	k := &KeySet{
		url: url,
		// An idle connection would outlive the KeySet.
		client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}},
		log:    log,
		wanted: make(chan chan struct{}),
	}
	k.pause = k.fetch(ctx)
	return k
}

// Start fetches the keys every five minutes, and when a token names an unknown
// key, until Close; ctx ending does not stop it. It must be called once.
func (k *KeySet) Start(ctx context.Context) {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	k.stop = stop
	k.running.Go(func() { k.run(background, k.pause) })
}

// Close ends the fetching. Nobody may be looking for a key any more.
func (k *KeySet) Close() {
	if k.stop != nil {
		k.stop()
	}
	k.running.Wait()
}

// find is the key that a token names, or all keys if it names none; it is a
// jwt.Keyfunc. CodeUnavailable while no key is known at all.
func (k *KeySet) find(t *jwt.Token) (any, error) {
	key, err := k.lookUp(t)
	if errors.Is(err, jwkset.ErrKeyNotFound) {
		k.askForMore()
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

// askForMore waits a moment for a fetch that begins now or is under way. It
// answers at once if there has just been one.
func (k *KeySet) askForMore() {
	enough := time.NewTimer(keysWait)
	defer enough.Stop()
	fetched := make(chan struct{})
	select {
	case k.wanted <- fetched:
	case <-enough.C:
		return
	}
	select {
	case <-fetched:
	case <-enough.C:
	}
}

// run fetches the keys until ctx ends, the first time after the pause.
func (k *KeySet) run(ctx context.Context, pause time.Duration) {
	next := time.NewTimer(pause)
	defer next.Stop()
	var asked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(k.fetch(ctx))
		case fetched := <-k.wanted:
			if time.Since(asked) >= keysPause {
				next.Reset(k.fetch(ctx))
				asked = time.Now()
			}
			close(fetched)
		}
	}
}

// fetch replaces the keys, and answers after which pause to do so again. While
// the address does not answer, the former ones stay.
func (k *KeySet) fetch(ctx context.Context) (pause time.Duration) {
	keys, err := k.load(ctx)
	if err == nil {
		if k.keys.Swap(&keys) == nil {
			k.log.InfoContext(ctx, "the keys of tokens are there")
		}
		return keysRefresh
	}
	if errors.Is(err, errNoKeys) {
		// All were withdrawn, or the answer is not what it should be: either
		// way no token can be trusted, and none is to be called bad.
		k.keys.Store(nil)
	}
	if ctx.Err() == nil {
		k.log.ErrorContext(ctx, "the keys of tokens can't be fetched", "error", err)
	}
	if k.keys.Load() == nil {
		return keysRetry
	}
	return keysRefresh
}

// load makes one request. Keys of a kind that is not known are left out.
func (k *KeySet) load(ctx context.Context) (jwt.Keyfunc, error) {
	storage, err := jwkset.NewStorageFromHTTP(k.url, jwkset.HTTPClientStorageOptions{
		Client: k.client, Ctx: ctx, HTTPTimeout: keysTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("fetch JWKS: %w", err)
	}
	all, err := storage.KeyReadAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read JWKS: %w", err)
	}
	if len(all) == 0 {
		return nil, errNoKeys
	}
	keys, err := keyfunc.New(keyfunc.Options{Storage: storage})
	if err != nil {
		return nil, fmt.Errorf("read JWKS: %w", err)
	}
	return keys.Keyfunc, nil
}
