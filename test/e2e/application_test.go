//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// offerFields are the fields of the offer in TestDecideByProgram.
const offerFields = `[
	{"key": "number", "label": "Student number", "type": "text", "required": true},
	{"key": "id_card", "label": "ID card", "type": "file"}
]`

// registry is a program of an institution. It decides an application when the event about its creation
// arrives.
type registry struct {
	client   *client.Client
	students map[string]string // the name by the student number
	secret   string
	// decided contains the ids of the processed events, because an event may be delivered more than once.
	mu      sync.Mutex
	decided map[string]bool
}

// receive processes a delivery.
func (s *registry) receive(t *testing.T, w http.ResponseWriter, d *vault.Delivered) {
	event, err := client.VerifyWebhook(d.Header, d.Body, s.secret)
	if errors.Is(err, client.ErrSignature) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if event.Event != "certificate_application.created" || event.Source != "customer" || s.decided[event.EventID] {
		return
	}
	// The decision is completed even if the test ends.
	if err := s.decide(context.WithoutCancel(t.Context()), event); err != nil {
		t.Error(err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.decided[event.EventID] = true
}

// decide decides the application of an event. It approves the application of a student and uploads the
// transcript. If the ID card is missing, it asks for the card. It rejects all other applications.
func (s *registry) decide(ctx context.Context, event *client.Event) error {
	a, err := s.client.Application(ctx, event.UUID)
	if err != nil {
		return err
	}
	number := a.Value("number")
	switch name, known := s.students[number]; {
	case !known || name != a.FullName:
		_, err = s.client.Reject(ctx, a.UUID, "There is no student with this number.", "Number "+number, client.IdempotencyKey("reject-"+event.EventID))
	case len(a.Files) == 0:
		_, err = s.client.PutOnHold(ctx, a.UUID, "identity", "Please send your ID card.", client.IdempotencyKey("hold-"+event.EventID))
	default:
		var card bytes.Buffer
		if err := s.client.DownloadAttachment(ctx, a.UUID, a.Files[0].ID, &card); err != nil {
			return err
		}
		if !bytes.Equal(card.Bytes(), sample("ID card")) {
			return errors.New("the ID card has other bytes than the file that was sent")
		}
		file, err := client.SeekFile("transcript.pdf", bytes.NewReader(sample(a.FullName)))
		if err != nil {
			return err
		}
		_, err = s.client.Approve(ctx, a.UUID, client.Approval{CertificateTitle: "Transcript 2026", File: file}, client.IdempotencyKey("approve-"+event.EventID))
		return err
	}
	return err
}

// TestDecideByProgram submits and decides applications with package client.
func TestDecideByProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database, "--webhook-allow", "127.0.0.1")
		slug := f.institution.Slug
		fields := writeTemp(t, "fields.json", []byte(offerFields))
		f.certvault(t, "", "offer", "create", "--institution", slug, "--name", "Transcript of records", "--slug", "transcript", "--fields", fields)
		if out := f.certvault(t, "", "offer", "list", "--institution", slug); !strings.Contains(out, "draft") {
			t.Errorf("offer list: %s, want a draft", out)
		}
		f.certvault(t, "", "offer", "open", "transcript", "--institution", slug)
		s := &registry{
			students: map[string]string{"4711": "Ada Obi", "4712": "Cy Ito"}, decided: map[string]bool{},
			client: f.program(t, f.token(t, "", "certificate-application:view", "certificate-application:review")),
		}
		r := receive(t, func(w http.ResponseWriter, d *vault.Delivered) { s.receive(t, w, d) })
		s.secret = f.endpoint(t, r).Secret

		website := f.program(t, f.token(t, "", "certificate-application:create", "certificate-application:view"))
		apply := func(name, number string, files ...*client.File) string {
			t.Helper()
			a, err := website.Apply(t.Context(), client.NewApplication{
				Offer: "transcript", FullName: name, ApplicantEmail: mailbox(name), Fields: map[string]string{"number": number}, Files: map[string][]*client.File{"id_card": files},
			})
			if err != nil {
				t.Fatal(err)
			}
			return a.UUID
		}
		card, err := client.SeekFile("card.pdf", bytes.NewReader(sample("ID card")))
		if err != nil {
			t.Fatal(err)
		}
		for uuid, want := range map[string]struct {
			status client.Status
			events string
		}{
			apply("Ada Obi", "4711", card): {client.Approved, "approved created processing"},
			apply("Bo Ek", "1"):            {client.Rejected, "created rejected"},
			apply("Cy Ito", "4712"):        {client.Pending, "created updated"},
		} {
			names := func() string {
				var list []string
				for name := range events(t, r, uuid) {
					list = append(list, name)
				}
				slices.Sort(list)
				return strings.Join(list, " ")
			}
			eventually(t, approvalTime, "the events of the application have arrived: "+want.events, func() bool { return names() == want.events })
			a, err := website.Application(t.Context(), uuid)
			if err != nil {
				t.Fatal(err)
			}
			if a.Status.Value != want.status {
				t.Errorf("status of the application of %s = %s, want %s", a.FullName, a.Status.Value, want.status)
			}
			last := events(t, r, uuid)
			switch want.status {
			case client.Approved:
				if v, err := website.Verify(t.Context(), a.ReferenceID); err != nil || v.Status != "valid" {
					t.Errorf("public verification: %+v, %v, want valid", v, err)
				}
			case client.Rejected:
				if body := string(last["rejected"].Body); !strings.Contains(body, `"rejection_reason":"There is no student with this number."`) {
					t.Errorf("event = %s, want the reason", body)
				}
			default:
				if a.Hold == nil || a.Hold.Kind != "identity" {
					t.Errorf("hold = %+v, want a hold of the kind identity", a.Hold)
				}
			}
		}
		f.certvault(t, "", "offer", "close", "transcript", "--institution", slug)
		if _, err := website.Apply(t.Context(), client.NewApplication{Offer: "transcript", FullName: "Di", ApplicantEmail: mailbox("Di"), Fields: map[string]string{"number": "1"}}); !errors.Is(err, client.ErrInvalid) {
			t.Errorf("applying for a closed offer: error = %v, want ErrInvalid", err)
		}
	})
}
