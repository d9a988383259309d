package crash_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// known is what must be shown of a score: at least what was acknowledged or seen, at most what was
// sent.
type known struct{ promised, sent int64 }

// folderModel knows what a process that serves a data folder may show, whenever the one before was
// killed. Its users report growing totals for a day and the day before.
type folderModel struct {
	t testing.TB

	mu sync.Mutex
	// days are the dates of the rounds so far, and scores the totals of each.
	days   []string
	scores map[string]map[models.UserID]*known
	// closed are the days of which nothing can be reported any more, as they were first shown
	// then, and archived those of them that were shown from the archive.
	closed   map[string][]models.RankedEntry
	archived map[string]bool
	// given are the sums of increments, and unanswered those that must be sent again.
	given      map[models.UserID]*known
	unanswered map[int][]string
	// erased are users whose erasure was acknowledged, by the round; of those who are leaving that
	// is not known.
	erased  map[models.UserID]int
	leaving map[models.UserID]bool
	// friends are the lists of which one must be hub's: the last one that was acknowledged, and
	// those that were not.
	friends [][]models.UserID
}

// hub is a user with friends.
const hub models.UserID = "hub"

func newFolderModel(t testing.TB) *folderModel {
	return &folderModel{
		t: t, scores: make(map[string]map[models.UserID]*known), closed: make(map[string][]models.RankedEntry),
		archived: make(map[string]bool), given: make(map[models.UserID]*known), unanswered: make(map[int][]string),
		erased: make(map[models.UserID]int), leaving: make(map[models.UserID]bool), friends: [][]models.UserID{nil},
	}
}

// begin begins a round on the next day. Nothing is sent meanwhile.
func (m *folderModel) begin(date string) {
	m.days = append(m.days, date)
	m.scores[date] = make(map[models.UserID]*known)
}

// open returns the days that take totals.
func (m *folderModel) open() []string { return m.days[max(0, len(m.days)-2):] }

// of returns what is known of a user in a map; it is new if there was nothing. m is locked.
func of(in map[models.UserID]*known, user models.UserID) *known {
	if in[user] == nil {
		in[user] = new(known)
	}
	return in[user]
}

// caller calls a process and decodes its answers.
type caller struct {
	t      testing.TB
	client *http.Client
	url    string
}

func newCaller(t testing.TB, url string) *caller {
	return &caller{t, &http.Client{Transport: &http.Transport{}}, url}
}

// call returns the status, 0 if no answer came. It decodes a good answer into out, if that is not nil.
func (c *caller) call(user models.UserID, scope, method, path, body string, out any) (status int) {
	status, text, err := harness.Request(c.t.Context(), c.client, harness.Token(c.t, user, scope), method, c.url+path, body)
	if err != nil {
		return 0
	}
	if out != nil && status < 300 {
		if err := json.Unmarshal([]byte(text), out); err != nil {
			c.t.Errorf("%s %s: %v: %s", method, path, err, text)
		}
	}
	if status >= 300 && status != http.StatusServiceUnavailable && status != http.StatusNotFound {
		c.t.Errorf("%s %s: %d %s", method, path, status, text)
	}
	return status
}

// get is call for a process that lives.
func (c *caller) get(user models.UserID, path string, out any) {
	c.t.Helper()
	if status := c.call(user, "", "GET", path, "", out); status != http.StatusOK {
		c.t.Fatalf("GET %s: status %d", path, status)
	}
}

// check compares what a process shows with the model, while nothing is sent to it. What was seen
// must stay.
func (m *folderModel) check(url string) {
	m.t.Helper()
	c := newCaller(m.t, url)
	defer c.client.CloseIdleConnections()
	for i, date := range m.days {
		r := m.top(c, "/v1/boards/steps/top?limit=200&date="+date)
		if i < len(m.days)-2 {
			m.checkClosed(date, r)
		} else {
			m.checkOpen(date, r, m.scores[date])
		}
	}
	m.checkOpen("gifts", m.top(c, "/v1/boards/gifts/top?limit=200"), m.given)
	m.checkRanks(c, m.days[len(m.days)-1])
}

// top returns a global list, whose lines must be in order, and without anybody who was erased.
func (m *folderModel) top(c *caller, path string) (r models.Ranking) {
	m.t.Helper()
	c.get(hub, path, &r)
	if r.Total != int64(len(r.Entries)) {
		m.t.Fatalf("%s: %d lines of %d", path, len(r.Entries), r.Total)
	}
	for i, e := range r.Entries {
		if e.Rank != int64(i+1) || (i > 0 && before(e, r.Entries[i-1])) {
			m.t.Errorf("%s: line %d is %+v", path, i+1, e)
		}
		if _, erased := m.erased[e.User]; erased {
			m.t.Errorf("%s: %s was erased, and is shown", path, e.User)
		}
	}
	return r
}

// before reports whether one line must be before another.
func before(a, b models.RankedEntry) bool {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ReachedAt, b.ReachedAt)) < 0
}

// checkOpen compares a list that may still change, in which lines of erased users are without names
// until they are removed.
func (m *folderModel) checkOpen(name string, r models.Ranking, want map[models.UserID]*known) {
	m.t.Helper()
	shown := make(map[models.UserID]int64)
	for _, e := range r.Entries {
		if e.User != "" {
			shown[e.User] = e.Score
		}
	}
	for user := range shown {
		if want[user] == nil {
			m.t.Errorf("%s shows %s, who has sent nothing", name, user)
		}
	}
	for user, k := range want {
		if _, erased := m.erased[user]; erased || m.leaving[user] {
			continue
		}
		if got := shown[user]; got < k.promised || got > k.sent {
			m.t.Errorf("%s shows %d of %s; %d was acknowledged or seen, and %d sent", name, got, user, k.promised, k.sent)
		} else {
			k.promised = got
		}
	}
}

// checkClosed compares a day with how it was first shown. An erased user's line has no name, and is
// not there if the erasure was before the archive.
func (m *folderModel) checkClosed(date string, r models.Ranking) {
	m.t.Helper()
	first, seen := m.closed[date]
	if !seen {
		m.checkOpen(date, r, m.scores[date])
		m.closed[date], m.archived[date] = r.Entries, r.Source == "archive"
		return
	}
	if m.archived[date] && r.Source != "archive" {
		m.t.Errorf("%s was archived, and comes from %s", date, r.Source)
	}
	rest := r.Entries
	for _, want := range first {
		_, erased := m.erased[want.User]
		gone := want.User == "" || erased || m.leaving[want.User]
		if len(rest) > 0 && rest[0].Score == want.Score && rest[0].ReachedAt == want.ReachedAt && (rest[0].User == want.User || (gone && rest[0].User == "")) {
			rest = rest[1:]
		} else if !gone || (m.archived[date] && want.User != "") {
			m.t.Errorf("%s lacks %+v; the next line is %+v", date, want, rest[:min(1, len(rest))])
			return
		}
	}
	if len(rest) > 0 {
		m.t.Errorf("%s shows more than before: %+v", date, rest)
	}
	m.closed[date], m.archived[date] = r.Entries, r.Source == "archive"
}

// checkRanks compares everybody's place and hub's friends with the list of everybody. An erasure may
// remove lines meanwhile; then it begins anew.
func (m *folderModel) checkRanks(c *caller, date string) {
	m.t.Helper()
	path := "/v1/boards/steps/top?limit=200&date=" + date
	for list := m.top(c, path); ; {
		wrong := m.wrongRanks(c, date, list)
		again := m.top(c, path)
		if slices.EqualFunc(list.Entries, again.Entries, func(a, b models.RankedEntry) bool { return a.User == b.User && a.Score == b.Score }) {
			for _, text := range wrong {
				m.t.Error(text)
			}
			return
		}
		list = again
	}
}

// wrongRanks says where ranks differ from a list of everybody.
func (m *folderModel) wrongRanks(c *caller, date string, list models.Ranking) (wrong []string) {
	var present []models.UserID
	for _, e := range list.Entries {
		if e.User == "" || m.leaving[e.User] {
			continue
		}
		present = append(present, e.User)
		var me struct {
			Rank  *int64 `json:"global_rank"`
			Total int64  `json:"global_total"`
			Score *int64 `json:"score"`
		}
		c.get(e.User, "/v1/boards/steps/me?date="+date, &me)
		if me.Rank == nil || *me.Rank != e.Rank || *me.Score != e.Score || me.Total != list.Total {
			wrong = append(wrong, fmt.Sprintf("%s is %+v among %d, and is told %+v", e.User, e, list.Total, me))
		}
	}
	var r models.Ranking
	c.get(hub, "/v1/boards/steps/friends?limit=200&date="+date, &r)
	var got []models.UserID
	for i, e := range r.Entries {
		if got = append(got, e.User); e.Rank != int64(i+1) {
			wrong = append(wrong, fmt.Sprintf("friend %d is %+v", i+1, e))
		}
	}
	for _, friends := range m.friends {
		want := slices.DeleteFunc(slices.Clone(present), func(user models.UserID) bool { return user != hub && !slices.Contains(friends, user) })
		if slices.Equal(got, want) {
			return wrong
		}
	}
	return append(wrong, fmt.Sprintf("hub's friends are ranked %q; the lists may be %q, and everybody is %q", got, m.friends, present))
}

// load is users of a process that call it until they get no answer.
type load struct {
	*caller
	model   *folderModel
	round   int
	workers sync.WaitGroup
	// answers counts good answers.
	answers atomic.Int64
}

// startLoad starts the users.
func startLoad(m *folderModel, url string) *load {
	l := &load{caller: newCaller(m.t, url), model: m, round: len(m.days)}
	for worker := range 4 {
		l.workers.Go(func() { l.upload(worker) })
	}
	for worker := range 2 {
		l.workers.Go(func() { l.give(worker) })
	}
	for _, work := range []func(){l.uploadBatches, l.befriend, l.eraseSome} {
		l.workers.Go(work)
	}
	return l
}

// end waits until the users have noticed that the process has ended.
func (l *load) end() {
	testenv.Wait(l.t, "the workers end", &l.workers)
	l.client.CloseIdleConnections()
}

// ok makes a call of the load. It reports whether the answer was good, and whether to go on.
func (l *load) ok(user models.UserID, scope, method, path, body string, out any) (good, more bool) {
	status := l.call(user, scope, method, path, body, out)
	if good = status > 0 && status < 300; good {
		l.answers.Add(1)
	}
	<-time.After(harness.Pace)
	return good, status != 0
}

// send reports the next total of users for a day, by calling do with these.
func (l *load) send(date string, users []models.UserID, do func(totals []int64) (good, more bool)) (more bool) {
	totals := make([]int64, len(users))
	l.model.mu.Lock()
	for i, user := range users {
		k := of(l.model.scores[date], user)
		k.sent++
		totals[i] = k.sent
	}
	l.model.mu.Unlock()
	good, more := do(totals)
	l.model.mu.Lock()
	defer l.model.mu.Unlock()
	for i, user := range users {
		if good {
			l.model.scores[date][user].promised = totals[i]
		}
	}
	return more
}

// uploadOne uploads the next total of a user for a day.
func (l *load) uploadOne(date string, user models.UserID) (more bool) {
	return l.send(date, []models.UserID{user}, func(totals []int64) (good, more bool) {
		return l.ok(user, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, date, totals[0]), nil)
	})
}

// upload uploads totals of three users, one of whom is hub's friend.
func (l *load) upload(worker int) {
	for n := 0; ; n++ {
		days, user := l.model.open(), models.UserID(fmt.Sprintf("u%d-%d", worker, n%3))
		if worker == 0 && n%3 == 0 {
			user = hub
		}
		if !l.uploadOne(days[n%len(days)], user) {
			return
		}
	}
}

// uploadBatches uploads totals of 100 users at a time, which are stored as a batch.
func (l *load) uploadBatches() {
	users := make([]models.UserID, 100)
	for i := range users {
		users[i] = models.UserID(fmt.Sprintf("b%d", i))
	}
	for n := 0; ; n++ {
		days := l.model.open()
		date := days[n%len(days)]
		more := l.send(date, users, func(totals []int64) (good, more bool) {
			var body []map[string]any
			for i, user := range users {
				body = append(body, map[string]any{"user_id": user, "date": date, "score": totals[i]})
			}
			var answer struct{ Accepted int }
			good, more = l.ok("ops", auth.ScopeService, "POST", "/v1/boards/steps/scores/batch",
				string(testenv.Must(json.Marshal(map[string]any{"scores": body}))), &answer)
			if good && answer.Accepted != len(users) {
				l.t.Errorf("%d of a batch were accepted", answer.Accepted)
			}
			return good, more
		})
		if !more {
			return
		}
	}
}

// give sends increments of three users, and again with the same ids until they are answered.
func (l *load) give(worker int) {
	for n := 0; ; n++ {
		l.model.mu.Lock()
		items := l.model.unanswered[worker]
		if items == nil {
			for i := range 3 {
				of(l.model.given, l.receiver(worker, i)).sent += int64(i + 1)
				items = append(items, fmt.Sprintf(`{"user_id":%q,"delta":%d,"event_id":"w%d-%d-%d-%d"}`, l.receiver(worker, i), i+1, worker, l.round, n, i))
			}
			l.model.unanswered[worker] = items
		}
		l.model.mu.Unlock()
		var answer harness.IncrementResults
		good, more := l.ok("ops", auth.ScopeService, "POST", "/v1/boards/gifts/increments", harness.IncrementsJSON(items...), &answer)
		if good {
			l.model.mu.Lock()
			for i, r := range answer.Results {
				k := l.model.given[l.receiver(worker, i)]
				if k.promised = k.sent; r.Status == "rejected" || *r.Score != k.sent {
					l.t.Errorf("the sum of %s is %d, and the answer %+v", l.receiver(worker, i), k.sent, r)
				}
			}
			delete(l.model.unanswered, worker)
			l.model.mu.Unlock()
		}
		if !more {
			return
		}
	}
}

func (l *load) receiver(worker, i int) models.UserID {
	return models.UserID(fmt.Sprintf("g%d-%d", worker, i))
}

// befriend replaces hub's friends again and again.
func (l *load) befriend() {
	for n := 0; ; n++ {
		list := []models.UserID{models.UserID(fmt.Sprintf("u%d-%d", n%4, 1+n%2)), models.UserID(fmt.Sprintf("b%d", n%20))}
		l.model.mu.Lock()
		l.model.friends = append(l.model.friends, list)
		l.model.mu.Unlock()
		good, more := l.ok("ops", auth.ScopeService, "PUT", "/v1/users/hub/friends", string(testenv.Must(json.Marshal(map[string]any{"friend_ids": list}))), nil)
		if good {
			l.model.mu.Lock()
			l.model.friends = [][]models.UserID{list}
			l.model.mu.Unlock()
		}
		if !more {
			return
		}
	}
}

// eraseSome creates four users with everything that an erasure must remove, and then erases who was
// leaving, one of these, and one who is in the archive, if there is one.
func (l *load) eraseSome() {
	m, days := l.model, l.model.open()
	today := days[len(days)-1]
	m.mu.Lock()
	leaving := slices.Collect(maps.Keys(m.leaving))
	m.mu.Unlock()
	for i := range 4 {
		user := visitor(l.round, i)
		if !l.uploadOne(today, user) {
			return
		}
		m.mu.Lock()
		of(m.given, user).sent = 7
		m.mu.Unlock()
		for _, call := range []struct{ method, path, body string }{
			{"POST", "/v1/friends/requests", `{"user_id":"b0"}`},
			{"POST", "/v1/groups", `{"name":"walkers"}`},
			{"PUT", "/v1/me", `{"nickname":"Visitor"}`},
		} {
			if _, more := l.ok(user, "", call.method, call.path, call.body, nil); !more {
				return
			}
		}
		good, more := l.ok("ops", auth.ScopeService, "POST", "/v1/boards/gifts/increments", fmt.Sprintf(`{"user_id":%q,"delta":7,"event_id":%q}`, user, user), nil)
		if good {
			m.mu.Lock()
			m.given[user].promised = 7
			m.mu.Unlock()
		}
		if more {
			_, more = l.ok("b0", "", "POST", fmt.Sprintf("/v1/friends/requests/%s/accept", user), "", nil)
		}
		if !more {
			return
		}
	}
	for _, user := range append(append(leaving, visitor(l.round, 0)), m.archivedVisitors()...) {
		if !l.erase(user) {
			return
		}
	}
}

// archivedVisitors returns a visitor whose day was archived and who was not erased, if there is one.
func (m *folderModel) archivedVisitors() []models.UserID {
	m.mu.Lock()
	defer m.mu.Unlock()
	for round := 1; round <= len(m.days)-4; round++ {
		for i := 1; i < 4; i++ {
			user := visitor(round, i)
			_, erased := m.erased[user]
			if k := m.scores[m.days[round-1]][user]; k != nil && k.promised > 0 && !erased && !m.leaving[user] {
				return []models.UserID{user}
			}
		}
	}
	return nil
}

// visitor returns the id of a user who was created in a round.
func visitor(round, i int) models.UserID { return models.UserID(fmt.Sprintf("v%d-%d", round, i)) }

// erase erases a user until that is acknowledged.
func (l *load) erase(user models.UserID) (more bool) {
	l.model.mu.Lock()
	l.model.leaving[user] = true
	l.model.mu.Unlock()
	var status int
	testenv.Eventually(l.t, fmt.Sprintf("the erasure of %s is answered", user), func() bool {
		status = l.call(user, "", "DELETE", "/v1/me", `{"confirm":"erase"}`, nil)
		return status != http.StatusServiceUnavailable
	})
	if status == http.StatusAccepted || status == http.StatusNotFound {
		l.model.mu.Lock()
		l.model.erased[user] = l.round
		delete(l.model.leaving, user)
		l.model.mu.Unlock()
	}
	return status != 0
}
