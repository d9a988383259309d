package app

import (
	"context"
	"maps"
	"sync"

	"stepboard/handlers"
	"stepboard/internal/repeats"
	"stepboard/services/operations/erasure"
	"stepboard/services/operations/status"
)

// buildHandler constructs the HTTP handler and the bounds of its connections.
func (a *App) buildHandler(o Options, idKey []byte) (err error) {
	if a.connections, err = newConnections(o.Config.HTTP.MaxConnections, o.Config.HTTP.TrustedProxies); err != nil {
		return err
	}
	a.registry.MustRegister(newConnectionsCollector(a.connections))
	if a.shipping != nil {
		a.registry.MustRegister(newBackupCollector(a.shipping.Status))
	}
	a.Metrics = handlers.Metrics(a.registry)
	state := status.New(status.NewStore(o.Stores.Gorm), a.Archive, a.Catalog.Definitions, a.Entries, o.Clock)
	a.Handler, err = handlers.New(handlers.Config{
		Scores: a.Ingest, Increments: a.Ledger, Boards: a.Catalog.Definitions, Buckets: a.Catalog.Buckets,
		Rankings: a.Ranking, Absent: a.Ranking, Likes: a.Likes, History: a.Ranking, Explanations: a.Ranking, Streams: a.Streams,
		Friends: a.Friends, FriendRequests: a.Friends, Invites: a.Friends, Groups: a.Groups, Competitions: a.Competitions, CompetitionDefinitions: a.Teams, Profiles: a.Directory, Privacy: a.Privacy,
		Push: a.Notices, Phones: a.Phones, WeChat: a.WeChat, Logins: a.limits, Sessions: a.Sessions, Providers: a.Providers, Finder: a.Directory,
		Cookies:  handlers.Cookies{Name: cookieName(idKey), PublicURL: o.Config.HTTP.PublicURL, BasePath: o.Config.HTTP.BasePath},
		Cursors:  a.cursors,
		Archives: guardedArchive{a.Archive, a.clock}, DeadLetters: a.DeadLetters, Reviews: a.Reviews, Holds: a.Holds,
		Corrections: a.Corrections, Deliveries: a.Deliveries, Erasures: erasure.Operated{Service: a.Erasure, Operators: a.Sessions}, Audit: a.Audit,
		Status: state, BucketStates: state, Users: a.newSupport(o), Queue: a.queueLag(),
		CheckErasures: a.Directory.CheckErasures,
		Tokens:        o.Verifier, Limits: a.limits, TrustedProxies: o.Config.HTTP.TrustedProxies,
		LimitAddresses: o.Config.Limits.AddressPerMinute > 0 || o.Config.Limits.StreamsPerAddress > 0 ||
			len(o.Config.WeChat.Apps) > 0 && o.Config.Limits.LoginsPerMinute > 0,
		BasePath: o.Config.HTTP.BasePath, Origins: o.Config.HTTP.CORSOrigins,
		ProbesOnly: !o.Roles.API, MetricsElsewhere: o.Config.HTTP.MetricsAddr != "", Ready: a.ready, Clock: o.Clock,
		Registry: a.registry, Durations: a.durations, Grafana: o.Config.Page.GrafanaURL, Login: o.Config.Page.LoginURL, Folder: o.Config.Data.Dir != "", Log: o.Log, Requests: repeats.Unbounded(o.Log), Version: Version(), Extra: o.Extra,
		Traces: o.Traces.Provider(), Sampled: o.Traces.sampled,
	})
	return err
}

// ready returns an error, or nil, for each store, for what the backing checks and for the queue.
// Work is degraded that finds no free connection, what a wrong clock would harm, and copies that are
// behind.
func (a *App) ready(ctx context.Context) handlers.Readiness {
	found := handlers.Readiness{Degraded: make(map[string]error)}
	var checks, degraded map[string]error
	var lag error
	var others sync.WaitGroup
	others.Go(func() { checks, degraded = a.backing.ready(ctx) })
	if a.queue != nil {
		others.Go(func() { _, lag = a.queue.Lag(ctx) })
	}
	found.Stores = a.stores.Ready(ctx)
	others.Wait()
	maps.Copy(found.Stores, checks)
	maps.Copy(found.Degraded, degraded)
	if a.queue != nil {
		found.Stores["queue"] = lag
	}
	for _, work := range a.stores.Works() {
		if err := work.Busy(); err != nil {
			found.Degraded[work.Name] = err
		}
	}
	if err := a.clock.Check(); err != nil {
		found.Degraded["clock"] = err
	}
	if a.shipping != nil {
		if err := behind(a.shipping.Status(), a.shipEvery); err != nil {
			found.Degraded["backup"] = err
		}
	}
	return found
}
