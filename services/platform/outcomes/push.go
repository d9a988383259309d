package outcomes

import (
	"context"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"

	"stepboard/internal/outbound"
	"stepboard/models"
)

// Receivers is a payload of which users are told by Web Push.
type Receivers interface {
	// Receivers returns the users who are told, and for each the payload of the notice, which is of
	// the same type and about that user alone.
	Receivers() iter.Seq2[models.RowID, any]
}

// Expiring is a payload with Receivers of which nobody wants to hear from a moment on, however short
// the lifetime of its type.
type Expiring interface{ Expires() time.Time }

// Notice is what a browser is sent, as JSON. Its worker makes a sentence of it in its user's
// language. Parts that a type does not have are empty.
type Notice struct {
	Type  models.OutcomeType `json:"type"`
	Board string             `json:"board"`
	Date  string             `json:"date"`
	// People are those whom the notice is about, other than its user.
	People []Person `json:"people"`
	// Rank, Total and Score are the user's own place, of how many, and score; Rank is 0 without one.
	Rank  int64 `json:"rank"`
	Total int64 `json:"total"`
	Score int64 `json:"score"`
	// URL is what to open, relative to the page.
	URL string `json:"url"`
}

// Person is a person in a notice.
type Person struct {
	UserID   models.UserID `json:"user_id"`
	Nickname string        `json:"nickname"`
}

// PersonOf returns the part of a record that a notice has.
func PersonOf(r *models.PublicRecord) Person { return Person{r.User, r.Nickname} }

// DayURL returns the address of a day in the page.
func DayURL(date string) string { return "#/day/" + date }

// Subscriptions keeps where browsers are reached.
type Subscriptions interface {
	// Subscription returns a subscription with an endpoint, or ErrEnded.
	Subscription(ctx context.Context, id int64) (models.PushSubscription, error)
	// EndOne ends a subscription. If there is none, nothing changes.
	EndOne(ctx context.Context, id int64) error
	// Refused notes that the push service refuses this service, and reports whether the subscription has ended for it:
	// it does so for too long. Taken notes that it does not any more.
	Refused(ctx context.Context, id int64, now time.Time) (ended bool, err error)
	Taken(ctx context.Context, id int64) error
}

// Push is what Web Push needs.
type Push struct {
	// Subject is the address that push services may write to, mailto: or https:.
	Subject string
	// Key is the key that push services know this service by.
	Key *ecdh.PrivateKey
	// PrivateNetwork permits addresses of this machine and of private networks.
	PrivateNetwork bool
	Subscriptions  Subscriptions
}

// pushTimeout bounds an attempt at a push service, from connecting to the end of the answer. It is
// short because all users' notices of a type take turns: an address that keeps its callers waiting
// holds up those that are sent at the same time.
const pushTimeout = 5 * time.Second

// noticeLifetime returns how long a notice is attempted, and kept by a push service for a browser
// that is away: after that it is no news.
func noticeLifetime(tell models.Tell) time.Duration {
	switch tell {
	case models.TellPassed:
		return time.Hour
	case models.TellDigest:
		return 3 * time.Hour
	default:
		return 24 * time.Hour
	}
}

// errLate reports that a notice would arrive when it is no news any more.
var errLate = errors.New("it is too late")

// pusher sends notices. Its errors name no address.
type pusher struct {
	*Push

	store  *Store
	client *http.Client
	clock  models.Clock
	// subscriber, public and private are Subject and Key as the library takes them.
	subscriber, public, private string
}

func newPusher(store *Store, p *Push, clock models.Clock) sender {
	s := &pusher{
		Push: p, store: store, client: newClient(p.PrivateNetwork), clock: clock,
		subscriber: strings.TrimPrefix(p.Subject, "mailto:"), // the library adds it
		public:     base64.RawURLEncoding.EncodeToString(p.Key.PublicKey().Bytes()),
		private:    base64.RawURLEncoding.EncodeToString(p.Key.Bytes()),
	}
	return sender{models.TargetPush, s.client, s.render, s.send}
}

func (s *pusher) render(ctx context.Context, d *models.Delivery) ([]byte, error) {
	if !s.clock().Before(d.GiveUpAt) {
		return nil, errLate
	}
	topic, err := s.store.topic(d.Type)
	if err != nil {
		return nil, err
	}
	notice, err := topic.Notice(ctx, d.Payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(notice)
}

// send encrypts a notice for its browser (RFC 8291) and sends it. Every notice is as long as the
// longest, so that a push service can't tell them apart.
func (s *pusher) send(ctx context.Context, d *models.Delivery, body []byte) (status int, err error) {
	to, err := s.Subscriptions.Subscription(ctx, *d.SubscriptionID)
	if err != nil {
		return 0, err
	}
	bounded, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	answer, err := webpush.SendNotificationWithContext(bounded, body, &webpush.Subscription{
		Endpoint: *to.Endpoint,
		Keys:     webpush.Keys{P256dh: base64.RawURLEncoding.EncodeToString(to.P256DH), Auth: base64.RawURLEncoding.EncodeToString(to.Auth)},
	}, &webpush.Options{
		HTTPClient: s.client, Subscriber: s.subscriber, VAPIDPublicKey: s.public, VAPIDPrivateKey: s.private,
		TTL: max(0, int(d.GiveUpAt.Sub(s.clock()).Seconds())), Urgency: webpush.UrgencyNormal,
	})
	if err != nil {
		return 0, withoutAddress(err)
	}
	status, err = statusOf(answer)
	if failed := s.follow(context.WithoutCancel(ctx), &to, status, &err); failed != nil {
		return status, failed
	}
	return status, err
}

// follow stores what follows from the status of an answer, and makes err ErrEnded if the subscription has ended.
func (s *pusher) follow(ctx context.Context, to *models.PushSubscription, status int, err *error) error {
	ended := false
	var failed error
	switch {
	case *err == nil && to.Refusals > 0:
		failed = s.Subscriptions.Taken(ctx, to.ID)
	case status == http.StatusNotFound || status == http.StatusGone:
		ended, failed = true, s.Subscriptions.EndOne(ctx, to.ID)
	case refuses(status):
		ended, failed = s.Subscriptions.Refused(ctx, to.ID, s.clock().UTC())
	}
	if ended {
		*err = fmt.Errorf("%w: %s", ErrEnded, http.StatusText(status))
	}
	return failed
}

// refuses reports whether a status says that a push service takes nothing from this service, as for a key that it does not
// know, and not that it has too much to do.
func refuses(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status >= 300 && status <= 499
	}
}

// withoutAddress returns an error that says as much of an attempt that failed as an operator may
// read: the address of a browser is a secret.
func withoutAddress(err error) error {
	var network net.Error
	var unresolved *net.DNSError
	switch {
	case errors.Is(err, outbound.ErrPrivate):
		return outbound.ErrPrivate
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout():
		return context.DeadlineExceeded
	case errors.Is(err, webpush.ErrMaxPadExceeded):
		return err
	case errors.As(err, &unresolved):
		return errors.New("the push service's name is not found")
	default:
		return errors.New("no connection to the push service")
	}
}
