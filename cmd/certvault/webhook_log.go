package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/webhook"
)

type webhookLog struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	ID          string `arg:"" help:"Only deliveries of this endpoint." optional:""`
	Status      string `help:"Only deliveries with this status: pending, delivered or exhausted." placeholder:"STATUS"`
	Limit       int    `default:"20" help:"Number of deliveries, 1 to 100." placeholder:"N"`
	Before      int64  `help:"Only deliveries older than this delivery." placeholder:"DELIVERY"`
	Delivery    int64  `help:"Print this delivery with its body, requests and responses." placeholder:"DELIVERY"`
}

type deliveryRow struct {
	ID         int64                  `json:"id"`
	Endpoint   string                 `json:"endpoint"`
	EventID    string                 `json:"event_id"`
	Event      webhook.Name           `json:"event"`
	Test       bool                   `json:"test"`
	Status     webhook.DeliveryStatus `json:"status"`
	Attempts   int                    `json:"attempts"`
	Tries      int                    `json:"tries"`
	Replay     bool                   `json:"replay"`
	CreatedAt  time.Time              `json:"created_at"`
	DueAt      *time.Time             `json:"due_at"`
	FinishedAt *time.Time             `json:"finished_at"`
}

type deliveryDetail struct {
	deliveryRow

	Body string       `json:"body"`
	Log  []attemptRow `json:"log"`
}

type attemptRow struct {
	Number          int             `json:"number"`
	Probe           bool            `json:"probe"`
	StartedAt       time.Time       `json:"started_at"`
	Milliseconds    float64         `json:"milliseconds"`
	Outcome         webhook.Outcome `json:"outcome"`
	Error           string          `json:"error,omitempty"`
	URL             string          `json:"url"`
	RequestHeaders  http.Header     `json:"request_headers"`
	StatusCode      int             `json:"status_code,omitempty"`
	ResponseHeaders http.Header     `json:"response_headers"`
	ResponseBody    string          `json:"response_body"`
	Truncated       bool            `json:"truncated"`
}

func rowOf(d *webhook.Delivery) deliveryRow {
	return deliveryRow{d.ID, d.Endpoint, d.EventID, d.Event, d.Test, d.Status, d.Attempts, d.Tries, d.Replay, d.CreatedAt, d.DueAt, d.FinishedAt}
}

func detailOf(d *webhook.DeliveryDetail) deliveryDetail {
	detail := deliveryDetail{deliveryRow: rowOf(&d.Delivery), Body: d.Body, Log: make([]attemptRow, len(d.Log))}
	for i, a := range d.Log {
		detail.Log[i] = attemptRow{
			Number: a.Number, Probe: a.Probe, StartedAt: a.StartedAt, Milliseconds: float64(a.Duration.Microseconds()) / 1000, Outcome: a.Outcome, Error: a.Error,
			URL: a.URL, RequestHeaders: a.RequestHeaders, StatusCode: a.StatusCode, ResponseHeaders: a.ResponseHeaders, ResponseBody: a.ResponseBody, Truncated: a.Truncated,
		}
	}
	return detail
}

// Run prints the log of deliveries, or one delivery with its requests and responses.
func (h *webhookLog) Run(c *console) error {
	return c.institution(h.Storage, h.Institution, func(base *app.Base, inst *account.Institution) error {
		hooks := base.Hooks
		if h.Delivery != 0 {
			d, err := hooks.Delivery(c.ctx, inst.ID, h.Delivery)
			if err != nil {
				return err
			}
			return c.print(detailOf(d), func(w io.Writer) { printDelivery(w, d) })
		}
		list, err := hooks.Log(c.ctx, inst.ID, h.ID, webhook.LogQuery{Status: webhook.DeliveryStatus(h.Status), Before: h.Before, Limit: h.Limit})
		if err != nil {
			return err
		}
		rows := make([]deliveryRow, len(list))
		for i := range list {
			rows[i] = rowOf(&list[i])
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "DELIVERY", "STATUS", "ATTEMPTS", "CREATED", "DUE", "EVENT")
			for _, d := range rows {
				table.row(d.ID, d.Status, d.Attempts, formatTime(&d.CreatedAt), formatTime(d.DueAt), d.Event)
			}
			table.flush()
		})
	})
}

// printDelivery prints a delivery with its requests and responses.
func printDelivery(w io.Writer, d *webhook.DeliveryDetail) {
	printf(w, "Delivery %d of %s, event %s: %s, attempts: %d.\n%s\n", d.ID, d.Event, d.EventID, d.Status, d.Attempts, d.Body)
	for _, a := range d.Log {
		printf(w, "\nAttempt %d at %s, %v: %s\nPOST %s\n", a.Number, formatTime(&a.StartedAt), a.Duration, a.Outcome, a.URL)
		printHeaders(w, a.RequestHeaders)
		if a.Error != "" {
			printf(w, "%s\n", a.Error)
		}
		if a.StatusCode != 0 {
			printf(w, "Response: %d %s\n", a.StatusCode, http.StatusText(a.StatusCode))
			printHeaders(w, a.ResponseHeaders)
			_, _ = fmt.Fprintln(w, plainLines(a.ResponseBody))
		}
		if a.Truncated {
			printf(w, "(the response was longer)\n")
		}
	}
}

func printHeaders(w io.Writer, h http.Header) {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		printf(w, "  %s: %s\n", name, strings.Join(h[name], ", "))
	}
}

type webhookRedeliver struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Delivery    int64  `arg:"" help:"The delivery's number in the output of log."`
}

// Run makes the delivery pending, so that a running server sends it again.
func (h *webhookRedeliver) Run(c *console) error {
	return c.institution(h.Storage, h.Institution, func(base *app.Base, inst *account.Institution) error {
		if err := base.Hooks.Redeliver(c.ctx, inst.ID, h.Delivery); err != nil {
			return err
		}
		return c.print(struct {
			ID     int64                  `json:"id"`
			Status webhook.DeliveryStatus `json:"status"`
		}{h.Delivery, webhook.DeliveryPending}, func(w io.Writer) { printf(w, "Delivery %d will be sent again.\n", h.Delivery) })
	})
}

type webhookReplay struct {
	endpointCommand

	Since string `help:"Start: a date, a time in the format of RFC 3339, or a duration before now such as 7d or 24h." placeholder:"TIME" required:""`
}

// Run queues the exhausted deliveries that were created since a time, so that a running server sends
// them again.
func (h *webhookReplay) Run(c *console) error {
	since, err := parseSince(h.Since, time.Now())
	if err != nil {
		return &usageError{fmt.Errorf("--since: %w", err)}
	}
	return h.run(c, func(hooks *webhook.Service, institution int64) error {
		n, err := hooks.Replay(c.ctx, institution, h.ID, since)
		if err != nil {
			return err
		}
		return c.print(struct {
			ID       string    `json:"id"`
			Since    time.Time `json:"since"`
			Replayed int       `json:"replayed"`
		}{h.ID, since, n}, func(w io.Writer) {
			printf(w, "Deliveries to send again: %d. New events are sent first.\n", n)
		})
	})
}

// parseSince parses a date, a time, or a duration before now. For a date, it returns the beginning of the
// day in UTC. It returns an error if the time is in the future.
func parseSince(s string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			if at.After(now) {
				return time.Time{}, fmt.Errorf("%q is in the future", s)
			}
			return at.UTC(), nil
		}
	}
	if end, err := parseEnd(s, now); err == nil && end != nil {
		return now.Add(-end.Sub(now)).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a date such as 2026-07-01, nor a time such as 2026-07-01T08:30:00Z, nor a duration such as 7d or 24h", s)
}
