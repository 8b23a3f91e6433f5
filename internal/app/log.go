package app

import (
	"context"
	"log/slog"
)

// queueLogger passes on what the queue has to say only from warnings up: its
// retries of failed jobs are logged by their workers, with more to go on.
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
