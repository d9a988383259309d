package outcomes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stepboard/internal/outbound"
	"stepboard/models"
)

const (
	// attemptTimeout bounds an attempt, from connecting to the end of the answer.
	attemptTimeout = 10 * time.Second
	// answerBytes is how much of an answer is read, so that its connection can be used again.
	answerBytes = 16 << 10
)

// sender sends messages to one target. Safe for concurrent use.
type sender struct {
	// target is the text by which deliveries name the target.
	target string
	client *http.Client
	// render returns what is sent of a delivery. Its errors are those of Topic.Render.
	render func(ctx context.Context, d *models.Delivery) ([]byte, error)
	// send sends what render has returned, and returns the status of the answer, 0 without one. An
	// error says why it does not count as received; ErrEnded if nothing is to be sent there again.
	send func(ctx context.Context, d *models.Delivery, body []byte) (status int, err error)
}

// webhook sends webhooks.
type webhook struct {
	url     string
	signers []*standardwebhooks.Webhook
	client  *http.Client
}

// newWebhook returns a sender. It returns an error if a secret is malformed.
func newWebhook(store *Store, t Target) (sender, error) {
	s := &webhook{url: t.URL, client: newClient(t.PrivateNetwork)}
	for _, secret := range t.Secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return sender{}, errors.New("a secret of a webhook is not in base64") // its text must not be shown
		}
		s.signers = append(s.signers, signer)
	}
	return sender{t.URL, s.client, store.render, s.send}, nil
}

// newClient returns a client for addresses that others than the operator may name.
func newClient(private bool) *http.Client {
	return outbound.NewClient(outbound.Options{Timeout: attemptTimeout, Idle: sendAtOnce, Strangers: true, Private: private})
}

// send signs a message and sends it. The time is the real one, by which receivers check the
// signature.
func (s *webhook) send(ctx context.Context, d *models.Delivery, body []byte) (status int, err error) {
	now, id := time.Now(), d.MessageID
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	signatures := make([]string, len(s.signers))
	for i, signer := range s.signers {
		if signatures[i], err = signer.Sign(id, now, body); err != nil {
			return 0, fmt.Errorf("sign: %w", err)
		}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "Stepboard")
	request.Header.Set(standardwebhooks.HeaderWebhookID, id)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	answer, err := s.client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return 0, err
	}
	return statusOf(answer)
}

// statusOf ends an answer, of which only the status counts. It returns an error unless that is 2xx.
func statusOf(answer *http.Response) (status int, err error) {
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerBytes))
	_ = answer.Body.Close()
	switch {
	case answer.StatusCode >= 200 && answer.StatusCode <= 299:
		return answer.StatusCode, nil
	case answer.StatusCode >= 300 && answer.StatusCode <= 399:
		return answer.StatusCode, errors.New("redirects are not followed")
	default:
		return answer.StatusCode, errors.New(http.StatusText(answer.StatusCode))
	}
}
