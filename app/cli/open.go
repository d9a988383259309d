package cli

import (
	"context"
	"errors"
	"log/slog"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/services/platform/auth"
)

// buildApp opens and checks the stores of o.Config and builds the service on
// them. It sets what o lacks: the stores, the clock and a verifier of tokens. Without a role
// it is for a command.
func buildApp(ctx context.Context, o app.Options, tokens config.Auth) (*app.App, error) {
	o.Clock = newClock(o.Config)
	var st *stores.Stores
	var err error
	if o.Roles == (app.Roles{}) {
		st, err = stores.OpenForCommand(ctx, o.Config, o.Clock)
	} else {
		st, err = stores.Open(ctx, o.Config, o.Clock, o.Traces.Provider())
	}
	if err != nil {
		return nil, err
	}
	if err := app.CheckStores(ctx, o.Config, st, o.Roles, o.Log); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	o.Stores, o.Verifier = st, newVerifier(ctx, tokens, o.Log)
	a, err := app.Build(ctx, o)
	if err != nil {
		o.Verifier.Close()
		return nil, errors.Join(err, st.Close())
	}
	return a, nil
}

// newVerifier returns a verifier that checks tokens with the secret, the JWKS, or
// both, or none. If the JWKS can't be fetched now, it is fetched in the background once
// the service runs.
func newVerifier(ctx context.Context, cfg config.Auth, log *slog.Logger) *auth.Verifier {
	v := auth.VerifierConfig{
		Secret: []byte(cfg.HS256Secret), PreviousSecret: []byte(cfg.HS256PreviousSecret),
		Issuer: cfg.Issuer, Audience: cfg.Audience, MaxLifetime: cfg.MaxTokenLifetime, Leeway: cfg.Leeway,
	}
	if cfg.JWKSURL != "" {
		v.Keys = auth.NewKeySet(ctx, cfg.JWKSURL, log)
	}
	return auth.NewVerifier(v)
}

// openApp builds and starts the service on the stores of the settings, without a
// role and without tokens. serve may be running on them: its boards stay as it has
// defined them. The caller closes the App.
func (p *program) openApp(ctx context.Context, cfg config.Config) (*app.App, error) {
	log := p.newLogger(cfg.Log)
	a, err := buildApp(ctx, app.Options{Config: cfg, Log: log, KeepStoredBoards: true}, config.Auth{})
	if err != nil {
		return nil, err
	}
	a.Start(ctx)
	return a, nil
}

// runOnApp reads the settings and runs work on the service that openApp returns.
func (p *program) runOnApp(ctx context.Context, work func(*app.App) error) error {
	cfg, err := p.loadFor((*config.Config).RequireStores)
	if err != nil {
		return err
	}
	a, err := p.openApp(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(work(a), a.Close())
}

// runOnStores reads the settings and runs work on their stores, without the
// service.
func (p *program) runOnStores(ctx context.Context, work func(*stores.Stores) error) error {
	cfg, err := p.loadFor((*config.Config).RequireStores)
	if err != nil {
		return err
	}
	s, err := stores.OpenForCommand(ctx, cfg, newClock(cfg))
	if err != nil {
		return err
	}
	return errors.Join(work(s), s.Close())
}
