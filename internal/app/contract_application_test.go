package app

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/token"
)

// driveApplications calls the operations on offers and applications.
func (d *driver) driveApplications() {
	d.Helper()
	ctx := d.Context()
	made, err := d.app.Applications.CreateOffer(ctx, d.inst, application.OfferInput{
		Slug: "transcript", Name: "Transcript of records", Description: "All grades.", Fields: []application.Field{
			{Key: "number", Label: "Student number", Type: application.Line, Help: "It is on your card.", Required: true},
			{Key: "level", Label: "Level", Type: application.Choice, Choices: []string{"BSc", "MSc"}},
			{Key: "id_card", Label: "ID card", Type: application.Upload},
		},
	})
	d.must(err)
	_, err = d.app.Applications.SetOfferStatus(ctx, d.inst.ID, made.UUID, application.Open)
	d.must(err)
	d.count("offers", 1, func(yield func(error) bool) {
		for _, err := range d.client.Offers(ctx, "open") {
			if !yield(err) {
				return
			}
		}
	})
	offer, err := d.client.Offer(ctx, made.UUID)
	d.must(err)
	if offer.Slug != "transcript" || len(offer.Fields) != 3 || offer.TemplateID != nil {
		d.Errorf("offer = %+v, want the one that was created", offer)
	}
	apply := func(name string) *client.Application {
		d.Helper()
		file, err := client.SeekFile("id card.pdf", bytes.NewReader(sample("An ID card")))
		d.must(err)
		a, err := d.client.Apply(ctx, client.NewApplication{
			Offer: "transcript", FullName: name, ApplicantEmail: strings.ToLower(name) + "@example.org", Fields: map[string]string{"number": "4711", "level": "BSc"},
			Files: map[string][]*client.File{"id_card": {file}},
		})
		d.must(err)
		return a
	}
	d.driveApproval(apply("Ada"))
	d.driveEnds(apply)
	for name, filter := range map[string]client.ApplicationFilter{
		"rejected": {Status: client.Rejected, Offer: offer.ID}, "withdrawn": {Status: client.Withdrawn, ApplicantEmail: "cy@example.org"},
	} {
		page, err := d.client.ApplicationPage(ctx, filter, 1, 10)
		d.must(err)
		if len(page.Data) != 1 || string(page.Data[0].Status.Value) != name {
			d.Errorf("the list has %d applications, want one with the status %s", len(page.Data), name)
		}
	}
	all := d.token(token.All...)
	d.count("applications", 4, func(yield func(error) bool) {
		for _, err := range d.client.Applications(ctx, client.ApplicationFilter{Search: "transcript", CreatedFrom: "2020-01-01", SortField: "name", SortOrder: "asc"}) {
			if !yield(err) {
				return
			}
		}
	})
	header := http.Header{"Content-Type": {"application/json"}}
	body := `{"offer": "transcript", "full_name": "Eve", "applicant_email": "eve@example.org", "fields": {"number": 4711, "level": null}}`
	for _, want := range []int{201, 422} {
		if got := d.send(http.MethodPost, "/business/certificate-applications", all, header, body); got != want {
			d.Errorf("an application in JSON: status = %d, want %d", got, want)
		}
	}
	for query, want := range map[string]int{"?hold=none": 200, "?hold=x": 422, "?offer=no-such": 422, "?created_at_to=x": 422, "?cursor=x": 422} {
		if got := d.send(http.MethodGet, "/business/certificate-applications"+query, all, nil, ""); got != want {
			d.Errorf("%s: status = %d, want %d", query, got, want)
		}
	}
}

// driveApproval puts an application on hold with a question, ends the hold, and approves the application.
func (d *driver) driveApproval(a *client.Application) {
	d.Helper()
	ctx := d.Context()
	var attachment bytes.Buffer
	d.must(d.client.DownloadAttachment(ctx, a.UUID, a.Files[0].ID, &attachment))
	if !bytes.Equal(attachment.Bytes(), sample("An ID card")) {
		d.Error("the attachment differs from the file that was sent")
	}
	_, err := d.client.Claim(ctx, a.UUID)
	d.must(err)
	held, err := d.client.PutOnHold(ctx, a.UUID, "information", "Please add the year.")
	d.must(err)
	if held.Hold == nil || held.Hold.Text != "Please add the year." || held.Status.Value != client.InReview {
		d.Errorf("application = %+v, want one on hold", held)
	}
	viewed, err := d.client.Application(ctx, a.UUID)
	d.must(err)
	if viewed.Hold == nil || viewed.ClaimedBy == nil || viewed.Value("number") != "4711" {
		d.Errorf("application = %+v, want one that is claimed and on hold", viewed)
	}
	_, err = d.client.Release(ctx, a.UUID)
	d.must(err)
	if _, err := d.client.Release(ctx, a.UUID); !errors.Is(err, client.ErrInvalidOperation) {
		d.Errorf("releasing the application again: error = %v, want ErrInvalidOperation", err)
	}
	if _, err := d.client.Approve(ctx, a.UUID, client.Approval{}); !errors.Is(err, client.ErrInvalid) {
		d.Errorf("approving the application without a file: error = %v, want ErrInvalid", err)
	}
	waiting, err := d.client.Certificate(ctx, a.UUID)
	d.must(err)
	if waiting.Status.Value != "pending" || waiting.PDFPath != nil || waiting.Source.Value != "customer" {
		d.Errorf("certificate = %+v, want a pending one without a PDF", waiting)
	}
	if got := d.send(http.MethodGet, "/business/certificate-vault/"+a.UUID, d.token(token.All...), nil, ""); got != http.StatusOK {
		d.Errorf("the record of an application: status = %d, want 200", got)
	}
	file, err := client.SeekFile("transcript.pdf", bytes.NewReader(sample("Ada")))
	d.must(err)
	approved, err := d.client.Approve(ctx, a.UUID, client.Approval{CertificateTitle: "Transcript 2026", IssueDate: "2026-06-30", Details: "All grades.", File: file})
	d.must(err)
	if approved.Status.Value != client.Processing || approved.DecidedAt == nil {
		d.Errorf("application = %+v, want the status processing and the time of the decision", approved)
	}
	done, err := d.client.Await(ctx, a.UUID)
	d.must(err)
	if done.Status.Value != client.Approved || done.ReferenceID != a.ReferenceID || done.ID != a.ID {
		d.Errorf("certificate = %+v, want the approved certificate with the ids of the application", done)
	}
	header := http.Header{"Range": {"bytes=0-9"}}
	if got := d.send(http.MethodGet, *a.Files[0].Path, d.token(token.All...), header, ""); got != http.StatusPartialContent {
		d.Errorf("a range of an attachment: status = %d, want 206", got)
	}
}

// driveEnds rejects an application, withdraws an application, and applies twice with one address.
func (d *driver) driveEnds(apply func(name string) *client.Application) {
	d.Helper()
	ctx := d.Context()
	rejected, err := d.client.Reject(ctx, apply("Bo").UUID, "Unknown number.", "See the register.")
	d.must(err)
	if rejected.Status.Value != client.Rejected || *rejected.RejectionReason != "Unknown number." || rejected.DecidedBy == nil {
		d.Errorf("application = %+v, want a rejected one", rejected)
	}
	if _, err := d.client.Certificate(ctx, rejected.UUID); !errors.Is(err, client.ErrNotFound) {
		d.Errorf("the certificate of a rejected application: error = %v, want ErrNotFound", err)
	}
	withdrawn, err := d.client.Withdraw(ctx, apply("Cy").UUID)
	d.must(err)
	if withdrawn.Status.Value != client.Withdrawn {
		d.Errorf("application = %+v, want a withdrawn one", withdrawn)
	}
	open := apply("Di")
	file, err := client.SeekFile("a.pdf", bytes.NewReader(sample("x")))
	d.must(err)
	_, err = d.client.Apply(ctx, client.NewApplication{
		Offer: "transcript", FullName: "Di", ApplicantEmail: "DI@example.org", Fields: map[string]string{"number": "1"}, Files: map[string][]*client.File{"id_card": {file}},
	})
	if problem, ok := errors.AsType[*client.Error](err); !errors.Is(err, client.ErrDuplicate) || !ok || problem.Existing() != open.UUID {
		d.Errorf("a second application: error = %v, want ErrDuplicate with the UUID of the first", err)
	}
}
