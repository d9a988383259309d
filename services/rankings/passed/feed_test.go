package passed

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// eachFeeds runs a test with the feeds of two processes on one Redis, and with the feed of the only
// process as both. follow lets them read what was published.
func eachFeeds(t *testing.T, test func(t *testing.T, one, other *Feed, follow func())) {
	t.Helper()
	render := func(_ context.Context, n *notice) (data, error) { return data{User: "1", Rank: n.Rank}, nil }
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		env := testenv.Real(t)
		one := NewRedisFeed(env.Redis, env.Keys, testenv.Numbers{}, render, time.Now, env.Log)
		other := NewRedisFeed(env.Redis, env.Keys, testenv.Numbers{}, render, time.Now, env.Log)
		test(t, one.Feed, other.Feed, func() {
			for _, f := range []*RedisFeed{one, other} {
				if err := f.Follow(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		f := NewLocalFeed(testenv.Numbers{}, render, testenv.Log())
		test(t, f, f, func() {})
	})
}

// An open stream is told what is about its user and board, wherever it is, once and from then on.
func TestFeed(t *testing.T) {
	t.Parallel()
	eachFeeds(t, func(t *testing.T, one, other *Feed, follow func()) {
		watch := func(f *Feed, user models.UserID, board string) (<-chan []byte, func()) {
			t.Helper()
			events, stop, err := f.Watch(t.Context(), user, board)
			if err != nil {
				t.Fatal(err)
			}
			return events, stop
		}
		want := func(events <-chan []byte, want int) {
			t.Helper()
			var got data
			select {
			case text := <-events:
				if err := json.Unmarshal(text, &got); err != nil {
					t.Error(err)
				}
			default:
			}
			if got.Rank != want {
				t.Errorf("told of place %d, want %d", got.Rank, want)
			}
		}
		publish := func(rank int) {
			t.Helper()
			notices := []*notice{{Board: "steps", User: 1, Rank: rank}, {Board: "steps", User: 9, Rank: rank}}
			if err := one.publish(t.Context(), notices); err != nil {
				t.Error(err)
			}
		}
		publish(5)
		follow()
		here, stopHere := watch(one, "1", "steps")
		there, stopThere := watch(other, "1", "steps")
		others, stopOthers := watch(other, "2", "steps")
		gifts, stopGifts := watch(one, "1", "gifts")
		nobody, stopNobody := watch(one, "0", "steps")
		publish(6)
		follow()
		follow()
		want(here, 6)
		want(there, 6)
		stopHere()
		publish(7)
		follow()
		want(here, 0)
		want(there, 7)
		for _, events := range []<-chan []byte{there, others, gifts, nobody} {
			want(events, 0)
		}
		for _, stop := range []func(){stopThere, stopOthers, stopGifts, stopNobody} {
			stop()
		}
		if n := len(one.watchers) + len(other.watchers); n > 0 {
			t.Errorf("%d users are still watched", n)
		}
	})
}
