package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stepboard/app/e2e/harness"
	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/score"
)

// importer imports files into the test's stores, at 2026-11-20 13:00 UTC.
type importer struct {
	t   testing.TB
	env *testenv.Env
}

func newImporter(t testing.TB) *importer {
	t.Helper()
	env := harness.RealWithSecret(t)
	env.Config.Clock.Offset = time.Until(testenv.Noon)
	return &importer{t: t, env: env}
}

// run imports a text. It returns the exit status, the output, and the numbers
// of the reported lines.
func (i *importer) run(what, text string, more ...string) (status int, stdout string, lines []string) {
	i.t.Helper()
	path := filepath.Join(i.t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		i.t.Fatal(err)
	}
	args := append([]string{"import", what, path}, testenv.Flags(i.env.Config)...)
	stdout, stderr, status := testenv.Run(i.t, append(args, more...)...)
	for _, m := range regexp.MustCompile(`(?m)^line (\d+): .+$`).FindAllStringSubmatch(stderr, -1) {
		lines = append(lines, m[1])
	}
	return status, stdout + stderr, lines
}

// board returns the scores of a day in Redis, best first: "user score
// reached-at".
func (i *importer) board(date string) []string {
	i.t.Helper()
	bucket := i.bucket(date)
	if bucket == nil {
		return nil
	}
	entries, err := i.env.Redis.ZRevRangeWithScores(i.t.Context(), i.env.Keys.Board(bucket, 0), 0, -1).Result()
	if err != nil {
		i.t.Fatal(err)
	}
	var lines []string
	users := harness.Users(i.t, i.env.Gorm)
	for _, e := range entries {
		row := testenv.Must(models.ParseRowID(e.Member.(string)))
		points, at := score.Of(bucket).Decode(models.Composite(e.Score))
		lines = append(lines, fmt.Sprintf("%s %d %s", users[row], bucket.Score(points), testenv.Must(at.MarshalText())))
	}
	return lines
}

// people returns how many people have a score on a day.
func (i *importer) people(date string) int {
	i.t.Helper()
	bucket := i.bucket(date)
	if bucket == nil {
		return 0
	}
	return int(testenv.Must(i.env.Redis.ZCard(i.t.Context(), i.env.Keys.Board(bucket, 0)).Result()))
}

// bucket returns a day of the board; nil if there is none.
func (i *importer) bucket(date string) *models.Bucket {
	i.t.Helper()
	c := catalog.New(catalog.NewStore(i.env.Gorm), i.env.Clock.Now, 3, i.env.Log)
	if err := c.Definitions.Refresh(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
	bucket, err := c.Buckets.Find(i.t.Context(), testenv.Must(c.Definitions.Board("steps")), testenv.Must(models.ParseDate(date)))
	if err != nil {
		return nil
	}
	return bucket
}

func (i *importer) want(date string, want ...string) {
	i.t.Helper()
	if got := i.board(date); !slices.Equal(got, want) {
		i.t.Errorf("%s holds %q, want %q", date, got, want)
	}
}

func TestImportDailySteps(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	status, said, lines := i.run("steps", strings.Join([]string{
		"user_id,date,steps",
		"1001,2026-11-19,5000",
		"1002,2026-11-19,0",
		"1003,2026-11-20,700",    // today: reached no later than now
		"1003,2026-11-17,800",    // hot, though uploads for it are closed
		"1003,1969-12-31,800",    // line 6: before the first possible day
		"1003,2026-11-21,800",    // future
		"1003,2026-11-19,-1",     // negative
		"1003,2026-11-19,1.5",    // a fraction
		"1003,2026-11-19,100001", // too large
		"10 03,2026-11-19,1",
		"1003,2026-11-31,1",
		"1003,2026-11-19",
		"",
		"1001,2026-11-19,4000", // less than the stored total
		"..,2026-11-19,1",
		"1003,2026-11-19,99999999999999999999",
		`"1002","2026-11-18","900"`, // quoted
		`"1002,2026-11-18,901`,
	}, "\r\n"))
	if status != 1 || !slices.Equal(lines, []string{"6", "7", "8", "9", "10", "11", "12", "13", "16", "17", "19"}) {
		t.Errorf("status %d, lines %v: %s", status, lines, said)
	}
	if !strings.Contains(said, "11 bad lines") {
		t.Errorf("said %s", said)
	}
	i.want("2026-11-19", "1001 5000 2026-11-19T15:59:59.999Z", "1002 0 2026-11-19T15:59:59.999Z")
	i.want("2026-11-18", "1002 900 2026-11-18T15:59:59.999Z")
	i.want("2026-11-17", "1003 800 2026-11-17T15:59:59.999Z")
	today := i.board("2026-11-20")
	if len(today) != 1 || !strings.HasPrefix(today[0], "1003 700 2026-11-20T13:0") {
		t.Errorf("today holds %q", today)
	}
	// A second file: the larger total counts, the same changes nothing.
	status, said, _ = i.run("steps", "user_id,date,steps\n1001,2026-11-19,5000\n1002,2026-11-19,10\n")
	if status != 0 {
		t.Errorf("status %d: %s", status, said)
	}
	i.want("2026-11-19", "1001 5000 2026-11-19T15:59:59.999Z", "1002 10 2026-11-19T15:59:59.999Z")
	var n int64
	if err := i.env.Gorm.Model(&models.User{}).Count(&n).Error; err != nil || n != 3 {
		t.Errorf("%d users exist, %v", n, err)
	}
}

func TestImportHourlySteps(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	status, said, lines := i.run("steps", strings.Join([]string{
		"Id,ActivityHour,StepTotal",
		"1001,2026-11-19 22:00,0", // after the last step
		"1001,2026-11-19 8:00,100",
		"1001,2026-11-19 13:00,250", // the total last rose by 14:00
		"1001,2026-11-19 8:00,150",  // the same hour again: the larger counts
		"1002,2026-11-19 9:00,0",    // a day of 0 is a score, reached by its first hour
		"1002,2026-11-19 7:00,0",
		"1003,2026-11-19 23:00,9", // reached at midnight
		"1004,2026-11-20 20:00,7", // this hour is not over: reached now
		"1005,2026-11-19 25:00,1", // line 10
		"1005,2026-11-21 0:00,1",
		"1005,1969-12-31 0:00,1",
		"1005,2026-11-19 5:00,-1",
		"1006,2026-11-19 5:00,60000",
		"1006,2026-11-19 6:00,60000", // together more than the board's maximum
	}, "\n"))
	if status != 1 || !slices.Equal(lines, []string{"10", "11", "12", "13", "15"}) {
		t.Errorf("status %d, lines %v: %s", status, lines, said)
	}
	want := []string{
		"1001 400 2026-11-19T06:00:00.000Z",
		"1003 9 2026-11-19T16:00:00.000Z",
		"1002 0 2026-11-19T00:00:00.000Z",
	}
	i.want("2026-11-19", want...)
	if today := i.board("2026-11-20"); len(today) != 1 || !strings.HasPrefix(today[0], "1004 7 2026-11-20T13:0") {
		t.Errorf("today holds %q", today)
	}
	// Between files the larger total counts, though their hours differ.
	if status, said, _ := i.run("steps", "Id,ActivityHour,StepTotal\n1001,2026-11-19 1:00,399\n1003,2026-11-19 1:00,9\n"); status != 0 {
		t.Errorf("status %d: %s", status, said)
	}
	want[1] = "1003 9 2026-11-18T18:00:00.000Z" // the same total, reached earlier
	i.want("2026-11-19", want...)
}

func TestImportFriends(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	text := strings.Join([]string{
		"# a comment", "", "0 1", "1\t2", "2  3", "  3   0  ",
		"1 0",                   // known already, in the other direction
		"4 4",                   // line 8: oneself, which is counted
		"5",                     // one number
		"5 6 7",                 // three
		"a 6",                   // no number
		"-2 6",                  // below 1 with the offset
		"9223372036854775807 6", // wraps around with the offset
		"99999999999999999999 6",
	}, "\n")
	status, said, lines := i.run("friends", text, "--offset", "1")
	slices.Sort(lines)
	if status != 1 || !slices.Equal(lines, []string{"10", "11", "12", "13", "14", "9"}) || !strings.Contains(said, "4 new friendships, 1 already there, 1 with themselves, 6 bad lines") {
		t.Errorf("status %d, lines %v: %s", status, lines, said)
	}
	status, said, _ = i.run("friends", "0 1\n1 2\n2 3\n3 0\n", "--offset", "1")
	if status != 0 || !strings.Contains(said, " 0 new friendships") {
		t.Errorf("again: status %d: %s", status, said)
	}
	users := harness.Users(t, i.env.Gorm)
	var links []models.Friendship
	if err := i.env.Gorm.Find(&links).Error; err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range links {
		got = append(got, fmt.Sprintf("%s-%s", users[l.UserID], users[l.FriendID]))
	}
	slices.Sort(got)
	if want := []string{"1-2", "1-4", "2-1", "2-3", "3-2", "3-4", "4-1", "4-3"}; !slices.Equal(got, want) {
		t.Errorf("friendships %v, want %v", got, want)
	}
}

// A file may have each friendship twice, once for each user, in chunks that follow each
// other. It counts once, and an edge that is refused is refused each time.
func TestImportFriendsTwice(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	i.run("friends", "full other\n")
	if err := i.env.Gorm.Exec(`UPDATE users SET friend_count = ? WHERE external_id = 'full'`, models.MaxFriends).Error; err != nil {
		t.Fatal(err)
	}
	var one, other strings.Builder
	const pairs = 4000 // twice the first chunk
	for n := range pairs {
		fmt.Fprintf(&one, "left-%d right-%d\n", n, n)
		fmt.Fprintf(&other, "right-%d left-%d\n", n, n)
	}
	// Lines 1, 2001 and 8003.
	lines := strings.SplitAfterN("full left-1\n"+one.String(), "\n", 2001)
	text := strings.Join(lines[:2000], "") + "left-1 full\n" + lines[2000] + other.String() + "full left-1\n"
	status, out, bad := i.run("friends", text)
	if status != 1 || !slices.Equal(bad, []string{"1", "2001", "8003"}) || !strings.Contains(out, " 4000 new friendships") {
		t.Errorf("status %d, bad lines %v: %.1000s", status, bad, out)
	}
	if n := i.count(&models.Friendship{}); n != 2*(pairs+1) {
		t.Errorf("%d sides are stored, want %d", n, 2*(pairs+1))
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	for name, tt := range map[string]struct{ what, text, want string }{
		"an empty file":      {"steps", "", "the file is empty"},
		"a file of blanks":   {"steps", "\ufeff\n  \r\n\n", "the file is empty: its first line must name the columns"},
		"no header":          {"steps", "\n1001,2026-11-19,5\n", "no column has the steps"},
		"unknown columns":    {"steps", "who,when,what\n1,2,3\n", "must have the columns user_id, date and steps"},
		"a line without end": {"friends", strings.Repeat("1", 2<<20), "longer than"},
		"binary for friends": {"friends", "\x00\x01\x02\n", "it is binary"},
		"only bad lines":     {"friends", strings.Repeat("1,2,3\n", 1000), "after 0 lines: all 100 lines so far are bad: the file must have two user ids a line"},
	} {
		if status, said, _ := i.run(tt.what, tt.text); status != 1 || !strings.Contains(said, tt.want) {
			t.Errorf("%s: status %d: %s", name, status, said)
		}
	}
	// A sum that wraps around is out of range, even if the result is in it.
	status, said, _ := i.run("friends", "-9223372036854775808 -9223372036854775807\n", "--offset=-9223372036854775800")
	if status != 1 || !strings.Contains(said, "is not 1 or more") {
		t.Errorf("an offset that wraps around: status %d: %s", status, said)
	}
	if status, said, _ := i.run("steps", "user_id,date,steps\n", "--board", "nix"); status != 1 || !strings.Contains(said, "--board nix") {
		t.Errorf("an unknown board: status %d: %s", status, said)
	}
	_, stderr, status := testenv.Run(t, append([]string{"import", "steps", "no-such-file"}, testenv.Flags(i.env.Config)...)...)
	if status != 1 || !strings.Contains(stderr, "no-such-file") {
		t.Errorf("a missing file: status %d: %s", status, stderr)
	}
	_, stderr, status = testenv.Run(t, "import", "steps")
	if status != 2 {
		t.Errorf("without a file: status %d: %s", status, stderr)
	}
}

// Bytes and blank lines that editors put before the header are skipped.
func TestImportHeader(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	for n, before := range []string{"\n", "\ufeff", "\ufeff\r\n \t\r\n"} {
		status, said, _ := i.run("steps", fmt.Sprintf("%sUser_ID, Date, Steps\n%d,2026-11-19,5\n\n", before, n+1))
		if status != 0 || !strings.Contains(said, "1 totals raised") {
			t.Errorf("%q before the header: status %d: %s", before, status, said)
		}
		// Line numbers still are those of an editor.
		status, said, lines := i.run("steps", before+"user_id,date,steps\n..,2026-11-19,5\n")
		want := strconv.Itoa(strings.Count(before, "\n") + 2)
		if status != 1 || !slices.Equal(lines, []string{want}) {
			t.Errorf("%q before the header: status %d: %s", before, status, said)
		}
	}
	if got := i.board("2026-11-19"); len(got) != 3 {
		t.Errorf("the day holds %q", got)
	}
	status, said, _ := i.run("friends", "\ufeff1 2\n")
	if status != 0 || !strings.Contains(said, "1 new friendships") {
		t.Errorf("friends: status %d: %s", status, said)
	}
}

// A batch that Redis refuses is reported once, however many totals it has.
func TestImportWithRedisFailing(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{"daily": "user_id,date,steps", "hourly": "Id,ActivityHour,StepTotal"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImporter(t)
			// With a key of another type, every write fails.
			if err := i.env.Redis.Set(t.Context(), i.env.Keys.Board(testenv.Bucket(1), 0), "x", 0).Err(); err != nil {
				t.Fatal(err)
			}
			day := map[string]string{"daily": "2026-11-20", "hourly": "2026-11-20 7:00"}[name]
			var text strings.Builder
			text.WriteString(header + "\n")
			for id := range 5001 {
				fmt.Fprintf(&text, "%d,%s,5\n", id+1, day)
			}
			status, said, _ := i.run("steps", text.String())
			if status != 1 || strings.Count(said, "WRONGTYPE") != 1 || !strings.Contains(said, "2000 of 2000 totals were not raised") {
				t.Errorf("status %d: %.1000s", status, said)
			}
		})
	}
}

// interrupted starts an import, waits until a part of it is stored, and ends it as
// Ctrl-C does. It returns how many lines were imported, as the command says.
func (i *importer) interrupted(stored any, feed string, args ...string) (done int) {
	i.t.Helper()
	c := testenv.Start(i.t, append(append([]string{"import"}, args...), testenv.Flags(i.env.Config)...)...)
	c.Feed(feed)
	testenv.Eventually(i.t, "something is imported", func() bool {
		if c.Ended() {
			i.t.Fatalf("the import ended: %s", c.Log())
		}
		return i.count(stored) > 0
	})
	status := c.Interrupt()
	// On a slow machine, a line of progress every ten seconds comes first.
	m := regexp.MustCompile(`^(?:\d+ lines read, .*\n)*stepboard: after (\d+) lines: interrupted: what was imported stays[^\n]*\n$`).
		FindStringSubmatch(c.Log())
	if status != 1 || c.Stdout() != "" || m == nil {
		i.t.Fatalf("%v: status %d: %s%.1000s", args, status, c.Stdout(), c.Log())
	}
	return testenv.Must(strconv.Atoi(m[1]))
}

// count returns the number of rows of a table.
func (i *importer) count(table any) (n int64) {
	i.t.Helper()
	if err := i.env.Gorm.Model(table).Count(&n).Error; err != nil {
		i.t.Fatal(err)
	}
	return n
}

// importLines is the number of lines of a file whose import takes long enough to be
// interrupted.
const importLines = 100_000

// An import that is interrupted completes the chunk that it is storing, and says how many
// lines are imported. Importing the file again adds exactly the rest.
func TestImportIsInterrupted(t *testing.T) {
	t.Parallel()
	var friends, daily, hourly strings.Builder
	daily.WriteString("user_id,date,steps\n")
	hourly.WriteString("Id,ActivityHour,StepTotal\n")
	for n := 1; n <= importLines; n++ {
		fmt.Fprintf(&friends, "%d %d\n", n, n+1)
		fmt.Fprintf(&daily, "%d,2026-11-19,5\n", n)
		fmt.Fprintf(&hourly, "%d,2026-11-19 7:00,5\n", n)
	}
	texts := map[string]string{"friends": friends.String(), "daily steps": daily.String(), "hourly steps": hourly.String()}
	for _, name := range testenv.Forms(t, 1, slices.Sorted(maps.Keys(texts))) {
		text := texts[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newImporter(t)
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if name == "friends" {
				done := i.interrupted(&models.Friendship{}, "", "friends", path)
				if n := i.count(&models.Friendship{}); n != 2*int64(done) || done == importLines {
					t.Errorf("%d rows are stored after %d lines", n, done)
				}
				status, said, _ := i.run("friends", text)
				if want := fmt.Sprintf("%d lines, %d new friendships", importLines, importLines-done); status != 0 || !strings.Contains(said, want) {
					t.Errorf("the second time: status %d: %s, want %s", status, said, want)
				}
				return
			}
			done := i.interrupted(&models.User{}, "", "steps", path)
			if n := i.people("2026-11-19"); n != done || done == importLines {
				t.Errorf("%d totals are on the board after %d lines", n, done)
			}
			if status, said, _ := i.run("steps", text); status != 0 {
				t.Errorf("the second time: status %d: %s", status, said)
			}
			if n := i.people("2026-11-19"); n != importLines {
				t.Errorf("in the end %d totals are on the board", n)
			}
		})
	}
	// An import that waits for more data from a pipe can be interrupted, too.
	t.Run("a pipe", func(t *testing.T) {
		t.Parallel()
		newImporter(t).interrupted(&models.Friendship{}, friends.String()[:40_000], "friends", "/dev/stdin")
	})
}

// Gentle imports add the same.
func TestImportGently(t *testing.T) {
	t.Parallel()
	i := newImporter(t)
	if status, said, _ := i.run("friends", "1 2\n2 3\n3 2\n", "--gently"); status != 0 || !strings.Contains(said, "2 new friendships") {
		t.Errorf("friends: status %d: %s", status, said)
	}
	if status, said, _ := i.run("steps", "user_id,date,steps\n1,2026-11-19,5\n4,2026-11-19,6\n", "--gently"); status != 0 {
		t.Errorf("steps: status %d: %s", status, said)
	}
	i.want("2026-11-19", "4 6 2026-11-19T15:59:59.999Z", "1 5 2026-11-19T15:59:59.999Z")
}
