package crash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/anishathalye/porcupine"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// call is one operation on an object of which a history is recorded.
type call struct {
	input              any
	user               models.UserID
	scope              string
	method, path, body string
	// output returns the output that a successful answer means to the model.
	output func(status int, text string) (any, error)
	// contains is the text in the answer that says that the object is prepared.
	contains string
}

// isRead reports whether the call changes nothing.
func (c *call) isRead() bool {
	_, ok := c.input.(read)
	return ok
}

// object is something that clients change and read: its model, the calls that prepare it,
// calls, which chooses at random what a client calls next, one call after the other, and the
// calls after all faults that show what is left.
type object struct {
	model   porcupine.Model
	prepare []call
	calls   func(rng *rand.Rand) []call
	last    []call
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

// scored returns the calls that give a user 5 steps, also if they go through a queue.
func scored(user models.UserID) []call {
	me := call{user: user, method: "GET", path: "/v1/boards/steps/me?date=" + harness.Today(), contains: `"score":5,`}
	return []call{uploadCall(user, 5), me}
}

// day is the day of one user.
func day(name string) object {
	user := models.UserID(name)
	reads := []call{
		{
			input: read{"me"}, user: user, method: "GET", path: "/v1/boards/steps/me?date=" + harness.Today(),
			output: func(_ int, text string) (any, error) {
				var me struct{ Score int64 }
				err := json.Unmarshal([]byte(text), &me)
				return me.Score, err
			},
		},
		{
			input: read{"friends"}, user: user, method: "GET", path: "/v1/boards/steps/friends?date=" + harness.Today(),
			output: func(_ int, text string) (any, error) {
				var ranking struct{ Me struct{ Score int64 } }
				err := json.Unmarshal([]byte(text), &ranking)
				return ranking.Me.Score, err
			},
		},
	}
	return object{model: dayModel(), last: reads, calls: func(rng *rand.Rand) []call {
		if rng.IntN(2) == 0 {
			return []call{uploadCall(user, 1+rng.Int64N(20))}
		}
		return []call{reads[rng.IntN(len(reads))]}
	}}
}

// counter is the score of one user in an event. Its last calls send all event ids once more.
func counter(name string) object {
	send := func(number int) call {
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
	}
	o := object{model: counterModel(), calls: func(rng *rand.Rand) []call { return []call{send(rng.IntN(eventIDs))} }}
	for number := range eventIDs {
		o.last = append(o.last, send(number))
	}
	return o
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
	prepare := append(scored(users[0]), scored(users[1])...)
	status := func(status int, text string) (any, error) {
		var answer struct{ Status string }
		if status == http.StatusNotFound {
			return "404", nil
		}
		err := json.Unmarshal([]byte(text), &answer)
		return fmt.Sprint(status, " ", answer.Status), err
	}
	list := func(path string, by int) call {
		return shows(users[by], path, fmt.Sprintf(`"user_id":%q`, users[1-by]), true)
	}
	const friends, ranking = "/v1/friends", "/v1/boards/steps/friends"
	asks := func(by int) call {
		return call{
			input: ask{by}, user: users[by], method: "POST", path: "/v1/friends/requests",
			body: fmt.Sprintf(`{"user_id":%q}`, users[1-by]), output: status,
		}
	}
	reads := []call{list(friends, 0), list(friends, 1), list(ranking, 0), list(ranking, 1)}
	return object{pairModel(), prepare, func(rng *rand.Rand) []call {
		by := rng.IntN(2)
		user, other := users[by], users[1-by]
		switch rng.IntN(6) {
		case 0:
			return []call{asks(by)}
		case 1: // a ranking puts the set into the cache
			return []call{asks(by), asks(1 - by), list(ranking, by), list(ranking, 1-by)}
		case 2:
			return []call{{input: accept{by}, user: user, method: "POST", path: "/v1/friends/requests/" + string(other) + "/accept", output: status}}
		case 3: // the other side hears of it, too
			end := call{input: part{by}, user: user, method: "DELETE", path: "/v1/friends/" + string(other), output: noOutput}
			return []call{end, list(ranking, 1-by)}
		default:
			return []call{reads[rng.IntN(len(reads))]}
		}
	}, reads}
}

// block is two members of a group, of whom one blocks the other. Both have a score, so that
// rankings show whether one is hidden from the other.
func block(name string) object {
	user, other := models.UserID(name+"-a"), models.UserID(name+"-b")
	prepare := append(append(scored(user), scored(other)...), call{
		user: "1", scope: auth.ScopeService, method: "PUT", path: "/v1/groups/" + name + "/members",
		body: fmt.Sprintf(`{"member_ids":[%q,%q]}`, user, other),
	})
	ranking := "/v1/boards/steps/groups/" + name
	reads := []call{
		shows(user, "/v1/blocked", fmt.Sprintf(`"user_id":%q`, other), true),
		shows(user, ranking, fmt.Sprintf(`"user_id":%q`, other), false),
		shows(other, ranking, fmt.Sprintf(`"user_id":%q`, user), false),
	}
	return object{blockModel(), prepare, func(rng *rand.Rand) []call {
		switch rng.IntN(5) {
		case 0:
			return []call{{input: true, user: user, method: "PUT", path: "/v1/blocked/" + string(other), output: noOutput}}
		case 1:
			return []call{{input: false, user: user, method: "DELETE", path: "/v1/blocked/" + string(other), output: noOutput}}
		default:
			return []call{reads[rng.IntN(len(reads))]}
		}
	}, reads}
}

// objectKinds returns the objects of each kind by their names.
var objectKinds = map[string]func(name string) object{"day": day, "counter": counter, "friends": friendPair, "block": block}

// Uploads, increments, friendships and blocks are linearizable for the clients of two
// processes: each call takes effect at once for everybody, at some moment before its answer,
// while a process is stopped or killed, cut off from Redis, or Redis is killed.
func TestSoakLinearizable(t *testing.T) {
	t.Parallel()
	env := harness.Real(t)
	server := testenv.StartRedis(t)
	h := newHistories(t)
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
	h.start(objectKinds)
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
	for round := range len(faults) * testenv.Rounds(1, 30) {
		h.awaitMore(100)
		faults[round%len(faults)](rand.IntN(len(processes)))
	}
	h.awaitMore(100)
	h.end()
}
