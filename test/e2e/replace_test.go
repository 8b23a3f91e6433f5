//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// notOne counts the chains of replacements that do not have exactly one valid certificate.
const notOne = `SELECT count(*) FROM certificates o WHERE o.replaces IS NULL
	AND (SELECT count(*) FROM certificates c WHERE (c.uuid = o.uuid OR c.lineage = o.uuid) AND c.status = 'approved') <> 1`

// replacementFor returns the input for a replacement, with the sample of a person as its file.
func replacementFor(t *testing.T, who string) client.ReplacementCertificate {
	t.Helper()
	return client.ReplacementCertificate{File: certificate(t, form(who)).File}
}

// TestReplacement replaces a certificate through the API. It checks the records, the events, the public
// pages and the mail.
func TestReplacement(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database, "--webhook-allow", "127.0.0.1", "--webhook-retry", "200ms,200ms")
		r := receive(t, func(http.ResponseWriter, *vault.Delivered) {})
		f.endpoint(t, r)
		old := f.upload(t, form("Ada Obi"))
		f.await(t, old.UUID, "approved")
		awaitLetter(t, f.Vault, mailbox("Ada Obi"), "Your certificate from")
		made, err := f.api(t).Replace(t.Context(), old.UUID, replacementFor(t, "Ada Lovelace"))
		if err != nil {
			t.Fatal(err)
		}
		if made.Replaces == nil || made.Replaces.UUID != old.UUID || made.FullName != old.FullName || made.CertificateTitle != old.CertificateTitle {
			t.Errorf("the replacement is %+v, want the name and the title of the replaced certificate, and a link to it", made)
		}
		f.await(t, made.UUID, "approved")
		after, err := f.api(t).VaultCertificate(t.Context(), old.UUID)
		if err != nil || after.Status.Value != client.Revoked || after.ReplacedBy == nil || *after.ReplacedBy != (client.Replacement{UUID: made.UUID, ReferenceID: made.ReferenceID}) {
			t.Errorf("the replaced certificate is %+v, %v; want revoked, with a link to the replacement", after, err)
		}
		public := get(t, f.as(t, ""), "/verify/"+old.ReferenceID, http.StatusOK)
		if !strings.Contains(string(public.Body), `"status":"replaced"`) || !strings.Contains(string(public.Body), f.URL+"/verify/"+made.ReferenceID) {
			t.Errorf("the public record is %s, want the status replaced and the address of the replacement", public.Body)
		}
		awaitLetter(t, f.Vault, mailbox("Ada Obi"), "Your certificate was replaced")
		eventually(t, approvalTime, "the events have arrived", func() bool { return len(events(t, r, old.UUID)) == 3 && len(events(t, r, made.UUID)) == 2 })
		if body := string(events(t, r, old.UUID)["revoked"].Body); !strings.Contains(body, `"replaced_by":{"uuid":"`+made.UUID+`"`) {
			t.Errorf("the event of the replaced certificate is %s, want the replacement in replaced_by", body)
		}
		for _, name := range []string{"created", "approved"} {
			if body := string(events(t, r, made.UUID)[name].Body); !strings.Contains(body, `"replaces":{"uuid":"`+old.UUID+`"`) {
				t.Errorf("the event %s of the replacement is %s, want the replaced certificate in replaces", name, body)
			}
		}
		_, err = f.api(t).Replace(t.Context(), old.UUID, replacementFor(t, "Ada"))
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusBadRequest {
			t.Errorf("replacing a replaced certificate: %v, want 400", err)
		}
		_, err = f.api(t).Replace(t.Context(), made.UUID, replacementFor(t, "Ada Lovelace"))
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusUnprocessableEntity {
			t.Errorf("replacing a certificate with its own file: %v, want 422", err)
		}
	})
}

// TestKillDuringReplacements kills the vault at random moments while certificates are replaced. At every
// moment, exactly one certificate of each chain of replacements is valid.
func TestKillDuringReplacements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		const certificates = 8
		f := start(t, database)
		var newest [certificates]string
		for i := range newest {
			c := f.upload(t, form(fmt.Sprintf("Original %d", i)))
			newest[i] = c.UUID
		}
		for _, uuid := range newest {
			f.await(t, uuid, "approved")
		}
		kills, replaced := 0, 0
		for round := range 4 {
			var wait sync.WaitGroup
			var first sync.Once
			accepted := make(chan struct{})
			api := f.api(t)
			for i, uuid := range newest {
				input := replacementFor(t, fmt.Sprintf("Replacement %d of %d", round, i))
				wait.Go(func() {
					// An error without a response is expected, because the test kills the vault. The vault
					// may have accepted the replacement nevertheless.
					if made, err := api.Replace(t.Context(), uuid, input); err == nil {
						newest[i] = made.UUID
						first.Do(func() { close(accepted) })
					} else if _, responded := errors.AsType[*client.Error](err); responded {
						t.Errorf("round %d: replacing a certificate: %v", round, err)
					}
				})
			}
			// The test waits for the first response, which may take longer than the pause below.
			select {
			case <-accepted:
			case <-time.After(approvalTime):
				t.Fatalf("round %d: no replacement was accepted", round)
			}
			pause := time.Duration(rand.IntN(700)) * time.Millisecond
			watched := f.database(t)
			for end := time.Now().Add(pause); time.Now().Before(end); {
				if n := count(t, watched, notOne); n != 0 {
					t.Fatalf("round %d: %d chains do not have exactly one valid certificate", round, n)
				}
			}
			f.Kill()
			kills++
			wait.Wait()
			if n := count(t, f.database(t), notOne); n != 0 {
				t.Fatalf("round %d: after the kill, %d chains do not have exactly one valid certificate", round, n)
			}
			f.restart(t)
			d := f.database(t)
			eventually(t, approvalTime, "no certificate is in processing", func() bool {
				if n := count(t, d, notOne); n != 0 {
					t.Fatalf("round %d: after the restart, %d chains do not have exactly one valid certificate", round, n)
				}
				return count(t, d, `SELECT count(*) FROM certificates WHERE status = 'processing'`) == 0
			})
			if n := count(t, d, `SELECT count(*) FROM certificates c WHERE c.replaces IS NOT NULL AND c.status = 'approved'
				AND NOT EXISTS (SELECT 1 FROM certificates o WHERE o.uuid = c.replaces AND o.status = 'revoked' AND o.replaced_by = c.uuid)`); n != 0 {
				t.Errorf("round %d: %d approved replacements have not revoked the certificate that they replace", round, n)
			}
			for i, uuid := range newest {
				newest[i] = currentOf(t, f, uuid)
			}
			replaced = count(t, d, `SELECT count(*) FROM certificates WHERE replaced_by IS NOT NULL`)
		}
		t.Logf("%d kills, %d certificates replaced", kills, replaced)
		if replaced == 0 {
			t.Error("no certificate was replaced")
		}
	})
}

// currentOf returns the UUID of the last certificate in a chain of replacements. uuid is a certificate of
// this chain.
func currentOf(t *testing.T, f *fixture, uuid string) string {
	t.Helper()
	for {
		c, err := f.api(t).VaultCertificate(t.Context(), uuid)
		if err != nil {
			t.Fatal(err)
		}
		if c.ReplacedBy == nil {
			return c.UUID
		}
		uuid = c.ReplacedBy.UUID
	}
}
