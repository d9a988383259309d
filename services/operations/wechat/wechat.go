package wechat

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"stepboard/internal/pause"
	"stepboard/internal/sealed"
	"stepboard/models"
	"stepboard/services/boards/ingest"
	"stepboard/services/people/identities"
)

const (
	// maxLogins is how many codes a process exchanges at the same time.
	maxLogins = 32
	// refusalTime is how long the answer about a document that can't be read takes, whatever is wrong with it.
	refusalTime = 100 * time.Millisecond
	// storeTimeout bounds how long it takes to store what must be stored though the client is gone.
	storeTimeout = 5 * time.Second
)

// App is a mini program.
type App struct {
	ID, Secret string
	// Board takes the steps: a daily board whose days are those of China.
	Board string
}

// Uploads takes the totals of a user. Implemented by ingest.Service.
type Uploads interface {
	Accept(ctx context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error)
}

// Returner moves what was kept of erased users to the rows under which they have returned. Implemented by
// erasure.Service.
type Returner interface {
	Return(ctx context.Context, rows []models.RowID) error
}

// Options holds what a Service is built on.
type Options struct {
	Apps []App
	// URL is the address of WeChat's API.
	URL       string
	Store     *Store
	Directory models.Users
	Uploads   Uploads
	Returner  Returner
	// Sign returns a token of a user that is valid from now on, and when it ends.
	Sign func(user models.UserID, now time.Time) (token string, expires time.Time, err error)
	// Secret is what the key of session keys is derived from.
	Secret []byte
	// Clock is the machine's: that of WeChat, whatever the service's clock is set to.
	Clock models.Clock
	Log   *slog.Logger
}

// Stats counts the calls of this process by their result.
type Stats struct {
	// LoggedIn, BadCode, Blocked and Limited are logins as WeChat has answered them. Refused are those for
	// which it has refused the appid or the secret, and Unavailable those without a good answer.
	LoggedIn, BadCode, Blocked, Limited, Refused, Unavailable atomic.Int64
	// Read and Unread are documents.
	Read, Unread atomic.Int64
}

// Service logs people of mini programs in and takes their steps. Safe for concurrent use.
type Service struct {
	o      Options
	apps   map[string]App
	wechat *client
	sealer *sealed.Sealer
	logins chan struct{} // a place for each that runs
	stats  Stats
}

// New returns a service. The secret may be empty if there are no apps.
func New(o Options) (*Service, error) {
	sealer, err := sealed.New(o.Secret, keysPurpose)
	if err != nil {
		return nil, err
	}
	s := &Service{o: o, apps: make(map[string]App, len(o.Apps)), wechat: newClient(o.URL), sealer: sealer, logins: make(chan struct{}, maxLogins)}
	for _, a := range o.Apps {
		s.apps[a.ID] = a
	}
	return s, nil
}

// Stats returns the counts of this process.
func (s *Service) Stats() *Stats { return &s.stats }

// app returns a mini program by its appid, or CodeValidationFailed.
func (s *Service) app(appid string) (App, error) {
	a, ok := s.apps[appid]
	if !ok {
		return App{}, models.Invalid("body.appid", "is no appid of wechat.apps")
	}
	return a, nil
}

// Session is what a login gives to a mini program.
type Session struct {
	Token   string
	Expires time.Time
	User    models.UserID
}

// LogIn exchanges the code of wx.login for a session, and creates the user if necessary. Errors:
// CodeValidationFailed for an appid that is not known, CodeWeChatCode, CodeForbidden if WeChat has blocked the
// person, CodeRateLimited if the person logs in too often for WeChat, CodeUnavailable otherwise. One call of
// WeChat of at most three seconds, a query and a transaction of three statements.
func (s *Service) LogIn(ctx context.Context, appid, code string) (Session, error) {
	app, err := s.app(appid)
	if err != nil {
		return Session{}, err
	}
	select {
	case s.logins <- struct{}{}:
		defer func() { <-s.logins }()
	default:
		s.stats.Unavailable.Add(1)
		return Session{}, models.Unavailable("log in by WeChat", errors.New("too many log in at the same time"))
	}
	who, err := s.wechat.exchange(ctx, app, code)
	s.count(err)
	if err != nil {
		return Session{}, models.Public("log in by WeChat", err)
	}
	// A login that WeChat has counted is stored, even if the client is gone: the key before is not valid any more.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	user, err := s.store(ctx, app, who)
	if err != nil {
		return Session{}, models.Public("store a login by WeChat", err)
	}
	token, expires, err := s.o.Sign(user, s.o.Clock())
	return Session{token, expires, user}, err
}

// count counts the answer to a code.
func (s *Service) count(err error) {
	counter := &s.stats.Unavailable
	switch code := models.CodeOf(err); {
	case err == nil:
		counter = &s.stats.LoggedIn
	case errors.Is(err, errRefused):
		counter = &s.stats.Refused
	case code == models.CodeWeChatCode:
		counter = &s.stats.BadCode
	case code == models.CodeForbidden:
		counter = &s.stats.Blocked
	case code == models.CodeRateLimited:
		counter = &s.stats.Limited
	}
	counter.Add(1)
}

// store stores a login, and returns the user.
func (s *Service) store(ctx context.Context, app App, who identity) (models.UserID, error) {
	m := identities.Identity{Issuer: app.ID, Subject: who.openID, UnionID: who.unionID}
	m.SessionKey = s.sealer.Seal(who.key, ownerOf(m))
	known, err := s.o.Store.Find(ctx, m)
	if err != nil {
		return "", err
	}
	row, user := known.Row, known.User
	if row == 0 {
		user = who.userID()
		rows, err := s.o.Directory.Ensure(ctx, user)
		if err != nil {
			return "", err
		}
		row = rows[0]
	}
	same := func(stored []byte) bool {
		key, ok := s.sealer.Open(stored, ownerOf(m))
		return ok && string(key) == string(who.key)
	}
	m.Row = row
	returned, err := s.o.Store.put(ctx, m, same)
	if err != nil {
		return "", err
	}
	if returned {
		if err := s.o.Returner.Return(ctx, []models.RowID{row}); err != nil {
			s.o.Log.WarnContext(ctx, "what was kept of an erased user holds again later", "error", err)
		}
	}
	return user, nil
}

// Steps is what has become of the steps of a document.
type Steps struct {
	Board    string
	Uploads  []ingest.Upload
	Accepted []ingest.Accepted
	Rejected []*ingest.ItemError
}

// Upload takes what wx.getWeRunData has given to a mini program: of each day in China the largest total, oldest
// first. Errors: CodeValidationFailed for an appid that is not known, those of Uploads.Accept, and
// CodeWeChatSession for whatever can't be read, after a tenth of a second. Two statements, and what Accept costs.
func (s *Service) Upload(ctx context.Context, user models.UserID, appid, encryptedData, iv string) (Steps, error) {
	began := time.Now()
	app, err := s.app(appid)
	if err != nil {
		return Steps{}, err
	}
	days, err := s.read(ctx, user, app, encryptedData, iv)
	if err != nil {
		return Steps{}, models.Public("read steps of WeChat", err)
	}
	if days == nil {
		s.stats.Unread.Add(1)
		_ = pause.For(ctx, time.Until(began.Add(refusalTime))) // an end of ctx has no other answer
		return Steps{}, models.Errorf(models.CodeWeChatSession, "the WeChat session has expired: log in again and repeat this once")
	}
	s.stats.Read.Add(1)
	steps := Steps{Board: app.Board}
	for _, d := range days {
		steps.Uploads = append(steps.Uploads, ingest.Upload{User: user, Date: d.date, Score: d.steps})
	}
	steps.Accepted, steps.Rejected, err = s.o.Uploads.Accept(ctx, app.Board, steps.Uploads)
	return steps, err
}

// read decrypts a document with the key of a user's session. It returns nil for whatever can't be read.
func (s *Service) read(ctx context.Context, user models.UserID, app App, encryptedData, iv string) ([]day, error) {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil {
		return nil, err
	}
	// What is counted is given back, even if the client is gone: else that would count as a failure.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	session, err := s.o.Store.attempt(ctx, app.ID, row)
	if err != nil {
		return nil, err
	}
	key, ok := s.sealer.Open(session.SessionKey, ownerOf(session))
	if !ok {
		key = unknownKey() // the same work, as another answer would say whether there is a session
	}
	days, err := readSteps(app.ID, key, encryptedData, iv, s.o.Clock())
	if err != nil || !ok {
		return nil, nil // why it can't be read must not be known
	}
	return days, s.o.Store.succeed(ctx, session)
}

// keysPurpose is that of the sealer of session keys.
const keysPurpose = "session keys of WeChat"

// ownerOf returns the text that binds an encrypted session key to its person. An appid has no space.
func ownerOf(who identities.Identity) string { return who.Issuer + " " + who.Subject }

// unknownKey returns a key that nobody has.
func unknownKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	return key
}
