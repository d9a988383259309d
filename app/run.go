package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/pause"
	"stepboard/internal/stores"
	"stepboard/models"
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

// Run starts the background work, if Start has not done so, and serves requests on
// the listener until ctx ends, with TLS if Options have it, on at most http.max_connections connections at a time, and a
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
	if a.tls != nil {
		listener = tls.NewListener(listener, a.tls)
	}
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
//  5. the directory of users and the caches of tokens and keys stop
//  6. the queue closes
//  7. Redis and then the database close
func (a *App) Close() error {
	a.Streams.Close()
	a.writer.Close()
	a.Ledger.Close()
	if a.stop != nil {
		a.stop()
	}
	a.running.Wait()
	a.Archive.Close()
	a.Directory.Close()
	a.verifier.Close()
	a.closeQueue()
	a.leases.Close()
	var err error
	if a.shipping != nil {
		err = a.shipping.Close()
	}
	return errors.Join(err, a.stores.Close())
}

const (
	// startInterval is the pause between two attempts to start.
	startInterval = 250 * time.Millisecond
	// startNotice is how often the log says what a start waits for.
	startNotice = 5 * time.Second
)

// AwaitServers repeats an attempt to start that fails because Redis, Postgres or the queue
// does not answer yet. It gives up after the time limit, at any other error, and when ctx
// ends, and returns the error of the last attempt.
func AwaitServers(ctx context.Context, limit time.Duration, log *slog.Logger, attempt func() error) error {
	began := time.Now()
	noticed := began
	for {
		err := attempt()
		if err == nil || !mayAnswerLater(err) || time.Since(began) >= limit {
			return err
		}
		if time.Since(noticed) >= startNotice {
			noticed = time.Now()
			log.WarnContext(ctx, "waiting for a server", "error", err)
		}
		if pause.For(ctx, startInterval) != nil {
			return err
		}
	}
}

// mayAnswerLater reports whether an error is of a server that is starting, out of reach, slow
// or full, and not of one that has refused what was asked.
func mayAnswerLater(err error) bool {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) {
		// Connection exceptions, insufficient resources, operator intervention.
		class := postgres.Code[:min(2, len(postgres.Code))]
		return class == "08" || class == "53" || class == "57"
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return redis.IsLoadingError(err) || redis.IsMasterDownError(err) || redis.IsClusterDownError(err) ||
			redis.IsTryAgainError(err) || redis.IsReadOnlyError(err) || redis.IsMaxClientsError(err)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, stores.ErrBusy) || errors.Is(err, context.DeadlineExceeded) || models.CodeOf(err) == models.CodeUnavailable
}

// Version returns the version of this program, such as 0.1.0: that of the tag from which it was
// built. Between two tags it has the time and the commit, too, and "devel" if the source was no
// checkout of Git.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}
