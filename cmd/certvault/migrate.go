package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

type migrateCommand struct {
	config.Storage
}

// Run migrates the database. A second call changes nothing.
func (m *migrateCommand) Run(c *console) error {
	if err := requireVault(m.Storage); err != nil {
		return err
	}
	version, err := app.Migrate(c.ctx, m.Storage, slog.New(slog.NewTextHandler(c.stderr, nil)))
	if err != nil {
		return err
	}
	return c.print(struct {
		Schema int `json:"schema"`
	}{version}, func(w io.Writer) { _, _ = fmt.Fprintf(w, "The database has schema %d.\n", version) })
}
