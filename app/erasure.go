package app

import (
	"context"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"stepboard/models"
	"stepboard/services/boards/holds"
	"stepboard/services/boards/ingest"
	"stepboard/services/boards/phones"
	"stepboard/services/operations/audit"
	"stepboard/services/operations/erasure"
	"stepboard/services/operations/reviews"
	"stepboard/services/operations/wechat"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/passed"
)

// buildErasure constructs the service that erases users. idKey is the key of directory.IDHash.
func (a *App) buildErasure(o Options, store *erasure.Store, idKey []byte) {
	a.Erasure = erasure.New(erasure.Options{
		Store: store, Directory: a.Directory, Entries: a.Entries, Sets: a.Sets, Revoked: a.Phones,
		// Whatever stores something new about users adds a subject, or its tables and keys to one;
		// TestEveryTable and TestEveryKey fail until then. Corrections come after the archive, where they
		// apply, and totals after the archive, which gives those of archived events the row ids of the
		// archived scores.
		Subjects: []models.Subject{
			a.Directory.Subject(), erasure.Scores(store, a.Entries, o.Clock), a.Friends.Subject(), a.Privacy.Subject(), a.Groups.Subject(),
			likes.NewStore(o.Stores.Jobs.Gorm, nil).Subject(), a.Archive.Subject(), a.increments.Subject(), a.Corrections.Subject(),
			reviews.NewStore(o.Stores.Jobs.Gorm).Subject(), holds.NewStore(o.Stores.Gorm, o.Stores.Jobs.Gorm).Subject(), audit.NewStore(o.Stores.Jobs.Gorm).Subject(),
			ingest.NewDeadLetterStore(o.Stores.Jobs.Gorm).Subject(), a.webhooks.Subject(), notices.NewStore(o.Stores.Jobs.Gorm).Subject(),
			phones.NewStore(o.Stores.Jobs.Gorm).Subject(o.Clock), passed.Subject(a.states), competitions.NewStore(o.Stores.Jobs.Gorm, nil).Subject(),
			wechat.NewStore(o.Stores.Jobs.Gorm, idKey).Subject(),
		},
		Forget: a.states.Erase, Pending: a.decisions.Pending, Clock: o.Clock, Log: o.Log,
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
