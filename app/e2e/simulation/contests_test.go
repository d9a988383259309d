package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// The contests are events that take increments late and whose ends move. In the model each stands
// among the days, before all of them.
const (
	sales models.Date = -1 // takes the sum
	quiz  models.Date = -2 // takes the best
)

// ahead is how far ahead of a process's clock an increment may have occurred.
const ahead = 30 * time.Second

// contest is an event that takes increments late.
type contest struct {
	name  string
	day   models.Date
	takes models.Takes
	start time.Time
	late  time.Duration
	// states are those that it has had, the present one last. The first one is that of the settings.
	states []contestState
	// asked are the ends that operators have asked for.
	asked []time.Time
	// items are those that were sent, in their order; counted are those that the database has, by id.
	items   []*item
	counted map[string]models.ScoreEvent
}

// contestState is what changes of a contest.
type contestState struct {
	ends, closes time.Time
	final        bool
}

// item is an increment or a result, as it was sent.
type item struct {
	id     string
	user   models.UserID
	amount int64
	// occurred is nil for an item that does not say when it occurred.
	occurred *models.Timestamp
	accepted models.Timestamp
	// since is the position of the contest's state when it was sent.
	since int
}

// newContests returns the contests of a run.
func (w *world) newContests() []*contest {
	start := w.clock.Now().Add(-time.Minute).Truncate(time.Minute)
	contests := []*contest{
		{name: "sales", day: sales, takes: models.TakesSum},
		{name: "quiz", day: quiz, takes: models.TakesBest},
	}
	for _, c := range contests {
		c.start, c.late = start, []time.Duration{5 * time.Second, 20 * time.Second, 2 * time.Minute, 3 * time.Hour}[w.contesting.IntN(4)]
		end := start.Add([]time.Duration{3 * time.Minute, 30 * time.Minute, 12 * time.Hour, 40 * time.Hour}[w.contesting.IntN(4)])
		c.states = []contestState{{end, end.Add(c.late), false}}
		c.counted = make(map[string]models.ScoreEvent)
	}
	return contests
}

// setting returns the settings of a contest, which never hear that its end has moved.
func (c *contest) setting(w *world) config.Board {
	return config.Board{
		Name: c.name, Kind: "event", TimeZone: "UTC", MaxScore: 1_000_000, Shards: w.shards, Global: "users",
		Start: c.start, End: c.states[0].ends, Takes: string(c.takes), Late: c.late, ChangeStream: w.near && c.takes == models.TakesBest,
	}
}

func (c *contest) now() contestState { return c.states[len(c.states)-1] }

// contestOf returns the contest that stands for a day; nil if none does.
func (w *world) contestOf(day models.Date) *contest {
	i := slices.IndexFunc(w.contests, func(c *contest) bool { return c.day == day })
	if i < 0 {
		return nil
	}
	return w.contests[i]
}

// path returns the path of a ranking of board steps on a day, or of a contest, and its first
// parameters.
func (w *world) path(day models.Date, ranking string) string {
	if c := w.contestOf(day); c != nil {
		return "/v1/boards/" + c.name + "/" + ranking + "?"
	}
	return "/v1/boards/steps/" + ranking + "?date=" + day.String()
}

// named returns the day, or the name of the contest that stands for it.
func (w *world) named(day models.Date) string {
	if c := w.contestOf(day); c != nil {
		return c.name
	}
	return day.String()
}

// lastEnd returns when the last event takes its last increments.
func (w *world) lastEnd() time.Time {
	last := w.model.eventEnd
	for _, c := range w.contests {
		if c.now().closes.After(last) {
			last = c.now().closes
		}
	}
	return last
}

// refusal returns the code with which a contest in a state refuses an item, by the definition; "" if
// it takes it.
func (c *contest) refusal(i *item, s contestState) models.Code {
	accepted, until := i.accepted.Time(), s.ends
	if i.occurred != nil {
		until = s.closes
	}
	if s.final || accepted.Before(c.start) || !accepted.Before(until) {
		return models.CodeEventNotOpen
	}
	if i.occurred == nil {
		return ""
	}
	occurred := i.occurred.Time()
	if occurred.Before(c.start) || !occurred.Before(s.ends) || occurred.Before(accepted.Add(-c.late)) || occurred.After(accepted.Add(ahead)) {
		return models.CodeOccurredAtInvalid
	}
	return ""
}

// refusals returns the codes with which a contest may have refused an item that was just sent; "" is
// among them if it may have taken it.
func (c *contest) refusals(i *item) (codes []models.Code) {
	for _, s := range c.states[i.since:] {
		codes = append(codes, c.refusal(i, s))
	}
	return codes
}

// at returns when an item has reached its score.
func (i *item) at() models.Timestamp {
	if i.occurred != nil {
		return *i.occurred
	}
	return i.accepted
}

// sentAs returns what was sent of which a row is made; nil if nothing was.
func (w *world) sentAs(c *contest, row models.ScoreEvent) *item {
	at := slices.IndexFunc(c.items, func(i *item) bool {
		return i.id == row.EventID && i.amount == row.Delta && i.accepted == models.TimestampOf(row.AcceptedAt) && w.everWas(i.user, row.User)
	})
	if at < 0 {
		return nil
	}
	return c.items[at]
}

// everWas reports whether a row is that of a user, or was until an erasure.
func (w *world) everWas(user models.UserID, row models.RowID) bool {
	return w.row(user) == row || slices.ContainsFunc(w.model.erasures, func(e *erasure) bool { return e.user == user && e.row == row })
}

// defined returns the score that the counted items of a user make up, by the definition: their sum and
// the time of the latest above 0, or of the earliest if all are 0; or the best and the earliest that
// brought it.
func (w *world) defined(c *contest, user models.UserID) (score *value) {
	row := w.row(user)
	var own []*item
	for _, counted := range c.counted {
		if counted.User == row && row != 0 {
			own = append(own, w.sentAs(c, counted))
		}
	}
	if len(own) == 0 {
		return nil
	}
	slices.SortFunc(own, func(a, b *item) int { return int(a.at() - b.at()) })
	v := value{own[0].amount, own[0].at()}
	for _, i := range own[1:] {
		switch {
		case c.takes == models.TakesBest && i.amount > v.score:
			v = value{i.amount, i.at()}
		case c.takes == models.TakesSum && i.amount > 0:
			v = value{v.score + i.amount, i.at()}
		}
	}
	return &v
}

// lookAtContests reads what the database has of the contests, and compares it with what was sent.
func (w *world) lookAtContests() {
	for _, c := range w.contests {
		w.lookAtCounted(c)
		w.lookAtTotals(c)
		w.lookAtState(c)
	}
}

// lookAtCounted reads the items that are counted. Once a contest is final, none is added.
func (w *world) lookAtCounted(c *contest) {
	var found []models.ScoreEvent
	check(w.truth.Gorm.Where("board = ?", c.name).Order("event_id").Find(&found).Error)
	counted := make(map[string]models.ScoreEvent, len(found))
	for _, row := range found {
		counted[row.EventID] = row
		before, known := c.counted[row.EventID]
		switch {
		case !known && c.now().final:
			w.failf("%s of %s is counted after the event has become final", row.EventID, c.name)
		case known && row.User == before.User && row.Delta == before.Delta && row.AcceptedAt.Equal(before.AcceptedAt):
		case row.User == 0 && (!known || w.userOf(before.User) == ""): // of an erased user
		case known:
			w.failf("%s of %s has changed from %v to %v", row.EventID, c.name, before, row)
		default:
			sent := w.sentAs(c, row)
			if sent == nil {
				w.failf("%v of %s is counted, which nobody has sent", row, c.name)
			}
			if !slices.Contains(c.refusals(sent), "") {
				w.failf("%s of %s is counted, which it must refuse as %s", row.EventID, c.name, c.refusal(sent, c.now()))
			}
		}
	}
	for _, id := range sortedKeys(c.counted) {
		if _, still := counted[id]; !still {
			w.failf("%s of %s is no longer counted", id, c.name)
		}
	}
	c.counted = counted
}

// lookAtTotals compares the running totals with the definition, and notes them as values that a board
// may show.
func (w *world) lookAtTotals(c *contest) {
	var found []models.ScoreTotal
	check(w.truth.Gorm.Where("board = ?", c.name).Find(&found).Error)
	for _, user := range people {
		var stored *value
		for _, total := range found {
			if total.User == w.row(user) {
				stored = &value{total.Score, models.TimestampOf(total.ReachedAt)}
			}
		}
		want := w.defined(c, user)
		if !equal(stored, want) {
			w.failf("%s has %v in %s, and the items make it %v", user, stored, c.name, want)
		}
		if cell := w.model.cell(user, c.day); want != nil && !slices.Contains(cell.sent, *want) {
			cell.sent = append(cell.sent, *want)
		}
	}
}

// lookAtState reads when a contest ends and whether it is final. The end only moves to a later time
// that was asked for, and not once the contest is final.
func (w *world) lookAtState(c *contest) {
	was, now := c.now(), c.now()
	var bucket models.Bucket
	err := w.truth.Gorm.Take(&bucket, "board = ? AND bucket = 'event'", c.name).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		var def models.Board
		if err = w.truth.Gorm.Take(&def, "name = ?", c.name).Error; err == nil {
			now.ends, now.closes = *def.EndsAt, def.EndsAt.Add(c.late)
		} else if errors.Is(err, gorm.ErrRecordNotFound) {
			err = nil // no process has begun
		}
	} else if err == nil {
		now = contestState{bucket.EndsAt, bucket.ClosesAt, bucket.FinalAt != nil}
	}
	check(err)
	same := now.ends.Equal(was.ends)
	switch {
	case !now.closes.Equal(now.ends.Add(c.late)):
		w.failf("%s ends at %v and closes at %v", c.name, now.ends, now.closes)
	case now.ends.Before(was.ends), !same && !slices.ContainsFunc(c.asked, now.ends.Equal):
		w.failf("the end of %s moves from %v to %v, which nobody has asked for", c.name, was.ends, now.ends)
	case was.final && (!same || !now.final):
		w.failf("%s was final and changes: %v", c.name, now)
	case now.final && bucket.FinalAt.Before(now.closes):
		w.failf("%s is final at %v, before it closes at %v", c.name, bucket.FinalAt, now.closes)
	}
	if !same || now.final != was.final {
		c.states = append(c.states, now)
	}
}

// showContests notes that the boards have all that is counted of the contests, or of one.
func (w *world) showContests(contests ...*contest) {
	w.lookAtContests()
	for _, c := range contests {
		for _, user := range people {
			if v := w.defined(c, user); v != nil {
				w.model.cell(user, c.day).raise(*v, w.clock.Now())
			}
		}
	}
}

// isFinal reports whether the database says that an event is final.
func (w *world) isFinal(board string) bool {
	var final int64
	check(w.truth.Gorm.Model(&models.Bucket{}).Where("board = ? AND bucket = 'event' AND final_at IS NOT NULL", board).Count(&final).Error)
	return final > 0
}

// contend takes steps about the contests, or none.
func (w *world) contend() {
	others := w.random
	w.random = w.contesting
	defer func() { w.random = others }()
	if w.random.IntN(2) > 0 {
		return
	}
	if c := w.someContest(); w.random.IntN(3) == 0 && w.closing(c) {
		return
	}
	for range 1 + w.random.IntN(3) {
		r := w.replicas[w.random.IntN(len(w.replicas))]
		if r.app == nil || w.failure != nil {
			continue
		}
		a, p := w.contestAction(w.someContest()), plan{}
		switch w.random.IntN(6) {
		case 0:
			p = w.broken(r, a)
		case 1, 2:
			if w.store == onServers {
				p = plan{fault: interleave, at: 1 + w.random.IntN(max(6, w.operations[a.name]))}
				p.act = func() { w.within(r) }
			}
		}
		w.take(r, a, p)
	}
}

// someContest returns a contest, more often one that is not final.
func (w *world) someContest() *contest {
	c := w.contests[w.random.IntN(len(w.contests))]
	if c.now().final {
		c = w.contests[w.random.IntN(len(w.contests))]
	}
	return c
}

// closing lets operators move the end of a contest, if it has ended, so that it closes now. Replicas whose
// clocks are wrong make it final and send items meanwhile. It reports whether it has done so.
func (w *world) closing(c *contest) bool {
	r := w.replicas[w.random.IntN(len(w.replicas))]
	end := w.clock.Now().Add(time.Duration(w.random.IntN(2000))*time.Millisecond - c.late)
	if s := c.now(); s.final || end.Before(s.ends) || r.app == nil {
		return false
	}
	w.take(r, action{"move the end", 1, true, func(w *world, ctx context.Context, r *replica) { w.moveEndTo(ctx, r, c, end, false) }}, plan{})
	for range 2 + w.random.IntN(4) {
		r := w.replicas[w.random.IntN(len(w.replicas))]
		if r.app == nil || w.failure != nil {
			continue
		}
		skew := r.skew.Load()
		r.skew.Store(w.random.Int64N(int64(2*skewLimit)) - int64(skewLimit))
		a := action{"finish", 0, true, (*world).finishContests}
		if w.random.IntN(2) == 0 {
			a = action{"take part", 1, true, func(w *world, ctx context.Context, r *replica) { w.takePart(ctx, r, c) }}
		}
		w.take(r, a, plan{})
		r.skew.Store(skew)
	}
	return true
}

// contestAction returns what a replica does next about a contest.
func (w *world) contestAction(c *contest) action {
	of := func(name string, do func(*world, context.Context, *replica, *contest)) action {
		return action{name, 1, true, func(w *world, ctx context.Context, r *replica) { do(w, ctx, r, c) }}
	}
	switch w.random.IntN(12) {
	case 0, 1, 2, 3, 4:
		return of("take part", (*world).takePart)
	case 5, 6, 7, 8:
		return of("rank a contest", (*world).rankContest)
	case 9, 10:
		return of("move the end", (*world).moveEnd)
	default:
		return action{"finish", 0, true, (*world).finishContests}
	}
}

// within takes a step of another replica in the middle of one of r: it moves an end, or makes
// contests final that have closed.
func (w *world) within(r *replica) {
	defer func() {
		if found := recover(); found != nil {
			w.failure = fmt.Errorf("%v", found)
		}
	}()
	other := w.replicas[w.random.IntN(len(w.replicas))]
	if !w.inside(r, other) || w.failure != nil {
		return
	}
	w.inner++
	a := action{"finish", 0, true, (*world).finishContests}
	if c := w.contests[w.random.IntN(len(w.contests))]; w.random.IntN(2) == 0 {
		a = action{"move the end", 1, true, func(w *world, ctx context.Context, r *replica) { w.moveEnd(ctx, r, c) }}
	}
	w.take(other, a, plan{})
}

// finishContests makes those events final that have closed by a replica's clock.
func (w *world) finishContests(ctx context.Context, r *replica) {
	same := w.undisturbed()
	w.doRound(ctx, r, "finish")
	w.lookAtContests()
	if r.gate.wasStruck() || r.gate.crashed() || !same() {
		return
	}
	for _, c := range w.contests {
		if s := c.now(); len(c.counted) > 0 && !s.final && !w.now(r).Before(s.closes) {
			w.failf("%s has closed at %v and is not final", c.name, s.closes)
		}
	}
}

// moveEnd makes an operator move the end of a contest, or try to.
func (w *world) moveEnd(ctx context.Context, r *replica, c *contest) {
	after := []time.Duration{10 * time.Second, 40 * time.Second, 3 * time.Minute, 15 * time.Minute, 2 * time.Hour, 200 * 24 * time.Hour}
	from := w.clock.Now()
	if w.random.IntN(2) == 0 {
		from = c.now().ends
	}
	w.moveEndTo(ctx, r, c, from.Add(after[w.random.IntN(len(after))]), w.random.IntN(6) == 0)
}

// moveEndTo makes an operator try to move the end of a contest to a moment, or ask what that would do.
func (w *world) moveEndTo(ctx context.Context, r *replica, c *contest, moment time.Time, dry bool) {
	same, before := w.undisturbed(), len(c.states)-1
	end, path := models.TimestampOf(moment), "/v1/admin/boards/"+c.name
	if dry {
		path += "?dry_run=true"
	} else {
		c.asked = append(c.asked, end.Time())
	}
	got := w.call(ctx, r, w.token("operator", auth.ScopeAdmin), "PUT", path, fmt.Sprintf(`{"end":%q}`, end.Time().Format(time.RFC3339Nano)))
	w.lookAtContests()
	if got.unknown() {
		return
	}
	code := decode[struct{ Code models.Code }](w, got.body).Code
	var possible []models.Code
	for _, s := range c.states[before:] {
		switch {
		case end.Time().Before(s.ends), end.Time().After(c.start.Add(1<<33*time.Millisecond)) && !s.final:
			possible = append(possible, models.CodeValidationFailed)
		case s.final:
			possible = append(possible, models.CodeEventFinal)
		default:
			possible = append(possible, "")
		}
	}
	if !slices.Contains(possible, code) || (code == "") != (got.status == http.StatusOK) {
		w.failf("status %d, %q, and it may be %q", got.status, code, possible)
	}
	if moved := c.now().ends.Equal(end.Time()); code == "" && !dry && !moved && same() {
		w.failf("%s still ends at %v", c.name, c.now().ends)
	}
}

// newItem returns an item of a contest: of a new id, or of one that was sent before.
func (w *world) newItem(c *contest, now models.Timestamp) *item {
	i := &item{id: fmt.Sprintf("%s-%d", c.name, len(c.items)), user: w.person(), amount: int64(w.random.IntN(8))}
	switch w.random.IntN(3) {
	case 0: // now
	default:
		ago := []time.Duration{
			c.late, c.late, c.late, c.late + time.Millisecond, -2 * ahead, -ahead / 2, 0, time.Second, 5 * time.Second, 30 * time.Second,
			time.Minute, time.Hour, 4 * time.Hour,
		}
		chosen := ago[w.random.IntN(len(ago))]
		if left := c.now().closes.Sub(now.Time()); left > 0 && left < 2*skewLimit && w.random.IntN(4) > 0 {
			chosen = c.late // nothing that occurred later counts any more
		}
		at := now - models.Timestamp(chosen.Milliseconds())
		i.occurred = &at
	}
	if len(c.items) == 0 || w.random.IntN(4) > 0 {
		return i
	}
	// Of items of an id that were accepted at the same time, nobody could say which one is counted.
	again := *c.items[w.random.IntN(len(c.items))]
	recent := slices.ContainsFunc(c.items, func(other *item) bool { return other.id == again.id && other.accepted == now })
	switch kind := w.random.IntN(6); {
	case recent || kind < 3:
	case kind == 3:
		again.occurred = i.occurred
	case kind == 4:
		again.amount = i.amount
	default:
		again.user = i.user
	}
	if recent {
		return i
	}
	return &again
}

// takePart sends items of a contest.
func (w *world) takePart(ctx context.Context, r *replica, c *contest) {
	now := models.TimestampOf(w.now(r))
	w.lookAtContests()
	before := maps.Clone(c.counted)
	var items []*item
	var users []models.UserID
	for range 1 + w.random.IntN(3) {
		i := w.newItem(c, now)
		i.accepted, i.since = now, len(c.states)-1
		c.items, items, users = append(c.items, i), append(items, i), append(users, i.user)
	}
	single := len(items) == 1 && w.random.IntN(2) == 0
	same, late := w.undisturbed(), w.late(r, users...)
	got := w.call(ctx, r, w.token("backend", auth.ScopeService), "POST", c.callFor(single), c.body(items, single))
	w.lookAtContests()
	if got.unknown() {
		return
	}
	results, me := w.resultsOf(got, items, single)
	for n, i := range items {
		result := results[n]
		if _, counted := c.counted[i.id]; result.Status != "rejected" && !counted {
			w.failf("%s is %s and is not counted", i.id, result.Status)
		}
		if late {
			continue
		}
		status, possible := "applied", c.refusals(i)
		if known, ok := before[i.id]; ok {
			status, possible = "duplicate", []models.Code{""}
			if known.User == 0 || known.User != w.row(i.user) || known.Delta != i.amount {
				possible = []models.Code{models.CodeEventIDConflict}
			}
		}
		if !slices.Contains(possible, result.Code) || result.Code == "" && result.Status != status {
			w.failf("%s is %s %q, and it may be %s, or refused as %q", i.id, result.Status, result.Code, status, possible)
		}
		if result.Status == "rejected" {
			continue
		}
		before[i.id] = c.counted[i.id]
		w.checkResult(r, c, items[n:], results[n:], same())
	}
	if want := w.defined(c, items[0].user); me != nil && !late && same() && !r.gate.wasStruck() && !equal(me, want) {
		w.failf("the answer shows %v as the place, and %s has %v", me, items[0].user, want)
	}
}

// callFor returns the path of the call that sends items.
func (c *contest) callFor(single bool) string {
	path := "/v1/boards/" + c.name + "/increments"
	if single {
		path += "?include=me"
	}
	return path
}

// body returns the body that sends items.
func (c *contest) body(items []*item, single bool) string {
	amount := "delta"
	if c.takes == models.TakesBest {
		amount = "score"
	}
	list := make([]map[string]any, len(items))
	for n, i := range items {
		list[n] = map[string]any{"user_id": i.user, amount: i.amount, "event_id": i.id}
		if i.occurred != nil {
			list[n]["occurred_at"] = i.occurred
		}
	}
	if single {
		return string(must(json.Marshal(list[0])))
	}
	return string(must(json.Marshal(map[string]any{"increments": list})))
}

// itemResult is what an answer says of an item.
type itemResult struct {
	line
	Status string      `json:"status"`
	Code   models.Code `json:"code"`
}

// resultsOf returns what an answer says of the items, and the place of the user of a single one.
func (w *world) resultsOf(got reply, items []*item, single bool) ([]itemResult, *value) {
	if single && got.status != http.StatusOK {
		return []itemResult{{Status: "rejected", Code: decode[struct{ Code models.Code }](w, got.body).Code}}, nil
	}
	answer := decode[struct {
		Results []itemResult `json:"results"`
		Me      *line        `json:"me"`
	}](w, got.body)
	if got.status != http.StatusOK || len(answer.Results) != len(items) {
		w.failf("items are refused")
	}
	if answer.Me == nil || answer.Results[0].Status != "applied" {
		return answer.Results, nil
	}
	return answer.Results, answer.Me.value()
}

// checkResult compares the result of the first of some items with the model, and notes that its score
// is on the board. A result has the score after it, and the time of all items of its user in the call.
func (w *world) checkResult(r *replica, c *contest, items []*item, results []itemResult, same bool) {
	i, got, row := items[0], results[0].value(), c.counted[items[0].id]
	want := w.defined(c, i.user)
	if results[0].Status == "duplicate" {
		if stored := (value{row.Score, models.TimestampOf(row.ReachedAt)}); !equal(got, &stored) && w.row(i.user) == row.User {
			w.failf("%s is a duplicate with %v, and was counted with %v", i.id, got, &stored)
		}
	} else if same {
		after := *want
		for n, later := range items[1:] {
			if c.takes == models.TakesSum && later.user == i.user && results[n+1].Status == "applied" {
				after.score -= later.amount
			}
		}
		if !equal(got, &after) {
			w.failf("%s has led to %v, and the answer says %v", i.id, &after, got)
		}
	}
	if !r.gate.wasStruck() && c.refusal(i, c.now()) == "" {
		w.model.cell(i.user, c.day).raise(*want, w.clock.Now())
	}
}

// rankContest compares a ranking of a contest with the model.
func (w *world) rankContest(ctx context.Context, r *replica, c *contest) {
	viewer := w.person()
	switch w.random.IntN(6) {
	case 0, 1:
		w.rankContestIn(ctx, r, c, viewer, "friends", "", false)
	case 2:
		w.rankContestIn(ctx, r, c, viewer, "top", "", false)
	case 3:
		w.rankAround(ctx, r, viewer, c.day, false)
	case 4:
		w.readMe(ctx, r, viewer, c.day, false)
	default:
		if group := w.group(); w.model.facts["member "+group+" "+string(viewer)] {
			w.rankContestIn(ctx, r, c, viewer, "groups/"+w.groupIDs[group], group, false)
		}
	}
}

// rankContestIn compares a list with the model. If it says that it is final, it has exactly what is
// counted, but for items that a process that met a fault has not brought to the board.
func (w *world) rankContestIn(ctx context.Context, r *replica, c *contest, viewer models.UserID, list, group string, exact bool) {
	same := w.undisturbed()
	got, ok := w.list(ctx, r, viewer, w.path(c.day, list), w.pageSize(r))
	w.lookAtContests()
	if !ok || !same() {
		return
	}
	if got.Final {
		if !c.now().final {
			w.failf("%s is shown as final, and is not", c.name)
		}
		for _, user := range people {
			if v := w.defined(c, user); v != nil {
				w.model.cell(user, c.day).raise(*v, w.clock.Now())
			}
		}
	}
	if list == "top" {
		w.checkTop(r, viewer, c.day, got, exact)
	} else {
		w.checkCircle(r, viewer, group, c.day, got, exact || got.Final)
	}
}

// compareContests compares all answers about the contests with the model.
func (w *world) compareContests(ctx context.Context, r *replica) {
	others := w.random
	w.random = w.contesting
	defer func() { w.random = others }()
	for _, c := range w.contests {
		one := w.person()
		w.rankContestIn(ctx, r, c, one, "top", "", true)
		w.rankAround(ctx, r, one, c.day, true)
		for _, user := range people {
			w.readMe(ctx, r, user, c.day, true)
			w.rankContestIn(ctx, r, c, user, "friends", "", true)
		}
		for _, name := range sortedKeys(w.model.facts) {
			if words := strings.Fields(name); words[0] == "member" {
				w.rankContestIn(ctx, r, c, models.UserID(words[2]), "groups/"+w.groupIDs[words[1]], words[1], true)
			}
		}
	}
}
