package main

import (
	"fmt"
	"io"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/webhook"
)

type webhookCommand struct {
	Create webhookCreate `cmd:"" help:"Make an endpoint and show its signing secret, once."`
}

type webhookCreate struct {
	config.Storage

	Institution string   `help:"Slug of the institution."                                  required:""`
	URL         string   `help:"Where events are sent."                                    required:"" name:"url"`
	Event       []string `help:"An event to send; may be repeated. Default: all events."   placeholder:"E"`
}

// Run makes the endpoint.
func (h *webhookCreate) Run(c *console) error {
	return c.institution(h.Storage, h.Institution, func(base *app.Base, inst *account.Institution) error {
		events := make([]webhook.Name, len(h.Event))
		for i, e := range h.Event {
			events[i] = webhook.Name(e)
		}
		made, secret, err := base.Hooks.Create(c.ctx, inst.ID, h.URL, events)
		if err != nil {
			return err
		}
		return c.answer(struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		}{made.UUID, secret}, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "Endpoint %s made.\nSigning secret, shown this once: %s\n", made.UUID, secret)
		})
	})
}
