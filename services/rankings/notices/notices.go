// Package notices keeps what users want to be told of, and where: who has passed them, likes, friend
// requests and the evening's digest. They are told of nothing until they choose.
//
// A subscription is a browser of a user, which is told by Web Push, or the app's own, which has no
// endpoint: then the app's backend hears by webhook, and the user's open page by its stream, who has
// passed the user. The truth is table push_subscriptions.
//
// A notice is a delivery of the outbox (services/platform/outcomes), written in the transaction of its
// cause, with one row for each subscription that wants it.
//
// An endpoint is the address of a stranger, and a secret: whoever knows it may take the subscription
// over, as another user in the same browser does. It is in no log, and only its user is shown it.
package notices

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"stepboard/internal/outbound"
	"stepboard/models"
)

// MaxSubscriptions is how many browsers of a user are told. One more ends the oldest.
const MaxSubscriptions = 5

// Service keeps the subscriptions of users. Safe for concurrent use.
type Service struct{ o Options }

// Options holds what a Service is built on.
type Options struct {
	Store     *Store
	Directory models.Users
	// Key is the key that push services know this service by; nil if it sends no Web Push.
	Key *ecdh.PrivateKey
	// PrivateNetwork permits endpoints of this machine and of private networks.
	PrivateNetwork bool
	Clock          models.Clock
}

// New returns a service.
func New(o Options) *Service { return &Service{o: o} }

// PublicKey returns the key for which browsers subscribe, in base64 as they take it; empty if the
// service sends no Web Push.
func (s *Service) PublicKey() string {
	if s.o.Key == nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(s.o.Key.PublicKey().Bytes())
}

// List returns the subscriptions of a user, oldest first. A user that does not exist has none. One
// query. CodeUnavailable if SQL is away.
func (s *Service) List(ctx context.Context, user models.UserID) ([]models.PushSubscription, error) {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return nil, err
	}
	list, err := s.o.Store.List(ctx, row)
	return list, models.Public("list subscriptions", err)
}

// Choice is what a user wants to be told of.
type Choice struct {
	// Endpoint, P256DH and Auth are what a browser gives, the keys in base64. They are empty for the
	// app's own subscription.
	Endpoint, P256DH, Auth string
	Tell                   []models.Tell
	TimeZone               string
}

// Put stores what a user wants to be told of in one browser or by the app, in place of what was
// stored of the same endpoint, whoever's it was, and creates the user if necessary. A user's sixth
// browser ends the oldest one. CodeValidationFailed if the choice is not permitted or the endpoint
// may not be reached. One transaction of up to five statements.
func (s *Service) Put(ctx context.Context, user models.UserID, c Choice) (models.PushSubscription, error) {
	subscription, err := s.subscription(c)
	if err != nil {
		return subscription, err
	}
	rows, err := s.o.Directory.Ensure(ctx, user)
	if err != nil {
		return subscription, err
	}
	subscription.UserID = rows[0]
	stored, err := s.o.Store.Put(ctx, subscription)
	return stored, models.Public("store a subscription", err)
}

// End ends the subscription of a user's browser; nil for the app's own. If there is none, nothing
// changes. One statement.
func (s *Service) End(ctx context.Context, user models.UserID, endpoint *string) error {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return err
	}
	return models.Public("end a subscription", s.o.Store.End(ctx, row, endpoint))
}

// EndAll ends all subscriptions of a user. One statement.
func (s *Service) EndAll(ctx context.Context, user models.UserID) error {
	row, err := s.o.Directory.FindOne(ctx, user)
	if err != nil || row == 0 {
		return err
	}
	return models.Public("end subscriptions", s.o.Store.EndAll(ctx, row))
}

// subscription returns the subscription of a choice, without its user.
func (s *Service) subscription(c Choice) (models.PushSubscription, error) {
	stored := models.PushSubscription{
		Told: models.ToldOf(c.Tell), TimeZone: c.TimeZone, CreatedAt: s.o.Clock().UTC().Truncate(time.Microsecond),
	}
	if c.TimeZone != "" { // otherwise it is not known
		if err := models.CheckZone("body.time_zone", c.TimeZone); err != nil {
			return stored, err
		}
	}
	if c.Endpoint == "" {
		return stored, checkOwn(c, stored.Told)
	}
	switch {
	case stored.Told == models.Told{}:
		return stored, models.Invalid("body.tell", "is empty: DELETE ends a subscription")
	case s.o.Key == nil:
		return stored, models.Invalid("body.endpoint", "this service sends no Web Push: leave out endpoint and keys, or let its operator set push.subject")
	}
	if err := outbound.CheckURL(c.Endpoint, s.o.PrivateNetwork); err != nil {
		return stored, models.Invalid("body.endpoint", err.Error())
	}
	hash := sha256.Sum256([]byte(c.Endpoint))
	stored.Endpoint, stored.EndpointHash = &c.Endpoint, hash[:]
	var err error
	if stored.P256DH, err = decode(c.P256DH); err == nil {
		_, err = ecdh.P256().NewPublicKey(stored.P256DH)
	}
	if err != nil {
		return stored, models.Invalid("body.keys.p256dh", "is no point of P-256 in base64")
	}
	if stored.Auth, err = decode(c.Auth); err != nil || len(stored.Auth) != 16 {
		return stored, models.Invalid("body.keys.auth", "is not 16 bytes in base64")
	}
	return stored, nil
}

// checkOwn checks the app's own subscription.
func checkOwn(c Choice, told models.Told) error {
	switch {
	case c.P256DH != "" || c.Auth != "":
		return models.Invalid("body.endpoint", "is missing beside keys")
	case told != models.Told{Passed: true}:
		return models.Invalid("body.tell", `without an endpoint only "passed" can be chosen: the app hears of everything else anyway`)
	}
	return nil
}

// decode decodes base64 for URLs, with padding or without.
func decode(text string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
}
