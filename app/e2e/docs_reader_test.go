package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"stepboard/internal/testenv"
	"stepboard/models"
)

// reader runs the commands of a document in a shell.
type reader struct {
	*testenv.Shell
	t   testing.TB
	doc string
	tmp string
	// addr is the address of the service that the document has started last.
	addr string
	// dayOffset is the number of days from the document's date to today, by which
	// the dates in outputs are moved.
	dayOffset int
	typed     string // the commands so far
}

// newReader opens a shell in a copy of the checkout, with an empty Redis and an
// empty schema in Postgres.
func newReader(t testing.TB, doc string) *reader {
	t.Helper()
	folder := t.TempDir()
	r := &reader{t: t, doc: doc, tmp: filepath.Join(folder, "tmp"), addr: documentedAddr}
	checkout, bin := filepath.Join(folder, "checkout"), filepath.Join(folder, "bin")
	for _, dir := range []string{checkout, r.tmp, bin} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	copyCheckout(t, checkout)
	rdb, dsn := testenv.StartRedis(t).Addr(), testenv.RealConfig(t).Config.Postgres.DSN
	fillBin(t, bin, rdb)
	pg := testenv.Must(pgconn.ParseConfig(dsn))
	env := append(ownEnvironment(),
		"TZ=Asia/Shanghai", // where the demo is, whose dates the documents show
		"PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+r.tmp, "CURL_HOME="+bin,
		// With these flags, go run uses the build cache of make build.
		"CGO_ENABLED=0", "GOFLAGS=-trimpath -ldflags=-w -tags=nomsgpack",
		"TEST_REDIS_ADDR="+rdb, "TEST_POSTGRES_DSN="+dsn, "STEPBOARD_HTTP__ADDR=127.0.0.1:0",
		"PGHOST="+pg.Host, fmt.Sprintf("PGPORT=%d", pg.Port), "PGUSER="+pg.User, "PGPASSWORD="+pg.Password,
		"PGDATABASE="+pg.Database, "PGOPTIONS=-c search_path="+pg.RuntimeParams["search_path"])
	if doc == "docs/operations.md" {
		now := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC) // the document's date
		env = append(env, "STEPBOARD_REDIS__ADDRS="+rdb, "STEPBOARD_POSTGRES__DSN="+dsn, "STEPBOARD_CLOCK__OFFSET="+time.Until(now).String())
	}
	r.Shell = testenv.StartShell(t, checkout, env)
	if doc == "docs/operations.md" {
		if err := r.run(codeBlock{lines: strings.Split(operationsSetup, "\n")}.commands()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// fillBin makes commands for the shell: stepboard, a redis-cli that connects to
// the test's port, and a setting that stops curl from drawing progress.
func fillBin(t testing.TB, bin, rdb string) {
	t.Helper()
	_, port, err := net.SplitHostPort(rdb)
	cli := fmt.Sprintf("#!/bin/sh\nexec %s -p %s \"$@\"\n", testenv.Must(exec.LookPath("redis-cli")), port)
	err = errors.Join(err,
		os.Symlink(testenv.Binary(), filepath.Join(bin, "stepboard")),
		os.WriteFile(filepath.Join(bin, "redis-cli"), []byte(cli), 0o777),
		os.WriteFile(filepath.Join(bin, ".curlrc"), []byte("silent\nshow-error\n"), 0o666))
	if err != nil {
		t.Fatal(err)
	}
}

// ownEnvironment returns the environment without the variables of make, the
// tests and Stepboard.
func ownEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "STEPBOARD_") || strings.HasPrefix(v, "TEST_") || strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS")
	})
}

// copyCheckout copies the sources, so that commands may write there.
func copyCheckout(t testing.TB, to string) {
	t.Helper()
	for _, entry := range testenv.Must(os.ReadDir("../..")) {
		name := entry.Name()
		if name == ".git" || name == "build" || name == ".build" || name == "stepboard" || name == ".env" || name == "stepboard.yaml" {
			continue
		}
		var err error
		if from := filepath.Join("../..", name); entry.IsDir() {
			err = os.CopyFS(filepath.Join(to, name), os.DirFS(from))
		} else {
			info := testenv.Must(entry.Info())
			err = os.WriteFile(filepath.Join(to, name), testenv.Must(os.ReadFile(from)), info.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// withinAnHour makes a trial of a document, again if it fails and an hour has ended meanwhile, and
// perhaps a day: the demo was not what it is then.
func withinAnHour(now models.Clock, trial func() error) error {
	for {
		hour := now().Truncate(time.Hour)
		if err := trial(); err == nil || now().Truncate(time.Hour).Equal(hour) {
			return err
		}
	}
}

// A trial that fails counts, but after one in which an hour has ended the next one does.
func TestDocsAreTriedAgainAfterAnHour(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes  []time.Duration // the time of each trial
		trials int
	}{
		"within an hour": {[]time.Duration{59 * time.Minute}, 1},
		"an hour ends":   {[]time.Duration{time.Hour, time.Minute}, 2},
	} {
		clock, trials := testenv.NewClock(testenv.Noon), 0
		err := withinAnHour(clock.Now, func() error {
			clock.Advance(tt.takes[trials])
			trials++
			return fmt.Errorf("trial %d", trials)
		})
		if err == nil || err.Error() != fmt.Sprintf("trial %d", tt.trials) || trials != tt.trials {
			t.Errorf("%s: %v, after %d trials", name, err, trials)
		}
	}
	if err := withinAnHour(time.Now, func() error { return nil }); err != nil {
		t.Error(err)
	}
}

// run runs the commands and returns an error if one fails or prints what the document does not show.
func (r *reader) run(commands []docCommand) error {
	r.t.Helper()
	var differences error
	var demo string // its output
	for _, c := range commands {
		r.typed += c.text + "\n"
		printed, status := r.Do(r.adapt(c))
		if status != 0 {
			return errors.Join(differences, fmt.Errorf("line %d: %s: status %d: %s%s", c.number, c.text, status, printed, r.Stderr()))
		}
		switch {
		case strings.HasPrefix(c.text, startDemo):
			demo = r.demoStarted(c)
			printed = demo
		case c.startsService():
			r.addr = r.awaits(filepath.Join(r.tmp, c.outputFile()), regexp.MustCompile(`"msg":"serving","addr":"([^"]+)"`))
		}
		if c.output != nil {
			differences = errors.Join(differences, r.compare(c, printed))
		}
	}
	if demo != "" {
		differences = errors.Join(differences, r.runPrinted(demo))
	}
	return differences
}

// runPrinted runs the commands that a demo prints for its users.
func (r *reader) runPrinted(demo string) error {
	calls := strings.Join(regexp.MustCompile(`(?m)^  (TOKEN=|curl ).*$`).FindAllString(demo, -1), "\n")
	printed, status := r.Do("(set -e; " + calls + ")")
	if status != 0 || strings.Count(printed, `"source":"hot"`) != 1 || strings.Count(printed, `"accepted":`) != 1 {
		return fmt.Errorf("%s: status %d: %s%s", calls, status, printed, r.Stderr())
	}
	return nil
}

const startDemo = "go run . demo"

// startsService reports whether the command starts a service in the background.
func (c docCommand) startsService() bool {
	return strings.Contains(c.text, "stepboard serve ") && strings.HasSuffix(c.text, " &")
}

// outputFile returns the name of the file for the output of a demo or a service.
func (c docCommand) outputFile() string { return fmt.Sprintf("output-%d.txt", c.number) }

// adapt returns the command as it must be typed in this shell.
func (r *reader) adapt(c docCommand) string {
	text := c.text
	if strings.HasPrefix(text, startDemo) {
		// On a free port, and in the background instead of another terminal.
		text += " --addr 127.0.0.1:0 >/tmp/" + c.outputFile() + " 2>&1 &"
	}
	if service, starts := strings.CutSuffix(text, " &"); starts && c.startsService() {
		// At this level it logs its address.
		text = service + " --log.level info >/tmp/" + c.outputFile() + " 2>&1 &"
	}
	if c.isSQL() {
		text = `psql --quiet --set ON_ERROR_STOP=1 --command "` + text + `"`
	}
	text = strings.ReplaceAll(text, "/tmp/", r.tmp+"/")
	return strings.ReplaceAll(text, documentedAddr, r.addr)
}

var isoDate = regexp.MustCompile(`\b\d{4}-\d\d-\d\d`)

// shiftDates moves the dates in an output of the document to the days of this
// run.
func (r *reader) shiftDates(text string) string {
	return isoDate.ReplaceAllStringFunc(text, func(date string) string {
		d, err := models.ParseDate(date)
		if err != nil {
			return date
		}
		return (d + models.Date(r.dayOffset)).String()
	})
}

// demoStarted waits for a demo, sets its token in the shell and returns its
// output. It also finds the offset between the document's date and today.
func (r *reader) demoStarted(c docCommand) string {
	r.t.Helper()
	path := filepath.Join(r.tmp, c.outputFile())
	r.addr = r.awaits(path, regexp.MustCompile(`(?m)^  curl .* http://(\S+)/v1/boards/steps/scores\n\n`))
	printed := string(testenv.Must(os.ReadFile(path)))
	day := regexp.MustCompile(`{"date":"([\d-]+)","score":20000}`)
	if c.output != nil {
		m := day.FindStringSubmatch(*c.output)
		if m == nil {
			r.t.Fatalf("line %d: what the demo prints is shown without the upload", c.number)
		}
		r.dayOffset = int(testenv.Must(models.ParseDate(day.FindStringSubmatch(printed)[1])) - testenv.Must(models.ParseDate(m[1])))
	}
	r.Do(regexp.MustCompile(`TOKEN=\S+`).FindString(printed))
	return printed
}

// documentedAddr is the address of the service in the documents.
const documentedAddr = "127.0.0.1:8080"

// awaits waits until a file has a match, while the last background command
// runs.
func (r *reader) awaits(path string, what *regexp.Regexp) (found string) {
	r.t.Helper()
	testenv.Eventually(r.t, what.String(), func() bool {
		_, status := r.Do("kill -0 $!")
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.t.Fatal(err)
		}
		if m := what.FindSubmatch(text); m != nil {
			found = string(m[1])
			return true
		}
		if status != 0 {
			r.t.Fatalf("it has ended: %s", text)
		}
		return false
	})
	return found
}

// varies lists the parts of an output that differ from run to run.
var varies = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`"(nickname|user_id|next_cursor|request_id)":"[^"]*"`), `"$1":"·"`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`eyJ[\w.-]+…?`), "TOKEN"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
}

var numberField = regexp.MustCompile(`"(\w+)":\d+(\.\d+)?`)

// shape returns an output without the parts that differ from run to run.
// Numbers stay if they are a status, or if a command has sent them.
func (r *reader) shape(output string) string {
	for _, v := range varies {
		output = v.what.ReplaceAllString(output, v.as)
	}
	output = numberField.ReplaceAllStringFunc(output, func(field string) string {
		name, _, _ := strings.Cut(field, ":")
		if name == `"status"` || strings.Contains(r.typed, field+"}") {
			return field
		}
		return name + ":0"
	})
	return strings.TrimSpace(output)
}

// compare compares the output with the document's.
func (r *reader) compare(c docCommand, printed string) error {
	parts := strings.Split(r.shape(r.shiftDates(*c.output)), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	if want := regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`); !want.MatchString(r.shape(printed)) {
		return fmt.Errorf("%s:%d: %s\nprints    %s\nand not   %s\nbecause   %s\nis unlike %s", r.doc, c.number, c.text,
			strings.TrimSpace(printed), strings.TrimSpace(*c.output), r.shape(printed), r.shape(r.shiftDates(*c.output)))
	}
	return nil
}
