package keys

import (
	"slices"
	"strings"
	"testing"
)

// slot returns the slot of a cluster in which a key lies: the CRC16 of its hash tag.
func slot(key string) int {
	_, tag, _ := strings.Cut(key, "{")
	tag, _, _ = strings.Cut(tag, "}")
	var crc uint16
	for _, b := range []byte(tag) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % 16384
}

// All keys of a stripe are in one slot, and the stripes are spread evenly over
// the slots.
func TestStripes(t *testing.T) {
	t.Parallel()
	if slot("{123456789}") != 0x31c3 { // the example in the specification of clusters
		t.Fatal("the test computes other slots than Redis")
	}
	k := Builder{Prefix: "prefix:"}
	for stripe := range Stripes {
		owner := int64(stripe + 1000*Stripes)
		if StripeOf(owner) != stripe {
			t.Errorf("%d is in stripe %d, want %d", owner, StripeOf(owner), stripe)
		}
		names := []string{
			k.Set(Friends, owner), k.SetChanging(Friends, owner), k.SetLoading(Friends, owner),
			k.SetsGeneration(stripe), k.LossCheckpoint("sets", stripe), k.SetsChanges(stripe),
		}
		for _, name := range names {
			if got := slot(name); got/128 != stripe || got != slot(names[0]) {
				t.Errorf("%s is in slot %d, %s in slot %d", name, got, names[0], slot(names[0]))
			}
		}
		if slices.Sort(names); len(slices.Compact(names)) != 6 {
			t.Errorf("two of the keys have one name: %v", names)
		}
	}
}
