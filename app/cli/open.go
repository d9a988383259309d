package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/pause"
	"stepboard/internal/repeats"
	"stepboard/internal/shipping"
	"stepboard/internal/stores"
	"stepboard/models"
	"stepboard/services/platform/auth"
)

// openStores opens the stores of o.Config: its data folder, or Redis and Postgres. Without a role it
// is for a command. It sets what o lacks but the verifier: the stores, and their clock.
func openStores(ctx context.Context, o *app.Options) (err error) {
	o.Clock = newClock(o.Config)
	switch {
	case o.Config.Data.Dir != "" && o.Config.Backup.To != "" && o.Roles != (app.Roles{}):
		return openShipped(ctx, o)
	case o.Config.Data.Dir != "":
		o.Stores, err = stores.OpenFolder(ctx, o.Config.Data.Dir, o.Clock)
	case o.Roles == (app.Roles{}):
		o.Stores, err = stores.OpenForCommand(ctx, o.Config, o.Clock)
	default:
		o.Stores, err = stores.Open(ctx, o.Config, o.Clock, o.Traces.Provider())
	}
	return err
}

// openShipped opens a data folder whose database is copied to backup.to.
func openShipped(ctx context.Context, o *app.Options) error {
	target, err := openTarget(o.Config, o.Config.Backup.To)
	if err != nil {
		return fmt.Errorf("backup.to: %w", err)
	}
	folder, err := stores.LockFolder(o.Config.Data.Dir)
	if err != nil {
		return err
	}
	folder.Ships = true
	if o.Stores, err = folder.Open(ctx, o.Clock); err != nil {
		folder.Close()
		return err
	}
	o.Shipping, err = shipping.New(ctx, shipping.Options{
		Stores: o.Stores, Target: target, Backup: o.Config.Backup, Version: app.Version(), Clock: o.Clock, Log: o.Log,
	})
	if err != nil {
		return errors.Join(err, o.Stores.Close())
	}
	return nil
}

// buildApp checks the stores of o and builds the service on them. It sets o's verifier of tokens.
// After an error the stores are closed.
func buildApp(ctx context.Context, o app.Options) (*app.App, error) {
	closeStores := func() error {
		if o.Shipping != nil {
			return errors.Join(o.Shipping.Close(), o.Stores.Close())
		}
		return o.Stores.Close()
	}
	if err := app.CheckStores(ctx, o.Config, o.Stores, o.Roles, o.Log); err != nil {
		return nil, errors.Join(err, closeStores())
	}
	o.Verifier = newVerifier(ctx, o)
	a, err := app.Build(ctx, o)
	if err != nil {
		o.Verifier.Close()
		return nil, errors.Join(err, closeStores())
	}
	return a, nil
}

// newVerifier returns a verifier that checks tokens with the secrets, the JWKS, or
// both, or none. If the JWKS can't be fetched now, it is fetched in the background once
// the service runs.
func newVerifier(ctx context.Context, o app.Options) *auth.Verifier {
	cfg := o.Config.Auth
	v := auth.VerifierConfig{
		Secret: []byte(cfg.HS256Secret), PreviousSecret: []byte(cfg.HS256PreviousSecret), SessionSecret: []byte(o.SessionSecret),
		Issuer: cfg.Issuer, Audience: cfg.Audience, MaxLifetime: cfg.MaxTokenLifetime, Leeway: cfg.Leeway,
	}
	if cfg.JWKSURL != "" {
		v.Keys = auth.NewKeySet(ctx, cfg.JWKSURL, o.Log)
	}
	return auth.NewVerifier(v)
}

// openApp builds and starts the service on the stores of the settings, without a
// role and without tokens. serve may be running on them: its boards stay as it has
// defined them. The caller closes the App.
func (p *program) openApp(ctx context.Context, cfg config.Config, log *slog.Logger) (*app.App, error) {
	o := app.Options{Config: cfg, Log: log, KeepStoredBoards: true}
	if err := openStores(ctx, &o); err != nil {
		return nil, err
	}
	return startApp(ctx, o)
}

// startApp builds and starts the service on the stores of o, without tokens.
func startApp(ctx context.Context, o app.Options) (*app.App, error) {
	o.Config.Auth, o.Config.WeChat = config.Auth{}, config.WeChat{}
	a, err := buildApp(ctx, o)
	if err != nil {
		return nil, err
	}
	a.Start(ctx)
	return a, nil
}

// runOnApp reads the settings and runs work on the service that openApp returns. If another process
// serves the data folder, the command runs there.
func (p *program) runOnApp(ctx context.Context, work func(*app.App) error) error {
	if p.app != nil {
		return work(p.app)
	}
	cfg, err := p.load((*config.Config).RequireStores)
	if err != nil {
		return err
	}
	log := p.newLogger(cfg.Log)
	a, err := p.openApp(ctx, cfg, log)
	for began := time.Now(); errors.Is(err, stores.ErrFolderInUse); a, err = p.openApp(ctx, cfg, log) {
		elsewhere := p.forward(ctx, cfg.Data.Dir)
		if !errors.Is(elsewhere, errNotServing) {
			return elsewhere
		}
		if time.Since(began) >= takesCommandsWithin || pause.For(ctx, askAgain) != nil {
			return fmt.Errorf("%w; %w", err, errNotServing)
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(work(a), a.Close())
}

// newLogger returns a logger that writes structured lines to standard error. Warnings that are
// repeated are bounded until Main closes the log.
func (p *program) newLogger(cfg config.Log) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Level)) // the settings were checked
	options := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewJSONHandler(p.stderr, options)
	if cfg.Format == "text" {
		lines = slog.NewTextHandler(p.stderr, options)
	}
	bounded := repeats.NewHandler(lines)
	p.closeLog = bounded.Close
	return slog.New(bounded)
}

// newClock returns the service's clock: the real time plus clock.offset.
func newClock(cfg config.Config) models.Clock {
	offset := cfg.Clock.Offset
	return func() time.Time { return time.Now().Add(offset) }
}
