// Package backupstest has targets with faults for tests, and writes chains of states without a
// database that is served.
package backupstest

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"stepboard/config"
	"stepboard/internal/backups"
)

// Bucket is the bucket of S3.
const Bucket = "copies"

// S3 is an S3 service in the test's process, whose objects are in memory. It can be made to fail. Safe
// for concurrent use.
type S3 struct {
	server  *httptest.Server
	service http.Handler
	backend *backend

	mu       sync.Mutex
	faults   Faults
	held     chan struct{} // closed when requests go on
	requests map[string]int
	complete sync.Mutex
}

// Faults are what S3 does wrong.
type Faults struct {
	// Refuse is how many requests are answered with 503 and not done.
	Refuse int
	// LoseAnswers is how many writes are done without an answer: the connection is closed.
	LoseAnswers int
	// CutAnswers is how many answers with an object of more than 1 MB end in the middle of it.
	CutAnswers int
	// ListsLate leaves objects that are written meanwhile out of lists, until it is over.
	ListsLate bool
	// IgnoreConditions makes writes replace objects, whatever they ask for. RefuseConditions answers 501
	// to those that ask.
	IgnoreConditions, RefuseConditions bool
}

// NewS3 starts an S3 service that ends with the test. It checks no signatures.
func NewS3(t testing.TB) *S3 {
	t.Helper()
	memory := s3mem.New()
	if err := memory.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	s := &S3{backend: &backend{Backend: memory, hidden: make(map[string]bool)}, held: make(chan struct{}), requests: make(map[string]int)}
	close(s.held)
	s.service = gofakes3.New(s.backend, gofakes3.WithoutVersioning(), gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	s.server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.server.CloseClientConnections() // those that are held, too
		s.server.Close()
	})
	return s
}

// Options returns the settings of a target in the bucket.
func (s *S3) Options(prefix string) config.Backup {
	return config.Backup{
		To: "s3://" + Bucket + "/" + prefix, Endpoint: s.server.URL, Region: "us-east-1", AccessKey: "key", SecretKey: "hidden-secret",
	}
}

// Target opens a target in the bucket.
func (s *S3) Target(t testing.TB, prefix string) backups.Target {
	t.Helper()
	target, err := backups.Open(s.Options(prefix))
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// Fail sets what goes wrong from now on. Faults{} ends all.
func (s *S3) Fail(faults Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
	s.backend.listLate(faults.ListsLate)
}

// Hold makes requests wait until release is called, or whoever made them gives up.
func (s *S3) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.held = held
	return sync.OnceFunc(func() { close(held) })
}

// Requests returns how many requests of a method have come.
func (s *S3) Requests(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[method]
}

// ServeHTTP implements http.Handler.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	writes := r.Method == http.MethodPut || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
	conditional := writes && r.Header.Get("If-None-Match") != ""
	s.mu.Lock()
	s.requests[r.Method]++
	held, refuse, lose, cut := s.held, s.faults.Refuse > 0, false, false
	if refuse {
		s.faults.Refuse--
	} else if lose = writes && s.faults.LoseAnswers > 0; lose {
		s.faults.LoseAnswers--
	} else if cut = r.Method == http.MethodGet && s.faults.CutAnswers > 0 && s.backend.size(r.URL) > 1<<20; cut {
		s.faults.CutAnswers--
	}
	if s.faults.IgnoreConditions {
		r.Header.Del("If-None-Match")
		conditional = false
	}
	unknown := conditional && s.faults.RefuseConditions
	s.mu.Unlock()
	select {
	case <-held:
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
	switch {
	case refuse:
		answer(w, http.StatusServiceUnavailable, "SlowDown")
		return
	case unknown:
		answer(w, http.StatusNotImplemented, "NotImplemented")
		return
	case conditional && r.Method == http.MethodPost: // gofakes3 checks the condition of PUT only
		s.complete.Lock()
		defer s.complete.Unlock()
		if s.backend.size(r.URL) >= 0 {
			answer(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
	}
	if lose || cut {
		whole := httptest.NewRecorder()
		s.service.ServeHTTP(whole, r)
		if cut {
			maps.Copy(w.Header(), whole.Header())
			w.WriteHeader(whole.Code)
			_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
		}
		panic(http.ErrAbortHandler)
	}
	s.service.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

// backend leaves objects out of lists.
type backend struct {
	gofakes3.Backend

	mu     sync.Mutex
	late   bool
	hidden map[string]bool
}

func (b *backend) listLate(late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late = late; !late {
		b.hidden = make(map[string]bool)
	}
}

// size returns the size of the object that a request names, -1 if there is none.
func (b *backend) size(u *url.URL) int64 {
	o, err := b.HeadObject(Bucket, strings.TrimPrefix(u.Path, "/"+Bucket+"/"))
	if err != nil {
		return -1
	}
	return o.Size
}

// PutObject implements gofakes3.Backend.
func (b *backend) PutObject(bucket, key string, meta map[string]string, from io.Reader, size int64, conditions *gofakes3.PutConditions) (gofakes3.PutObjectResult, error) {
	b.mu.Lock()
	if b.late {
		b.hidden[key] = true
	}
	b.mu.Unlock()
	return b.Backend.PutObject(bucket, key, meta, from, size, conditions)
}

// ListBucket implements gofakes3.Backend.
func (b *backend) ListBucket(name string, prefix *gofakes3.Prefix, page gofakes3.ListBucketPage) (*gofakes3.ObjectList, error) {
	list, err := b.Backend.ListBucket(name, prefix, page)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	shown := make([]*gofakes3.Content, 0, len(list.Contents))
	for _, o := range list.Contents {
		if !b.hidden[o.Key] {
			shown = append(shown, o)
		}
	}
	list.Contents = shown
	return list, nil
}
