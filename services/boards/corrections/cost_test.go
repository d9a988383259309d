//go:build !race

package corrections_test

import (
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// A thousand exclusions over thirty open days cost one command for each shard, and a
// sharded board one for each of its shards, in one round trip.
func TestCostOfManyCorrections(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	env.Config.Boards[0].OpenDays = 30
	f := newFixture(t, env)
	testenv.NumberUsers(t, env, 1000)
	for user := range models.RowID(1000) {
		r := excludeFromNow(user + 1)
		if _, err := f.corrections.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		f.later(24 * time.Hour)
		f.today()
	}
	f.apply()
	var trips testenv.RoundTrips
	env.Redis.AddHook(&trips)
	f.apply()
	if trips.Trips() != 1 || trips.Commands() != 31 {
		t.Errorf("%d commands in %d round trips", trips.Commands(), trips.Trips())
	}
}
