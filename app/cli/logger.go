package cli

import (
	"io"
	"log/slog"
	"time"

	"stepboard/config"
	"stepboard/models"
)

// newLogger writes structured lines to w.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // the settings were checked
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// clockOf is the service's clock: the real one, shifted.
func clockOf(cfg config.Config) models.Clock {
	offset := cfg.Clock.Offset
	return func() time.Time { return time.Now().Add(offset) }
}
