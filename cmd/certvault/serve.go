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

// Run serves until a signal. Log lines are JSON on standard error. Standard output has only what
// the operator must see once.
func (s *serveCommand) Run(c *console) error {
	if err := s.Finish(); err != nil {
		return &usageError{err}
	}
	log := slog.New(slog.NewJSONHandler(c.stderr, nil))
	// The server's own actions are not recorded as those of a command.
	ctx := audit.WithActor(c.ctx, audit.Certvault)
	a, err := app.New(ctx, &s.Serve, log, c.stdout)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}
