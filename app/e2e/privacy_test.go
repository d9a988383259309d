package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/codes"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/people/friends"
	"stepboard/services/platform/auth"
	"stepboard/services/rankings/stream"
)

// populations are two services with the same people, scores and friendships. In one of
// them people hide, mute and block. What a viewer is answered there is compared with the
// answer of the other, in which those who are not shown to the viewer are no friends.
type populations struct {
	t      testing.TB
	random *rand.Rand
	chosen *server // where people make choices
	plain  *server
	people []models.UserID
	tokens map[models.UserID]string
	day    models.Date // an archived day

	friends map[pair]bool // in both directions
	hidden  map[models.UserID]bool
	choices map[string]map[pair]bool // by path, from who has chosen

	groups  map[*server]string // invitations of a group
	renewed []string           // invitations that people who were blocked since may know
	windows int                // how many private windows were opened
}

type pair struct{ from, to models.UserID }

var choicePaths = []string{"hidden-from", "muted", "blocked"}

// newPopulations creates people with scores on an archived day and today. Some
// are friends since the archived day, and some since so late that it does not show them.
func newPopulations(t testing.TB, random *rand.Rand, settings ...func(*config.Config)) *populations {
	settings = append(settings, func(c *config.Config) { c.SignIn.Join = "invited" })
	p := &populations{
		t: t, random: random, chosen: newServer(t, testenv.Local(t), settings...), plain: newServer(t, testenv.Local(t), settings...),
		people: []models.UserID{"ann", "ben", "cho", "dee", "eve"}, tokens: make(map[models.UserID]string),
		friends: make(map[pair]bool), hidden: make(map[models.UserID]bool), choices: make(map[string]map[pair]bool),
		groups: make(map[*server]string),
	}
	p.tokens["backend"] = harness.Token(t, "backend", auth.ScopeService)
	for _, path := range choicePaths {
		p.choices[path] = make(map[pair]bool)
	}
	for _, user := range p.people {
		p.tokens[user] = harness.Token(t, user, "")
	}
	for _, s := range p.both() {
		s.waitForStartJobs()
		for _, user := range p.people {
			s.want(s.as(user, "PUT", "/v1/me", map[string]string{"nickname": "N " + string(user)}), http.StatusOK, nil)
		}
		var family group
		s.want(s.as("ann", "POST", "/v1/groups", `{"name":"Family"}`), http.StatusCreated, &family)
		p.groups[s] = *family.Code
	}
	p.day = models.DateOf(testenv.Noon)
	p.upload(p.day)
	p.befriendSome()
	for _, s := range p.both() {
		s.env.Clock.Set(p.day.UTC().AddDate(0, 0, 5))
		// Makes that day in both services. Otherwise a refresh in the background makes it in none or one.
		if err := s.app.Catalog.Definitions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.archiveDue()
	}
	p.upload(p.day + 40)
	p.befriendSome()
	return p
}

func (p *populations) both() []*server { return []*server{p.chosen, p.plain} }

// upload gives most people a score on a day, few of them different.
func (p *populations) upload(day models.Date) {
	scores := make(map[models.UserID]int)
	for _, user := range p.people {
		if p.random.IntN(5) > 0 {
			scores[user] = 100 * p.random.IntN(4)
		}
	}
	for _, s := range p.both() {
		s.uploadDay(day, scores)
	}
}

// befriendSome makes friends of about a third of the pairs.
func (p *populations) befriendSome() {
	for i, a := range p.people {
		for _, b := range p.people[:i] {
			if p.random.IntN(3) == 0 {
				p.befriend(a, b)
			}
		}
	}
}

func (p *populations) befriend(a, b models.UserID) {
	for _, s := range p.both() {
		edges, err := s.app.Friends.Resolve(p.t.Context(), []friends.Edge{{A: a, B: b}})
		if err == nil {
			_, _, err = s.app.Friends.Import(p.t.Context(), edges)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	p.friends[pair{a, b}], p.friends[pair{b, a}] = true, true
}

func (p *populations) unfriend(a, b models.UserID) {
	delete(p.friends, pair{a, b})
	delete(p.friends, pair{b, a})
}

// change makes one random choice, or a friendship.
func (p *populations) change() {
	order := p.random.Perm(len(p.people))
	a, b := p.people[order[0]], p.people[order[1]]
	path := choicePaths[p.random.IntN(len(choicePaths))]
	switch p.random.IntN(11) {
	case 0, 1:
		p.hidden[a] = !p.hidden[a]
		p.expect(p.chosen, a, "PUT", "/v1/me/privacy", fmt.Sprintf(`{"hidden":%v}`, p.hidden[a]), http.StatusOK)
	case 2, 3, 4:
		if path == "blocked" && !p.choices[path][pair{a, b}] {
			p.renewed = append(p.renewed, p.invitation(p.chosen, a))
		}
		p.expect(p.chosen, a, "PUT", "/v1/"+path+"/"+string(b), "", http.StatusNoContent)
		p.choices[path][pair{a, b}] = true
		if path == "blocked" {
			p.unfriend(a, b)
			p.expect(p.plain, a, "DELETE", "/v1/friends/"+string(b), "", http.StatusNoContent)
		}
	case 5, 6:
		for _, path := range choicePaths {
			p.expect(p.chosen, a, "DELETE", "/v1/"+path+"/"+string(b), "", http.StatusNoContent)
			delete(p.choices[path], pair{a, b})
		}
	case 7:
		p.befriend(a, b)
	case 8, 9:
		p.like(a, b)
	case 10:
		if len(p.people) < 7 {
			p.join(a)
		}
	}
}

// invitation returns the code by which a user invites friends.
func (p *populations) invitation(s *server, user models.UserID) string {
	return testenv.Must(s.app.Friends.Invite(p.t.Context(), user))
}

// join lets somebody new open the invitation of a user in both services, whose answers are the same but for random values.
// Then the newcomer gets one id in both.
func (p *populations) join(by models.UserID) {
	p.t.Helper()
	user := models.UserID(fmt.Sprintf("new%d", len(p.people)))
	var texts []string
	for _, s := range p.both() {
		answer := p.open(s, "/v1/session", fmt.Sprintf(`{"code":%q,"nickname":"N %s"}`, p.invitation(s, by), user))
		path := fmt.Sprintf("/v1/users/%s/rename", answer["user_id"])
		p.expect(s, "backend", "POST", path, fmt.Sprintf(`{"to":%q}`, user), http.StatusNoContent)
		for _, random := range []string{"user_id", "token", "expires_at"} {
			delete(answer, random)
		}
		texts = append(texts, string(testenv.Must(json.Marshal(answer))))
	}
	if texts[0] != texts[1] || strings.Contains(texts[0], "N "+string(by)) {
		p.t.Fatalf("who opens the invitation of %s:\ngot  %s\nwant %s", by, texts[0], texts[1])
	}
	p.people, p.tokens[user] = append(p.people, user), harness.Token(p.t, user, "")
	p.friends[pair{by, user}], p.friends[pair{user, by}] = true, true
}

// open makes a call in a private window of a network of its own, and returns the answer with its status.
func (p *populations) open(s *server, path, body string) (answer map[string]any) {
	p.t.Helper()
	p.windows++
	r := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = fmt.Sprintf("[2001:db8:0:%x::1]:1234", p.windows)
	w := httptest.NewRecorder()
	s.app.Handler.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		p.t.Fatalf("%s: %v in %s", path, err, w.Body)
	}
	delete(answer, "request_id")
	answer["status"] = w.Code
	return answer
}

// tells compares what the code of an invitation tells whoever is not signed in.
func (p *populations) tells(s *server, code string, want map[string]any) {
	p.t.Helper()
	if got := p.open(s, "/v1/session/code", fmt.Sprintf(`{"code":%q}`, code)); fmt.Sprint(got) != fmt.Sprint(want) {
		p.t.Fatalf("an invitation tells %v, want %v", got, want)
	}
}

// compareInvitations compares what invitations tell: whatever somebody hides, a nickname or the name of a group. One that
// was renewed because its user has blocked somebody is like one that never was.
func (p *populations) compareInvitations() {
	p.t.Helper()
	user := p.people[p.random.IntN(len(p.people))]
	for _, s := range p.both() {
		p.tells(s, p.invitation(s, user), map[string]any{"status": 200, "kind": "friend", "new": true, "nickname": "N " + string(user), "group": nil})
		p.tells(s, p.groups[s], map[string]any{"status": 200, "kind": "group", "new": true, "nickname": nil, "group": "Family"})
	}
	if n := len(p.renewed); n > 0 {
		unknown := p.open(p.chosen, "/v1/session/code", fmt.Sprintf(`{"code":%q}`, codes.New()))
		p.tells(p.chosen, p.renewed[p.random.IntN(n)], unknown)
	}
}

// compareSessions checks that a viewer is told nothing of a session of somebody else.
func (p *populations) compareSessions(viewer models.UserID) {
	p.t.Helper()
	p.same(viewer, "/v1/me/sessions", nil)
	if list, _ := p.read(p.chosen, viewer, "/v1/me/sessions"); len(list["sessions"].([]any)) > 0 {
		return // those of newcomers have the first ids
	}
	answers := make(map[string]bool)
	for _, id := range []string{"1", "999999"} {
		status, text := p.ask(p.chosen, viewer, "DELETE", "/v1/me/sessions/"+id, "")
		var answer map[string]any
		if err := json.Unmarshal(text, &answer); err != nil {
			p.t.Fatal(err)
		}
		answers[fmt.Sprint(status, answer["code"], answer["detail"], answer["errors"])] = true
	}
	if len(answers) != 1 {
		p.t.Fatalf("%s is told that somebody else has a session: %v", viewer, answers)
	}
}

// like lets somebody like a score of another one in both services, or take it back.
func (p *populations) like(by, user models.UserID) {
	p.t.Helper()
	path := "/v1/boards/steps/likes/" + string(user)
	if p.random.IntN(2) == 0 {
		path += "?date=" + p.day.String()
	}
	if p.random.IntN(3) == 0 {
		p.expect(p.chosen, by, "DELETE", path, "", http.StatusNoContent)
		p.expect(p.plain, by, "DELETE", path, "", http.StatusNoContent)
		return
	}
	status, _ := p.ask(p.chosen, by, "PUT", path, "")
	if shown := !slices.Contains(p.notShown(by), user); status != http.StatusNoContent || !shown {
		if status != http.StatusNotFound {
			p.t.Fatalf("%s by %s, shown %v: %d", path, by, shown, status)
		}
		return
	}
	p.expect(p.plain, by, "PUT", path, "", http.StatusNoContent)
}

// notShown returns the people who are not shown to a viewer.
func (p *populations) notShown(viewer models.UserID) []models.UserID {
	var list []models.UserID
	for _, user := range p.people {
		mine, theirs := pair{viewer, user}, pair{user, viewer}
		if user != viewer && (p.hidden[user] || p.choices["muted"][mine] || p.choices["blocked"][mine] ||
			p.choices["hidden-from"][theirs] || p.choices["blocked"][theirs]) {
			list = append(list, user)
		}
	}
	return list
}

// ask makes a call without a connection.
func (p *populations) ask(s *server, user models.UserID, method, path, body string) (status int, text []byte) {
	r := httptest.NewRequestWithContext(p.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+p.tokens[user])
	w := httptest.NewRecorder()
	s.app.Handler.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

func (p *populations) expect(s *server, user models.UserID, method, path, body string, want int) {
	p.t.Helper()
	if status, text := p.ask(s, user, method, path, body); status != want {
		p.t.Fatalf("%s %s by %s: %d %s", method, path, user, status, text)
	}
}

// read returns what a service answers to a GET: the status, and the body without what
// differs between equal answers. cursor is that of the next page.
func (p *populations) read(s *server, user models.UserID, path string) (answer map[string]any, cursor string) {
	p.t.Helper()
	status, text := p.ask(s, user, "GET", path, "")
	if err := json.Unmarshal(text, &answer); err != nil {
		p.t.Fatalf("%s: %v in %s", path, err, text)
	}
	cursor, _ = answer["next_cursor"].(string)
	if cursor != "" {
		answer["next_cursor"] = "another page"
	}
	delete(answer, "request_id")
	answer["status"] = status
	return answer, cursor
}

// same compares the answers to one call on all pages. mask, which may be nil, changes those
// of the plain service.
func (p *populations) same(viewer models.UserID, path string, mask func(map[string]any)) {
	p.t.Helper()
	cursors := []string{"", ""}
	for {
		var texts []string
		for i, s := range p.both() {
			full := path
			if cursors[i] != "" {
				full += "&cursor=" + url.QueryEscape(cursors[i])
			}
			var answer map[string]any
			answer, cursors[i] = p.read(s, viewer, full)
			if s == p.plain && mask != nil {
				mask(answer)
			}
			text := testenv.Must(json.Marshal(answer))
			texts = append(texts, string(text))
		}
		if texts[0] != texts[1] {
			p.t.Fatalf("%s by %s, not shown %v:\ngot  %s\nwant %s", path, viewer, p.notShown(viewer), texts[0], texts[1])
		}
		if cursors[0] == "" {
			return
		}
	}
}

// anonymously replaces the people who are not shown in a global list.
func anonymously(notShown []models.UserID) func(map[string]any) {
	return func(answer map[string]any) {
		entries, _ := answer["entries"].([]any)
		for _, e := range entries {
			entry := e.(map[string]any)
			if id, _ := entry["user_id"].(string); slices.Contains(notShown, models.UserID(id)) {
				maps.Copy(entry, map[string]any{"user_id": nil, "nickname": "", "avatar_url": "", "anonymous": true})
			}
		}
	}
}

// compare compares all answers to a viewer.
func (p *populations) compare(viewer models.UserID) {
	p.t.Helper()
	p.compareInvitations()
	p.compareSessions(viewer)
	notShown := p.notShown(viewer)
	days := []string{"", "&date=" + p.day.String()}
	for _, day := range days {
		p.same(viewer, "/v1/boards/steps/top?limit=3"+day, anonymously(notShown))
		p.same(viewer, "/v1/boards/steps/around?radius=2"+day, anonymously(notShown))
	}
	for _, path := range []string{"/v1/friends?limit=2", "/v1/friends/requests?limit=2", "/v1/me", "/v1/boards", "/v1/boards/steps/history"} {
		p.same(viewer, path, nil) // hiding hides scores, not friendships
	}
	for _, day := range days {
		p.sameAbsent(viewer, notShown, day)
	}
	restore := p.part(viewer, notShown)
	defer restore()
	for _, day := range days {
		p.same(viewer, "/v1/boards/steps/friends?limit=3"+day, nil)
		p.same(viewer, "/v1/boards/steps/friends?limit=3&include=likes"+day, nil)
		for _, user := range p.people {
			p.same(viewer, "/v1/boards/steps/likes/"+string(user)+"?limit=2"+day, nil)
		}
		p.same(viewer, "/v1/boards/steps/me?"+strings.TrimPrefix(day, "&"), nil)
	}
	for _, from := range []models.Date{p.day, p.day + 10} { // of the archived day, and of today
		p.same(viewer, fmt.Sprintf("/v1/boards/steps/friends?limit=2&from=%v&to=%v", from, from+30), nil)
	}
	p.sameStream(viewer)
	for _, user := range p.people {
		path := "/v1/boards/steps/history?for=" + string(user) + "&from=" + p.day.String()
		if !slices.Contains(notShown, user) || !p.friends[pair{viewer, user}] {
			p.same(viewer, path, nil)
			continue
		}
		// A friend without scores.
		if status, text := p.ask(p.chosen, viewer, "GET", path, ""); status != http.StatusOK || string(text) != `{"entries":[],"partial":false}` {
			p.t.Fatalf("%s by %s: %d %s", path, viewer, status, text)
		}
	}
}

// sameAbsent compares the absent friends, page by page. In the plain service they are those without a
// score, and those of the ranking who are not shown, but nobody whom the viewer has muted or blocked.
func (p *populations) sameAbsent(viewer models.UserID, notShown []models.UserID, day string) {
	p.t.Helper()
	entries := func(s *server, path string) (list []string, total float64) {
		for cursor := ""; ; {
			answer, next := p.read(s, viewer, path+cursor)
			total = answer["total"].(float64)
			for _, e := range answer["entries"].([]any) {
				entry := e.(map[string]any)
				list = append(list, fmt.Sprintf("%s %s %s", entry["user_id"], entry["nickname"], entry["avatar_url"]))
			}
			if next == "" {
				return list, total
			}
			cursor = "&cursor=" + url.QueryEscape(next)
		}
	}
	ranked, _ := entries(p.plain, "/v1/boards/steps/friends?limit=3"+day)
	want, _ := entries(p.plain, "/v1/boards/steps/friends/absent?limit=2"+day)
	for _, line := range ranked {
		if user, _, _ := strings.Cut(line, " "); slices.Contains(notShown, models.UserID(user)) {
			want = append(want, line)
		}
	}
	want = slices.DeleteFunc(want, func(line string) bool {
		user, _, _ := strings.Cut(line, " ")
		of := pair{viewer, models.UserID(user)}
		return p.choices["muted"][of] || p.choices["blocked"][of]
	})
	got, total := entries(p.chosen, "/v1/boards/steps/friends/absent?limit=2"+day)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || int(total) != len(want) {
		p.t.Fatalf("absent for %s%s, not shown %v: %q of %v, want %q", viewer, day, notShown, got, total, want)
	}
}

// sameStream compares the first events of the live rankings.
func (p *populations) sameStream(viewer models.UserID) {
	p.t.Helper()
	var events []string
	for _, s := range p.both() {
		subscriber, err := s.app.Streams.Subscribe(p.t.Context(), stream.Query{Board: "steps", Viewer: viewer, Limit: 200}, "")
		if err != nil {
			p.t.Fatal(err)
		}
		events = append(events, string(subscriber.First))
		subscriber.Stop()
	}
	if events[0] != events[1] {
		p.t.Fatalf("the stream of %s:\ngot  %s\nwant %s", viewer, events[0], events[1])
	}
}

// part ends the friendships of a viewer with others in the plain service and removes the likes
// of these others. It returns a function that restores both as they were.
func (p *populations) part(viewer models.UserID, others []models.UserID) (restore func()) {
	p.t.Helper()
	db, ctx := p.plain.env.Gorm.WithContext(p.t.Context()), p.t.Context()
	rows := harness.Rows(p.t, p.plain.env.Gorm, append([]models.UserID{viewer}, others...))
	var ended []models.Friendship
	err := db.Raw(`DELETE FROM friendships
		WHERE (user_id = ? AND friend_id IN ?) OR (friend_id = ? AND user_id IN ?) RETURNING *`,
		rows[0], rows[1:], rows[0], rows[1:]).Scan(&ended).Error
	if err != nil {
		p.t.Fatal(err)
	}
	var likes []models.Like
	if err := db.Raw(`DELETE FROM likes WHERE liked_by IN ? RETURNING *`, rows[1:]).Scan(&likes).Error; err != nil {
		p.t.Fatal(err)
	}
	restoreLikes := func() {
		if len(likes) > 0 {
			if err := db.Create(&likes).Error; err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if len(ended) == 0 {
		return restoreLikes
	}
	p.forget(ctx)
	return func() {
		restoreLikes()
		if err := db.Create(&ended).Error; err != nil {
			p.t.Fatal(err)
		}
		p.forget(ctx)
	}
}

// forget drops the cached sets of the plain service.
func (p *populations) forget(ctx context.Context) {
	if err := p.plain.app.Sets.DropAll(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// Whatever people choose, a viewer's answers are those of a population in which the people
// who are not shown are no friends of the viewer, and in global lists those of one in which
// they are anonymous. Friend lists stay the same, and their histories are empty.
func TestSoakPrivacy(t *testing.T) {
	t.Parallel()
	generated, pairs := testenv.Rounds(1, 500), 200 // pairs of populations
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range generated {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := newPopulations(t, rand.New(rand.NewPCG(seed, uint64(i))))
			for range pairs {
				p.change()
				p.compare(p.people[p.random.IntN(len(p.people))])
			}
		})
	}
}
