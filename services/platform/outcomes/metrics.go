package outcomes

import (
	"context"
	"errors"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stepboard/models"
)

// The results of attempts, by which they are counted.
const (
	resultDelivered = "delivered"
	resultStatus    = "status"  // an answer with another status than 2xx
	resultTimeout   = "timeout" // no answer in time
	resultError     = "error"   // no connection, or no answer of HTTP
	resultDropped   = "dropped" // about a person who does not exist or is not shown any more, or for a browser that is gone
	resultEnded     = "ended"   // the push service says that the browser is gone
)

// resultOf returns the result of an attempt.
func resultOf(status int, err error) string {
	var network net.Error
	switch {
	case err == nil:
		return resultDelivered
	case status != 0 && errors.Is(err, ErrEnded):
		return resultEnded
	case isDropped(err) || errors.Is(err, errLate):
		return resultDropped
	case status != 0:
		return resultStatus
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout():
		return resultTimeout
	default:
		return resultError
	}
}

// metrics measures deliveries by target.
type metrics struct {
	attempts, givenUp *prometheus.CounterVec
	waiting, oldest   *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	target := []string{"target"}
	registered := promauto.With(registry)
	return &metrics{
		attempts: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_webhooks_attempts_total",
			Help: "Attempts to deliver a webhook, by target and result: delivered, status (another one than 2xx), timeout, error, dropped; of target push also ended (the browser is gone).",
		}, []string{"target", "result"}),
		givenUp: registered.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_webhooks_given_up_total",
			Help: "Deliveries that were given up, after three days (notices after hours) or because too many wait, by target.",
		}, target),
		waiting: registered.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stepboard_webhooks_waiting",
			Help: "Deliveries that are not delivered yet, by target. Take the largest of all replicas.",
		}, target),
		oldest: registered.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stepboard_webhooks_oldest_seconds",
			Help: "How long the delivery that has waited longest waits since it was written or replayed, by target. Take the largest of all replicas.",
		}, target),
	}
}

// initialize creates a target's metrics with zeros, which alerts on the first increase need.
func (m *metrics) initialize(target string) {
	for _, result := range []string{resultDelivered, resultStatus, resultTimeout, resultError, resultDropped} {
		m.attempts.WithLabelValues(target, result)
	}
	if target == models.TargetPush {
		m.attempts.WithLabelValues(target, resultEnded)
	}
	m.givenUp.WithLabelValues(target)
	m.waiting.WithLabelValues(target)
	m.oldest.WithLabelValues(target)
}
