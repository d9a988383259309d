package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"time"
)

const (
	// drainTimeout bounds how long requests in progress may take once the service
	// stops.
	drainTimeout = 15 * time.Second

	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// Start starts the background work: batchers, the refresh of the catalog and of
// the keys of tokens, the comparison of clocks and, if the roles include them, jobs
// and the consumer. It
// runs until Close, even if ctx ends before. Requests, uploads and increments
// need it. Further calls do nothing.
func (a *App) Start(ctx context.Context) {
	a.starting.Do(func() {
		background := a.startBackground(ctx)
		a.Directory.Start(background)
		a.running.Go(func() { a.clock.Run(background) })
		a.running.Go(func() { a.cursors.Run(background) })
		if a.refresh {
			a.running.Go(func() { a.Catalog.Definitions.Run(background) })
			a.running.Go(func() { a.Corrections.Run(background) })
		}
		if a.near {
			a.NearCache.Start(background)
			a.running.Go(func() { a.circles.Run(background) })
		}
		if a.deliver {
			a.running.Go(func() { a.deliverer.Run(background) })
		}
		if a.reporter != nil {
			a.running.Go(func() { a.reporter.Run(background) })
		}
		if a.scheduler != nil {
			a.running.Go(func() { a.scheduler.Run(background) })
		}
		if a.consumer != nil {
			a.running.Go(func() { a.consumer.Run(background) })
		}
	})
}

// startBackground returns the context of the background work, in which the verifier of tokens
// fetches keys.
func (a *App) startBackground(ctx context.Context) (background context.Context) {
	background, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	a.verifier.Start(background)
	return background
}

// StartByRounds is Start without the work that repeats. It returns a function for each part
// of that work, by name, which does it once; those of jobs have their names. The caller calls
// them, one at a time. So the simulation decides what happens when.
func (a *App) StartByRounds(ctx context.Context) map[string]func(ctx context.Context) error {
	a.startBackground(ctx)
	rounds := map[string]func(ctx context.Context) error{
		"users": a.Directory.Follow, "cursors": a.cursors.Refresh,
		"boards": a.Catalog.Definitions.Refresh, "corrections": a.Corrections.Refresh,
	}
	if a.near {
		rounds["near cache"] = func(ctx context.Context) error {
			a.circles.Round(ctx)
			return a.NearCache.Round(ctx)
		}
	}
	if a.deliver {
		rounds["webhooks"] = a.deliverer.Round
	}
	if a.consumer != nil {
		rounds["consumer"] = a.consumer.Round
	}
	if a.scheduler != nil {
		maps.Copy(rounds, a.scheduler.Rounds())
	}
	return rounds
}

// Run starts the background work, if Start has not done so, and serves requests on
// the listener until ctx ends, on at most http.max_connections connections at a time, and a
// few for probes. Then it accepts no new requests and waits for those in progress, at most
// drainTimeout. Close must follow.
func (a *App) Run(ctx context.Context, listener net.Listener) error {
	a.Start(ctx)
	server := &http.Server{
		Handler:           a.connections.handle(a.Handler),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		ConnState:         a.connections.note,
		ConnContext:       withConnection,
	}
	// Streams do not end by themselves, and Shutdown would wait for them.
	server.RegisterOnShutdown(a.Streams.Close)
	failed := make(chan error, 1)
	bounded := &boundedListener{Listener: answerListener{listener, a.log}, connections: a.connections, closed: make(chan struct{})}
	go func() { failed <- server.Serve(bounded) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		a.log.Warn("requests were cut off", "error", err)
		return server.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Close stops the service and releases what it holds. Run must have returned.
// The order is:
//
//  1. streams of rankings end
//  2. accepted uploads and increments are flushed
//  3. background work stops: a consumer applies the updates that it has read
//  4. the archive stops
//  5. the near cache, the directory of users and the caches of tokens and keys stop
//  6. the queue closes
//  7. Redis and then Postgres close
func (a *App) Close() error {
	a.Streams.Close()
	a.uploads.Close()
	a.batches.Close()
	a.Ledger.Close()
	if a.stop != nil {
		a.stop()
	}
	a.running.Wait()
	a.Archive.Close()
	a.NearCache.Close()
	a.Directory.Close()
	a.verifier.Close()
	a.closeQueue()
	a.leases.Close()
	return a.stores.Close()
}
