package cursor_test

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/cursor"
)

func newSealer(t testing.TB, env *testenv.Env) *cursor.Sealer {
	t.Helper()
	return testenv.Must(cursor.New(t.Context(), cursor.NewStore(env.Gorm), env.Clock.Now))
}

// A cursor opens with its own scope, and in no other way.
func TestCursorsOpenWithTheirScope(t *testing.T) {
	t.Parallel()
	s := newSealer(t, testenv.Local(t))
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		position := models.Cursor{
			Key: rapid.Int64Min(0).Draw(t, "key"),
			Row: models.RowID(rapid.Int64Range(0, int64(models.MaxRowID)).Draw(t, "row")),
			At:  models.Timestamp(rapid.Int64().Draw(t, "at")),
		}
		scope := rapid.SliceOfN(rapid.StringN(0, 8, -1), 1, 4).Draw(t, "scope")
		text := s.Seal(position, scope...)
		got, err := s.Open(ctx, text, scope...)
		if err != nil || got != position {
			t.Fatalf("opened %v, %v, want %v", got, err, position)
		}
		if _, err := s.Open(ctx, text, append([]string{"other"}, scope...)...); models.CodeOf(err) != models.CodeInvalidCursor {
			t.Fatalf("opened with another scope: %v", err)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		with := rapid.SampledFrom([]byte("AZaz09-_=+ ")).Draw(t, "with")
		damaged := text[:at] + string(with) + text[at+1:]
		if damaged != text {
			if got, err := s.Open(ctx, damaged, scope...); models.CodeOf(err) != models.CodeInvalidCursor {
				t.Fatalf("%q for %q was opened as %v, %v", damaged, text, got, err)
			}
		}
	})
}

// A cursor shows nothing of its position: neither the row nor the key is in it, and
// the texts of neighbouring positions have nothing in common. The same position of the
// same list has the same text.
func TestCursorsShowNothing(t *testing.T) {
	t.Parallel()
	s := newSealer(t, testenv.Local(t))
	position := models.Cursor{Key: 0x1122334455667788, Row: 0x10203040506}
	first := s.Seal(position, "top")
	if again := s.Seal(position, "top"); again != first {
		t.Errorf("the same position is %q and %q", first, again)
	}
	next := models.Cursor{Key: position.Key, Row: position.Row + 1}
	for name, other := range map[string]string{"another list": s.Seal(position, "around"), "the next position": s.Seal(next, "top")} {
		const head = 3 // of the version and the key's id, in base64
		same := 0
		for i := head; i < min(len(first), len(other)); i++ {
			if first[i] == other[i] {
				same++
			}
		}
		if same > len(first)/4 {
			t.Errorf("%s has %d characters in common: %q and %q", name, same, first, other)
		}
	}
	raw := testenv.Must(base64.RawURLEncoding.DecodeString(first))
	for _, part := range [][]byte{{0x66, 0x77, 0x88}, {0x04, 0x05, 0x06}, {0x86, 0x8a, 0x94}} {
		if bytes.Contains(raw, part) {
			t.Errorf("%x has %x", raw, part)
		}
	}
}

// Processes that start together seal with the same key, and what one seals after a
// rotation the other opens at once. An old key opens for a day.
func TestKeysAreSharedAndRotate(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		store := cursor.NewStore(env.Gorm)
		one, two := newSealer(t, env), newSealer(t, env)
		position := models.Cursor{Key: 5, Row: 7}
		before := one.Seal(position, "top")
		check := func(s *cursor.Sealer, text string, want models.Code) {
			t.Helper()
			if got, err := s.Open(t.Context(), text, "top"); models.CodeOf(err) != want || want == "" && got != position {
				t.Errorf("opened %v, %v, want %q", got, err, want)
			}
		}
		check(two, before, "")
		env.Clock.Advance(cursor.OldKeyOpens)
		if err := cursor.Rotate(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		three := newSealer(t, env)
		after := three.Seal(position, "top")
		check(two, after, "")
		check(two, before, "")
		env.Clock.Advance(cursor.OldKeyOpens + 1)
		check(two, before, models.CodeInvalidCursor)
		check(two, after, "")
	})
}

// A text opens only if Seal has made it of that position and scope.
func FuzzOpen(f *testing.F) {
	s := newSealer(f, testenv.Local(f))
	f.Add(s.Seal(models.Cursor{Key: 1 << 52, Row: 1001}, "friends", "steps"), "friends", int64(1<<52), int64(1001), int64(0))
	f.Add("", "", int64(0), int64(0), int64(0))
	f.Add("AwE", "top\x00steps", int64(math.MinInt64), int64(-1), int64(math.MaxInt64))
	f.Add(strings.Repeat("A", 300), "top", int64(1), int64(2), int64(3))
	f.Fuzz(func(t *testing.T, text, scope string, key, row, at int64) {
		if got, err := s.Open(t.Context(), text, scope); err == nil && text != "" && s.Seal(got, scope) != text || text == "" && got != (models.Cursor{}) {
			t.Errorf("%q was opened as %v, which is sealed as %q", text, got, s.Seal(got, scope))
		} else if err != nil && models.CodeOf(err) != models.CodeInvalidCursor {
			t.Errorf("%q: %v", text, err)
		}
		position := models.Cursor{Key: key, Row: models.RowID(row), At: models.Timestamp(at)}
		sealed := s.Seal(position, scope)
		if got, err := s.Open(t.Context(), sealed, scope); err != nil || got != position {
			t.Errorf("%v is %v, %v", position, got, err)
		}
		if got, err := s.Open(t.Context(), sealed, scope+"x"); models.CodeOf(err) != models.CodeInvalidCursor {
			t.Errorf("%v opens with another scope as %v, %v", position, got, err)
		}
	})
}
