package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/config"
)

type serveCommand struct {
	config.Serve
}

// Run runs the server until the process receives SIGINT or SIGTERM. The log is on standard error.
// Standard output has only messages that the operator must read once, such as the set-up link.
func (s *serveCommand) Run(c *console) (err error) {
	if s.Sockets, err = app.InheritSockets(); err != nil {
		return err
	}
	if err := s.Finish(); err != nil {
		return &usageError{err}
	}
	// After this call, a write to a closed pipe returns an error. Without the call, SIGPIPE would
	// end the vault when the program that reads the log ends.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	var level slog.Level
	if err := level.UnmarshalText([]byte(s.LogLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	newHandler := logHandler(s.Log, level, isTerminal(c.stderr))
	out := newLogWriter(c.stderr, newHandler)
	defer out.stop()
	repeats := newRepeatHandler(newHandler(out))
	defer repeats.stop()
	// The actor of the server's own actions is Certvault, not the user of the command.
	ctx := audit.WithActor(c.ctx, audit.Certvault)
	log := slog.New(repeats)
	a, err := app.New(ctx, &s.Serve, log, c.stdout)
	if err != nil && ctx.Err() != nil {
		log.WarnContext(ctx, "stopped before the start was complete", slog.Any("error", err))
		return nil
	}
	if err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-hangup:
				a.Reload(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return a.Run(ctx)
}
