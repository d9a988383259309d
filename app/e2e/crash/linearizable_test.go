package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/auth"
)

// call is one operation on an object of which a history is recorded.
type call struct {
	input              any
	user               models.UserID
	scope              string
	method, path, body string
	// output returns the output that a successful answer means to the model.
	output func(status int, text string) (any, error)
}

// isRead reports whether the call changes nothing.
func (c *call) isRead() bool {
	_, ok := c.input.(read)
	return ok
}

// object is something that clients change and read: its model, the calls that prepare it,
// and the calls of which one is chosen at random again and again.
type object struct {
	model   porcupine.Model
	prepare []call
	calls   func(rng *rand.Rand) call
}

// noOutput returns the output of a write that answers nothing that the model knows.
func noOutput(int, string) (any, error) { return done{}, nil }

// uploadCall returns the upload of a total of a user.
func uploadCall(user models.UserID, total int64) call {
	return call{
		input: total, user: user, method: "POST", path: "/v1/boards/steps/scores",
		body: fmt.Sprintf(`{"date":%q,"score":%d}`, harness.Today(), total), output: noOutput,
	}
}

// day is the day of one user.
func day(name string) object {
	user := models.UserID(name)
	return object{dayModel(), nil, func(rng *rand.Rand) call {
		if rng.IntN(2) == 0 {
			return uploadCall(user, 1+rng.Int64N(20))
		}
		return call{
			input: read{"me"}, user: user, method: "GET", path: "/v1/boards/steps/me?date=" + harness.Today(),
			output: func(_ int, text string) (any, error) {
				var me struct{ Score int64 }
				err := json.Unmarshal([]byte(text), &me)
				return me.Score, err
			},
		}
	}}
}

// counter is the score of one user in an event.
func counter(name string) object {
	return object{counterModel(), nil, func(rng *rand.Rand) call {
		number := rng.IntN(eventIDs)
		a := add{fmt.Sprintf("e%d", number), int64(1 + number)} // an id with another delta is a conflict
		return call{
			input: a, user: "1", scope: auth.ScopeService, method: "POST", path: "/v1/boards/gifts/increments",
			body: fmt.Sprintf(`{"increments":[{"user_id":%q,"delta":%d,"event_id":"%s-%s"}]}`, name, a.delta, name, a.id),
			output: func(_ int, text string) (any, error) {
				var answer harness.IncrementResults
				if err := json.Unmarshal([]byte(text), &answer); err != nil {
					return nil, err
				}
				if one := answer.Results[0]; one.Score != nil {
					return added{one.Status, *one.Score}, nil
				}
				return nil, errors.New(answer.Results[0].Detail)
			},
		}
	}}
}

// shows returns the read of a list that contains a text or does not.
func shows(user models.UserID, path, text string, means bool) call {
	return call{
		input: read{path + " of " + string(user)}, user: user, method: "GET", path: path,
		output: func(_ int, answer string) (any, error) { return strings.Contains(answer, text) == means, nil },
	}
}

// friendPair is two users who become friends and part. Both have a score, so that rankings
// show whether they are friends.
func friendPair(name string) object {
	users := [2]models.UserID{models.UserID(name + "-a"), models.UserID(name + "-b")}
	prepare := []call{uploadCall(users[0], 5), uploadCall(users[1], 5)}
	status := func(status int, text string) (any, error) {
		var answer struct{ Status string }
		if status == http.StatusNotFound {
			return "404", nil
		}
		err := json.Unmarshal([]byte(text), &answer)
		return fmt.Sprint(status, " ", answer.Status), err
	}
	return object{pairModel(), prepare, func(rng *rand.Rand) call {
		by := rng.IntN(2)
		user, other := users[by], users[1-by]
		switch rng.IntN(6) {
		case 0, 1:
			return call{input: ask{by}, user: user, method: "POST", path: "/v1/friends/requests", body: fmt.Sprintf(`{"user_id":%q}`, other), output: status}
		case 2:
			return call{input: accept{by}, user: user, method: "POST", path: "/v1/friends/requests/" + string(other) + "/accept", output: status}
		case 3:
			return call{input: part{by}, user: user, method: "DELETE", path: "/v1/friends/" + string(other), output: noOutput}
		case 4:
			return shows(user, "/v1/friends", fmt.Sprintf(`"user_id":%q`, other), true)
		default:
			return shows(user, "/v1/boards/steps/friends", fmt.Sprintf(`"user_id":%q`, other), true)
		}
	}}
}

// block is two members of a group, of whom one blocks the other. Both have a score, so that
// rankings show whether one is hidden from the other.
func block(name string) object {
	user, other := models.UserID(name+"-a"), models.UserID(name+"-b")
	prepare := []call{
		uploadCall(user, 5), uploadCall(other, 5),
		{
			user: "1", scope: auth.ScopeService, method: "PUT", path: "/v1/groups/" + name + "/members",
			body: fmt.Sprintf(`{"member_ids":[%q,%q]}`, user, other),
		},
	}
	ranking := "/v1/boards/steps/groups/" + name
	return object{blockModel(), prepare, func(rng *rand.Rand) call {
		switch rng.IntN(5) {
		case 0:
			return call{input: true, user: user, method: "PUT", path: "/v1/blocked/" + string(other), output: noOutput}
		case 1:
			return call{input: false, user: user, method: "DELETE", path: "/v1/blocked/" + string(other), output: noOutput}
		case 2:
			return shows(user, "/v1/blocked", fmt.Sprintf(`"user_id":%q`, other), true)
		case 3:
			return shows(user, ranking, fmt.Sprintf(`"user_id":%q`, other), false)
		default:
			return shows(other, ranking, fmt.Sprintf(`"user_id":%q`, user), false)
		}
	}}
}

const (
	// clientsOfObject make the calls on one object at the same time.
	clientsOfObject = 3
	// callsOfObject and unknownOfObject bound the calls on one object, and those of them
	// whose outcome is not known: checking a history takes time that is exponential in them.
	callsOfObject   = 40
	unknownOfObject = 6
	// callTimeout is when a client gives a call up.
	callTimeout = 3 * time.Second
)

// histories records the calls of clients on one object after another, and checks each
// history when the object's calls have ended.
type histories struct {
	t       testing.TB
	urls    [2]atomic.Pointer[string] // of the processes
	client  *http.Client
	began   time.Time
	stop    chan struct{}
	running sync.WaitGroup
	// answered and unknown count calls, checked counts objects.
	answered, unknown, checked atomic.Int64
}

// run makes calls on new objects of a kind until stop.
func (h *histories) run(name string, kind func(name string) object) {
	for n := 0; !h.t.Failed(); n++ {
		select {
		case <-h.stop:
			return
		default:
		}
		o := kind(fmt.Sprintf("%s-%d", name, n))
		for i := range o.prepare {
			h.insist(&o.prepare[i])
		}
		if history := h.record(&o); !porcupine.CheckOperations(o.model, history) {
			h.t.Errorf("%s-%d: no order of its calls explains their answers: %s", name, n, describeHistory(o.model, history))
		}
		h.checked.Add(1)
	}
}

// insist makes a call until it succeeds.
func (h *histories) insist(c *call) {
	for h.t.Context().Err() == nil {
		if status, _, err := h.send(c, rand.IntN(len(h.urls))); err == nil && status == http.StatusOK {
			return
		}
		<-time.After(10 * time.Millisecond) // a store or the process is away
	}
}

// record makes calls on an object by several clients, and returns their history.
func (h *histories) record(o *object) []porcupine.Operation {
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		calls   atomic.Int64
		unknown atomic.Int64
		clients sync.WaitGroup
	)
	for client := range clientsOfObject {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), uint64(client)))
			for calls.Add(1) <= callsOfObject && unknown.Load() < unknownOfObject && !h.t.Failed() {
				c := o.calls(rng)
				op := porcupine.Operation{ClientId: client, Input: c.input, Call: time.Since(h.began).Nanoseconds(), Return: math.MaxInt64}
				status, text, err := h.send(&c, rng.IntN(len(h.urls)))
				if err == nil && status != http.StatusServiceUnavailable {
					op.Return = time.Since(h.began).Nanoseconds()
					if op.Output, err = c.output(status, text); err != nil || status >= 400 && status != http.StatusNotFound {
						h.t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
					}
					h.answered.Add(1)
				} else {
					h.unknown.Add(1)
					if c.isRead() {
						continue
					}
					unknown.Add(1)
					op.Output = notKnown{}
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return history
}

// send sends a call to one of the processes.
func (h *histories) send(c *call, process int) (status int, text string, err error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), callTimeout)
	defer cancel()
	bearer := harness.Token(h.t, c.user, c.scope)
	return harness.Request(ctx, h.client, bearer, c.method, *h.urls[process].Load()+c.path, c.body)
}

// awaitMore waits until more calls were answered.
func (h *histories) awaitMore(n int64) {
	h.t.Helper()
	from := h.answered.Load()
	testenv.Eventually(h.t, "calls are answered", func() bool { return h.answered.Load() >= from+n || h.t.Failed() })
}

// awaitUnknown waits until the outcome of more calls is not known.
func (h *histories) awaitUnknown(n int64) {
	h.t.Helper()
	from := h.unknown.Load()
	testenv.Eventually(h.t, "calls fail", func() bool { return h.unknown.Load() >= from+n || h.t.Failed() })
}

// describeHistory lists the calls of a history.
func describeHistory(m porcupine.Model, history []porcupine.Operation) string {
	var b strings.Builder
	for _, op := range history {
		until := "…"
		if op.Return != math.MaxInt64 {
			until = time.Duration(op.Return).String()
		}
		fmt.Fprintf(&b, "\n%v to %s, client %d: %s", time.Duration(op.Call), until, op.ClientId, m.DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}

// Uploads, increments, friendships and blocks are linearizable for the clients of two
// processes: each call takes effect at once for everybody, at some moment before its answer,
// while a process is stopped or killed, cut off from Redis, or Redis is killed.
func TestSoakLinearizable(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	server := testenv.StartRedis(t)
	h := &histories{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}, began: time.Now(), stop: make(chan struct{})}
	t.Cleanup(h.client.CloseIdleConnections)
	var processes [2]*testenv.Process
	var links [2]*testenv.Proxy
	boards := giftBoards(2)
	serve := func(i int) {
		cfg := env.Config
		cfg.Redis.Addrs = []string{links[i].Addr()}
		processes[i] = testenv.Serve(t, cfg, boards, "--friends.requests_per_day=10000")
		h.urls[i].Store(&processes[i].URL)
	}
	for i := range processes {
		links[i] = testenv.NewProxy(t, server.Addr())
		serve(i)
	}
	for name, kind := range map[string]func(string) object{"day": day, "counter": counter, "friends": friendPair, "block": block} {
		h.running.Go(func() { h.run(name, kind) })
	}
	faults := []func(i int){
		func(i int) { // stopped
			processes[i].Signal(syscall.SIGSTOP)
			h.awaitMore(40)
			processes[i].Signal(syscall.SIGCONT)
		},
		func(i int) { // killed
			processes[i].Kill()
			h.awaitMore(40)
			serve(i)
		},
		func(i int) { // cut off from Redis
			links[i].Cut()
			h.awaitMore(40)
			links[i].Start()
		},
		func(i int) { // Redis hangs for one process, which sends what was held afterwards
			links[i].Hold()
			h.awaitUnknown(5)
			links[i].Release()
		},
		func(int) { // Redis dies
			server.Kill()
			h.awaitUnknown(20)
			server.Start()
		},
	}
	for round := range len(faults) * rounds(1, 30) {
		h.awaitMore(100)
		faults[round%len(faults)](rand.IntN(len(processes)))
	}
	h.awaitMore(100)
	close(h.stop)
	h.running.Wait()
	t.Logf("%d objects, %d calls answered, %d not", h.checked.Load(), h.answered.Load(), h.unknown.Load())
}
