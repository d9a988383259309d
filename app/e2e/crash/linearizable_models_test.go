package crash_test

import (
	"cmp"
	"fmt"
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

// notKnown is the output of a write whose answer did not come, or was 503. It takes effect at
// any time after its call, or never.
type notKnown struct{}

// done is the output of a write whose answer says no more than that.
type done struct{}

// model returns the model of an object. step returns the state after an operation, and its
// output.
func model[State comparable](begin State, step func(s State, input any) (State, any)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, input, output any) (bool, any) {
			next, want := step(state.(State), input)
			return output == want || output == notKnown{}, next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
	}
}

// read is the input of an operation that changes nothing.
type read struct {
	where string // which call, for the description
}

// dayModel is the score of a user on a day: the largest total that was uploaded. Its writes
// are totals.
func dayModel() porcupine.Model {
	return model(int64(0), func(score int64, input any) (int64, any) {
		if total, ok := input.(int64); ok {
			return max(score, total), done{}
		}
		return score, score
	})
}

// add is an increment, and added its result.
type add struct {
	id    string
	delta int64
}

type added struct {
	status string
	score  int64
}

// counts is the state of a user on a board of increments: the sum, and the score that each
// event id has led to, 0 for those that were not counted.
type counts struct {
	sum    int64
	scores [eventIDs]int64
}

// eventIDs is how many event ids are sent of a user: e0 and so on.
const eventIDs = 12

// counterModel counts each event id once.
func counterModel() porcupine.Model {
	return model(counts{}, func(c counts, input any) (counts, any) {
		a := input.(add)
		var number int
		if _, err := fmt.Sscanf(a.id, "e%d", &number); err != nil {
			panic(err)
		}
		if score := c.scores[number]; score > 0 {
			return c, added{"duplicate", score}
		}
		c.sum += a.delta
		c.scores[number] = c.sum
		return c, added{"applied", c.sum}
	})
}

// ask is a friend request by the first or the second of two users, accept accepts the
// other's, and part ends the friendship.
type (
	ask    struct{ by int }
	accept struct{ by int }
	part   struct{ by int }
)

// pairState is the state of a pair of users: friends, or one has asked.
type pairState struct {
	friends bool
	asked   [2]bool
}

// pairModel is two users who ask each other and part. The output of ask is the status of the
// answer and its text, that of a read is whether they are friends.
func pairModel() porcupine.Model {
	return model(pairState{}, func(s pairState, input any) (pairState, any) {
		befriended := pairState{friends: true}
		switch in := input.(type) {
		case ask:
			switch {
			case s.friends:
				return s, "200 friends"
			case s.asked[in.by]:
				return s, "200 pending"
			case s.asked[1-in.by]:
				return befriended, "201 friends"
			}
			s.asked[in.by] = true
			return s, "201 pending"
		case accept:
			switch {
			case s.friends:
				return s, "200 friends"
			case s.asked[1-in.by]:
				return befriended, "200 friends"
			}
			return s, "404"
		case part:
			s.friends = false
			return s, done{}
		default:
			return s, s.friends
		}
	})
}

// blockModel is whether one user blocks another. Its writes are true and false.
func blockModel() porcupine.Model {
	return model(false, func(blocked bool, input any) (bool, any) {
		if block, ok := input.(bool); ok {
			return block, done{}
		}
		return blocked, blocked
	})
}

// The models accept histories in which concurrent operations take effect in some order, and
// refuse those without such an order.
func TestModelsOfHistories(t *testing.T) {
	t.Parallel()
	// at is an operation from a moment to another; to 0 means that its answer never came.
	at := func(from, to int64, input, output any) porcupine.Operation {
		return porcupine.Operation{Input: input, Call: from, Output: output, Return: cmp.Or(to, math.MaxInt64)}
	}
	for _, tt := range []struct {
		name    string
		model   porcupine.Model
		ok      bool
		history []porcupine.Operation
	}{
		{"a total is read", dayModel(), true, []porcupine.Operation{at(1, 2, int64(5), done{}), at(3, 4, read{}, int64(5))}},
		{"a total is lost", dayModel(), false, []porcupine.Operation{at(1, 2, int64(5), done{}), at(3, 4, read{}, int64(0))}},
		{"a smaller total counts", dayModel(), false, []porcupine.Operation{at(1, 2, int64(5), done{}), at(3, 4, int64(3), done{}), at(5, 6, read{}, int64(3))}},
		{"a refused total counts later", dayModel(), true, []porcupine.Operation{at(1, 0, int64(5), notKnown{}), at(3, 4, read{}, int64(0)), at(5, 6, read{}, int64(5))}},
		{"a score falls", dayModel(), false, []porcupine.Operation{at(1, 0, int64(5), notKnown{}), at(3, 4, read{}, int64(5)), at(5, 6, read{}, int64(0))}},
		{"an id counts once", counterModel(), true, []porcupine.Operation{at(1, 5, add{"e1", 2}, added{"applied", 2}), at(2, 4, add{"e1", 2}, added{"duplicate", 2})}},
		{"an id counts twice", counterModel(), false, []porcupine.Operation{at(1, 5, add{"e1", 2}, added{"applied", 2}), at(2, 4, add{"e1", 2}, added{"applied", 4})}},
		{"an increment is lost", counterModel(), false, []porcupine.Operation{at(1, 2, add{"e1", 2}, added{"applied", 2}), at(3, 4, add{"e2", 1}, added{"applied", 1})}},
		{"requests meet", pairModel(), true, []porcupine.Operation{at(1, 4, ask{0}, "201 friends"), at(2, 3, ask{1}, "201 pending"), at(5, 6, read{}, true)}},
		{"both requests are first", pairModel(), false, []porcupine.Operation{at(1, 4, ask{0}, "201 pending"), at(2, 3, ask{1}, "201 pending")}},
		{"an old friend set", pairModel(), false, []porcupine.Operation{
			at(1, 2, ask{0}, "201 pending"), at(3, 4, accept{1}, "200 friends"), at(5, 6, part{0}, done{}), at(7, 8, read{}, true),
		}},
		{"a block is seen late", blockModel(), false, []porcupine.Operation{at(1, 2, true, done{}), at(3, 4, read{}, false)}},
		{"a block is seen while it begins", blockModel(), true, []porcupine.Operation{at(1, 6, true, done{}), at(2, 3, read{}, false), at(4, 5, read{}, true)}},
	} {
		if got := porcupine.CheckOperations(tt.model, tt.history); got != tt.ok {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
