package main

import (
	"io"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

type compactCommand struct {
	config.Storage
}

// Help returns the long help of the command.
func (*compactCommand) Help() string {
	return `SQLite uses the space of deleted rows for new rows, but does not make its file smaller. Stop the server first. The command needs free space
for two copies of the data: beside the database, and in the folder for temporary files (TMPDIR). An interrupted command changes nothing.`
}

// Run compacts the database and prints the sizes of its file.
func (m *compactCommand) Run(c *console) error {
	if err := requireVault(m.Storage); err != nil {
		return err
	}
	before, after, err := app.Compact(c.ctx, m.Storage)
	if err != nil {
		return err
	}
	return c.print(struct {
		Before int64 `json:"bytes_before"`
		After  int64 `json:"bytes_after"`
	}{before, after}, func(w io.Writer) {
		printf(w, "The file of the database has %s. Before, it had %s.\n", byteSize(after), byteSize(before))
	})
}
