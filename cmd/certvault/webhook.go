package main

import (
	"io"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/webhook"
)

type webhookCommand struct {
	Create    webhookCreate    `cmd:"" help:"Create an endpoint and print its signing secret. It cannot be printed again."`
	List      webhookList      `cmd:"" help:"List an institution's endpoints and their state."`
	Update    webhookUpdate    `cmd:"" help:"Change an endpoint's URL, events or headers."`
	Delete    webhookDelete    `cmd:"" help:"Delete an endpoint with its waiting deliveries and its log."`
	Test      webhookTest      `cmd:"" help:"Send an example of an event to an endpoint, and wait for the result."`
	Pause     webhookPause     `cmd:"" help:"Pause an endpoint. Its events are kept for 14 days."`
	Resume    webhookResume    `cmd:"" help:"Resume sending to a paused endpoint."`
	Rotate    webhookRotate    `cmd:"" help:"Create a new signing secret for an endpoint, or promote the new secret."`
	Log       webhookLog       `cmd:"" help:"List an endpoint's deliveries, or print one delivery with its attempts."`
	Redeliver webhookRedeliver `cmd:"" help:"Send one delivery again."`
	Replay    webhookReplay    `cmd:"" help:"Resend the failed deliveries (status exhausted) that were created since a time."`
}

// endpointCommand has the flags and the argument of a command for one endpoint.
type endpointCommand struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	ID          string `arg:"" help:"The endpoint's id in the output of list."`
}

// run opens the storage, finds the institution and calls f.
func (e *endpointCommand) run(c *console, f func(hooks *webhook.Service, institution int64) error) error {
	return c.institution(e.Storage, e.Institution, func(base *app.Base, inst *account.Institution) error { return f(base.Hooks, inst.ID) })
}

type webhookCreate struct {
	config.Storage

	Institution string   `help:"Slug of the institution." placeholder:"SLUG" required:""`
	URL         string   `help:"URL to which events are sent." placeholder:"URL" required:"" name:"url"`
	Event       []string `help:"An event to send; may be repeated. An unknown name prints all names. Default: all events." placeholder:"E"`
	Header      []string `help:"A header to add to each delivery; may be repeated." placeholder:"NAME:VALUE" sep:"none"`
}

// Run creates the endpoint.
func (h *webhookCreate) Run(c *console) error {
	return c.institution(h.Storage, h.Institution, func(base *app.Base, inst *account.Institution) error {
		created, secret, err := base.Hooks.Create(c.ctx, inst.ID, h.URL, eventNames(h.Event), headersOf(h.Header)...)
		if err != nil {
			return err
		}
		return c.print(struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		}{created.UUID, secret}, func(w io.Writer) {
			printf(w, "Endpoint %s created.\nSigning secret, shown only once: %s\n", created.UUID, secret)
		})
	})
}

type webhookList struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

type endpointRow struct {
	ID           string         `json:"id"`
	URL          string         `json:"url"`
	Events       []webhook.Name `json:"events"`
	Status       webhook.Status `json:"status"`
	StopReason   webhook.Reason `json:"stop_reason,omitempty"`
	Waiting      int            `json:"waiting"`
	BreakerOpen  bool           `json:"breaker_open"`
	HeldUntil    *time.Time     `json:"held_until"`
	FailingSince *time.Time     `json:"failing_since"`
	FailedAt     *time.Time     `json:"failed_at"`
	DeliveredAt  *time.Time     `json:"delivered_at"`
	StoppedAt    *time.Time     `json:"stopped_at"`
	OverlapUntil *time.Time     `json:"overlap_until"`
	CreatedAt    time.Time      `json:"created_at"`
}

// Run lists endpoints, newest first.
func (h *webhookList) Run(c *console) error {
	return c.institution(h.Storage, h.Institution, func(base *app.Base, inst *account.Institution) error {
		list, err := base.Hooks.List(c.ctx, inst.ID)
		if err != nil {
			return err
		}
		rows := make([]endpointRow, len(list))
		for i, e := range list {
			rows[i] = endpointRow{
				ID: e.UUID, URL: e.URL, Events: append([]webhook.Name{}, e.Events...), Status: e.Status, StopReason: e.StopReason, Waiting: e.Waiting,
				BreakerOpen: e.BreakerOpen, HeldUntil: e.BackoffUntil, FailingSince: e.FailingSince, FailedAt: e.FailedAt, DeliveredAt: e.DeliveredAt,
				StoppedAt: e.StoppedAt, OverlapUntil: e.OverlapUntil, CreatedAt: e.CreatedAt,
			}
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "ID", "STATE", "WAITING", "LAST DELIVERED", "FAILING SINCE", "URL")
			for _, e := range rows {
				table.row(e.ID, e.state(), e.Waiting, formatTime(e.DeliveredAt), formatTime(e.FailingSince), e.URL)
			}
			table.flush()
		})
	})
}

func (e *endpointRow) state() string {
	switch {
	case e.Status == webhook.SwitchedOff:
		return "paused after errors: " + string(e.StopReason)
	case e.Status == webhook.Active && e.BreakerOpen:
		return "not available"
	default:
		return string(e.Status)
	}
}
