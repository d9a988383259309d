package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/erasure"
	"stepboard/services/operations/reviews"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/likes"
)

// exclusions are the changes that erasing users makes in corrections.
type exclusions struct {
	*corrections.Store
	service *corrections.Service
}

// Return implements erasure.Keeper.
func (e exclusions) Return(ctx context.Context, from, to models.RowID) error {
	return e.service.Return(ctx, from, to)
}

// buildErasure constructs the service that erases users.
func (a *App) buildErasure(o Options, store *erasure.Store) {
	a.Erasure = erasure.New(erasure.Options{
		Store: store, Directory: a.Directory, Boards: a.Boards, Sets: a.Sets,
		Friends: a.Friends, Privacy: a.Privacy, Groups: a.Groups, Archive: a.Archive, Increments: a.increments,
		Corrections: exclusions{a.decisions, a.Corrections}, Pending: a.decisions.Pending,
		Likes: likes.NewStore(o.Stores.Jobs.Gorm, nil), Reviews: reviews.NewStore(o.Stores.Jobs.Gorm), Audit: audit.NewStore(o.Stores.Jobs.Gorm),
		DeadLetters: ingest.NewDeadLetterStore(o.Stores.Jobs.Gorm), Deliveries: outcomes.NewStore(o.Stores.Jobs.Gorm),
		Clock: o.Clock, Log: o.Log,
	})
	if o.Roles.Jobs {
		a.registry.MustRegister(newErasureCollector(a.Erasure))
	}
}

// erasuresTimeout bounds the query of a scrape.
const erasuresTimeout = 2 * time.Second

// erasureCollector reports the erasures that are not finished.
type erasureCollector struct {
	erasures        *erasure.Service
	unfinished, age *prometheus.Desc
}

func newErasureCollector(s *erasure.Service) *erasureCollector {
	const away = " It is missing while Postgres does not respond."
	return &erasureCollector{
		s, prometheus.NewDesc("stepboard_erasures_unfinished", "Erasures of users that are not finished."+away, nil, nil),
		prometheus.NewDesc("stepboard_erasures_oldest_seconds", "How long ago the oldest unfinished erasure began; 0 if there is none."+away, nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *erasureCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.unfinished
	ch <- c.age
}

// Collect implements prometheus.Collector.
func (c *erasureCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), erasuresTimeout)
	defer cancel()
	n, age, err := c.erasures.Unfinished(ctx)
	if err != nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(c.unfinished, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, age.Seconds())
}
