package ingest_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stepboard/models"
	"stepboard/services/boards/ingest"
)

func drawUpdate(t *rapid.T) ingest.Update {
	return ingest.Update{
		Board: rapid.StringMatching(`[a-z0-9-]{1,40}`).Draw(t, "board"), Bucket: rapid.StringMatching(`[0-9a-z]{0,20}`).Draw(t, "bucket"),
		User:  models.RowID(rapid.Int64Range(1, int64(models.MaxRowID)).Draw(t, "user")),
		Score: rapid.Int64Range(0, 1<<52).Draw(t, "score"), ReachedAt: models.Timestamp(rapid.Int64Range(0, 1<<50).Draw(t, "at")),
	}
}

func TestUpdatesDecodeAsEncoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		u := drawUpdate(t)
		data := u.AppendTo(nil)
		got, err := ingest.DecodeUpdate(data)
		if err != nil || got != u {
			t.Fatalf("%+v came back as %+v, %v", u, got, err)
		}
		// A byte that changes, or is missing, is noticed.
		at := rapid.IntRange(0, len(data)-1).Draw(t, "byte")
		damaged := bytes.Clone(data)
		damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
		if got, err := ingest.DecodeUpdate(damaged); err == nil {
			t.Fatalf("damaged at %d: %+v", at, got)
		}
		if got, err := ingest.DecodeUpdate(data[:at]); err == nil {
			t.Fatalf("cut off at %d: %+v", at, got)
		}
	})
}

func FuzzDecodeUpdate(f *testing.F) {
	f.Add(ingest.Update{Board: "steps", Bucket: "20261120", User: 1001, Score: 5, ReachedAt: 1_700_000_000_000}.AppendTo(nil))
	f.Add(ingest.Update{Board: strings.Repeat("b", 255), Bucket: "event", User: 1}.AppendTo(nil))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := ingest.DecodeUpdate(data)
		if err != nil {
			return
		}
		again, err := ingest.DecodeUpdate(u.AppendTo(nil))
		if err != nil || again != u {
			t.Errorf("%+v came back as %+v, %v", u, again, err)
		}
	})
}
