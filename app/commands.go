package app

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/migrations"
	"stepboard/models"
	"stepboard/services/auth"
)

// Version is this release.
const Version = "0.1.0"

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: p.run(func(context.Context, []string) error {
			commit := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						commit = s.Value
					}
				}
			}
			fmt.Fprintf(p.stdout, "stepboard %s, commit %s, %s\n", Version, commit, runtime.Version())
			return nil
		}),
	}
}

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or print the settings", Args: cobra.NoArgs, RunE: needsSubcommand}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check the settings as serve would",
		Args:  cobra.NoArgs,
		RunE: p.run(func(context.Context, []string) error {
			if _, err := p.loadFor((*config.Config).RequireServe); err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, "the settings are good")
			return nil
		}),
	}
	show := &cobra.Command{
		Use:   "print",
		Short: "Print the settings in force, with secrets hidden",
		Args:  cobra.NoArgs,
		RunE: p.run(func(context.Context, []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			return yaml.NewEncoder(p.stdout).Encode(cfg.Printable())
		}),
	}
	cmd.AddCommand(p.withSettings(check), p.withSettings(show))
	return cmd
}

func needsSubcommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("%s needs one of %s", cmd.Name(), strings.Join(names, ", "))
}

func (p *program) tokenCommand() *cobra.Command {
	var (
		user, scope string
		ttl         time.Duration
	)
	cmd := &cobra.Command{
		Use:   "token --user ID",
		Short: "Print a signed token, where auth.hs256_secret is set",
		Args:  cobra.NoArgs,
		RunE: p.run(func(context.Context, []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			token, err := signToken(cfg.Auth, user, scope, ttl)
			if err != nil {
				return err
			}
			fmt.Fprintln(p.stdout, token)
			return nil
		}),
	}
	cmd.Flags().StringVar(&user, "user", "", "the user's id")
	cmd.Flags().StringVar(&scope, "scope", "", "service, admin, both separated by a space, or nothing for a user")
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long the token is good for")
	if err := cmd.MarkFlagRequired("user"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func signToken(settings config.Auth, user, scope string, ttl time.Duration) (string, error) {
	if settings.HS256Secret == "" {
		return "", errors.New("auth.hs256_secret: must be set to sign tokens")
	}
	id, err := models.ParseUserID(user)
	if err != nil {
		return "", fmt.Errorf("--user %q: %w", user, err)
	}
	for _, s := range strings.Fields(scope) {
		if s != auth.ScopeService && s != auth.ScopeAdmin {
			return "", fmt.Errorf("--scope %q: use service, admin or both", s)
		}
	}
	// A token's times are whole seconds: a shorter one is expired at once.
	if ttl < time.Second {
		return "", fmt.Errorf("--ttl %v: must be 1s or more", ttl)
	}
	return auth.SignToken([]byte(settings.HS256Secret), id, scope, settings.Issuer, settings.Audience, time.Now(), ttl)
}

func (p *program) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the schema up to date, or tell its version", Args: cobra.NoArgs, RunE: needsSubcommand}
	up := &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are pending",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.withDatabase(ctx, func(s *stores.Stores) error {
				applied, err := s.Migrate(ctx)
				if err != nil {
					return err
				}
				for _, m := range applied {
					fmt.Fprintf(p.stdout, "applied %s\n", m.Name)
				}
				if len(applied) == 0 {
					fmt.Fprintln(p.stdout, "the schema is up to date")
				}
				return nil
			})
		}),
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Tell the schema's version and the one that this binary needs",
		Args:  cobra.NoArgs,
		RunE: p.run(func(ctx context.Context, _ []string) error {
			return p.withDatabase(ctx, func(s *stores.Stores) error {
				m, err := migrations.New(ctx, s.SQL, s.Dialect)
				if err != nil {
					return err
				}
				current, newest, err := m.Status(ctx)
				if err != nil {
					return err
				}
				fmt.Fprintf(p.stdout, "the schema is at version %d; this binary needs %d\n", current, newest)
				return nil
			})
		}),
	}
	cmd.AddCommand(p.withSettings(up), p.withSettings(status))
	return cmd
}

// beside runs work with the services that serve has, on the stores of the
// settings, while serve may be running too.
func (p *program) beside(ctx context.Context, cfg config.Config, work func(*App) error) error {
	log, clock := newLogger(p.stderr, cfg.Log), clockOf(cfg)
	st, err := stores.Open(ctx, cfg, clock, nil)
	if err != nil {
		return err
	}
	if err := prepare(ctx, cfg, st, log); err != nil {
		return errors.Join(err, st.Close())
	}
	verifier := auth.NewVerifier(auth.VerifierConfig{})
	a, err := Build(ctx, Options{Config: cfg, Stores: st, Clock: clock, Log: log, Verifier: verifier, KeepStoredBoards: true})
	if err != nil {
		verifier.Close()
		return errors.Join(err, st.Close())
	}
	a.Start(ctx)
	return errors.Join(work(a), a.Close())
}

// withApp is beside for commands that need nothing else of the settings.
func (p *program) withApp(ctx context.Context, work func(*App) error) error {
	cfg, err := p.loadFor((*config.Config).RequirePostgres)
	if err != nil {
		return err
	}
	return p.beside(ctx, cfg, work)
}

// withDatabase runs work on the database of the settings.
func (p *program) withDatabase(ctx context.Context, work func(*stores.Stores) error) error {
	cfg, err := p.loadFor((*config.Config).RequirePostgres)
	if err != nil {
		return err
	}
	s, err := stores.Open(ctx, cfg, clockOf(cfg), nil)
	if err != nil {
		return err
	}
	return errors.Join(work(s), s.Close())
}
