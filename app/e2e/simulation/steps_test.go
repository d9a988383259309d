package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stepboard/internal/concurrent"
	"stepboard/internal/keys"
	"stepboard/services/platform/recovery"
)

// rounds are the parts of the background work that a step may do, by how often.
var rounds = []string{
	"consumer", "consumer", "consumer", "consumer", "boards", "users", "corrections", "corrections", "sets", "sets", "replay",
	"replay", "reconcile", "reconcile", "correct", "correct", "correct-archive", "archive", "archive", "roll", "purge", "reviews",
	"cursors", "results", "webhooks", "webhooks", "erase", "erase", "erase-again",
	"near cache", "near cache",
}

// realTime are the parts of the background work that the simulation leaves out: they compare and
// report the real time.
var realTime = []string{"clock", "status"}

// apart are the parts of the background work that steps about passing, contests, holds, copies and competitions do.
var apart = []string{"passed", "passed streams", "finish", "holds", "shipping", "copies", "competitions"}

// event is a step that no replica takes: the passing of time, or a fault.
type event struct {
	name   string
	weight int
	do     func(*world)
}

var events = []event{
	{"time passes", 6, (*world).pass},
	{"a night passes", 4, (*world).night},
	{"restart", 2, (*world).restart},
	{"kill", 2, (*world).kill},
	{"Redis forgets everything", 1, (*world).forget},
	{"Redis is backed up", 2, (*world).backUp},
	{"Redis goes back in time", 1, (*world).goBack},
	{"a store is away", 3, (*world).outage},
	{"a store is away for one replica", 2, (*world).partition},
	{"the queue delivers everything again", 1, (*world).redeliver},
	{"a clock is wrong", 1, (*world).misset},
}

// step takes one step of the schedule.
func (w *world) step() {
	w.steps++
	if w.outageEnds == w.steps {
		w.endOutage()
	}
	if w.random.IntN(2) == 0 {
		w.advance(time.Duration(1+w.random.IntN(5000)) * time.Millisecond)
	}
	for _, r := range w.replicas {
		if r.app == nil {
			w.startReplica(r)
		}
	}
	if w.random.IntN(5) == 0 {
		e := pick(w, w.allEvents(), func(e event) int { return e.weight })
		w.note("%s %s", w.clock.Now().Format("01-02T15:04:05.000"), e.name)
		e.do(w)
		return
	}
	r := w.replicas[w.random.IntN(len(w.replicas))]
	if r.app == nil {
		return
	}
	if r.staleness > 0 && w.random.IntN(3) > 0 {
		w.takeRound(r, "near cache") // which follows the changes several times a second
	}
	a := w.action(false)
	w.take(r, a, w.plan(r, a))
	w.walk()
	w.contend()
	w.holdSomething()
	w.phoneSomething()
	w.shipSomething()
	w.compete()
	w.weChatSomething()
	w.signInSomething()
	if w.failure != nil {
		w.failf("%v", w.failure)
	}
}

// pick returns an element, by its weight.
func pick[T any](w *world, list []T, weight func(T) int) T {
	sum := 0
	for _, e := range list {
		sum += weight(e)
	}
	at := w.random.IntN(sum)
	for _, e := range list {
		if at -= weight(e); at < 0 {
			return e
		}
	}
	panic("no element")
}

// action returns what a replica does next: a call, or a round of its background work.
func (w *world) action(quiet bool) action {
	if w.random.IntN(3) == 0 {
		all := w.allRounds()
		name := all[w.random.IntN(len(all))]
		return action{name: name, quiet: true, do: func(w *world, ctx context.Context, r *replica) { w.doRound(ctx, r, name) }}
	}
	for {
		a := pick(w, operations, func(a action) int { return a.weight })
		if a.quiet || !quiet {
			return a
		}
	}
}

// plan returns a fault for a step that r takes, or none. Half of the faults are planned for one of
// the first operations, which every step has. The others may strike at each operation that a step
// of this name has had so far, so that commits at the end of long steps meet faults, too.
func (w *world) plan(r *replica, a action) plan {
	if w.random.IntN(3) > 0 {
		return plan{}
	}
	return w.broken(r, a)
}

// broken is plan, but always returns a fault.
func (w *world) broken(r *replica, a action) plan {
	p := plan{at: 1 + w.random.IntN(4)}
	if w.random.IntN(2) == 0 {
		p.at = 1 + w.random.IntN(max(8, w.operations[a.name]))
	}
	p.fault = []fault{refuse, lose, cut, crashBefore, crashAfter, disconnect, interleave, interleave}[w.random.IntN(8)]
	if w.store == onServers && w.random.IntN(2) == 0 {
		p.fault = interleave
	}
	if w.store == onFile && p.fault == interleave && (!a.round() || a.name == "users") { // others would wait for its mutex
		p.fault = []fault{refuse, lose, crashBefore, crashAfter, disconnect}[w.random.IntN(5)]
	}
	if p.fault == interleave {
		n := 1 + w.random.IntN(2)
		p.act = func() { w.interleaved(r, n) }
	}
	return p
}

// inside reports whether a step may be taken in the middle of one of r: by another process, or, on a
// file, a call by the same one.
func (w *world) inside(r, other *replica) bool {
	return other.app != nil && (other != r || w.store == onFile)
}

// interleaved takes steps of another replica in the middle of a step of r.
func (w *world) interleaved(r *replica, n int) {
	defer func() {
		if found := recover(); found != nil {
			w.failure = fmt.Errorf("%v", found)
		}
	}()
	w.lookAtErasures() // of a step that may have begun one
	for range n {
		other := w.replicas[w.random.IntN(len(w.replicas))]
		if !w.inside(r, other) || w.failure != nil {
			continue
		}
		w.steps++
		a := w.action(true)
		for w.store == onFile && a.round() { // whose mutex the outer one may have
			a = w.action(true)
		}
		if w.store == onServers && w.random.IntN(2) == 0 {
			a = w.locking()
		}
		w.take(other, a, plan{})
	}
}

// take lets a replica take a step with a fault, and starts it again if it has died.
func (w *world) take(r *replica, a action, p plan) {
	ctx, cancel := context.WithCancel(context.WithValue(concurrent.InOrder(w.t.Context()), clientKey{}, true))
	defer cancel()
	if p.fault == disconnect {
		p.act = cancel
	}
	w.note("%s %s: %s %s", w.clock.Now().Format("01-02T15:04:05.000"), r.name, a.name, p)
	resume := r.gate.begin(p)
	if len(w.working) > 0 {
		w.lookAtTeams(r) // what the outer step has changed
	}
	done := w.work(r.gate)
	outer := w.refused
	w.refused = false
	if !a.quiet {
		w.changing++
	}
	a.do(w, ctx, r)
	if !a.quiet {
		w.changing--
	}
	crashed := r.gate.crashed()
	if crashed {
		w.note("%s has died", r.name)
		w.stopReplica(r)
	}
	if !crashed {
		quiet(r.stores)
	}
	w.lookAtReturned()
	w.lookAtContests()
	w.lookAtTeams(r)
	done()
	passed, struck := r.gate.end()
	resume()
	w.operations[a.name] = max(w.operations[a.name], passed)
	if w.refused && !struck && !w.late(r) {
		w.failf("a call is refused as unavailable, and nothing is")
	}
	w.refused = outer
	if crashed {
		w.startReplica(r)
	}
}

func (p plan) String() string {
	if p.fault == noFault {
		return ""
	}
	return fmt.Sprintf("(%s at %d)", p.fault, p.at)
}

// doRound does a round of the background work, and notes what it has achieved.
func (w *world) doRound(ctx context.Context, r *replica, name string) {
	if name == "consumer" && (!w.queued || w.undelivered() == 0 || len(r.gate.away) > 0) {
		return // it would wait for the queue, or for the store that is away
	}
	made, begun := len(w.model.corrections), len(w.model.erasures)
	same := w.undisturbed()
	var err error
	if name == "webhooks" {
		err = w.deliver(ctx, r)
	} else {
		err = w.round(ctx, r, name)
	}
	w.lookAtArchive()
	if err != nil {
		if r.server != w.servers && errors.Is(err, recovery.ErrIncomplete) {
			// Only now it finds another server than before. Its last writes may have gone to
			// the old one after they were replayed, so that it asks for one more replay.
			r.server, w.model.lossy = w.servers, true
		}
		waits := !same() || // another replica does the same meanwhile, which leases prevent between real processes
			w.model.lossy && (name == "archive" || name == "correct-archive" || name == "competitions") || // for the replay
			strings.Contains(err.Error(), "within the last second") // the directory pauses after an error of Redis
		if !waits && !r.gate.wasStruck() {
			w.failf("round %s fails: %v", name, err)
		}
		return
	}
	switch name {
	case "corrections", "correct":
		w.knowsCorrections(r, made)
	case "users":
		w.knowsErasures(r, begun)
	case "sets":
		w.model.oldSets, w.model.setsRenewed = false, w.clock.Now()
		if !r.gate.wasStruck() && !r.gate.crashed() {
			_ = w.round(ctx, r, "users") // both go on all the time, and each relies on the other
		}
	case "replay":
		r.server = w.servers
		// It may have been replayed already, and the answer was lost. Then what has come since
		// waits for the consumer.
		if w.queued && w.model.lossy {
			w.model.lossy = false
			if w.backlog() == 0 {
				w.model.applied(w.clock.Now())
			}
		}
	case "reconcile":
		if same() {
			for _, user := range people {
				w.model.shown[user], _ = w.model.counted(user)
			}
			w.showContests(w.contests...)
		}
	case "consumer":
		if w.backlog() == 0 {
			w.model.applied(w.clock.Now())
		}
	}
}

// knowsCorrections notes that a replica has read the first n corrections.
func (w *world) knowsCorrections(r *replica, n int) {
	for _, c := range w.model.corrections[:n] {
		w.model.knownBy[r.name+fmt.Sprint(c.ID)] = true
	}
}

func (w *world) streamKey() string { return keys.Builder{}.IngestStream() }

// undelivered returns the number of entries of the queue that no consumer has received yet.
func (w *world) undelivered() int {
	ctx := context.Background()
	from := "-"
	for _, g := range w.stream.XInfoGroups(ctx, w.streamKey()).Val() {
		from = "(" + g.LastDeliveredID
	}
	return len(w.stream.XRange(ctx, w.streamKey(), from, "+").Val())
}

// backlog returns the number of entries that are not acknowledged.
func (w *world) backlog() int {
	pending, err := w.stream.XPending(context.Background(), w.streamKey(), "boards").Result()
	if err != nil {
		return w.undelivered()
	}
	return w.undelivered() + int(pending.Count)
}

// pass moves the clock by seconds to minutes.
func (w *world) pass() { w.advance(time.Duration(1+w.random.IntN(200)) * time.Second) }

// night moves the clock by hours. Mostly the background work goes on meanwhile.
func (w *world) night() {
	w.advance(time.Duration(1+w.random.IntN(12)) * time.Hour)
	if w.random.IntN(4) > 0 {
		w.refresh()
	}
}

// refresh does the rounds of each replica that read what other processes have changed.
func (w *world) refresh() {
	for _, r := range w.replicas {
		for _, name := range []string{"finish", "boards", "users", "corrections", "sets", "replay"} {
			if r.app != nil {
				w.takeRound(r, name)
			}
		}
	}
	for _, r := range w.replicas {
		if r.app != nil && r.staleness > 0 {
			w.takeRound(r, "near cache") // it sees what the rounds of others have changed
		}
	}
}

// takeRound lets a replica do a round of its background work without a fault.
func (w *world) takeRound(r *replica, name string) {
	do := func(w *world, ctx context.Context, r *replica) { w.doRound(ctx, r, name) }
	w.take(r, action{name: name, quiet: true, do: do}, plan{})
}

// takeBroken lets a replica do a round of its background work with a fault, while days pass. No
// other replica takes steps meanwhile: it might send a webhook for the first time after 72 hours,
// and one that fails then is given up.
func (w *world) takeBroken(r *replica, name string) {
	a := action{name: name, quiet: true, do: func(w *world, ctx context.Context, r *replica) { w.doRound(ctx, r, name) }}
	w.take(r, a, w.brokenAlone(r, a))
}

// brokenAlone is broken, without steps of other replicas.
func (w *world) brokenAlone(r *replica, a action) plan {
	p := w.broken(r, a)
	for p.fault == interleave {
		p = w.broken(r, a)
	}
	return p
}

// restart stops a replica, which writes what it has accepted, and starts it again.
func (w *world) restart() {
	r := w.replicas[w.random.IntN(len(w.replicas))]
	w.stopReplica(r)
	w.startReplica(r)
}

// kill ends a replica at once.
func (w *world) kill() {
	r := w.replicas[w.random.IntN(len(w.replicas))]
	r.gate.kill()
	w.stopReplica(r)
	w.startReplica(r)
}

// forget empties the boards' Redis.
func (w *world) forget() {
	w.boards.FlushAll()
	w.newServer()
	w.model.forgotten()
}

// outage makes a store unreachable for some steps.
func (w *world) outage() {
	w.endOutage()
	store := w.anyStore()
	for _, r := range w.replicas {
		r.gate.away[store] = true
	}
	w.outageEnds = w.steps + 1 + w.random.IntN(5)
}

// partition makes a store unreachable for one replica.
func (w *world) partition() {
	w.endOutage()
	w.replicas[w.random.IntN(len(w.replicas))].gate.away[w.anyStore()] = true
	w.outageEnds = w.steps + 1 + w.random.IntN(8)
}

func (w *world) anyStore() string {
	if w.store == onFile {
		return sqlStore
	}
	store := []string{boardsStore, queueStore, sqlStore}[w.random.IntN(3)]
	w.note("%s", store)
	return store
}

func (w *world) endOutage() {
	for _, r := range w.replicas {
		clear(r.gate.away)
	}
}

// redeliver makes the queue deliver everything once more, as after the loss of its group.
func (w *world) redeliver() {
	w.stream.XGroupDestroy(context.Background(), w.streamKey(), "boards")
}

// misset makes the clock of a replica wrong, or right again.
func (w *world) misset() {
	r := w.replicas[w.random.IntN(len(w.replicas))]
	r.skew.Store(w.random.Int64N(int64(2*skewLimit)) - int64(skewLimit))
	if w.random.IntN(2) == 0 {
		r.skew.Store(0)
	}
}
