package mail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Outbox stores each message as a file that mail programs can open. An outbox is for a vault
// without a mail server.
type Outbox struct{ dir string }

// NewOutbox returns an outbox in a folder, and creates the folder if it does not exist.
func NewOutbox(dir string) (*Outbox, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the outbox: %w", err)
	}
	return &Outbox{dir: dir}, nil
}

// Send writes the message to a file. The name of the file is the same at each attempt, so that a
// message never has two files. The name begins with the creation time of the message.
func (o *Outbox) Send(ctx context.Context, e *Envelope) error {
	m, err := e.build(ctx)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(o.dir, ".message-*")
	if err != nil {
		return fmt.Errorf("writing to the outbox: %w", err)
	}
	_, err = m.WriteTo(tmp)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(o.dir, e.CreatedAt.UTC().Format("20060102T150405.000Z")+"-"+e.ID+".eml"))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing to the outbox: %w", err), os.Remove(tmp.Name()))
	}
	return o.sync()
}

// sync makes the names of new files durable.
func (o *Outbox) sync() error {
	dir, err := os.Open(o.dir)
	if err != nil {
		return fmt.Errorf("writing to the outbox: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("writing to the outbox: %w", err)
	}
	return nil
}
