package main

import (
	"context"
	"io"
	"log/slog"
)

// logHandler returns the function that creates handlers for a format of --log, which omit the lines
// below a level. Without a format, the log of a terminal is text without the lines of requests that
// succeed, because they would scroll the set-up link away. Any other log is JSON.
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

// milliseconds names the unit of a duration, which JSON would show as a number of nanoseconds. Text
// shows a duration with its unit.
func milliseconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
	}
	return a
}

// shortTime shortens the time of a line to the time of day.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(a.Key, a.Value.Time().Format("15:04:05"))
	}
	return a
}

// quietHandler omits the lines of requests without an error.
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
