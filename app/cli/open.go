package cli

import (
	"context"
	"errors"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/services/auth"
)

// openApp builds and starts the service on the stores of the settings, without
// a role. serve may be running on them: its boards stay as it has defined them.
// The caller closes the App.
func (p *program) openApp(ctx context.Context, cfg config.Config) (*app.App, error) {
	log, clock := newLogger(p.stderr, cfg.Log), newClock(cfg)
	st, err := stores.Open(ctx, cfg, clock, nil)
	if err != nil {
		return nil, err
	}
	if err := app.CheckStores(ctx, cfg, st, log); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	verifier := auth.NewVerifier(auth.VerifierConfig{})
	a, err := app.Build(ctx, app.Options{Config: cfg, Stores: st, Clock: clock, Log: log, Verifier: verifier, KeepStoredBoards: true})
	if err != nil {
		verifier.Close()
		return nil, errors.Join(err, st.Close())
	}
	a.Start(ctx)
	return a, nil
}

// runOnApp reads the settings and runs work on the service that openApp returns.
func (p *program) runOnApp(ctx context.Context, work func(*app.App) error) error {
	cfg, err := p.loadFor((*config.Config).RequirePostgres)
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
	cfg, err := p.loadFor((*config.Config).RequirePostgres)
	if err != nil {
		return err
	}
	s, err := stores.Open(ctx, cfg, newClock(cfg), nil)
	if err != nil {
		return err
	}
	return errors.Join(work(s), s.Close())
}
