package bench

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// timedUploads is the number of uploads in a measurement.
const timedUploads = 50

// BenchmarkEventDelivery measures the time from the response to an upload to the receipt of the event
// "created", on an idle vault. The event is committed just before the response. Package internal/webhook
// measures the deliverer alone.
func BenchmarkEventDelivery(b *testing.B) {
	each(b, func(b *testing.B, database string) {
		arrived := make(chan time.Time, 1)
		r, err := vault.Receive(b.Context(), func(w http.ResponseWriter, d *vault.Delivered) {
			w.WriteHeader(http.StatusNoContent)
			if strings.HasSuffix(d.Header.Get("X-Webhook-Event"), ".created") {
				arrived <- d.At
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := r.Close(); err != nil {
				b.Error(err)
			}
		})
		v, err := vault.Start(b.Context(), vault.Options{
			Data: b.TempDir(), Database: database, Args: []string{"--rate-limit", "0", "--public-rate-limit", "0", "--webhook-allow", "127.0.0.1"},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			code, err := v.Stop()
			if err = errors.Join(err, v.Forget()); err != nil || code != 0 {
				b.Errorf("exit code of the vault = %d, %v; want 0", code, err)
			}
		})
		c := createSubscriber(b, v, r.URL)
		var all []time.Duration
		measure := func() {
			uuid, err := upload(b.Context(), c, form(0))
			responded := time.Now()
			if err != nil {
				b.Fatal(err)
			}
			// The event may arrive before the response is read.
			all = append(all, max(0, (<-arrived).Sub(responded)))
			awaitApproval(b, c, uuid)
		}
		for range 8 {
			measure()
		}
		all = nil
		for b.Loop() {
			for range timedUploads {
				measure()
			}
		}
		b.ReportMetric(0, "ns/op") // hides the time of a run, which includes waits
		b.ReportMetric(millis(quantile(all, 0.50)), "p50-ms")
		b.ReportMetric(millis(quantile(all, 0.95)), "p95-ms")
	})
}

// createSubscriber creates an institution with an endpoint for all events, and returns a client of the
// institution.
func createSubscriber(b *testing.B, v *vault.Vault, url string) *vault.Client {
	b.Helper()
	ctx := b.Context()
	institution, err := v.CreateInstitution(ctx, "Northwind University", "NWU")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := v.CreateWebhook(ctx, institution.Slug, url); err != nil {
		b.Fatal(err)
	}
	token, err := v.CreateToken(ctx, institution.Slug, "", vault.Permissions...)
	if err != nil {
		b.Fatal(err)
	}
	c, err := v.Client(token)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.HTTP.CloseIdleConnections)
	return c
}
