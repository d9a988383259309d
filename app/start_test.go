package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"stepboard/internal/stores"
	"stepboard/internal/testenv"
)

var errAway = fmt.Errorf("connect to postgres: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")})

func TestAwaitServers(t *testing.T) {
	t.Parallel()
	failing := func(err error, times int) (attempts *int, attempt func() error) {
		attempts = new(int)
		return attempts, func() error {
			if *attempts++; *attempts <= times {
				return err
			}
			return nil
		}
	}
	refused := errors.New("the schema is behind")
	for _, tt := range []struct {
		name     string
		err      error
		times    int
		want     error
		attempts int
		notices  int
	}{
		{"at once", nil, 0, nil, 1, 0},
		{"after eleven seconds", errAway, 44, nil, 45, 2},
		{"never", errAway, 1000, errAway, 121, 5},
		{"refused", refused, 1, refused, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log testenv.Buffer
				attempts, attempt := failing(tt.err, tt.times)
				err := AwaitServers(t.Context(), 30*time.Second, slog.New(slog.NewJSONHandler(&log, nil)), attempt)
				if !errors.Is(err, tt.want) || *attempts != tt.attempts || log.Lines() != tt.notices {
					t.Errorf("%v after %d attempts and %d notices", err, *attempts, log.Lines())
				}
			})
		})
	}
}

func TestAwaitServersEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := AwaitServers(ctx, time.Hour, testenv.Log(), func() error {
		cancel()
		return errAway
	})
	if !errors.Is(err, errAway) {
		t.Errorf("%v", err)
	}
}

func TestMayAnswerLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{errAway, true},
		{stores.ErrBusy, true},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), false},
		{fmt.Errorf("read: %w", io.EOF), true},
		{&pgconn.PgError{Code: "57P03"}, true},  // it is starting
		{&pgconn.PgError{Code: "53300"}, true},  // too many connections
		{&pgconn.PgError{Code: "28P01"}, false}, // a wrong password
		{&pgconn.PgError{Code: "3D000"}, false}, // no such database
		{errors.New("the schema is at version 0"), false},
	} {
		if got := mayAnswerLater(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
