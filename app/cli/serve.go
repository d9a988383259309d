package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
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
			roles, err := parseRoles(only, cfg.Ingest.Mode)
			if err != nil {
				return err
			}
			return serve(ctx, cfg, roles, p.newLogger(cfg.Log))
		}),
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "run only these of api, consumer and jobs; health and metrics are always served")
	return cmd
}

// parseRoles returns the roles that --only names, all without it.
func parseRoles(only []string, mode string) (app.Roles, error) {
	if len(only) == 0 {
		return app.AllRoles(), nil
	}
	var roles app.Roles
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

// gcPercent lets the heap grow further between two collections than Go's default
// of 100: the service keeps little memory and discards much, and some 150 MB cost
// less than the time. GOGC overrides it.
const gcPercent = 300

// serve runs the service until ctx ends.
func serve(ctx context.Context, cfg config.Config, roles app.Roles, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	for _, warning := range cfg.Warnings() {
		log.WarnContext(ctx, "a setting is dangerous", "warning", warning)
	}
	secure, err := app.NewTLS(cfg, log)
	if err != nil {
		return err
	}
	traces, err := app.NewTraces(ctx, cfg.Traces, log)
	if err != nil {
		return err
	}
	defer traces.Close() //nolint:contextcheck // it comes last, after ctx has ended: until then spans end
	var a *app.App
	err = app.AwaitServers(ctx, cfg.StartupTimeout, log, func() (err error) {
		a, err = buildApp(ctx, app.Options{Config: cfg, Log: log, Roles: roles, TLS: secure, Traces: traces}, cfg.Auth)
		return err
	})
	if err != nil {
		return err
	}
	listener, err := listen(ctx, cfg.HTTP.Addr)
	if err != nil {
		return errors.Join(fmt.Errorf("http.addr: %w", err), a.Close())
	}
	stopProfiles, err := serveAside(ctx, cfg.HTTP.PprofAddr, profiles())
	if err != nil {
		return errors.Join(fmt.Errorf("http.pprof_addr: %w", err), listener.Close(), a.Close())
	}
	defer stopProfiles()
	stopMetrics, err := serveAside(ctx, cfg.HTTP.MetricsAddr, onlyMetrics(a.Metrics))
	if err != nil {
		return errors.Join(fmt.Errorf("http.metrics_addr: %w", err), listener.Close(), a.Close())
	}
	defer stopMetrics()
	log.Info("serving", "addr", listener.Addr().String(), "version", app.Version)
	err = a.Run(ctx, listener)
	log.Info("stopping")
	return errors.Join(err, a.Close())
}
