package friends_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/platform/outcomes"
	"stepboard/services/servicetest"
)

// Requests that their recipient is shown, and those that are accepted, are outcomes.
// Declined, repeated and refused ones are not, nor are friendships that nobody has asked for.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		targets := []outcomes.Target{{URL: "https://example.com"}}
		store := friends.NewStore(env.Gorm, outcomes.NewOutbox(targets, env.Clock.Now))
		s := numbered{Service: friends.New(store, servicetest.Sets(env), testenv.Numbers{DB: env.Gorm},
			friends.Limits{Pending: 2, PerDay: 100}, env.Log)}
		exist(t, env, 1, 2, 3, 4, 5, 6)
		ctx := t.Context()
		send := func(from, to models.RowID) func() error {
			return func() error { _, _, err := s.SendRequest(ctx, from, to); return err }
		}
		steps := []struct {
			name string
			do   func() error
			want []string // type and payload of the new outcomes
		}{
			{"a request", send(1, 2), []string{`friend.requested {"from":1,"to":2}`}},
			{"the same again", send(1, 2), nil},
			{"an answer that asks, too", send(2, 1), []string{`friend.accepted {"from":1,"to":2}`}},
			{"a request to a friend", send(2, 1), nil},
			{"another request", send(3, 1), []string{`friend.requested {"from":3,"to":1}`}},
			{"it is accepted", func() error { return s.Accept(ctx, 1, 3) }, []string{`friend.accepted {"from":3,"to":1}`}},
			{"it is accepted again", func() error { return s.Accept(ctx, 1, 3) }, nil},
			{"a friendship ends", func() error { return s.Remove(ctx, 1, 3) }, nil},
			{"a request that will be declined", send(4, 1), []string{`friend.requested {"from":4,"to":1}`}},
			{"it is declined", func() error { return s.Decline(ctx, 1, 4) }, nil},
			{"the declined one asks again", send(4, 1), nil},
			{"the declined one withdraws", func() error { return s.Decline(ctx, 4, 1) }, nil},
			{"and asks again", send(4, 1), nil},
			{"and once more after seven days", func() error {
				env.Clock.Advance(7 * 24 * time.Hour)
				return send(4, 1)()
			}, []string{`friend.requested {"from":4,"to":1}`}},
			{"a backend replaces a list", func() error { return s.Replace(ctx, 5, []models.RowID{1, 4}) }, nil},
			{"an import", func() error { _, _, err := s.Import(ctx, []models.Edge{{A: 5, B: 6}}); return err }, nil},
			{"a request below the limit", send(4, 2), []string{`friend.requested {"from":4,"to":2}`}},
			{"a request above the limit", func() error {
				if err := send(4, 3)(); models.CodeOf(err) != models.CodeRequestLimit {
					t.Errorf("above the limit: %v", err)
				}
				return nil
			}, nil},
		}
		seen := 0
		for _, step := range steps {
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			all := written(t, env)
			if diff := cmp.Diff(step.want, slices.Clip(all[seen:]), cmp.Comparer(slices.Equal[[]string])); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
			seen = len(all)
		}
	})
}

// written returns type and payload of each outcome in the outbox, oldest first.
func written(t testing.TB, env *testenv.Env) []string {
	t.Helper()
	var rows []models.Delivery
	if err := env.Gorm.Order("id").Find(&rows).Error; err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = string(row.Type) + " " + row.Payload
	}
	return list
}
