package archive

import "testing"

// Rows that differ in any field have different hashes.
func TestRowHashesDiffer(t *testing.T) {
	t.Parallel()
	one := row{rank: 1, user: 1001, points: 5, reachedAt: 1_700_000_000_000}
	seen := make(map[int64]row)
	for _, r := range []row{one, {2, 1001, 5, one.reachedAt}, {1, 1002, 5, one.reachedAt}, {1, 1001, 6, one.reachedAt}, {1, 1001, 5, one.reachedAt + 1}} {
		if other, ok := seen[r.hash()]; ok {
			t.Errorf("%+v and %+v have the same hash", r, other)
		}
		seen[r.hash()] = r
	}
}
