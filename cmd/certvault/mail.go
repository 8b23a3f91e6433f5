package main

import (
	"io"
	"time"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/mail"
)

type mailCommand struct {
	Status mailStatus `cmd:"" help:"Show how many messages wait, were sent or have failed, and the last failure."`
}

type mailStatus struct {
	config.Storage
}

// Run prints the state of the stored messages.
func (m *mailStatus) Run(c *console) error {
	return c.existing(m.Storage, func(base *app.Base) error {
		n, err := mail.CountOf(c.ctx, base.DB)
		if err != nil {
			return err
		}
		return c.print(struct {
			Queued       int        `json:"queued"`
			OldestAt     *time.Time `json:"oldest_at"`
			Sent         int        `json:"sent"`
			Unsent       int        `json:"unsent"`
			Failed       int        `json:"failed"`
			LastError    string     `json:"last_error"`
			LastFailedAt *time.Time `json:"last_failed_at"`
		}{n.Queued, n.OldestAt, n.Sent, n.Unsent, n.Failed, n.LastError, n.LastFailedAt}, func(w io.Writer) {
			printf(w, "Waiting: %d. In the last 30 days: %d sent, %d not sent (no mail server), %d failed.\n", n.Queued, n.Sent, n.Unsent, n.Failed)
			if n.OldestAt != nil {
				printf(w, "The oldest waiting message was created at %s.\n", formatTime(n.OldestAt))
			}
			if n.LastFailedAt != nil {
				printf(w, "Last failure at %s: %s\n", formatTime(n.LastFailedAt), n.LastError)
			}
		})
	})
}
