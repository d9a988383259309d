package erasure

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
)

const (
	testHead = `{"stepboard_erasures":1,"key":"` + testHash + `"}` + "\n"
	testHash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

// A file that was cut off or damaged is refused, because erasures would be missing.
func TestDamagedFilesAreRefused(t *testing.T) {
	t.Parallel()
	whole := testHead + `{"hash":"` + testHash + `","begun_at":"2026-11-20T13:00:00.000Z"}` + "\n"
	if f, err := readFile(strings.NewReader(whole)); err != nil || len(f.list) != 1 {
		t.Fatalf("%v, %v", f, err)
	}
	for _, text := range []string{
		"", "{}", `{"stepboard_erasures":2,"key":"` + testHash + `"}`, `{"stepboard_erasures":1,"key":"00"}`,
		whole[:len(whole)-2], testHead + "{}", testHead + `{"hash":"0011","begun_at":"2026-11-20T13:00:00.000Z"}`, testHead + "null",
	} {
		if f, err := readFile(strings.NewReader(text)); !errors.Is(err, errFile) {
			t.Errorf("%q: %v, %v", text, f, err)
		}
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add("")
	f.Add(testHead)
	f.Add(testHead + `{"hash":"` + testHash + `","begun_at":"2026-11-20T13:00:00.000Z"}`)
	f.Add(testHead + `{"hash":"0","begun_at":"2026-11-20T13:00:00.000Z"}`)
	f.Add(testHead + `{"Hash":null}{}`)
	f.Add(testHead + `{"revoked_key":"` + testHash + `"}`)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readFile(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, errFile) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		for _, e := range read.list {
			if len(e.Hash) != sha256.Size {
				t.Errorf("%q has a hash of %d bytes", text, len(e.Hash))
			}
		}
		if len(read.secret) != sha256.Size {
			t.Errorf("%q has a key of %d bytes", text, len(read.secret))
		}
	})
}
