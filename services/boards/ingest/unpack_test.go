package ingest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/redis/go-redis/v9"
)

// An entry is unpacked into messages that can be packed again, or is one message with all
// of its bytes. So every byte of it is applied, or kept as a dead letter.
func FuzzUnpack(f *testing.F) {
	update := Update{Board: "steps", Bucket: "20261120", User: 1, Score: 5, ReachedAt: 1_700_000_000_000}.AppendTo(nil)
	f.Add("1700000000000-0", pack([][]byte{update, update}))
	f.Add("x", pack([][]byte{{}}))
	f.Add("-1", []byte{})
	f.Add("9223372036854775807-1", []byte("\x05abc"))
	f.Add("0-0", []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, id string, entry []byte) {
		messages := unpack(redis.XMessage{ID: id, Values: map[string]any{"u": string(entry)}})
		if len(messages) == 1 && bytes.Equal(messages[0].Payload, entry) {
			return
		}
		payloads := make([][]byte, len(messages))
		for i, m := range messages {
			payloads[i] = m.Payload
		}
		packed := pack(payloads)
		again := unpack(redis.XMessage{ID: id, Values: map[string]any{"u": string(packed)}})
		if len(packed) > len(entry) || len(again) != len(messages) {
			t.Fatalf("%q has %d messages, which are packed as %q", entry, len(messages), packed)
		}
		for i := range again {
			if !bytes.Equal(again[i].Payload, messages[i].Payload) || again[i].Position != messages[i].Position {
				t.Errorf("%q: message %d is %+v, and then %+v", entry, i, messages[i], again[i])
			}
		}
	})
}

// pack writes messages as Append does.
func pack(payloads [][]byte) (entry []byte) {
	for _, p := range payloads {
		entry = append(binary.AppendUvarint(entry, uint64(len(p))), p...)
	}
	return entry
}
