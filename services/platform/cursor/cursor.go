// Package cursor seals the positions of pages. A cursor names the last entry of a
// page, which may be somebody that its reader must not know, so clients get it
// encrypted. A cursor that was changed, or that belongs to another list, is refused.
// Newest reads the page of a list in SQL.
package cursor

import (
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"stepboard/internal/reading"
	"stepboard/models"
)

const (
	// version is the first byte of a cursor.
	version = 3
	// maxText is longer than any cursor.
	maxText = 128
	// OldKeyOpens is how long a key opens cursors after a newer one was added.
	OldKeyOpens = 24 * time.Hour
	// RefreshEvery is how often Refresh should be called, so that a rotation reaches all
	// processes.
	RefreshEvery = time.Minute
	// reloadPause is the shortest time between two readings for cursors with an
	// unknown key.
	reloadPause = time.Second
	// reloadTimeout bounds such a reading.
	reloadTimeout = 5 * time.Second
)

// Key is a key that seals cursors.
type Key struct {
	ID        int64
	Secret    []byte // 32 bytes
	CreatedAt time.Time
}

// Sealer seals and opens cursors. Safe for concurrent use.
type Sealer struct {
	store *Store
	clock models.Clock
	keys  atomic.Pointer[keyring]
	again *reading.Shared
}

// keyring holds the keys of one reading.
type keyring struct {
	newest int64
	byID   map[int64]openingKey
}

type openingKey struct {
	cipher.AEAD
	hashes *sync.Pool // of hash.Hash, for nonces
	until  time.Time  // zero for the newest
}

// appendNonce appends the nonce of a position that is bound to data. It is a keyed hash of
// both, so that the same position of a list has the same text each time: otherwise a
// ranking that did not change would look changed to its watchers. Different positions
// have different nonces, as far as 24 bytes of a hash differ.
func (k openingKey) appendNonce(buf, position, data []byte) []byte {
	mac := k.hashes.Get().(hash.Hash)
	defer k.hashes.Put(mac)
	mac.Reset()
	mac.Write(data)
	mac.Write(separator)
	mac.Write(position)
	return mac.Sum(buf)[:len(buf)+k.NonceSize()]
}

var separator = []byte{0}

// New returns a sealer with the keys in SQL, and makes the first key if there is none.
func New(ctx context.Context, store *Store, clock models.Clock) (*Sealer, error) {
	s := &Sealer{store: store, clock: clock, again: reading.New(reloadTimeout)}
	keys, err := store.keys(ctx)
	if err == nil && len(keys) == 0 {
		if err = store.addFirst(ctx, newSecret()); err == nil {
			keys, err = store.keys(ctx)
		}
	}
	if err != nil {
		return nil, models.Unavailable("read the keys of cursors", err)
	}
	return s, s.use(keys)
}

func newSecret() []byte {
	secret := make([]byte, chacha20poly1305.KeySize)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// Rotate adds a key, which seals from now on; other processes use it within a minute.
// The key before it opens cursors for another day.
func Rotate(ctx context.Context, store *Store) error {
	return models.Public("add a key of cursors", store.add(ctx, newSecret()))
}

// use takes the keys, oldest first.
func (s *Sealer) use(keys []Key) error {
	ring := &keyring{byID: make(map[int64]openingKey, len(keys))}
	for i, k := range keys {
		aead, err := chacha20poly1305.NewX(k.Secret)
		if err != nil {
			return fmt.Errorf("key %d of cursors: %w", k.ID, err)
		}
		// A key of its own, so that the cipher and the hash do not share one.
		derived := sha256.Sum256(append([]byte("nonces of cursors"), k.Secret...))
		hashes := &sync.Pool{New: func() any { return hmac.New(sha256.New, derived[:]) }}
		key := openingKey{AEAD: aead, hashes: hashes}
		if i+1 < len(keys) {
			key.until = keys[i+1].CreatedAt.Add(OldKeyOpens)
		}
		ring.byID[k.ID], ring.newest = key, k.ID
	}
	s.keys.Store(ring)
	return nil
}

// Refresh reads the keys. One query.
func (s *Sealer) Refresh(ctx context.Context) error {
	keys, err := s.store.keys(ctx)
	if err != nil {
		return err
	}
	return s.use(keys)
}

// Seal returns the text of a cursor, which the client sends with its next call. The
// scope holds everything else that the next call must agree on: call, board, bucket,
// viewer. The text does not have it, but opens with the same scope only. The same
// cursor and scope give the same text, until the keys are rotated.
func (s *Sealer) Seal(c models.Cursor, scope ...string) string {
	ring := s.keys.Load()
	key := ring.byID[ring.newest]
	m := sealing.Get().(*sealingMemory)
	defer sealing.Put(m)
	m.text = binary.AppendUvarint(append(m.text[:0], version), uint64(ring.newest))
	m.data = appendBound(append(m.data[:0], m.text...), scope)
	m.position = binary.AppendUvarint(m.position[:0], uint64(c.Key))
	m.position = binary.AppendUvarint(m.position, uint64(c.Row))
	m.position = binary.AppendUvarint(m.position, uint64(c.At))
	m.nonce = key.appendNonce(m.nonce[:0], m.position, m.data)
	m.text = key.Seal(append(m.text, m.nonce...), m.nonce, m.position, m.data)
	m.encoded = base64.RawURLEncoding.AppendEncode(m.encoded[:0], m.text)
	return string(m.encoded)
}

// sealing holds *sealingMemory.
var sealing = sync.Pool{New: func() any { return new(sealingMemory) }}

// sealingMemory is the memory of one call of Seal, which nearly each ranking makes.
type sealingMemory struct{ text, data, position, nonce, encoded []byte }

// appendBound appends a scope, which a cursor is bound to and does not hold, to the head of
// the cursor.
func appendBound(data []byte, scope []string) []byte {
	for i, part := range scope {
		if i > 0 {
			data = append(data, 0)
		}
		data = append(data, part...)
	}
	return data
}

var errUnknownKey = errors.New("unknown key")

// Open is the inverse of Seal for the same scope, and the zero cursor for an empty text. CodeInvalidCursor if the
// cursor was changed, has another scope, or its key has expired.
func (s *Sealer) Open(ctx context.Context, text string, scope ...string) (models.Cursor, error) {
	if text == "" {
		return models.Cursor{}, nil
	}
	c, err := s.open(text, scope)
	if errors.Is(err, errUnknownKey) { // another process may have sealed it with a newer one
		_ = s.again.Seldom(ctx, reloadPause, s.Refresh) // without it, the cursor is refused
		c, err = s.open(text, scope)
	}
	if err != nil {
		return models.Cursor{}, models.Errorf(models.CodeInvalidCursor, "this cursor is not of this list; start again without one")
	}
	return c, nil
}

var errCursor = errors.New("not a cursor of this list")

func (s *Sealer) open(text string, scope []string) (models.Cursor, error) {
	if len(text) > maxText {
		return models.Cursor{}, errCursor
	}
	buf, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(buf) == 0 || buf[0] != version {
		return models.Cursor{}, errCursor
	}
	id, n := binary.Uvarint(buf[1:])
	if n <= 0 {
		return models.Cursor{}, errCursor
	}
	key, ok := s.keys.Load().byID[int64(id)]
	if !ok {
		return models.Cursor{}, errUnknownKey
	}
	head := buf[:1+n]
	if len(buf) < len(head)+key.NonceSize() || !key.until.IsZero() && s.clock().After(key.until) {
		return models.Cursor{}, errCursor
	}
	nonce, sealed := buf[len(head):len(head)+key.NonceSize()], buf[len(head)+key.NonceSize():]
	position, err := key.Open(nil, nonce, sealed, appendBound(slices.Clip(head), scope))
	if err != nil {
		return models.Cursor{}, errCursor
	}
	// Only Seal could have made the position.
	var fields [3]uint64
	for i := range fields {
		fields[i], n = binary.Uvarint(position)
		position = position[max(n, 0):]
	}
	return models.Cursor{Key: int64(fields[0]), Row: models.RowID(fields[1]), At: models.Timestamp(fields[2])}, nil
}
