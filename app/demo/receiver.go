package demo

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stepboard/config"
	"stepboard/models"
)

const (
	// receiverPath is where the demo receives its own webhooks, and lists them.
	receiverPath = "/demo/webhooks"
	// digestAfter is how long after the demo has begun the digests of the day are made.
	digestAfter = 2 * time.Minute
	// maxMessage is the largest message that is received, and shownBytes how much of one is
	// shown, in bytes.
	maxMessage = 1 << 20
	shownBytes = 600
	// keptMessages is how many messages of each type are kept.
	keptMessages = 10
)

// receiver stands for an app's backend: it receives the demo's webhooks. Safe for concurrent
// use.
type receiver struct {
	verifier *standardwebhooks.Webhook
	clock    models.Clock

	mu       sync.Mutex
	messages []received // the newest first
}

// received is a message whose signature was verified.
type received struct {
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	ReceivedAt time.Time `json:"received_at"`
	// Body is the beginning of the message, and More how many bytes follow.
	Body string `json:"body"`
	More int    `json:"more"`
}

// newReceiver returns a receiver, and the setting that lets it receive everything at the
// given address of the service.
func newReceiver(base string, clock models.Clock) (*receiver, config.Webhook, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, config.Webhook{}, err
	}
	target := config.Webhook{URL: base + receiverPath, Secrets: []string{secret}, PrivateNetwork: true}
	return &receiver{verifier: verifier, clock: clock}, target, nil
}

// digestCron returns the setting for digests of a demo that begins now, on boards in a time
// zone.
func digestCron(now time.Time, zone string) (string, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return "", err
	}
	at := now.In(location).Add(digestAfter)
	return fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour()), nil
}

// receive handles a webhook. A message without a valid signature is refused.
func (r *receiver) receive(c *gin.Context) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, maxMessage))
	if err != nil {
		refuseBody(c, err)
		return
	}
	if err := r.verifier.Verify(body, c.Request.Header); err != nil {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	var message struct{ Type string }
	if err := json.Unmarshal(body, &message); err != nil {
		c.AbortWithStatus(http.StatusBadRequest)
		return
	}
	shown := strings.ToValidUTF8(string(body[:min(len(body), shownBytes)]), "")
	r.keep(received{
		ID: c.GetHeader(standardwebhooks.HeaderWebhookID), Type: message.Type, ReceivedAt: r.clock().UTC(),
		Body: shown, More: len(body) - len(shown),
	})
	c.Status(http.StatusNoContent)
}

// keep keeps a message, unless it was received before.
func (r *receiver) keep(m received) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.messages, func(other received) bool { return other.ID == m.ID }) {
		return
	}
	r.messages = slices.Insert(r.messages, 0, m)
	same := 0
	r.messages = slices.DeleteFunc(r.messages, func(other received) bool {
		if other.Type == m.Type {
			same++
		}
		return other.Type == m.Type && same > keptMessages
	})
}

// list serves the messages that are kept.
func (r *receiver) list(c *gin.Context) {
	r.mu.Lock()
	messages := append([]received{}, r.messages...)
	r.mu.Unlock()
	c.JSON(http.StatusOK, gin.H{"messages": messages})
}
