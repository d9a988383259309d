package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/services/auth"
)

func (p *program) serveCommand() *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service against Redis and Postgres",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			cfg, err := p.loadFor((*config.Config).RequireServe)
			if err != nil {
				return err
			}
			roles, err := rolesOf(only, cfg.Ingest.Mode)
			if err != nil {
				return err
			}
			return serve(ctx, cfg, roles, p.stderr)
		}),
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "of api, consumer and jobs do these alone; health and metrics are answered in any case")
	return cmd
}

// rolesOf reads --only.
func rolesOf(only []string, mode string) (Roles, error) {
	if len(only) == 0 {
		return AllRoles(), nil
	}
	var roles Roles
	for _, role := range only {
		switch role {
		case "api":
			roles.API = true
		case "consumer":
			roles.Consumer = true
		case "jobs":
			roles.Jobs = true
		default:
			return roles, fmt.Errorf("--only %q: use api, consumer or jobs, or several with commas between them", role)
		}
	}
	if mode == "direct" && !roles.API && !roles.Jobs {
		return roles, errors.New("--only consumer: with ingest.mode direct there is no queue to consume")
	}
	return roles, nil
}

// gcPercent lets the heap grow further between two collections than Go's
// default of 100: the service keeps little and throws away much, and memory of
// some 150 MB is cheaper than the time. GOGC overrules it.
const gcPercent = 300

// serve runs the service until ctx ends.
func serve(ctx context.Context, cfg config.Config, roles Roles, logTo io.Writer) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	log := newLogger(logTo, cfg.Log)
	clock := clockOf(cfg)
	traces, err := NewTraces(ctx, cfg.Traces, log)
	if err != nil {
		return err
	}
	defer traces.Close() //nolint:contextcheck // the last thing, when ctx has ended: until then there are spans
	st, err := stores.Open(ctx, cfg, clock, traces.Provider())
	if err != nil {
		return err
	}
	if err := prepare(ctx, cfg, st, log); err != nil {
		return errors.Join(err, st.Close())
	}
	verifier := newVerifier(ctx, cfg.Auth, log)
	a, err := Build(ctx, Options{Config: cfg, Stores: st, Clock: clock, Log: log, Verifier: verifier, Roles: roles, Traces: traces})
	if err != nil {
		verifier.Close()
		return errors.Join(err, st.Close())
	}
	listener, err := listen(ctx, cfg.HTTP.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("http.addr: %w", err), a.Close())
	}
	profiles, err := serveProfiles(ctx, cfg.HTTP.PprofAddr)
	if err != nil {
		return errors.Join(fmt.Errorf("http.pprof_addr: %w", err), listener.Close(), a.Close())
	}
	defer profiles()
	log.Info("serving", "addr", listener.Addr().String(), "version", Version)
	err = a.Run(ctx, listener)
	log.Info("stopping")
	return errors.Join(err, a.Close())
}

// serveProfiles answers profiles on an address of their own, if there is one,
// until the answered function is called.
func serveProfiles(ctx context.Context, addr string) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	// A profile is written for as long as it is asked for.
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends when it is closed
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}

func listen(ctx context.Context, addr string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp", addr)
}

// prepare checks that the stores can be relied on.
func prepare(ctx context.Context, cfg config.Config, st *stores.Stores, log *slog.Logger) error {
	if err := st.SQL.PingContext(ctx); err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	if cfg.Postgres.AutoMigrate {
		applied, err := st.Migrate(ctx)
		if err != nil {
			return err
		}
		for _, m := range applied {
			log.Info("migrated", "version", m.Version)
		}
	}
	if err := st.CheckSchema(ctx); err != nil {
		return err
	}
	return checkRedis(ctx, st.Redis, log)
}

// checkRedis refuses a Redis that may throw away what it must keep.
func checkRedis(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) error {
	err := stores.CheckRedis(ctx, rdb)
	if errors.Is(err, stores.ErrMayNotAsk) {
		log.Warn("redis does not tell its maxmemory-policy: make sure that it is noeviction, or boards may be thrown away")
		return nil
	}
	return err
}

// newVerifier checks tokens by the secret, the JWKS, or both. Where the JWKS
// does not answer, it goes on trying in the background.
func newVerifier(ctx context.Context, cfg config.Auth, log *slog.Logger) *auth.Verifier {
	v := auth.VerifierConfig{Secret: []byte(cfg.HS256Secret), Issuer: cfg.Issuer, Audience: cfg.Audience}
	if cfg.JWKSURL != "" {
		v.Keys = auth.NewKeySet(ctx, cfg.JWKSURL, log)
	}
	return auth.NewVerifier(v)
}
