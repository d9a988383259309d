package crash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stepboard/app"
	"stepboard/app/e2e/harness"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// cutSettings returns the settings of a process whose power is cut.
var cutSettings = sync.OnceValue(func() map[string]string {
	start := time.Now().Add(-time.Hour).UTC()
	return map[string]string{
		"boards": fmt.Sprintf(`[{`+harness.Steps+`}, {name: gifts, kind: event, max_score: 1000000, start: %q, end: %q}]`,
			start.Format(time.RFC3339), start.AddDate(0, 0, 2).Format(time.RFC3339)),
		"auth.hs256_secret": harness.Secret, "limits.user_per_minute": "0", "limits.address_per_minute": "0",
	}
})

// asFlags returns settings as flags of a command.
func asFlags(settings map[string]string) (flags []string) {
	for key, value := range settings {
		flags = append(flags, "--"+key+"="+value)
	}
	return flags
}

// register returns the call that sets something to a value. The values are 1, 2, and so on. Each is set
// after the one before was acknowledged, so that a process has the latest of these, or the next one.
type register func(value int64) (user models.UserID, scope, method, path, body string)

// cutDate returns the day of all uploads.
var cutDate = sync.OnceValue(harness.Today)

// batched is how many users one call uploads totals of, and receivers how many a call gives to.
const batched, receivers = 20, 3

// cutRegisters returns what the load sets, by name.
func cutRegisters() map[string]register {
	registers := make(map[string]register)
	for _, user := range []models.UserID{"hub", "u1", "u2"} {
		registers["total of "+string(user)] = func(value int64) (models.UserID, string, string, string, string) {
			return user, "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, cutDate(), value)
		}
	}
	registers["totals of many"] = func(value int64) (models.UserID, string, string, string, string) {
		var list []string
		for i := range batched {
			list = append(list, fmt.Sprintf(`{"user_id":"b%d","date":%q,"score":%d}`, i, cutDate(), value))
		}
		return "ops", auth.ScopeService, "POST", "/v1/boards/steps/scores/batch", `{"scores":[` + strings.Join(list, ",") + `]}`
	}
	for _, giver := range []string{"x", "y"} {
		registers["gifts of "+giver] = func(value int64) (models.UserID, string, string, string, string) {
			return "ops", auth.ScopeService, "POST", "/v1/boards/gifts/increments", harness.IncrementsJSON(givenBy(giver, value)...)
		}
	}
	registers["a gift"] = func(value int64) (models.UserID, string, string, string, string) {
		return "ops", auth.ScopeService, "POST", "/v1/boards/gifts/increments", fmt.Sprintf(`{"user_id":"single","delta":1,"event_id":"single-%d"}`, value)
	}
	registers["friends"] = func(value int64) (models.UserID, string, string, string, string) {
		return "ops", auth.ScopeService, "PUT", "/v1/users/hub/friends", fmt.Sprintf(`{"friend_ids":["u1","f%d"]}`, value)
	}
	registers["profile"] = func(value int64) (models.UserID, string, string, string, string) {
		return "u1", "", "PUT", "/v1/me", fmt.Sprintf(`{"nickname":"N%d"}`, value)
	}
	registers["corrections"] = func(value int64) (models.UserID, string, string, string, string) {
		if value%2 == 0 {
			return "ops", auth.ScopeAdmin, "POST", fmt.Sprintf("/v1/admin/corrections/%d/lift", value/2), `{"reason":"r"}`
		}
		return "ops", auth.ScopeAdmin, "POST", "/v1/admin/corrections", fmt.Sprintf(`{"board":"steps","date":%q,"user_id":"b0","kind":"exclude","reason":"r"}`, cutDate())
	}
	return registers
}

// givenBy returns the increments of a giver's call.
func givenBy(giver string, value int64) (items []string) {
	for i := range receivers {
		items = append(items, fmt.Sprintf(`{"user_id":"%s%d","delta":%d,"event_id":"%[1]s-%[4]d-%[2]d"}`, giver, i, i+1, value))
	}
	return items
}

// sent is a call of a register.
type sent struct {
	register string
	value    int64
}

// cutLoad is users who set registers.
type cutLoad struct {
	t *testing.T
	// settings are more settings of the process.
	settings []string
	// failing says that syncs fail meanwhile, and commands may, too.
	failing bool
	// answers counts the good ones, and refusals those with 503.
	answers, refusals atomic.Int64

	mu     sync.Mutex
	values map[string]int64 // the latest acknowledged ones
	calls  []sent           // by the number in the request's id
}

// run sets all registers, all at the same time, until enough is true.
func (l *cutLoad) run(url string, enough func() bool) {
	l.t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var users sync.WaitGroup
	for name, r := range cutRegisters() {
		users.Go(func() {
			for !enough() {
				l.mu.Lock()
				value := l.values[name] + 1
				l.mu.Unlock()
				if l.set(client, url, name, r, value) {
					l.mu.Lock()
					l.values[name] = value
					l.mu.Unlock()
				}
				<-time.After(harness.Pace)
			}
		})
	}
	testenv.Wait(l.t, "the users end", &users)
}

// archive imports a day that is archived at once, and then notes that this was acknowledged.
func (l *cutLoad) archive(p *testenv.Command, dir string, day int64) {
	l.t.Helper()
	var steps strings.Builder
	steps.WriteString("user_id,date,steps\n")
	for i := range batched {
		fmt.Fprintf(&steps, "b%d,%s,%d\n", i, archivedDate(day), i)
	}
	file := filepath.Join(l.t.TempDir(), "steps")
	if err := os.WriteFile(file, []byte(steps.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if _, stderr, status := testenv.Run(l.t, "import", "steps", file, "--data="+dir); status != 0 {
		if !l.failing {
			l.t.Error(stderr)
		}
		return
	}
	r := func(value int64) (models.UserID, string, string, string, string) {
		return "importer", "", "POST", "/v1/boards/steps/scores", fmt.Sprintf(`{"date":%q,"score":%d}`, cutDate(), value)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	testenv.Eventually(l.t, "the import is noted", func() bool { return l.set(client, p.URL, "archived days", r, day) })
}

// archivedDate returns a day that is closed.
func archivedDate(day int64) string {
	return testenv.Must(time.Parse(time.DateOnly, cutDate())).AddDate(0, 0, int(day)-12).Format(time.DateOnly)
}

// set makes a call of a register, and reports whether the answer is good.
func (l *cutLoad) set(client *http.Client, url, name string, r register, value int64) (good bool) {
	user, scope, method, path, body := r(value)
	request := testenv.Must(http.NewRequestWithContext(l.t.Context(), method, url+path, strings.NewReader(body)))
	request.Header.Set("Authorization", "Bearer "+harness.Token(l.t, user, scope))
	l.mu.Lock()
	request.Header.Set("X-Request-Id", fmt.Sprintf("cut-%d.", len(l.calls)))
	l.calls = append(l.calls, sent{name, value})
	l.mu.Unlock()
	res, err := client.Do(request)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	switch {
	case res.StatusCode == http.StatusNotFound: // nobody has a score yet that could be corrected
		return false
	case res.StatusCode == http.StatusServiceUnavailable:
		l.refusals.Add(1)
		return false
	case res.StatusCode >= 300 && !strings.Contains(string(text), "correction_exists"):
		l.t.Errorf("%s: %d %s", name, res.StatusCode, text)
		return false
	}
	l.answers.Add(1)
	return true
}

// answered matches the head of a good answer to a call of a load.
var answered = regexp.MustCompile(`(?s)^HTTP/1\.1 2.*\r\nX-Request-Id: cut-(\d+)\.\r\n`)

// recording is the trace of a process.
type recording struct {
	// root is the folder whose files are looked at.
	root  string
	calls []*traceCall
	lines int
	sent  []sent
	// acknowledged has the number in sent of each write of a good answer.
	acknowledged map[*traceCall]int
}

// record reads a trace, and notes the answers.
func record(t *testing.T, trace, root string, l *cutLoad) *recording {
	t.Helper()
	r := &recording{root: root, sent: l.calls, acknowledged: make(map[*traceCall]int)}
	r.calls, r.lines = readTrace(t, trace)
	for _, c := range r.calls {
		if c.name != "write" || c.file(0) != "" && strings.HasPrefix(c.file(0), root) {
			continue
		}
		if m := answered.FindSubmatch(c.bytes(1)); m != nil {
			r.acknowledged[c] = testenv.Must(strconv.Atoi(string(m[1])))
		}
	}
	return r
}

// moments returns lines of the trace at which the power is cut: after answers, around the ends of
// syncs, and any.
func (r *recording) moments(rng *rand.Rand, n int) []int {
	var answers, syncs []int
	for _, c := range r.calls {
		if _, ok := r.acknowledged[c]; ok {
			answers = append(answers, c.begin+1)
		} else if strings.HasPrefix(c.name, "fsync") && c.end != never {
			syncs = append(syncs, c.begin, c.end, c.end+1)
		}
	}
	moments := make([]int, n)
	for i := range moments {
		switch kind := rng.IntN(3); {
		case kind == 0 && len(answers) > 0:
			moments[i] = answers[rng.IntN(len(answers))]
		case kind == 1:
			moments[i] = syncs[rng.IntN(len(syncs))]
		default:
			moments[i] = rng.IntN(r.lines)
		}
	}
	slices.Sort(moments)
	return moments
}

// cut is a moment at which the power is cut.
type cut struct {
	line int // of the trace
	// root has the files that are left, until the next cut.
	root         string
	acknowledged map[string]int64
}

// cuts cuts the power n times while the trace is applied to a disk.
func (r *recording) cuts(t *testing.T, rng *rand.Rand, d *disk, n int) iter.Seq[cut] {
	t.Helper()
	moments := r.moments(rng, n)
	begins, syncs := make(map[int]*traceCall), make(map[int]*traceCall)
	for _, c := range r.calls {
		begins[c.begin] = c
		if strings.HasPrefix(c.name, "fsync") || strings.HasPrefix(c.name, "fdatasync") {
			syncs[c.end] = c
		}
	}
	return func(yield func(cut) bool) {
		acknowledged, dir := make(map[string]int64), t.TempDir()
		for line := range r.lines + 1 {
			for ; len(moments) > 0 && moments[0] == line; moments = moments[1:] {
				root := filepath.Join(dir, "cut")
				err := d.cut(rng, root)
				more := err == nil && yield(cut{line, root, acknowledged})
				if err = errors.Join(err, os.RemoveAll(root)); err != nil {
					t.Fatal(err)
				}
				if !more {
					return
				}
			}
			if c := begins[line]; c != nil {
				d.call(t, c)
				if number, ok := r.acknowledged[c]; ok {
					s := r.sent[number]
					acknowledged[s.register] = max(acknowledged[s.register], s.value)
				}
			}
			if c := syncs[line]; c != nil {
				d.synced(rng, c)
			}
		}
	}
}

// cutFolder is the service on a folder after a power cut, within this process.
type cutFolder struct {
	t        *testing.T
	stores   *stores.Stores
	handler  http.Handler
	problems []string
}

func (f *cutFolder) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// call makes a call and decodes a good answer.
func (f *cutFolder) call(user models.UserID, scope, method, path, body string, out any) {
	request := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+harness.Token(f.t, user, scope))
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, request)
	if w.Code < 300 {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			f.problem("%s %s: %v: %s", method, path, err, w.Body)
		}
	} else if w.Code != http.StatusNotFound {
		f.problem("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

// check starts the service on what is left and says what is wrong.
func (c cut) check(t *testing.T) (problems []string) {
	t.Helper()
	return checkCut(t, filepath.Join(c.root, "data"), c.acknowledged)
}

// checkCut starts the service on a data folder and says what it lacks of what was acknowledged.
func checkCut(t *testing.T, dir string, acknowledged map[string]int64) (problems []string) {
	t.Helper()
	flags := maps.Clone(cutSettings())
	flags["data.dir"] = dir
	cfg := testenv.Must(config.Load(config.Sources{Flags: flags}))
	st, err := stores.OpenFolder(t.Context(), dir, time.Now)
	if err != nil {
		return []string{err.Error()}
	}
	a, err := app.Build(t.Context(), app.Options{
		Config: cfg, Stores: st, Clock: time.Now, Log: testenv.Log(), Roles: app.Roles{API: true},
		Verifier: auth.NewVerifier(auth.VerifierConfig{Secret: []byte(harness.Secret)}),
	})
	if err != nil {
		return []string{err.Error(), fmt.Sprint(st.Close())}
	}
	a.Start(t.Context())
	f := &cutFolder{t: t, stores: st, handler: a.Handler}
	f.check(acknowledged)
	if err := a.Close(); err != nil {
		f.problem("close: %v", err)
	}
	return f.problems
}

func (f *cutFolder) check(acknowledged map[string]int64) {
	for query, want := range map[string]string{"PRAGMA integrity_check": "ok", "SELECT count(*) FROM pragma_foreign_key_check": "0"} {
		var got string
		if err := f.stores.SQL.QueryRowContext(f.t.Context(), query).Scan(&got); err != nil || got != want {
			f.problem("%s: %s, %v", query, got, err)
		}
	}
	is := func(register string, got int64) {
		if want := acknowledged[register]; got != want && got != want+1 {
			f.problem("%s: %d was acknowledged, and it is %d", register, want, got)
		}
	}
	totals, sums := f.top("/v1/boards/steps/top?limit=200&date="+cutDate()), f.top("/v1/boards/gifts/top?limit=200")
	for _, user := range []models.UserID{"hub", "u1", "u2"} {
		is("total of "+string(user), totals[user])
	}
	for i := 1; i < batched; i++ {
		is("totals of many", totals[models.UserID(fmt.Sprintf("b%d", i))])
	}
	is("a gift", sums["single"])
	for _, giver := range []string{"x", "y"} {
		register := "gifts of " + giver
		for i := range receivers {
			sum := sums[models.UserID(fmt.Sprint(giver, i))]
			is(register, sum/int64(i+1))
			f.checkEvents(fmt.Sprint(giver, i), sum)
		}
		f.giveAgain(giver, acknowledged[register])
	}
	is("friends", f.friend())
	for day := range acknowledged["archived days"] {
		if list := f.top("/v1/boards/steps/top?limit=200&date=" + archivedDate(day+1)); len(list) != batched || list["b7"] != 7 {
			f.problem("of the archived day %d there is %v", day+1, list)
		}
	}
	var me struct{ Nickname string }
	if f.call("u1", "", "GET", "/v1/me", "", &me); me.Nickname != "" {
		is("profile", testenv.Must(strconv.ParseInt(strings.TrimPrefix(me.Nickname, "N"), 10, 64)))
	} else {
		is("profile", 0)
	}
	var made, active struct{ Corrections []struct{ ID string } }
	f.call("ops", auth.ScopeAdmin, "GET", "/v1/admin/corrections?limit=1", "", &made)
	f.call("ops", auth.ScopeAdmin, "GET", "/v1/admin/corrections?active=true", "", &active)
	newest := int64(0)
	if len(made.Corrections) > 0 {
		newest = testenv.Must(strconv.ParseInt(made.Corrections[0].ID, 10, 64))
	}
	is("corrections", 2*newest-int64(len(active.Corrections)))
}

// top returns the scores of a global list.
func (f *cutFolder) top(path string) map[models.UserID]int64 {
	var r models.Ranking
	f.call("hub", "", "GET", path, "", &r)
	scores := make(map[models.UserID]int64)
	for _, e := range r.Entries {
		scores[e.User] = e.Score
	}
	return scores
}

// friend returns the number of hub's friend who changes.
func (f *cutFolder) friend() (number int64) {
	var list struct {
		Friends []struct {
			UserID string `json:"user_id"`
		}
	}
	f.call("hub", "", "GET", "/v1/friends", "", &list)
	for _, friend := range list.Friends {
		if text, ok := strings.CutPrefix(friend.UserID, "f"); ok {
			number = testenv.Must(strconv.ParseInt(text, 10, 64))
		}
	}
	if n := len(list.Friends); n != 0 && n != 2 {
		f.problem("hub has the friends %v", list.Friends)
	}
	return number
}

// checkEvents compares a sum with the increments that are stored.
func (f *cutFolder) checkEvents(user string, sum int64) {
	var stored int64
	err := f.stores.SQL.QueryRowContext(f.t.Context(), `SELECT coalesce(sum(delta), 0) FROM score_events JOIN users USING (user_id) WHERE external_id = ?`, user).Scan(&stored)
	if err != nil || stored != sum {
		f.problem("the sum of %s is %d, and that of the increments %d, %v", user, sum, stored, err)
	}
}

// giveAgain sends the increments of a giver that were acknowledged, and the next ones, again. None
// counts twice.
func (f *cutFolder) giveAgain(giver string, acknowledged int64) {
	var items []string
	for value := max(1, acknowledged-100); value <= acknowledged+1; value++ {
		items = append(items, givenBy(giver, value)...)
	}
	var answer harness.IncrementResults
	f.call("ops", auth.ScopeService, "POST", "/v1/boards/gifts/increments", harness.IncrementsJSON(items...), &answer)
	for i, r := range answer.Results {
		if last := i >= len(items)-receivers; r.Status != "duplicate" && (!last || r.Status != "applied") {
			f.problem("again, an increment was %+v", r)
		}
	}
	sums := f.top("/v1/boards/gifts/top?limit=200")
	for i := range receivers {
		if got, want := sums[models.UserID(fmt.Sprint(giver, i))], (acknowledged+1)*int64(i+1); got != want {
			f.problem("again, the sum of %s%d is %d, and not %d", giver, i, got, want)
		}
	}
}

// underLoad records a process that serves a data folder under load, and after its orderly end another
// one, with more options of strace. The folder is in the folder root.
func underLoad(t *testing.T, root string, l *cutLoad, options ...string) *recording {
	t.Helper()
	trace, dir := filepath.Join(t.TempDir(), "trace"), filepath.Join(root, "data")
	l.t, l.values = t, make(map[string]int64)
	for day := range int64(2) {
		command := strace(trace)
		if day > 0 {
			command = strace(trace, options...)
		}
		p := testenv.ServeFolderIn(t, command, dir, append(asFlags(cutSettings()), l.settings...)...)
		enough := l.answers.Load() + 500
		var commands sync.WaitGroup
		commands.Go(func() {
			l.archive(p, dir, day+1)
			_, stderr, status := testenv.Run(t, "backup", filepath.Join(t.TempDir(), "backup"), "--data="+dir) // it empties the log
			if status != 0 && !l.failing {
				t.Error(stderr)
			}
		})
		l.run(p.URL, func() bool { return l.answers.Load() > enough || t.Failed() })
		testenv.Wait(t, "the commands end", &commands)
		if status := p.Interrupt(); status != 0 && !l.failing {
			t.Fatalf("status %d: %s", status, p.Log())
		}
	}
	return record(t, trace, root, l)
}

// survives cuts the power n times and expects that nothing is wrong then.
func (r *recording) survives(t *testing.T, n int) {
	t.Helper()
	d, number := newDisk(r.root), 0
	for c := range r.cuts(t, randomly(t), d, n) {
		if number++; number%50 == 0 {
			testenv.ServeFolder(t, filepath.Join(c.root, "data"), asFlags(cutSettings())...).Kill()
		}
		if problems := c.check(t); problems != nil {
			t.Fatalf("the power is cut at line %d of %d: %s", c.line, r.lines, strings.Join(problems, "\n"))
		}
	}
	d.checkNow(t)
}

// The power is cut while a process serves a data folder. Whatever the disk has kept of what was not
// synced, everything that was acknowledged is there, no increment counts twice, and the file is whole.
func TestSoakPowerCut(t *testing.T) {
	needStrace(t)
	t.Parallel()
	r := underLoad(t, t.TempDir(), new(cutLoad))
	r.survives(t, testenv.Rounds(60, 5000))
	// The test can fail: some cut finds that the syncs of each file are needed.
	for _, name := range testenv.OtherForms(t, []string{"stepboard.db-wal", "stepboard.db", "data"}) {
		d, found := newDisk(r.root), false
		d.unsynced = filepath.Join(r.root, "data", name)
		if name == "data" {
			d.unsynced = filepath.Join(r.root, name)
		}
		for c := range r.cuts(t, randomly(t), d, 300) {
			if found = c.check(t) != nil; found {
				break
			}
		}
		if !found {
			t.Errorf("without the syncs of %s nothing is lost", name)
		}
	}
}

// Any sync fails now and then, and the power is cut. The calls whose commits were not synced are answered
// with 503, and nothing that was acknowledged is lost.
func TestSoakPowerCutAfterFailedSyncs(t *testing.T) {
	needStrace(t)
	t.Parallel()
	l := &cutLoad{failing: true}
	// They are counted by thread. The first ones are those of the start.
	r := underLoad(t, t.TempDir(), l, "-e", "inject=fsync,fdatasync:error=EIO:when=20+11")
	if n := l.refusals.Load(); n == 0 {
		t.Error("no call was refused")
	}
	r.survives(t, testenv.Rounds(40, 3000))
}

// The power is cut while a process copies its data folder. Another one goes on with what both disks have kept, and what is
// restored from the copies then is all that was acknowledged.
func TestSoakPowerCutWithCopies(t *testing.T) {
	needStrace(t)
	t.Parallel()
	copying := func(root string) []string {
		return []string{"--backup.to=file://" + filepath.Join(root, "copies"), "--backup.interval=" + diskInterval.String()}
	}
	root := t.TempDir()
	r := underLoad(t, root, &cutLoad{settings: copying(root)})
	d := newDisk(root)
	for c := range r.cuts(t, randomly(t), d, testenv.Rounds(8, 400)) {
		restored := filepath.Join(t.TempDir(), "data")
		p := testenv.ServeFolder(t, filepath.Join(c.root, "data"), append(asFlags(cutSettings()), copying(c.root)...)...)
		(&disks{t: t}).await(p, true)
		p.Kill()
		if _, stderr, status := testenv.Run(t, "restore", "--from=file://"+filepath.Join(c.root, "copies"), "--data="+restored, "--no-erasures"); status != 0 {
			t.Fatalf("the power is cut at line %d of %d: %s", c.line, r.lines, stderr)
		}
		if problems := checkCut(t, restored, c.acknowledged); problems != nil {
			t.Fatalf("the power is cut at line %d of %d: %s\n%s", c.line, r.lines, strings.Join(problems, "\n"), p.Log())
		}
	}
	d.checkNow(t)
}
