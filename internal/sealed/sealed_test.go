package sealed_test

import (
	"bytes"
	"testing"

	"stepboard/internal/sealed"
	"stepboard/internal/testenv"
)

// What was sealed is opened with the same secret, for the same purpose and owner, only, and does not show what it is.
func TestSealed(t *testing.T) {
	t.Parallel()
	const secret, purpose = "a secret of thirty-two characters", "keys"
	text, of := []byte("sixteen bytes of"), func(secret, purpose string) *sealed.Sealer { return testenv.Must(sealed.New([]byte(secret), purpose)) }
	s := of(secret, purpose)
	kept := s.Seal(text, "ann")
	if bytes.Contains(kept, text) || bytes.Equal(kept, s.Seal(text, "ann")) {
		t.Error("what is sealed shows itself")
	}
	if got, ok := s.Open(kept, "ann"); !ok || !bytes.Equal(got, text) {
		t.Error("it is lost")
	}
	for name, open := range map[string]func() ([]byte, bool){
		"another secret":  func() ([]byte, bool) { return of("another", purpose).Open(kept, "ann") },
		"another purpose": func() ([]byte, bool) { return of(secret, "cookies").Open(kept, "ann") },
		"another owner":   func() ([]byte, bool) { return s.Open(kept, "ben") },
		"half of it":      func() ([]byte, bool) { return s.Open(kept[:20], "ann") },
		"nothing":         func() ([]byte, bool) { return s.Open(nil, "ann") },
	} {
		if _, ok := open(); ok {
			t.Errorf("%s opens it", name)
		}
	}
}
