//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

const duplicate = "A vault certificate with this email, title, and issue date already exists"

// TestDuplicates uploads the same certificate twelve times concurrently. The vault accepts one upload, and
// the other responses contain the UUID of the accepted certificate.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	const uploads = 12
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		for round := range 3 {
			var wg sync.WaitGroup
			made, errs := make([]*client.VaultCertificate, uploads), make([]error, uploads)
			for i := range uploads {
				// Duplicates have the same address, title and issue date. The case of the address and the
				// spaces around it are ignored.
				email := fmt.Sprintf("race.%d@example.org", round)
				if i%2 == 1 {
					email = fmt.Sprintf("  RACE.%d@Example.ORG ", round)
				}
				upload := vault.NewForm("Diploma", person(i), email, "d.pdf", sample(person(i))).With("issue_date", "2026-05-01")
				n, api := certificate(t, upload), f.api(t)
				wg.Go(func() { made[i], errs[i] = api.Upload(t.Context(), n) })
			}
			wg.Wait()
			first := onlyCertificate(t, made, errs)
			again := vault.NewForm(" Diploma ", "Another Name", fmt.Sprintf("Race.%d@EXAMPLE.org", round), "other.pdf", sample("Another"))
			checkDuplicate(t, f, again.With("issue_date", "2026-05-01"), first)
			// With a different date, title or address, the certificate is not a duplicate.
			f.upload(t, again.With("issue_date", "2026-05-02"))
			f.upload(t, again.With("issue_date", "2026-05-01").With("certificate_title", "diploma"))
			f.upload(t, again.With("issue_date", "2026-05-01").With("applicant_email", fmt.Sprintf("racer.%d@example.org", round)))
			// A revoked certificate still prevents duplicates.
			f.await(t, first, "approved")
			f.revoke(t, first, "Issued in error", "")
			checkDuplicate(t, f, again.With("issue_date", "2026-05-01"), first)
		}
		d := f.database(t)
		if n := count(t, d, `SELECT count(*) FROM certificates`); n != 3*4 {
			t.Errorf("got %d certificates, want 12", n)
		}
		eventually(t, approvalTime, "no certificate is in processing", func() bool {
			return count(t, d, `SELECT count(*) FROM certificates WHERE status = 'processing'`) == 0
		})
		if n := len(f.files(t, "blobs")); n != 3*4*2 {
			t.Errorf("got %d files, want 24: an original and a tail for each certificate", n)
		}
	})
}

// onlyCertificate checks that exactly one of the concurrent uploads was accepted, and that the vault
// refused all others as duplicates. It returns the UUID of the accepted certificate.
func onlyCertificate(t *testing.T, made []*client.VaultCertificate, errs []error) (uuid string) {
	t.Helper()
	for _, c := range made {
		if c == nil {
			continue
		}
		if uuid != "" {
			t.Fatal("two uploads of the same certificate were accepted")
		}
		uuid = c.UUID
	}
	if uuid == "" {
		t.Fatalf("no upload was accepted: %v", errs)
	}
	for _, err := range errs {
		if err != nil {
			wantDuplicate(t, err, uuid)
		}
	}
	return uuid
}

// payload is the body of a webhook delivery.
type payload struct {
	Event            string `json:"event"`
	WebhookID        string `json:"webhook_id"`
	Timestamp        string `json:"timestamp"`
	ApplicationID    int64  `json:"application_id"`
	UUID             string `json:"uuid"`
	CertificateTitle string `json:"certificate_title"`
	ApplicantEmail   string `json:"applicant_email"`
	Source           string `json:"source"`
	TriggerContext   string `json:"trigger_context"`
}

// TestOutbox reads the tables of events and deliveries. The vault stores an event and its
// deliveries together with the state of the certificate that the event reports.
func TestOutbox(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		all := f.webhook(t)
		onlyApproved := f.webhook(t, "certificate_application.approved")
		other, err := f.CreateInstitution(t.Context(), "Southwind College", "SWC")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.CreateWebhook(t.Context(), other.Slug, "https://hooks.example.org/other"); err != nil {
			t.Fatal(err)
		}
		made := f.upload(t, form("Jane Doe"))
		d := f.database(t)
		created := f.deliveries(t, "certificate_application.created")
		if len(created) != 1 {
			t.Fatalf("deliveries after the upload = %+v, want 1", created)
		}
		want := payload{
			Event: "certificate_application.created", WebhookID: all, Timestamp: created[0].Timestamp, ApplicationID: made.ID, UUID: made.UUID,
			CertificateTitle: "Diploma", ApplicantEmail: "jane.doe@example.org", Source: "vault", TriggerContext: "single_upload",
		}
		if created[0] != want {
			t.Errorf("delivery = %+v, want %+v", created[0], want)
		}
		f.await(t, made.UUID, "approved")
		approved := f.deliveries(t, "certificate_application.approved")
		if len(approved) != 2 || approved[0].WebhookID != all || approved[1].WebhookID != onlyApproved || approved[0].UUID != made.UUID || approved[0].ApplicationID != made.ID {
			t.Errorf("deliveries after the approval = %+v, want 2: one for each endpoint of the institution", approved)
		}
		if n := count(t, d, `SELECT count(*) FROM river_job WHERE kind = 'mail'`); n != 1 {
			t.Errorf("got %d jobs of the kind mail, want 1", n)
		}
		f.revoke(t, made.UUID, "Issued in error", "")
		if revoked := f.deliveries(t, "certificate_application.revoked"); len(revoked) != 1 || revoked[0].WebhookID != all {
			t.Errorf("deliveries after the revocation = %+v, want 1 for the endpoint of all events", revoked)
		}
		// Refused requests store no event and no delivery.
		uploadInvalid(t, f, form("Ada Obi").With("applicant_email", "invalid"), "applicant_email")
		checkDuplicate(t, f, form("Jane Doe"), made.UUID)
		if e, n := count(t, d, `SELECT count(*) FROM webhook_events`), count(t, d, `SELECT count(*) FROM webhook_deliveries`); e != 3 || n != 4 {
			t.Errorf("got %d events and %d deliveries, want 3 and 4", e, n)
		}
	})
}

// webhook creates an endpoint for events, or for all events if events is empty, and returns the
// endpoint's id.
func (f *fixture) webhook(t *testing.T, events ...string) string {
	t.Helper()
	h, err := f.CreateWebhook(t.Context(), f.institution.Slug, "https://hooks.example.org/in", events...)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(h.Secret, "whsec_") || len(h.Secret) != len("whsec_")+44 {
		t.Errorf("the signing secret is %q, want whsec_ and 44 characters of base64", h.Secret)
	}
	return h.ID
}

// deliveries returns the bodies of the deliveries of all events with the name event, in the order of
// creation. It also checks their timestamps.
func (f *fixture) deliveries(t *testing.T, event string) (list []payload) {
	t.Helper()
	rows, err := f.database(t).QueryContext(t.Context(), `
		SELECT d.body FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id WHERE e.name = $1 ORDER BY d.id`, event)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var body string
		if err := rows.Scan(&body); err != nil {
			t.Fatal(err)
		}
		var p payload
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, p.Timestamp)
		if err != nil || !strings.HasSuffix(p.Timestamp, "Z") || time.Since(at).Abs() > time.Hour {
			t.Errorf("timestamp = %q, want the current time in UTC", p.Timestamp)
		}
		list = append(list, p)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// list is a response with a page of certificates.
type list struct {
	Data  []vault.Certificate `json:"data"`
	Links struct {
		First string  `json:"first"`
		Last  *string `json:"last"`
		Prev  *string `json:"prev"`
		Next  *string `json:"next"`
	} `json:"links"`
	Meta struct {
		CurrentPage *int   `json:"current_page"`
		From        *int   `json:"from"`
		LastPage    *int   `json:"last_page"`
		Path        string `json:"path"`
		PerPage     int    `json:"per_page"`
		To          *int   `json:"to"`
		Total       *int   `json:"total"`
	} `json:"meta"`
}

// TestList follows the links between pages, filters the list, and sends invalid queries.
func TestList(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		var uuids []string
		for i := range 5 {
			made := f.upload(t, form(person(i)))
			uuids = append([]string{made.UUID}, uuids...) // newest first
			f.await(t, made.UUID, "approved")
		}
		var got []string
		next := new(vault.CertificatesPath + "?per_page=2")
		for pages := 1; next != nil; pages++ {
			var l list
			a := get(t, f.client, *next, 200)
			if err := json.Unmarshal(a.Body, &l); err != nil {
				t.Fatal(err)
			}
			for _, c := range l.Data {
				got = append(got, c.UUID)
			}
			if l.Meta.Total == nil || *l.Meta.Total != 5 || l.Meta.LastPage == nil || *l.Meta.LastPage != 3 || l.Meta.PerPage != 2 ||
				l.Meta.CurrentPage == nil || *l.Meta.CurrentPage != pages || (l.Links.Prev == nil) != (pages == 1) || pages > 3 {
				t.Fatalf("page %d: want 5 certificates on 3 pages, the number of the page, and a link to the previous page except on page 1: %s", pages, a.Body)
			}
			next = l.Links.Next
		}
		if !slices.Equal(got, uuids) {
			t.Errorf("the pages list %v, want %v", got, uuids)
		}
		for query, n := range map[string]int{
			"": 5, "?status=approved": 5, "?status=failed": 0, "?applicant_email=PERSON.3@example.org": 1, "?search=rson%202": 1, "?search=%25": 0, "?page=9": 0,
		} {
			var l list
			if err := json.Unmarshal(get(t, f.client, vault.CertificatesPath+query, 200).Body, &l); err != nil || len(l.Data) != n || l.Data == nil {
				t.Errorf("query %q lists %d certificates, want %d (%v)", query, len(l.Data), n, err)
			}
		}
		for _, query := range []string{
			"page=0", "page=-1", "page=x", "page=1.5", "per_page=0", "per_page=101", "per_page=", "page=101&per_page=100",
			"status=done", "status=approved&status=failed", "colour=red",
		} {
			field, _, _ := strings.Cut(query, "=")
			if p := wantProblem(t, get(t, f.client, vault.CertificatesPath+"?"+query, 422), 422, ""); len(p.Errors[field]) == 0 {
				t.Errorf("query %s: got %+v, want an error for %s", query, p, field)
			}
		}
	})
}
