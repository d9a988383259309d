package cli

import (
	"context"
	"errors"

	"stepboard/app"
	"stepboard/config"
	"stepboard/internal/stores"
	"stepboard/services/auth"
)

// beside runs work with the services that serve has, on the stores of the
// settings, while serve may be running too.
func (p *program) beside(ctx context.Context, cfg config.Config, work func(*app.App) error) error {
	log, clock := newLogger(p.stderr, cfg.Log), clockOf(cfg)
	st, err := stores.Open(ctx, cfg, clock, nil)
	if err != nil {
		return err
	}
	if err := app.CheckStores(ctx, cfg, st, log); err != nil {
		return errors.Join(err, st.Close())
	}
	verifier := auth.NewVerifier(auth.VerifierConfig{})
	a, err := app.Build(ctx, app.Options{Config: cfg, Stores: st, Clock: clock, Log: log, Verifier: verifier, KeepStoredBoards: true})
	if err != nil {
		verifier.Close()
		return errors.Join(err, st.Close())
	}
	a.Start(ctx)
	return errors.Join(work(a), a.Close())
}

// withApp is beside for commands that need nothing else of the settings.
func (p *program) withApp(ctx context.Context, work func(*app.App) error) error {
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
