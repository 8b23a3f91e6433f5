package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/webhook"
)

const (
	// testTime is the maximum time until a test is delivered or has failed. It includes the time until a
	// server starts the attempt.
	testTime = 20 * time.Second
	testPoll = 50 * time.Millisecond
)

type webhookTest struct {
	endpointCommand

	Event string `default:"certificate_application.approved" help:"Event to send as an example." placeholder:"E"`
}

// errUndelivered means that a test was not delivered. The command has already printed the reason.
var errUndelivered = errors.New("the test was not delivered")

// Run sends the test and waits for its outcome.
func (h *webhookTest) Run(c *console) error {
	return h.run(c, func(hooks *webhook.Service, institution int64) error {
		id, err := hooks.Test(c.ctx, institution, h.ID, webhook.Name(h.Event))
		if err != nil {
			return err
		}
		d, err := outcome(c.ctx, hooks, institution, id)
		if err != nil {
			return err
		}
		if err := c.print(detailOf(d), func(w io.Writer) { printDelivery(w, d) }); err != nil {
			return err
		}
		if d.Status != webhook.DeliveryDelivered {
			return errUndelivered
		}
		return nil
	})
}

// outcome waits until a delivery is no longer pending, and returns the delivery. After testTime, it returns
// an error.
func outcome(ctx context.Context, hooks *webhook.Service, institution, id int64) (*webhook.DeliveryDetail, error) {
	limited, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	tick := time.NewTicker(testPoll)
	defer tick.Stop()
	for {
		d, err := hooks.Delivery(limited, institution, id)
		if limited.Err() == nil && (err != nil || d.Status != webhook.DeliveryPending) {
			return d, err
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil, fmt.Errorf("interrupted; the test remains queued as delivery %d", id)
			}
			return nil, fmt.Errorf("no server has completed the test within %v; check that certvault serve is running. The test remains queued as delivery %d", testTime, id)
		}
	}
}

type webhookPause struct{ endpointCommand }

// Run pauses the endpoint.
func (h *webhookPause) Run(c *console) error {
	return h.setStatus(c, webhook.Paused, "paused. Its events are kept for 14 days", func(hooks *webhook.Service, institution int64) error {
		return hooks.Pause(c.ctx, institution, h.ID)
	})
}

type webhookResume struct{ endpointCommand }

// Run resumes the endpoint.
func (h *webhookResume) Run(c *console) error {
	return h.setStatus(c, webhook.Active, "active. Its waiting deliveries are being sent", func(hooks *webhook.Service, institution int64) error {
		return hooks.Resume(c.ctx, institution, h.ID)
	})
}

// setStatus changes an endpoint's status with f and prints the new status.
func (e *endpointCommand) setStatus(c *console, to webhook.Status, state string, f func(hooks *webhook.Service, institution int64) error) error {
	return e.run(c, func(hooks *webhook.Service, institution int64) error {
		if err := f(hooks, institution); err != nil {
			return err
		}
		return c.print(struct {
			ID     string         `json:"id"`
			Status webhook.Status `json:"status"`
		}{e.ID, to}, func(w io.Writer) { printf(w, "Endpoint %s is %s.\n", e.ID, state) })
	})
}

type webhookRotate struct {
	endpointCommand

	Promote bool `help:"Use the new secret for X-Webhook-Signature immediately, instead of 24 hours after the rotation."`
}

// Run rotates the secret, or promotes the secret of the last rotation.
func (h *webhookRotate) Run(c *console) error {
	return h.run(c, func(hooks *webhook.Service, institution int64) error {
		if h.Promote {
			if err := hooks.Promote(c.ctx, institution, h.ID); err != nil {
				return err
			}
			return c.print(struct {
				ID       string `json:"id"`
				Promoted bool   `json:"promoted"`
			}{h.ID, true}, func(w io.Writer) { printf(w, "From now on, the new secret signs X-Webhook-Signature.\n") })
		}
		secret, until, err := hooks.Rotate(c.ctx, institution, h.ID)
		if err != nil {
			return err
		}
		return c.print(struct {
			ID           string    `json:"id"`
			Secret       string    `json:"secret"`
			OverlapUntil time.Time `json:"overlap_until"`
		}{h.ID, secret, until}, func(w io.Writer) {
			printf(w, "New signing secret, shown only once: %s\n", secret)
			printf(w, "Until %s, deliveries are signed with the old secret too. "+
				"X-Webhook-Signature uses the old secret until then, or until you run rotate --promote.\n", formatTime(&until))
		})
	})
}
