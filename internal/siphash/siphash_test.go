package siphash_test

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"testing"

	"stepboard/internal/siphash"
)

// The hashes of the bytes 0, 1, 2, … with the key 00 01 … 0f, from vectors.h of the
// reference implementation.
func TestSum(t *testing.T) {
	t.Parallel()
	key := siphash.Key{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	for n, want := range map[int]string{
		0:  "a3817f04ba25a8e66df67214c7550293",
		1:  "da87c1d86b99af44347659119b22fc45",
		7:  "a1f1ebbed8dbc153c0b84aa61ff08239",
		8:  "3b62a9ba6258f5610f83e264f31497b4",
		9:  "264499060ad9baabc47f8b02bb6d71ed",
		63: "5150d1772f50834a503e069a973fbd7c",
	} {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte(i)
		}
		low, high := key.Sum(string(text))
		got := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, low), high)
		if hex.EncodeToString(got) != want {
			t.Errorf("%d bytes: %x, want %s", n, got, want)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	key := siphash.NewKey()
	for _, text := range []string{"1234567", "c56a4180-65aa-42ec-a945-5fd21dec0538"} {
		b.Run(strconv.Itoa(len(text)), func(b *testing.B) {
			for b.Loop() {
				key.Sum(text)
			}
		})
	}
}
