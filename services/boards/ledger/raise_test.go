package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/board"
	"stepboard/services/boards/ledger"
)

// faultyBoards are boards that fail on request.
type faultyBoards struct {
	board.Writer
	mu   sync.Mutex
	away bool
	// hang, unless it is nil, blocks raises until it is closed.
	hang chan struct{}
}

func (l *faultyBoards) Raise(ctx context.Context, raises []models.Raise) []error {
	l.mu.Lock()
	away, hang := l.away, l.hang
	l.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if away {
		return slices.Repeat([]error{models.Unavailable("raise", errors.New("away"))}, len(raises))
	}
	return l.Writer.Raise(ctx, raises)
}

// set changes how raises fail.
func (l *faultyBoards) set(away bool, hang chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away, l.hang = away, hang
}

// Increments are counted if Redis is away or hangs. Those that a hanging Redis
// receives later are on the board.
func TestWithoutRedis(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	p := newFixture(t, env, 100)
	boards := &faultyBoards{Writer: p.boards, away: true}
	s := p.replica(boards, env.Clock.Now)
	s.WaitForRaises(10 * time.Millisecond)
	add := func(want string, i ledger.Increment) {
		t.Helper()
		if results, err := s.Add(t.Context(), "gifts", []ledger.Increment{i}); err != nil || brief(results[0]) != want || !results[0].Unraised {
			t.Errorf("%v, %v, want %s", results, err, want)
		}
	}
	add("a applied 1 at 13:00:00.000", inc(1, 1, "a"))
	if got, n := p.inRedis("gifts"), s.Stats().Unraised.Load(); len(got) != 0 || n != 1 {
		t.Errorf("%v on the board, %d unraised", got, n)
	}
	release := make(chan struct{})
	boards.set(false, release)
	for i, id := range []string{"b", "c", "d"} {
		add(fmt.Sprintf("%s applied %d at 13:00:00.000", id, i+2), inc(1, 1, id))
	}
	if n := s.Stats().Unraised.Load(); n != 4 {
		t.Errorf("%d unraised", n)
	}
	close(release)
	s.Close() // waits for the raises that hang
	if got := p.inRedis("gifts")[1]; got != "4 at 13:00:00.000" {
		t.Errorf("on the board: %s", got)
	}
}

// An increment that did not reach the board is there when it is sent again.
func TestADuplicateIsShown(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		for _, board := range []string{"gifts", "active"} {
			p := newFixture(t, env, 100)
			env.Clock.Set(testenv.Noon)
			boards := &faultyBoards{Writer: p.boards, away: true}
			s := p.replica(boards, env.Clock.Now)
			add := func(items ...ledger.Increment) []string {
				t.Helper()
				results, err := s.Add(t.Context(), board, items)
				if err != nil {
					t.Fatal(err)
				}
				return briefs(results)
			}
			add(inc(1, 5, "a"), inc(2, 7, "b"))
			env.Clock.Advance(time.Hour)
			add(inc(1, 2, "c"))
			boards.set(false, nil)
			env.Clock.Advance(time.Hour)
			want := []string{"a duplicate 5 at 13:00:00.000", "d applied 8 at 15:00:00.000", "c duplicate 7 at 14:00:00.000"}
			if diff := cmp.Diff(want, add(inc(1, 5, "a"), inc(2, 1, "d"), inc(1, 2, "c"))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", board, diff)
			}
			onBoard := map[models.RowID]string{1: "7 at 14:00:00.000", 2: "8 at 15:00:00.000"}
			if board == "active" {
				onBoard[2] = "1 at 15:00:00.000" // nobody has sent the first hour's increment again
			}
			if diff := cmp.Diff(onBoard, p.inRedis(board)); diff != "" {
				t.Errorf("%s in Redis (-want +got):\n%s", board, diff)
			}
		}
	})
}

// twoServers are boards on two servers. Raises of users with odd ids go to the first
// one, which hangs until hang is closed.
type twoServers struct {
	board.Writer
	hang chan struct{}
}

func (b *twoServers) Server(_ context.Context, r models.Raise) string { return fmt.Sprint(r.User % 2) }

func (b *twoServers) Raise(ctx context.Context, raises []models.Raise) []error {
	for _, r := range raises {
		if r.User%2 == 1 {
			<-b.hang
			break
		}
	}
	return b.Writer.Raise(ctx, raises)
}

// A server of the boards that hangs delays only the calls for its own users. All
// others find their increments on the board.
func TestAHungServerDelaysItsOwnUsersOnly(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env *testenv.Env) {
		p := newFixture(t, env, 100)
		boards := &twoServers{p.boards, make(chan struct{})}
		s := p.replica(boards, env.Clock.Now)
		s.WaitForRaises(time.Hour)
		add := func(user models.RowID, id string) {
			if results, err := s.Add(t.Context(), "gifts", []ledger.Increment{inc(user, 1, id)}); err != nil || results[0].Status != ledger.Applied {
				t.Errorf("user %d: %v, %v", user, results, err)
			}
		}
		var hanging sync.WaitGroup
		for user := range models.RowID(5) {
			hanging.Go(func() { add(2*user+1, fmt.Sprint("hung-", user)) })
		}
		testenv.Eventually(t, "the increments on the hung server are counted", func() bool { return s.Stats().Applied.Load() == 5 })
		for n := range 20 {
			add(2, fmt.Sprint("other-", n))
			if got, want := p.inRedis("gifts"), fmt.Sprintf("%d at 13:00:00.000", n+1); len(got) != 1 || got[2] != want {
				t.Errorf("on the board: %v, want %s", got, want)
				break
			}
		}
		close(boards.hang)
		testenv.Wait(t, "the hanging raise ends", &hanging)
		if got := p.inRedis("gifts"); len(got) != 6 {
			t.Errorf("on the board: %v", got)
		}
	})
}
