package cli

import (
	"io"
	"log/slog"
	"time"

	"stepboard/config"
	"stepboard/models"
)

// newLogger returns a logger that writes structured lines to w.
func newLogger(w io.Writer, cfg config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		level = slog.LevelInfo // does not happen: the settings were checked
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// newClock returns the service's clock: the real time plus clock.offset.
func newClock(cfg config.Config) models.Clock {
	offset := cfg.Clock.Offset
	return func() time.Time { return time.Now().Add(offset) }
}
