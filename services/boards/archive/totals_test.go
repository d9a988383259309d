package archive

import (
	"testing"

	"pgregory.net/rapid"

	"stepboard/internal/testenv"
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
		if got := hash64(value, seed); got != want {
			rt.Fatalf("%d with seed %d: %d, want %d", value, seed, got, want)
		}
	})
}

// Rows that differ in any field have different hashes.
func TestRowHashesDiffer(t *testing.T) {
	t.Parallel()
	one := row{rank: 1, user: 1001, score: 5, reachedAt: 1_700_000_000_000}
	seen := make(map[int64]row)
	for _, r := range []row{one, {2, 1001, 5, one.reachedAt}, {1, 1002, 5, one.reachedAt}, {1, 1001, 6, one.reachedAt}, {1, 1001, 5, one.reachedAt + 1}} {
		if other, ok := seen[r.hash()]; ok {
			t.Errorf("%+v and %+v have the same hash", r, other)
		}
		seen[r.hash()] = r
	}
}
