package board

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stepboard/models"
)

// encode encodes a change as the scripts' callers do.
func encode(c Change) []byte {
	switch {
	case c.Bucket == "":
		return encodeBegan(7)
	case c.Reset:
		return encodeReset(c.Bucket)
	case c.Lowered != nil:
		return encodeLowered(c.Bucket, c.Lowered)
	default:
		return encodeRaised(c.Bucket, c.Raised)
	}
}

// Every change is decoded as it was encoded, and its encoding is refused if it is cut
// off anywhere except between two entries.
func TestDecodeChangeIsTheInverseOfEncode(t *testing.T) {
	t.Parallel()
	user := rapid.Map(rapid.Int64Range(1, int64(models.MaxRowID)), func(n int64) models.RowID { return models.RowID(n) })
	entry := rapid.Custom(func(t *rapid.T) models.Entry {
		return models.Entry{
			User:      user.Draw(t, "user"),
			Composite: models.Composite(rapid.Int64Range(1, 1<<53-1).Draw(t, "composite")),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := Change{
			Bucket: rapid.StringMatching(`[a-z0-9]{1,255}`).Draw(t, "bucket"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			want.Reset = true
		case 1:
			want.Lowered = rapid.SliceOfN(user, 1, 50).Draw(t, "lowered")
		default:
			want.Raised = rapid.SliceOfN(entry, 1, 50).Draw(t, "raised")
		}
		data := string(encode(want))
		got, err := decodeChange(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if got, err := decodeChange(data[:cut]); err == nil &&
			(got.Bucket != want.Bucket || len(got.Raised)+len(got.Lowered) == 0 || !slices.Equal(got.Raised, want.Raised[:len(got.Raised)]) ||
				!slices.Equal(got.Lowered, want.Lowered[:len(got.Lowered)])) {
			t.Fatalf("%d of %d bytes are %+v", cut, len(data), got)
		}
	})
}

func TestMalformedChangesAreRefused(t *testing.T) {
	t.Parallel()
	pair := func(user, composite uint64) string {
		data := encodeReset("b")
		data[0] = changeRaised
		return string(binary.AppendUvarint(binary.AppendUvarint(data, user), composite))
	}
	if _, err := decodeChange(pair(1, 1)); err != nil {
		t.Fatal(err)
	}
	for _, data := range []string{
		"", "\x00", "\x01", "\x02\x00", "\x01\x01b", "\x02\x01bc", "\x03", "\x03\x00\x00", "\x04\x01b", "\x04\x01b\x00", "\x04\x01b\x80", "\x05\x01b",
		pair(0, 1), pair(1, 0), pair(1<<53, 1), pair(1, 1<<53), pair(1<<63, 1), pair(1, 1<<63), pair(1, 1) + "\x80",
	} {
		if c, err := decodeChange(data); err == nil {
			t.Errorf("%q is %+v", data, c)
		}
	}
	if c, err := decodeChange(string(encodeBegan(1))); err != nil || c.Bucket != "" || c.Reset || c.Raised != nil {
		t.Errorf("the first entry of a stream is %+v, %v", c, err)
	}
}

// A decoder never crashes, and a decoded change that is encoded again is the same.
func FuzzDecodeChange(f *testing.F) {
	f.Add("")
	f.Add(string(encodeReset("20261120")))
	f.Add(string(encodeReset(strings.Repeat("b", 255))))
	f.Add(string(encodeBegan(1)))
	f.Add(string(encodeLowered("event", []models.RowID{1, 300})))
	f.Add(string(encode(Change{Bucket: "event", Raised: []models.Entry{{User: 1, Composite: 1 << 52}, {User: 2, Composite: 1}}})))
	f.Fuzz(func(t *testing.T, data string) {
		c, err := decodeChange(data)
		if err != nil {
			return
		}
		again, err := decodeChange(string(encode(c)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
