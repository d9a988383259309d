package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"stepboard/internal/testenv"
	"stepboard/models"
	"stepboard/services/platform/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test of two replicas on Postgres, and of two callers in one process.
func each(t *testing.T, test func(t *testing.T, one, two *lease.Service)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		config := testenv.Real(t).Pool.Config().ConnConfig
		test(t, lease.NewPostgres(config), lease.NewPostgres(config))
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		leases := lease.NewLocal()
		test(t, leases, leases)
	})
}

func nothing(context.Context) error { return nil }

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, one, two *lease.Service) {
		err := one.Hold(t.Context(), "archive", func(ctx context.Context) error {
			if err := two.Hold(ctx, "archive", nothing); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "archive") {
				t.Errorf("the second holder: %v", err)
			}
			if err := one.Hold(ctx, "archive", nothing); !errors.Is(err, lease.ErrHeld) {
				t.Errorf("the holder again: %v", err)
			}
			if err := two.Hold(ctx, "reconcile", nothing); err != nil {
				t.Errorf("another name: %v", err)
			}
			return ctx.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := two.Hold(t.Context(), "archive", nothing); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// The lease is free as soon as Hold has returned, even if fn fails or panics.
func TestTheLeaseIsReleased(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	each(t, func(t *testing.T, one, two *lease.Service) {
		if err := one.Hold(t.Context(), "archive", func(context.Context) error { return failed }); !errors.Is(err, failed) {
			t.Errorf("fn failed, Hold returned %v", err)
		}
		if err := two.Hold(t.Context(), "archive", nothing); err != nil {
			t.Errorf("after a failure: %v", err)
		}
		func() {
			defer func() {
				if crash := recover(); crash != "crash" {
					t.Errorf("recovered %v", crash)
				}
			}()
			_ = one.Hold(t.Context(), "archive", func(context.Context) error { panic("crash") })
		}()
		if err := two.Hold(t.Context(), "archive", nothing); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	})
}

// The lease is held until fn returns, even after the end of its context.
func TestTheLeaseOutlastsItsContext(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, one, two *lease.Service) {
		ctx, cancel := context.WithCancel(t.Context())
		err := one.Hold(ctx, "archive", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			if err := two.Hold(t.Context(), "archive", nothing); !errors.Is(err, lease.ErrHeld) {
				t.Errorf("before fn returns: %v", err)
			}
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, lease.ErrLost) {
			t.Errorf("Hold returned %v", err)
		}
		if err := two.Hold(t.Context(), "archive", nothing); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// Installations in two schemas of one database don't share leases.
func TestSchemas(t *testing.T) {
	t.Parallel()
	here := lease.NewPostgres(testenv.Real(t).Pool.Config().ConnConfig)
	there := lease.NewPostgres(testenv.Real(t).Pool.Config().ConnConfig)
	err := here.Hold(t.Context(), "archive", func(ctx context.Context) error {
		return there.Hold(ctx, "archive", nothing)
	})
	if err != nil {
		t.Error(err)
	}
}

// If a holder's session ends, its context ends at once and the lease is free.
func TestLostSession(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	config := env.Pool.Config().ConnConfig
	leases := lease.NewPostgres(config)
	err := leases.Hold(t.Context(), "archive", func(ctx context.Context) error {
		var application string
		var ended bool
		err := env.Pool.QueryRow(ctx, `
			SELECT application_name, pg_terminate_backend(pid)
			FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = `+lease.Key, "archive").Scan(&application, &ended)
		if err != nil {
			return err
		}
		if application != "stepboard lease" || !ended {
			t.Errorf("the session of %q has ended: %v", application, ended)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) || !strings.Contains(cause.Error(), "lease archive") {
			t.Errorf("the context ended with %v", cause)
		}
		testenv.Eventually(t, "another caller takes the lease", func() bool {
			return lease.NewPostgres(config).Hold(t.Context(), "archive", nothing) == nil
		})
		return ctx.Err()
	})
	if !errors.Is(err, lease.ErrLost) || !errors.Is(err, context.Canceled) {
		t.Errorf("Hold returned %v", err)
	}
}

// A server that hangs blocks neither taking, nor holding, nor releasing a lease
// for long.
func TestHungServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// hang runs while the lease is held. The server is pinged at this interval.
		pingInterval time.Duration
		hang         func(ctx context.Context, t *testing.T, proxy *testenv.Proxy)
	}{
		{"while the lease is held", time.Millisecond, func(ctx context.Context, t *testing.T, proxy *testenv.Proxy) {
			proxy.Hold()
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
				t.Errorf("the context ended with %v", cause)
			}
		}},
		{"while the lease is released", time.Hour, func(_ context.Context, _ *testing.T, proxy *testenv.Proxy) {
			proxy.Hold()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := testenv.Real(t)
			proxy := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
			config := testenv.Must(pgx.ParseConfig(testenv.WithAddress(env.Config.Postgres.DSN, proxy.Addr())))
			leases := lease.NewPostgresWith(config, test.pingInterval, 2*time.Second, time.Hour)
			// A busy server may seem to hang before it does.
			var err error
			for held := false; !held; {
				err = leases.Hold(t.Context(), "archive", func(ctx context.Context) error {
					held = true
					test.hang(ctx, t, proxy)
					return nil
				})
				if !held && !pgconn.Timeout(err) {
					t.Fatalf("Hold returned %v", err)
				}
			}
			if err != nil {
				t.Errorf("Hold returned %v", err)
			}
			err = leases.Hold(t.Context(), "archive", nothing)
			if err == nil || errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "take lease archive") {
				t.Errorf("taking a lease from a server that hangs: %v", err)
			}
			proxy.Cut()
			proxy.Start()
			testenv.Eventually(t, "the lease is free", func() bool {
				return leases.Hold(t.Context(), "archive", nothing) == nil
			})
		})
	}
}

// Leases that are taken one after another use one connection. If the server has closed it
// meanwhile, another one is opened.
func TestTheConnectionIsKept(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	var dials atomic.Int64
	config := env.Pool.Config().ConnConfig.Copy()
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx, network, addr)
	}
	leases := lease.NewPostgres(config)
	t.Cleanup(leases.Close)
	for n := range 20 {
		if err := leases.Hold(t.Context(), fmt.Sprint(n%3), nothing); err != nil {
			t.Fatal(err)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	var pid uint32
	err := leases.Hold(t.Context(), "archive", func(ctx context.Context) error {
		return env.Pool.QueryRow(ctx, `SELECT pid FROM pg_locks
			WHERE locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = `+lease.Key, "archive").Scan(&pid)
	})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Must(env.Pool.Exec(t.Context(), `SELECT pg_terminate_backend($1, 10000)`, pid))
	if err := leases.Hold(t.Context(), "archive", nothing); err != nil {
		t.Error(err)
	}
	if n := dials.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
	leases.Close()
	if err := leases.Hold(t.Context(), "archive", nothing); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A holder whose process is frozen loses its lease to others, and notices that when
// it continues.
func TestFrozenHolder(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	config := env.Pool.Config().ConnConfig
	// It pings the server as rarely as a frozen process does.
	frozen := lease.NewPostgresWith(config, time.Hour, time.Minute, 100*time.Millisecond)
	other := lease.NewPostgres(config)
	err := frozen.Hold(t.Context(), "archive", func(ctx context.Context) error {
		testenv.Eventually(t, "another caller takes the lease", func() bool {
			return other.Hold(t.Context(), "archive", nothing) == nil
		})
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, lease.ErrLost) {
		t.Errorf("Hold returned %v", err)
	}
}

// If the server can't be reached, the error is CodeUnavailable and not ErrHeld.
func TestNoServer(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	proxy := testenv.NewProxy(t, testenv.Address(env.Config.Postgres.DSN))
	config := testenv.Must(pgx.ParseConfig(testenv.WithAddress(env.Config.Postgres.DSN, proxy.Addr())))
	proxy.Cut()
	err := lease.NewPostgres(config).Hold(t.Context(), "archive", nothing)
	var refused *pgconn.ConnectError
	if errors.Is(err, lease.ErrHeld) || !errors.As(err, &refused) || models.CodeOf(err) != models.CodeUnavailable || !strings.Contains(err.Error(), "take lease archive: ") {
		t.Errorf("Hold returned %v", err)
	}
}

// The session's settings let the server notice a holder whose machine has failed.
// The caller's settings stay unchanged.
func TestSession(t *testing.T) {
	t.Parallel()
	env := testenv.Real(t)
	config := testenv.Must(pgx.ParseConfig(env.Config.Postgres.DSN))
	config.RuntimeParams["statement_timeout"] = "30000"
	settings := make(map[string]string)
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		for name := range settings {
			result := conn.ExecParams(ctx, "SELECT current_setting($1)", [][]byte{[]byte(name)}, nil, nil, nil).Read()
			if result.Err != nil {
				return result.Err
			}
			settings[name] = string(result.Rows[0][0])
		}
		return nil
	}
	want := map[string]string{
		"application_name": "stepboard lease", "statement_timeout": "0",
		"tcp_keepalives_idle": "15", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "30000",
	}
	for name := range want {
		settings[name] = ""
	}
	if err := lease.NewPostgres(config).Hold(t.Context(), "archive", nothing); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, settings); diff != "" {
		t.Error(diff)
	}
	if got := config.RuntimeParams["statement_timeout"]; got != "30000" {
		t.Errorf("the caller's statement_timeout became %q", got)
	}
}
