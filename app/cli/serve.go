package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
)

func (p *program) serveCommand() *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the service against Redis and Postgres, or on a data folder",
		RunE: p.onSettings((*config.Config).RequireServe, func(ctx context.Context, cfg config.Config, _ []string) error {
			roles, err := parseRoles(only, cfg.Ingest.Mode)
			if err != nil {
				return err
			}
			if cfg.Data.Dir != "" && roles != app.AllRoles() {
				return errors.New("--only: the process that serves a data folder does everything")
			}
			return p.serve(ctx, cfg, roles, p.newLogger(cfg.Log))
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
	named := map[string]*bool{"api": &roles.API, "consumer": &roles.Consumer, "jobs": &roles.Jobs}
	for _, role := range only {
		if named[role] == nil {
			return roles, fmt.Errorf("--only %q: use api, consumer or jobs, or several with commas between them", role)
		}
		*named[role] = true
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
func (p *program) serve(ctx context.Context, cfg config.Config, roles app.Roles, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	for _, warning := range cfg.Warnings() {
		log.WarnContext(ctx, "a setting is dangerous", "warning", warning)
	}
	secure, err := app.NewTLS(cfg, log) //nolint:contextcheck // connections have contexts of their own
	if err != nil {
		return err
	}
	traces, err := app.NewTraces(ctx, cfg.Traces, log)
	if err != nil {
		return err
	}
	defer traces.Close() //nolint:contextcheck // it comes last, after ctx has ended: until then spans end
	var a *app.App
	o := app.Options{Config: cfg, Log: log, Roles: roles, TLS: secure, Traces: traces}
	patience := cfg.StartupTimeout
	if cfg.Data.Dir != "" {
		patience = 0 // there is no server to wait for
	}
	err = app.AwaitServers(ctx, patience, log, func() (err error) {
		a, err = openAndBuild(ctx, &o)
		return err
	})
	if err != nil {
		return err
	}
	begins := cfg.Data.Dir != "" && cfg.Auth.None() && cfg.Page.LoginURL == "" // otherwise an app signs people in
	return errors.Join(p.serveApp(ctx, a, o, begins), a.Close())
}

// openAndBuild opens the stores and builds the service, with the secret of a data folder unless the settings have one.
func openAndBuild(ctx context.Context, o *app.Options) (*app.App, error) {
	if err := openStores(ctx, o); err != nil {
		return nil, err
	}
	if o.Stores.Folder != nil && o.Config.Auth.HS256Secret == "" {
		if err := useFolderSecret(o); err != nil {
			return nil, errors.Join(err, o.Stores.Close())
		}
	}
	return buildApp(ctx, *o)
}

// serveApp serves a service until ctx ends. If it begins without an app and without people, it prints the first code.
// The caller closes the service.
func (p *program) serveApp(ctx context.Context, a *app.App, o app.Options, begins bool) error {
	cfg := o.Config
	a.Start(ctx)
	if o.Stores.Folder != nil {
		commands, err := takeCommands(ctx, o.Stores.Folder, a, o.Log)
		if err != nil {
			return err
		}
		defer commands.Close()
	}
	listener, err := listen(ctx, cfg.HTTP.Addr)
	if err != nil {
		return fmt.Errorf("http.addr: %w", err)
	}
	stopProfiles, err := serveAside(ctx, cfg.HTTP.PprofAddr, profiles())
	if err != nil {
		return errors.Join(fmt.Errorf("http.pprof_addr: %w", err), listener.Close())
	}
	defer stopProfiles()
	stopMetrics, err := serveAside(ctx, cfg.HTTP.MetricsAddr, metricsAndProbes(a.Metrics, a.Handler))
	if err != nil {
		return errors.Join(fmt.Errorf("http.metrics_addr: %w", err), listener.Close())
	}
	defer stopMetrics()
	o.Log.Info("serving", "addr", listener.Addr().String(), "version", app.Version())
	if o.Stores.Folder != nil {
		p.greet(cfg, o.Stores.Folder, listener.Addr())
	}
	if begins {
		p.printFirstCode(ctx, a, publicAddress(cfg.HTTP, listener.Addr()), o.Log)
	}
	err = a.Run(ctx, listener)
	o.Log.Info("stopping")
	return err
}

// greet prints where the data folder and the service are, and at the folder's first start what to
// do next.
func (p *program) greet(cfg config.Config, folder *stores.Folder, at net.Addr) {
	fmt.Fprintf(p.stdout, "The data is in %s.\nThe service is at %s/.\n", folder.Dir, publicAddress(cfg.HTTP, at))
	if !folder.New {
		return
	}
	if cfg.Auth.HS256Secret == "" && cfg.Auth.JWKSURL != "" {
		fmt.Fprintf(p.stdout, "Tokens are those of %s.\n", "auth.jwks_url")
	} else {
		fmt.Fprintf(p.stdout, "A token of user 9: stepboard token --data %s --user 9\n", folder.Dir)
	}
	fmt.Fprintln(p.stdout, "Later, stepboard move takes everything to Redis and Postgres.")
}

// printFirstCode prints the address by which the first user signs in, if there is nobody yet: to the terminal, as a QR code,
// too, and to the log. Without a code the service serves all the same.
func (p *program) printFirstCode(ctx context.Context, a *app.App, address string, log *slog.Logger) {
	code, err := a.Sessions.First(ctx)
	if err != nil && ctx.Err() == nil {
		log.Warn("there is no code by which the first user could sign in: start the service again", "error", err)
	}
	if code == "" {
		return
	}
	address += "/#code/" + code
	log.Info("nobody is here yet: whoever opens this address first is the first user, and an operator; it is a secret until then, and ends after a day", "address", address)
	fmt.Fprintf(p.stdout, "Nobody is here yet. Open this address, once, within a day, to be the first:\n  %s\n", address)
	if isTerminal(p.stdout) {
		qrterminal.GenerateHalfBlock(address, qrterminal.L, p.stdout)
	}
}

// publicAddress returns the address of the service, as far as the settings tell.
func publicAddress(cfg config.HTTP, at net.Addr) string {
	if cfg.PublicURL != "" {
		return strings.TrimSuffix(cfg.PublicURL, "/")
	}
	if len(cfg.ACMEHosts) > 0 {
		return "https://" + cfg.ACMEHosts[0] + cfg.BasePath
	}
	scheme, host := "http", at.String()
	if cfg.TLSCert != "" {
		scheme = "https"
	}
	if tcp, ok := at.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return scheme + "://" + host + cfg.BasePath
}

// readHeaderTimeout bounds the reading of a request's header.
const readHeaderTimeout = 5 * time.Second

// profiles returns the handler of profiles.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// metricsAndProbes returns a handler that serves metrics at /metrics, the probes of the service's
// handler, and nothing else.
func metricsAndProbes(metrics, service http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.Handle("GET /healthz", service)
	mux.Handle("GET /readyz", service)
	return mux
}

// serveAside serves a handler on an address of its own until stop is called. If
// addr is empty, it does nothing.
func serveAside(ctx context.Context, addr string, handler http.Handler) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	listener, err := listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	// No write timeout: the client chooses how long a profile takes.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout}
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

// healthTimeout bounds how long the service may take to respond.
const healthTimeout = 4 * time.Second

func (p *program) healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the service on this machine whether it is ready",
		Long:  "Ask the service whether it is ready, on http.metrics_addr if that is set, otherwise on http.addr. It is made for health checks of containers without curl.",
		RunE:  p.onSettings(nil, func(ctx context.Context, cfg config.Config, _ []string) error { return p.askReady(ctx, cfg.HTTP) }),
	}
}

// askReady prints the service's response. It returns an error if the service is not
// ready.
func (p *program) askReady(ctx context.Context, at config.HTTP) (err error) {
	addr, encrypted := at.Addr, at.TLSCert != "" || len(at.ACMEHosts) > 0
	if at.MetricsAddr != "" {
		addr, encrypted = at.MetricsAddr, false
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	scheme, client := "http", &http.Client{}
	if encrypted {
		scheme, client.Transport = "https", &http.Transport{TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // it asks this machine by an address that no certificate names
			ServerName:         strings.Join(at.ACMEHosts[:min(1, len(at.ACMEHosts))], ""),
		}}
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the service is not ready: %s", text)
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n", text)
	return err
}
