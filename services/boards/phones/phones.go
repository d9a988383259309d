// Package phones takes steps from apps that send them to an address, without code for this service. A
// user makes an address for a phone, and the app on it sends what it has, in a form of its own.
//
// An address ends in a key, which is shown once. SQL has its hash, and is asked at each call, so that
// an address that was revoked is refused at once by every process. The key is in no log, trace or metric.
//
// Only totals of days count. Intervals are never added up: records of a watch and a phone overlap.
package phones

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/maypok86/otter/v2"

	"stepboard/internal/codes"
	"stepboard/internal/column"
	"stepboard/models"
	"stepboard/services/boards/catalog"
	"stepboard/services/boards/ingest"
)

const (
	// MaxAddresses is how many addresses a user may have.
	MaxAddresses = 10
	// notedEvery is how often it is written that an address was used.
	notedEvery = time.Minute
)

// keys are those of addresses.
var keys = codes.Keys{Prefix: "sb_"}

// Uploads takes the totals of a user. Implemented by ingest.Service.
type Uploads interface {
	Accept(ctx context.Context, board string, uploads []ingest.Upload) ([]ingest.Accepted, []*ingest.ItemError, error)
}

// Options holds what a Service is built on.
type Options struct {
	Store     *Store
	Boards    *catalog.Definitions
	Directory models.Users
	Uploads   Uploads
	// ZoneOf returns the time zone of a user's session; empty if it is not known.
	ZoneOf func(ctx context.Context, user models.UserID, session int64) (string, error)
	Clock  models.Clock
}

// Service keeps upload addresses, and takes what phones send to them. Safe for concurrent use.
type Service struct {
	o Options
	// known has the hashes of keys that had an address when they were used last.
	known *otter.Cache[string, bool]
}

// maxKnown is how many keys a process remembers, about 100 bytes each.
const maxKnown = 10_000

// New returns a service.
func New(o Options) *Service {
	return &Service{o, otter.Must(&otter.Options[string, bool]{MaximumSize: maxKnown})}
}

// Choice is what a user says of an address.
type Choice struct {
	Name string
	// TimeZone is an IANA name; empty for that of the session or, if it has none, of the board.
	TimeZone string
	// Session is that of the device which makes the address; 0 for none.
	Session int64
}

// Add makes an address of a user for a daily board that ranks the highest score first, and returns it
// with its key, and creates the user if necessary. Errors: CodeBoardNotFound, CodeBoardKind, CodeForbidden
// if a backend alone may upload, CodeValidationFailed, CodeAddressLimit if the user has MaxAddresses, CodeUnavailable. One transaction of
// three statements, and one query for the zone of the session.
func (s *Service) Add(ctx context.Context, user models.UserID, board string, c Choice) (models.UploadAddress, string, error) {
	b, err := s.board(board)
	if err != nil {
		return models.UploadAddress{}, "", err
	}
	if c.TimeZone == "" && c.Session != 0 {
		if c.TimeZone, err = s.o.ZoneOf(ctx, user, c.Session); err != nil {
			return models.UploadAddress{}, "", err
		}
	}
	c.TimeZone = cmp.Or(c.TimeZone, b.TimeZone)
	if c, err = c.check(); err != nil {
		return models.UploadAddress{}, "", err
	}
	rows, err := s.o.Directory.Ensure(ctx, user)
	if err != nil {
		return models.UploadAddress{}, "", err
	}
	key := keys.New()
	hash, _ := keys.Hash(key)
	address := models.UploadAddress{
		User: rows[0], KeyHash: hash, Board: board, Name: c.Name, TimeZone: c.TimeZone,
		CreatedAt: s.o.Clock().UTC().Truncate(time.Microsecond),
	}
	err = s.o.Store.add(ctx, &address)
	return address, key, models.Public("make an upload address", err)
}

// board returns a board that takes what phones send, or an error.
func (s *Service) board(name string) (*catalog.Board, error) {
	b, err := s.o.Boards.Board(name)
	if err != nil {
		return nil, err
	}
	if err := b.RequireDays(); err != nil {
		return nil, err
	}
	if err := b.RequireHigh("upload addresses"); err != nil {
		return nil, err
	}
	return b, b.MayUpload(false)
}

// check returns a choice in the form in which it is stored, or an error unless name and zone are permitted.
func (c Choice) check() (Choice, error) {
	name, err := models.NormalizeName("body.name", c.Name)
	switch {
	case err != nil:
		return c, err
	case c.TimeZone == models.LocalZone:
		return c, models.Invalid("body.time_zone", "is required on this board, whose days are each user's own, such as Asia/Shanghai")
	}
	c.Name = name
	return c, models.CheckZone("body.time_zone", c.TimeZone)
}

// List returns the addresses of a user, oldest first. A user that does not exist has none. One query.
// CodeUnavailable if SQL is away.
func (s *Service) List(ctx context.Context, user models.UserID) ([]models.UploadAddress, error) {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	list, err := s.o.Store.list(ctx, row)
	return list, models.Public("list upload addresses", err)
}

// Change gives an address of a user another name and zone, and returns it. Errors: CodeNotFound,
// CodeValidationFailed, CodeUnavailable. Two statements.
func (s *Service) Change(ctx context.Context, user models.UserID, id int64, c Choice) (models.UploadAddress, error) {
	c, err := c.check()
	if err != nil {
		return models.UploadAddress{}, err
	}
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil {
		return models.UploadAddress{}, err
	}
	address, err := s.o.Store.change(ctx, row, id, c)
	return address, models.Public("change an upload address", err)
}

// Revoke ends an address of a user. It returns CodeNotFound if the user has none of this id. In a dry run it
// changes nothing. One transaction of two statements.
func (s *Service) Revoke(ctx context.Context, user models.UserID, id int64, dryRun bool) error {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil {
		return err
	}
	if dryRun {
		_, err = s.o.Store.find(ctx, row, id)
	} else {
		err = s.o.Store.revoke(ctx, row, id, s.o.Clock().UTC())
	}
	return models.Public("revoke an upload address", err)
}

// Address is an address that a phone has named by its key.
type Address struct {
	models.UploadAddress
	// UserID is the user for whom it uploads.
	UserID models.UserID `gorm:"column:external_id"`
}

// Find returns the address of a key. CodeAddressUnknown if there is none, CodeUnavailable. One hash and one
// query; neither for a text that is no key.
func (s *Service) Find(ctx context.Context, key string) (Address, error) {
	hash, ok := keys.Hash(key)
	if !ok {
		return Address{}, errUnknown()
	}
	address, err := s.o.Store.byKey(ctx, hash)
	if err == nil {
		s.known.Set(string(hash), true)
	}
	return address, models.Public("look up an upload address", err)
}

// Knows reports whether this process has found an address by a key before. It may have ended since. One hash.
func (s *Service) Knows(key string) bool {
	hash, ok := keys.Hash(key)
	if ok {
		_, ok = s.known.GetIfPresent(string(hash))
	}
	return ok
}

// errUnknown returns the error about a key that no address has.
func errUnknown() *models.Error {
	return models.Errorf(models.CodeAddressUnknown, "this address is not known here, or was revoked: make a new one")
}

// Taken is what a call to an address has led to.
type Taken struct {
	Form     Form
	Accepted []ingest.Accepted
	// Rejected are the days of which no total was taken, oldest first, before them those that can't be read.
	Rejected []Refused
}

// Take takes what a phone has sent to an address, in a body or, without one, in a query. If
// something was recognised, it is no error that none of it counts. Errors: CodeNotRecognised, CodeNotDaily,
// CodeForbidden if a backend alone may upload by now, those of Uploads.Accept. It notes the call, with one statement, if the
// last one had another outcome, and otherwise once a minute.
func (s *Service) Take(ctx context.Context, a Address, body []byte, query string) (Taken, error) {
	zone, err := time.LoadLocation(a.TimeZone)
	if err != nil {
		return Taken{Form: Unknown}, err
	}
	if _, err := s.board(a.Board); err != nil {
		return Taken{Form: Unknown}, err
	}
	form, reading, err := Read(body, query, zone)
	taken := Taken{Form: form, Rejected: reading.Refused}
	if err == nil && len(reading.Totals) > 0 {
		err = s.upload(ctx, a, reading.Totals, &taken)
	}
	var known *models.Error
	if err == nil || errors.As(err, &known) && (known.Code == models.CodeNotRecognised || known.Code == models.CodeNotDaily) {
		s.note(ctx, a, taken, known)
	}
	return taken, err
}

// upload uploads totals.
func (s *Service) upload(ctx context.Context, a Address, totals []Total, taken *Taken) error {
	uploads := column.Of(totals, func(t Total) ingest.Upload { return ingest.Upload{User: a.UserID, Date: t.Date, Score: t.Steps} })
	accepted, rejected, err := s.o.Uploads.Accept(ctx, a.Board, uploads)
	if err != nil {
		return err
	}
	taken.Accepted = accepted
	for _, r := range rejected {
		taken.Rejected = append(taken.Rejected, Refused{&totals[r.Index].Date, r.Err})
	}
	slices.SortStableFunc(taken.Rejected, func(a, b Refused) int { return cmp.Compare(a.at(), b.at()) })
	return nil
}

// at returns the date, or one before all if it can't be read.
func (r Refused) at() models.Date {
	if r.Date == nil {
		return math.MinInt32
	}
	return *r.Date
}

// note stores what a call has led to, at most once a minute as long as that is the same. If it can't be stored, the call
// has succeeded all the same.
func (s *Service) note(ctx context.Context, a Address, taken Taken, refused *models.Error) {
	now := s.o.Clock().UTC().Truncate(time.Microsecond)
	used := models.UploadAddress{ID: a.ID, LastUsedAt: &now}
	switch n := len(taken.Accepted); {
	case refused != nil:
		used.LastCode = refused.Code
	case n > 0:
		last := taken.Accepted[n-1]
		used.LastDay, used.LastScore = &last.Date, &last.Score
	case len(taken.Rejected) > 0:
		used.LastCode = taken.Rejected[len(taken.Rejected)-1].Err.Code
	}
	if a.LastUsedAt != nil && now.Sub(*a.LastUsedAt) < notedEvery && used.LastCode == a.LastCode && (used.LastDay == nil) == (a.LastDay == nil) {
		return
	}
	_ = s.o.Store.noteUse(ctx, used)
}
