package cli

import (
	"log/slog"
	"time"

	"stepboard/config"
	"stepboard/internal/repeats"
	"stepboard/models"
)

// newLogger returns a logger that writes structured lines to standard error. Warnings that are
// repeated are bounded until Main closes the log.
func (p *program) newLogger(cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // does not happen: the settings were checked
	}
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
