package backups_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"stepboard/config"
	"stepboard/internal/backups"
	"stepboard/internal/backups/backupstest"
	"stepboard/internal/testenv"
)

// create writes an object with a text.
func create(t *testing.T, target backups.Target, name, text string) error {
	t.Helper()
	return target.Create(t.Context(), name, strings.NewReader(text), int64(len(text)))
}

// text reads an object.
func text(t *testing.T, target backups.Target, name string) string {
	t.Helper()
	body, err := target.Read(t.Context(), name)
	if err != nil {
		return err.Error()
	}
	defer body.Close()
	return string(testenv.Must(io.ReadAll(body)))
}

// list returns the names and sizes of objects in one line.
func list(t *testing.T, target backups.Target, prefix string) string {
	t.Helper()
	var names []string
	for _, o := range testenv.Must(target.List(t.Context(), prefix)) {
		names = append(names, fmt.Sprintf("%s:%d", o.Name, o.Size))
	}
	return strings.Join(names, " ")
}

func openFolder(t *testing.T, dir string) backups.Target {
	t.Helper()
	return testenv.Must(backups.Open(config.Backup{To: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()}))
}

// All targets do what the interface says.
func TestTargets(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) backups.Target{
		"folder": func(t *testing.T) backups.Target { return openFolder(t, filepath.Join(t.TempDir(), "copies")) },
		"folder without links": func(t *testing.T) backups.Target {
			target := openFolder(t, filepath.Join(t.TempDir(), "copies"))
			backups.WithoutLinks(target)
			return target
		},
		"s3":                  func(t *testing.T) backups.Target { return backupstest.NewS3(t).Target(t, "a/b") },
		"s3 without a prefix": func(t *testing.T) backups.Target { return backupstest.NewS3(t).Target(t, "") },
		"s3 without conditions": func(t *testing.T) backups.Target {
			s3 := backupstest.NewS3(t)
			s3.Fail(backupstest.Faults{RefuseConditions: true})
			return s3.Target(t, "a")
		},
		"s3 that ignores conditions": func(t *testing.T) backups.Target {
			s3 := backupstest.NewS3(t)
			s3.Fail(backupstest.Faults{IgnoreConditions: true})
			return s3.Target(t, "a")
		},
		"memory": func(*testing.T) backups.Target { return backupstest.NewMemory() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTarget(t, open(t))
		})
	}
}

func testTarget(t *testing.T, target backups.Target) {
	t.Helper()
	if got := list(t, target, ""); got != "" {
		t.Errorf("a new target has %s", got)
	}
	if got := text(t, target, "00000001/generation.json"); got != backups.ErrNotFound.Error() {
		t.Errorf("an object that does not exist: %s", got)
	}
	for _, name := range []string{"00000002/b/2", "00000001/b/1", "00000001/a", "00000001/b/10"} {
		if err := create(t, target, name, "text of "+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := create(t, target, "00000001/a", "other"); !errors.Is(err, backups.ErrExists) {
		t.Errorf("a second object of a name: %v", err)
	}
	from := strings.NewReader("again") // a caller repeats with the same reader
	for _, want := range []error{nil, backups.ErrExists} {
		if err := target.Create(t.Context(), "00000002/c", from, 5); !errors.Is(err, want) {
			t.Errorf("create: %v, want %v", err, want)
		}
	}
	if err := target.Create(t.Context(), "00000002/short", strings.NewReader("1234"), 5); err == nil {
		t.Error("an object was written with fewer bytes than it should have")
	}
	for name, want := range map[string]string{"00000001/a": "text of 00000001/a", "00000002/c": "again", "00000002/short": backups.ErrNotFound.Error()} {
		if got := text(t, target, name); got != want {
			t.Errorf("%s has %q", name, got)
		}
	}
	for prefix, want := range map[string]string{
		"":              "00000001/a:18 00000001/b/1:20 00000001/b/10:21 00000002/b/2:20 00000002/c:5",
		"00000001/":     "00000001/a:18 00000001/b/1:20 00000001/b/10:21",
		"00000001/b/":   "00000001/b/1:20 00000001/b/10:21",
		"00000001/b/10": "00000001/b/10:21",
		"0000000":       "00000001/a:18 00000001/b/1:20 00000001/b/10:21 00000002/b/2:20 00000002/c:5",
		"00000003/":     "",
	} {
		if got := list(t, target, prefix); got != want {
			t.Errorf("list of %q: %s", prefix, got)
		}
	}
	if err := target.Delete(t.Context(), "00000001/b/1", "00000007/no", "00000001/b/10"); err != nil {
		t.Error(err)
	}
	if err := target.Delete(t.Context()); err != nil {
		t.Error(err)
	}
	if got := list(t, target, "00000001/"); got != "00000001/a:18" {
		t.Errorf("after deleting: %s", got)
	}
	if err := create(t, target, "00000001/b/1", "new"); err != nil {
		t.Errorf("a name that was deleted: %v", err)
	}
}

// Of several writers of a name one wins, and its object is the one that is there.
func TestWritersOfOneName(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	dir := filepath.Join(t.TempDir(), "copies")
	for name, open := range map[string]func() backups.Target{
		"folder": func() backups.Target { return openFolder(t, dir) },
		"s3":     func() backups.Target { return s3.Target(t, "x") },
	} {
		for round := range 10 {
			object, winners := fmt.Sprintf("00000001/%d", round), make(chan string, 4)
			var running sync.WaitGroup
			for writer := range cap(winners) {
				running.Go(func() {
					mine := fmt.Sprintf("writer %d", writer)
					switch err := create(t, open(), object, mine); {
					case err == nil:
						winners <- mine
					case !errors.Is(err, backups.ErrExists):
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			running.Wait()
			if got := len(winners); got != 1 {
				t.Fatalf("%s: %d writers won", name, got)
			}
			if got, want := text(t, open(), object), <-winners; got != want {
				t.Errorf("%s: it has %q, not %q", name, got, want)
			}
		}
	}
}

// Large objects are written in parts, on the same condition.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	target := s3.Target(t, "x")
	large := make([]byte, 64<<20+1000)
	source := rand.NewChaCha8([32]byte{1})
	testenv.Must(source.Read(large))
	write := func() error { return target.Create(t.Context(), "large", bytes.NewReader(large), int64(len(large))) }
	release := s3.Hold()
	errs := make(chan error, 2)
	for range cap(errs) {
		go func() { errs <- write() }()
	}
	testenv.Eventually(t, "both ask whether it exists", func() bool { return s3.Requests(http.MethodHead) == 2 })
	release()
	first, second := testenv.Receive(t, "one is written", errs), testenv.Receive(t, "the other is not", errs)
	if first != nil && second != nil || !errors.Is(errors.Join(first, second), backups.ErrExists) {
		t.Errorf("two at once: %v and %v", first, second)
	}
	if err := write(); !errors.Is(err, backups.ErrExists) {
		t.Errorf("written again: %v", err)
	}
	body := testenv.Must(target.Read(t.Context(), "large"))
	defer body.Close()
	if got := testenv.Must(io.ReadAll(body)); !bytes.Equal(got, large) {
		t.Errorf("it has other bytes, %d", len(got))
	}
}

// A service that fails makes errors, which name no secret, and nobody waits longer than they want.
func TestAServiceThatFails(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	target := s3.Target(t, "x")
	calls := map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error { return target.Create(ctx, "a", strings.NewReader("a"), 1) },
		"read":   func(ctx context.Context) error { _, err := target.Read(ctx, "a"); return err },
		"list":   func(ctx context.Context) error { _, err := target.List(ctx, ""); return err },
		"delete": func(ctx context.Context) error { return target.Delete(ctx, "a") },
	}
	for name, call := range calls {
		before := s3.Requests(http.MethodPut) + s3.Requests(http.MethodHead) + s3.Requests(http.MethodGet) + s3.Requests(http.MethodPost)
		s3.Fail(backupstest.Faults{Refuse: 1})
		err := call(t.Context())
		if err == nil || errors.Is(err, backups.ErrNotFound) || errors.Is(err, backups.ErrExists) || strings.Contains(err.Error(), "hidden-secret") {
			t.Errorf("%s of a service that refuses: %v", name, err)
		}
		after := s3.Requests(http.MethodPut) + s3.Requests(http.MethodHead) + s3.Requests(http.MethodGet) + s3.Requests(http.MethodPost)
		if after != before+1 {
			t.Errorf("%s is %d requests", name, after-before)
		}
	}
	release := s3.Hold()
	defer release()
	for name, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- call(ctx) }()
		cancel()
		if err := testenv.Receive(t, name+" ends", done); !errors.Is(err, context.Canceled) {
			t.Errorf("%s that is given up: %v", name, err)
		}
	}
	release()
	s3.Fail(backupstest.Faults{LoseAnswers: 1})
	if err := create(t, target, "a", "mine"); err == nil || errors.Is(err, backups.ErrExists) {
		t.Errorf("without an answer: %v", err)
	}
	if err := create(t, target, "a", "mine"); !errors.Is(err, backups.ErrExists) || text(t, target, "a") != "mine" {
		t.Errorf("repeated: %v", err)
	}
	other := s3.Options("x")
	other.To = "s3://no-such-bucket/x"
	missing := testenv.Must(backups.Open(other))
	if _, err := missing.Read(t.Context(), "a"); err == nil || errors.Is(err, backups.ErrNotFound) {
		t.Errorf("read in a bucket that does not exist: %v", err)
	}
	if _, err := missing.List(t.Context(), ""); err == nil {
		t.Error("a bucket that does not exist is empty")
	}
}

func TestLateLists(t *testing.T) {
	t.Parallel()
	s3 := backupstest.NewS3(t)
	target := s3.Target(t, "x")
	testenv.Must(0, create(t, target, "a", "1"))
	s3.Fail(backupstest.Faults{ListsLate: true})
	testenv.Must(0, create(t, target, "b", "1"))
	if got := list(t, target, ""); got != "a:1" || text(t, target, "b") != "1" {
		t.Errorf("late: %s", got)
	}
	s3.Fail(backupstest.Faults{})
	if got := list(t, target, ""); got != "a:1 b:1" {
		t.Errorf("later: %s", got)
	}
}

// Only this account can read a folder's objects, what was left by a killed process is not among them,
// and a disk that is not there is no empty target.
func TestFolder(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	target := openFolder(t, filepath.Join(disk, "copies"))
	for name, call := range map[string]func() error{
		"create": func() error { return create(t, target, "00000001/a", "1") },
		"read":   func() error { _, err := target.Read(t.Context(), "00000001/a"); return err },
		"list":   func() error { _, err := target.List(t.Context(), ""); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "disk") || errors.Is(err, backups.ErrNotFound) {
			t.Errorf("%s without the disk: %v", name, err)
		}
	}
	testenv.Must(0, os.Mkdir(disk, 0o755))
	testenv.Must(0, create(t, target, "00000001/a", "1"))
	err := filepath.WalkDir(filepath.Join(disk, "copies"), func(path string, entry fs.DirEntry, err error) error {
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[entry.IsDir()]; testenv.Must(entry.Info()).Mode().Perm() != want {
			t.Errorf("mode of %s: %v", path, testenv.Must(entry.Info()).Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	left := filepath.Join(disk, "copies", "unfinished", "left")
	testenv.Must(0, os.WriteFile(left, nil, 0o600))
	if got := list(t, target, ""); got != "00000001/a:1" {
		t.Errorf("it has %s", got)
	}
	long := testenv.Noon.AddDate(-1, 0, 0)
	testenv.Must(0, os.Chtimes(left, long, long))
	testenv.Must(0, create(t, openFolder(t, filepath.Join(disk, "copies")), "00000001/b", "1"))
	if files := testenv.Must(os.ReadDir(filepath.Dir(left))); len(files) != 0 {
		t.Errorf("left are %v", files)
	}
	testenv.Must(0, os.RemoveAll(filepath.Join(disk, "copies"))) // as if it were unmounted
	if err := create(t, target, "00000002/a", "1"); err == nil {
		t.Error("it writes to where its disk was")
	}
}

// What is no address is refused in one line that shows no secret.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, o := range []config.Backup{
		{To: ""}, {To: "copies"}, {To: "/mnt/copies"}, {To: "https://example.com/b"}, {To: "s3://"}, {To: "s3:///p"},
		{To: "s3://key:tell-nobody@bucket/p"}, {To: "s3://key:tell/nobody@bucket/p"}, {To: "s3://AKIA/tell-nobody@bucket"},
		{To: "s3://bucket/p?secret_key=tell-nobody"}, {To: "s3://bucket/p#x"}, {To: "s3://Bad_Bucket"},
		{To: "file://relative/x"}, {To: "file:relative"}, {To: "file:///"}, {To: "file://"},
		{To: "s3://bucket", Endpoint: "http://key:tell-nobody@minio:9000"}, {To: "s3://bucket", Endpoint: "ftp://minio"},
		{To: "s3://bucket", Endpoint: "http://minio/path"}, {To: "s3://bucket", AccessKey: "key"}, {To: "s3://bucket", SecretKey: "tell-nobody"},
	} {
		_, err := backups.Open(o)
		if err == nil || strings.Contains(err.Error(), "nobody") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []config.Backup{
		{To: "s3://bucket"}, {To: "s3://bucket/a/b/"}, {To: "s3://bucket/a", Endpoint: "minio:9000"},
		{To: "s3://bucket/a", Endpoint: "http://192.168.1.2:9000/", Region: "home", AccessKey: "a", SecretKey: "b"}, {To: "file:///mnt/disk/copies"},
	} {
		if _, err := backups.Open(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// What is no file in the place of an object is an error, and nobody waits for it.
func TestAPipeInAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, "pipe")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := text(t, openFolder(t, dir), "pipe"); !strings.Contains(got, "is no file") {
		t.Errorf("a pipe: %s", got)
	}
}

// A folder that is exchanged for another one gets what is written then.
func TestAFolderThatIsExchanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "copies")
	target := openFolder(t, dir)
	testenv.Must(0, create(t, target, "a/b", "1"))
	testenv.Must(0, os.Rename(dir, dir+".aside"))
	testenv.Must(0, os.Mkdir(dir, 0o700))
	testenv.Must(0, create(t, target, "a/c", "2"))
	if got := list(t, target, ""); got != "a/c:1" {
		t.Errorf("the other one has %s", got)
	}
}

// A service that answers 200 to everything has no end of generations: that is an error.
func TestAServiceThatHasEverything(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("list-type") {
			fmt.Fprint(w, `<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>`)
			return
		}
		w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 12:00:00 GMT")
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	target := testenv.Must(backups.Open(config.Backup{To: "s3://bucket/x", Endpoint: server.URL, Region: "a", AccessKey: "a", SecretKey: "b"}))
	if list, err := backups.Generations(t.Context(), target); err == nil || !strings.Contains(err.Error(), "is it a service for objects?") {
		t.Errorf("%d generations, %v", len(list), err)
	}
}
