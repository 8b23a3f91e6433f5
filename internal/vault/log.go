package vault

import (
	"context"
	"log/slog"
)

// queueLogger returns a logger for the warnings and errors of the queue. The workers log the
// retries of failed jobs themselves, with more detail.
func queueLogger(log *slog.Logger) *slog.Logger {
	return slog.New(levelHandler{Handler: log.Handler(), level: slog.LevelWarn})
}

type levelHandler struct {
	slog.Handler

	level slog.Level
}

func (h levelHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{Handler: h.Handler.WithAttrs(attrs), level: h.level}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{Handler: h.Handler.WithGroup(name), level: h.level}
}
