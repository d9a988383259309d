package app

import (
	"context"
	"strings"
	"time"

	"stepboard/handlers"
	"stepboard/services/operations/status"
	"stepboard/services/operations/support"
)

// String returns the roles as the setting names them, such as "api,jobs".
func (r Roles) String() string {
	var names []string
	for _, role := range []struct {
		name string
		has  bool
	}{{"api", r.API}, {"consumer", r.Consumer}, {"jobs", r.Jobs}} {
		if role.has {
			names = append(names, role.name)
		}
	}
	return strings.Join(names, ",")
}

// newReporter returns the reporter of this process. It is used after Build only: the
// streams are built later.
func (a *App) newReporter(o Options) *status.Reporter {
	return status.NewReporter(status.NewStore(o.Stores.Jobs.Gorm), Version(), o.Roles.String(), status.Source{
		Streams: func() int { return a.Streams.Subscribers() },
		Refused: func() int64 {
			refused := a.limits.Stats()
			return refused.Users.Load() + refused.Addresses.Load() + refused.Failures.Load() + refused.Joins.Load() + refused.Reports.Load()
		},
		Latency: a.durations.Calls,
		QueueAge: func(ctx context.Context) time.Duration {
			if a.queue == nil {
				return 0
			}
			lag, err := a.queue.Lag(ctx)
			if err != nil {
				return 0 // the overview says that the queue is away
			}
			return lag.Oldest
		},
	}, o.Clock, o.Log)
}

// queueLag returns the function that measures the queue; nil without a queue.
func (a *App) queueLag() handlers.QueueLag {
	if a.queue == nil {
		return nil
	}
	return a.queue.Lag
}

// newSupport returns the service that shows users to operators.
func (a *App) newSupport(o Options) *support.Service {
	return support.New(support.Options{
		Store: support.NewStore(o.Stores.Gorm), History: a.Ranking, Groups: a.Groups, Corrections: a.Corrections, Reviews: a.Reviews,
	})
}
