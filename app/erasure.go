package app

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/corrections"
	"stepboard/services/boards/ingest"
	"stepboard/services/operations/erasure"
)

// exclusions is the erasure.Keeper of corrections, most of which is the store's.
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
		Store: store, Directory: a.Directory, Entries: a.Entries, Sets: a.Sets,
		Friends: a.Friends, Privacy: a.Privacy, Groups: a.Groups, Archive: a.Archive, Increments: a.increments,
		Corrections: exclusions{a.decisions, a.Corrections}, Pending: a.decisions.Pending,
		DeadLetters: ingest.NewDeadLetterStore(o.Stores.Jobs.Gorm), Deliveries: a.webhooks,
		Clock: o.Clock, Log: o.Log,
	})
	if o.Roles.Jobs {
		a.registry.MustRegister(newErasureCollector(a.Erasure))
	}
}

// newErasureCollector reports the erasures that are not finished. Each scrape asks Postgres.
func newErasureCollector(s *erasure.Service) prometheus.Collector {
	type unfinished struct{ erasures, age float64 }
	read := func(ctx context.Context) unfinished {
		n, age, err := s.Unfinished(ctx)
		if err != nil {
			return unfinished{math.NaN(), math.NaN()}
		}
		return unfinished{float64(n), age.Seconds()}
	}
	const away = " It is missing while Postgres does not respond."
	return newAskingCollector("stepboard_erasures_", read,
		figure[unfinished]{"unfinished", "Erasures of users that are not finished." + away, gauge, func(u unfinished) float64 { return u.erasures }, nil},
		figure[unfinished]{"oldest_seconds", "How long ago the oldest unfinished erasure began; 0 if there is none." + away, gauge, func(u unfinished) float64 { return u.age }, nil},
	)
}
