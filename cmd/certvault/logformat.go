package main

import (
	"context"
	"io"
	"log/slog"
)

// logHandler returns a function that creates log handlers. The handlers omit lines below level. format
// is the value of --log. If format is empty, the log is JSON, except on a terminal, where it is text
// that omits requests without an error. On a terminal, these requests would scroll the set-up link away.
func logHandler(format string, level slog.Leveler, terminal bool) func(w io.Writer) slog.Handler {
	text := func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})
	}
	switch {
	case format == "text":
		return text
	case format == "" && terminal:
		return func(w io.Writer) slog.Handler { return quietHandler{text(w)} }
	default:
		return func(w io.Writer) slog.Handler {
			return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: milliseconds})
		}
	}
}

// milliseconds converts a duration to milliseconds and appends _ms to its key. Otherwise, JSON would
// contain nanoseconds without a unit.
func milliseconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
	}
	return a
}

// shortTime shortens the time of a line to hours, minutes and seconds.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(a.Key, a.Value.Time().Format("15:04:05"))
	}
	return a
}

// quietHandler omits the log lines of requests without an error. These lines have the level INFO.
type quietHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == requestMessage && r.Level < slog.LevelWarn {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h quietHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quietHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h quietHandler) WithGroup(name string) slog.Handler {
	return quietHandler{h.Handler.WithGroup(name)}
}
