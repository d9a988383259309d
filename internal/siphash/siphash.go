// Package siphash computes SipHash-2-4 with 128 bits, a keyed hash of short texts. Nobody
// who lacks the key can find texts with equal hashes. See https://cr.yp.to/siphash and
// https://github.com/veorq/SipHash.
package siphash

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// Key is a secret of 128 bits.
type Key [2]uint64

// NewKey returns a random key.
func NewKey() Key {
	var b [16]byte
	rand.Read(b[:]) // it never returns an error
	return Key{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

// Sum returns the hash of a text. It allocates nothing.
func (k Key) Sum(text string) (low, high uint64) {
	// The names are those of the specification. They are variables and not a struct, so
	// that the compiler keeps them in registers.
	v0, v1 := k[0]^0x736f6d6570736575, k[1]^0x646f72616e646f6d^0xee
	v2, v3 := k[0]^0x6c7967656e657261, k[1]^0x7465646279746573
	word := uint64(len(text)) << 56 // the last one, with up to seven bytes of the text
	for ; len(text) >= 8; text = text[8:] {
		eight := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		v3 ^= eight
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
		v0 ^= eight
	}
	for i := range len(text) {
		word |= uint64(text[i]) << (8 * i)
	}
	v3 ^= word
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0 ^= word
	v2 ^= 0xee
	for range 4 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	low = v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	for range 4 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3)
	}
	return low, v0 ^ v1 ^ v2 ^ v3
}

func round(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
