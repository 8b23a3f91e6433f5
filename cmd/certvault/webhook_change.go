package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/certvault/certvault/internal/webhook"
)

type webhookUpdate struct {
	endpointCommand

	URL       *string  `help:"New URL to which events are sent." placeholder:"URL" name:"url"`
	Event     []string `help:"An event to send; may be repeated. Replaces all events. An unknown name prints all names." placeholder:"E"`
	AllEvents bool     `help:"Send every event."`
	Header    []string `help:"A header to add to each delivery; may be repeated. Replaces all headers." placeholder:"NAME:VALUE" sep:"none"`
	NoHeaders bool     `help:"Remove all headers."`
}

// Run changes the endpoint.
func (h *webhookUpdate) Run(c *console) error {
	if len(h.Event) > 0 && h.AllEvents || len(h.Header) > 0 && h.NoHeaders {
		return &usageError{errors.New("--event and --all-events, and --header and --no-headers, are mutually exclusive")}
	}
	change := webhook.Change{URL: h.URL}
	if len(h.Event) > 0 || h.AllEvents {
		events := eventNames(h.Event)
		change.Events = &events
	}
	if len(h.Header) > 0 || h.NoHeaders {
		headers := headersOf(h.Header)
		change.Headers = &headers
	}
	if change == (webhook.Change{}) {
		return &usageError{errors.New("specify what to change: --url, --event, --all-events, --header or --no-headers")}
	}
	return h.run(c, func(hooks *webhook.Service, institution int64) error {
		if err := hooks.Update(c.ctx, institution, h.ID, change); err != nil {
			return err
		}
		e, err := hooks.Endpoint(c.ctx, institution, h.ID)
		if err != nil {
			return err
		}
		return c.print(struct {
			ID     string         `json:"id"`
			URL    string         `json:"url"`
			Events []webhook.Name `json:"events"`
		}{e.UUID, e.URL, append([]webhook.Name{}, e.Events...)}, func(w io.Writer) {
			printf(w, "Endpoint %s changed.\n", e.UUID)
		})
	})
}

type webhookDelete struct {
	endpointCommand

	Yes bool `help:"Delete the endpoint, its waiting deliveries and its log. This cannot be undone."`
}

// Run deletes the endpoint. Without --yes, Run returns an error that names the endpoint.
func (h *webhookDelete) Run(c *console) error {
	return h.run(c, func(hooks *webhook.Service, institution int64) error {
		e, err := hooks.Endpoint(c.ctx, institution, h.ID)
		if err != nil {
			return err
		}
		if !h.Yes {
			return &usageError{fmt.Errorf("endpoint %s sends to %s; its waiting deliveries and its log would be deleted too; add --yes to delete it", e.UUID, e.URL)}
		}
		if err := hooks.Delete(c.ctx, institution, h.ID); err != nil {
			return err
		}
		return c.print(struct {
			ID      string `json:"id"`
			Deleted bool   `json:"deleted"`
		}{h.ID, true}, func(w io.Writer) { printf(w, "Endpoint %s deleted.\n", h.ID) })
	})
}

func eventNames(given []string) []webhook.Name {
	events := make([]webhook.Name, len(given))
	for i, e := range given {
		events[i] = webhook.Name(e)
	}
	return events
}

func headersOf(given []string) []webhook.Header {
	headers := make([]webhook.Header, len(given))
	for i, text := range given {
		name, value, _ := strings.Cut(text, ":")
		headers[i] = webhook.Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
	}
	return headers
}
