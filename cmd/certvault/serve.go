package main

import (
	"log/slog"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/config"
)

type serveCommand struct {
	config.Serve
}

// Run serves until a signal. Log lines are JSON on standard error. Standard output has only
// messages that the operator must read once.
func (s *serveCommand) Run(c *console) error {
	if err := s.Finish(); err != nil {
		return &usageError{err}
	}
	log := slog.New(slog.NewJSONHandler(c.stderr, nil))
	// The actor of the server's own actions is Certvault, not the user of the command.
	ctx := audit.WithActor(c.ctx, audit.Certvault)
	a, err := app.New(ctx, &s.Serve, log, c.stdout)
	if err != nil && ctx.Err() != nil {
		log.WarnContext(ctx, "stopped before the start was complete", slog.Any("error", err))
		return nil //nolint:nilerr // a signal is no error
	}
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
