package archive_test

import (
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
	"stepboard/services/boards/archive"
)

// Go and Postgres compute the same hash.
func TestHash64MatchesPostgres(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	rapid.Check(t, func(rt *rapid.T) {
		value, seed := rapid.Int64().Draw(rt, "value"), rapid.OneOf(rapid.Int64(), rapid.Just(int64(0))).Draw(rt, "seed")
		var want int64
		if err := env.Pool.QueryRow(t.Context(), `SELECT hashint8extended($1, $2)`, value, seed).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := archive.Hash64(value, seed); got != want {
			rt.Fatalf("%d with seed %d: %d, want %d", value, seed, got, want)
		}
	})
}
