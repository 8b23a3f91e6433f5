package blob

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Probe writes a small file durably and removes it. It returns an error if the store accepts no
// writes.
func (f *Folder) Probe(context.Context) error {
	file, err := os.CreateTemp(filepath.Join(f.root, incomingDir), "probe-")
	if err != nil {
		return fmt.Errorf("writing to the file store: %w", err)
	}
	_, err = file.WriteString("probe\n")
	if err := errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name())); err != nil {
		return fmt.Errorf("writing to the file store: %w", err)
	}
	return nil
}

// Test calls Probe, because a folder needs no further checks.
func (f *Folder) Test(ctx context.Context) error { return f.Probe(ctx) }
