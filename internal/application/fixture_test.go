package application_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// fixture is a vault with an institution and two reviewers.
type fixture struct {
	*vaulttest.Vault

	inst     *account.Institution
	ada, bob int64
}

func newFixture(t testing.TB, d *db.DB, changes ...func(*vault.Deps)) *fixture {
	t.Helper()
	f := &fixture{Vault: vaulttest.New(t, d, changes...)}
	f.inst = f.Institution("NWU", "Northern & Western University")
	f.ada, f.bob = f.member("Ada"), f.member("Bob")
	return f
}

func (f *fixture) ok(err error) {
	f.TB.Helper()
	if err != nil {
		f.TB.Fatal(err)
	}
}

// member adds an administrator to the institution, and returns the number of the account.
func (f *fixture) member(name string) int64 {
	f.TB.Helper()
	m, err := f.Accounts.AddMember(f.TB.Context(), f.inst.ID, account.NewMember{
		Name: name, Email: strings.ToLower(name) + "@nwu.example", Role: account.Admin,
	})
	f.ok(err)
	return m.UserID
}

// applicant creates an account with a verified address.
func (f *fixture) applicant(name string) application.Applicant {
	f.TB.Helper()
	who := application.Applicant{Name: name, Email: strings.ReplaceAll(strings.ToLower(name), " ", ".") + "@example.org", Language: "de"}
	email, err := account.ParseEmail(who.Email)
	f.ok(err)
	f.Tx(func(tx *db.Tx) (err error) {
		if who.UserID, _, err = account.InsertUserTx(f.TB.Context(), tx, account.NewUser{Email: email, Name: name, Language: "de"}, f.Now()); err != nil {
			return err
		}
		_, err = account.VerifyUserTx(f.TB.Context(), tx, who.UserID, f.Now())
		return err
	})
	return who
}

// input returns the input of an offer without a template.
func input(slug string) application.OfferInput {
	return application.OfferInput{
		Slug: slug, Name: "Participation in " + slug, Description: "For all participants.", Criteria: "Three days.",
		Fields: []application.Field{
			{Key: "matric", Label: "Student number", Type: application.Line, Required: true},
			{Key: "birth", Label: "Date of birth", Type: application.Date},
			{Key: "proof", Label: "Proof", Type: application.Upload},
		},
		HoldDays: 14, RetentionDays: 90, MaxFiles: 3,
	}
}

// offer creates an open offer.
func (f *fixture) offer(slug string, changes ...func(*application.OfferInput)) *application.Offer {
	f.TB.Helper()
	in := input(slug)
	for _, change := range changes {
		change(&in)
	}
	o, err := f.Applications.CreateOffer(f.TB.Context(), f.inst, in)
	f.ok(err)
	o, err = f.Applications.SetOfferStatus(f.TB.Context(), f.inst.ID, o.UUID, application.Open)
	f.ok(err)
	return o
}

func (f *fixture) submission(o *application.Offer, who application.Applicant) application.Submission {
	return application.Submission{
		Institution: f.inst, Offer: o, Creator: cert.Actor{Type: "user", ID: who.UserID, Name: who.Name}, Applicant: &who, FullName: who.Name,
		Values: map[string]string{"matric": "M-1001"},
	}
}

// submit submits an application without files.
func (f *fixture) submit(o *application.Offer, who application.Applicant) *application.Application {
	f.TB.Helper()
	a, err := f.Applications.Submit(f.TB.Context(), f.submission(o, who))
	f.ok(err)
	return a
}

func (f *fixture) by(id int64) application.Reviewer {
	return application.Reviewer{Institution: f.inst, Person: application.Person{ID: id, Type: "user", Name: fmt.Sprint("Member ", id)}}
}

// approve approves an application with a file.
func (f *fixture) approve(r application.Reviewer, uuid string) (a *application.Application, err error) {
	f.TB.Helper()
	received := f.Certs.Receive(f.TB.Context(), f.inst.UUID, cert.NewIncoming("diploma.pdf", bytes.NewReader(vaulttest.PDF)), func(file *cert.File) error {
		a, err = f.Applications.Approve(f.TB.Context(), r, uuid, application.Approval{Title: "Summer school", IssueDate: "2026-06-30", File: file})
		return err
	})
	if err == nil {
		err = received
	}
	return a, err
}

func (f *fixture) get(uuid string) *application.Application {
	f.TB.Helper()
	a, err := f.Applications.ByUUID(f.TB.Context(), f.inst.ID, uuid)
	f.ok(err)
	return a
}

// wantFault fails the test unless err is a fault of the kind.
func wantFault(t testing.TB, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: err = %v, want a fault of kind %v", what, err, kind)
	}
}

// wantCode fails the test unless err has a problem with the field and the code.
func wantCode(t testing.TB, what string, err error, field cert.Field, code cert.Code) {
	t.Helper()
	for _, p := range cert.ProblemsOf(err) {
		if p.Field == field && p.Code == code {
			return
		}
	}
	t.Errorf("%s: err = %v, want the problem %s of %s", what, err, code, field)
}

// answer answers the current hold of an application.
func (f *fixture) answer(userID int64, uuid, text string) (*application.Application, error) {
	f.TB.Helper()
	var since time.Time
	if hold := f.get(uuid).Hold; hold != nil {
		since = hold.Since
	}
	return f.Applications.Answer(f.TB.Context(), userID, uuid, since, text, nil)
}

// mails waits until at least n messages are sent, and returns the messages.
func (f *fixture) mails(n int) []mail.Message {
	f.TB.Helper()
	var list []mail.Message
	f.Until("the mail is sent", func() bool {
		for {
			select {
			case m := <-f.Mails:
				list = append(list, m)
			default:
				return len(list) >= n
			}
		}
	})
	return list
}

// actions returns the actions of the timeline of an application, separated by spaces.
func (f *fixture) actions(a *application.Application) string {
	f.TB.Helper()
	events, err := f.Applications.Timeline(f.TB.Context(), a)
	f.ok(err)
	var list []string
	for _, e := range events {
		list = append(list, e.Action)
	}
	return strings.Join(list, " ")
}

// count returns the number that a query selects.
func (f *fixture) count(query string, args ...any) (n int) {
	f.TB.Helper()
	f.ok(f.DB.QueryRowContext(f.TB.Context(), query, args...).Scan(&n))
	return n
}

// approveFile approves an application with a file that has the given name.
func (f *fixture) approveFile(uuid, name string) error {
	f.TB.Helper()
	return f.Certs.Receive(f.TB.Context(), f.inst.UUID, cert.NewIncoming(name, bytes.NewReader(vaulttest.PDF)), func(file *cert.File) error {
		_, err := f.Applications.Approve(f.TB.Context(), f.by(f.ada), uuid, application.Approval{Title: "Summer school", File: file})
		return err
	})
}

// submitDraft submits a draft that the person has just reviewed.
func (f *fixture) submitDraft(who application.Applicant, o *application.Offer) (*application.Application, error) {
	f.TB.Helper()
	d, err := f.Applications.DraftOf(f.TB.Context(), who, o)
	f.ok(err)
	seen := ""
	if d != nil {
		seen = d.Content()
	}
	return f.Applications.SubmitDraft(f.TB.Context(), f.inst, who, o, seen)
}

// submitFile submits a draft with an attachment.
func (f *fixture) submitFile(o *application.Offer, who application.Applicant) *application.Application {
	f.TB.Helper()
	_, err := f.Applications.SaveDraft(f.TB.Context(), who, o, "", who.Name, map[string]string{"matric": "M-1001"})
	f.ok(err)
	_, err = f.Applications.AddDraftFile(f.TB.Context(), who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
	f.ok(err)
	a, err := f.submitDraft(who, o)
	f.ok(err)
	return a
}
