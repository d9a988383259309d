package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"stepboard/internal/pause"
	"stepboard/internal/stores"
	"stepboard/models"
)

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
