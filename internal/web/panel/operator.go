package panel

import (
	"context"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// Status is the state of the installation. It contains numbers, but no content of institutions.
type Status struct {
	Version, Go, Database, BaseURL string
	// Schema is the version of the schema. SchemaKnown is the newest version that this binary
	// supports.
	Schema, SchemaKnown int
	StartedAt           time.Time
	Findings            []Finding
	Queues              []job.Depth
	Mail                mail.Count
	MailTransport       string
	Institutions        []InstitutionStatus
}

// Finding is the result of one check.
type Finding struct {
	Name   string
	Good   bool
	Detail string
}

// InstitutionStatus contains the numbers of an institution.
type InstitutionStatus struct {
	account.InstitutionCount

	Processing, Approved, Failed, Revoked int
}

// Certificates returns the total number of certificates.
func (i *InstitutionStatus) Certificates() int {
	return i.Processing + i.Approved + i.Failed + i.Revoked
}

// Bad returns the number of findings that are not good.
func (s *Status) Bad() (n int) {
	for _, f := range s.Findings {
		if !f.Good {
			n++
		}
	}
	return n
}

func (p *Panel) installation(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	s, err := p.Status(r.Context())
	if err != nil {
		return err
	}
	return p.draw(w, r, "operator.html", s)
}

func (p *Panel) institutions(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	s, err := p.Status(r.Context())
	if err != nil {
		return err
	}
	return p.draw(w, r, "operator_institutions.html", s)
}

type institutionForm struct {
	Name, Prefix, OwnerName, OwnerEmail, Language string
	Languages                                     []*locale.Language
}

func (p *Panel) institutionForm(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.draw(w, r, "operator_new.html", institutionForm{Language: "en", Languages: p.Site.Languages()})
}

// makeInstitution creates an institution and notifies its owner by mail.
func (p *Panel) makeInstitution(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := institutionForm{
		Name: r.PostFormValue("name"), Prefix: r.PostFormValue("prefix"), OwnerName: r.PostFormValue("owner_name"),
		OwnerEmail: r.PostFormValue("owner_email"), Language: r.PostFormValue("language"), Languages: p.Site.Languages(),
	}
	n := account.NewInstitution{Name: f.Name, Prefix: f.Prefix, OwnerName: f.OwnerName, OwnerEmail: f.OwnerEmail}
	if _, err := p.Accounts.OpenInstitution(r.Context(), n, func(ctx context.Context, tx *db.Tx, i *account.Institution) error {
		return p.Invitations.MailOwnerTx(ctx, tx, i, account.Person{Name: f.OwnerName, Email: f.OwnerEmail}, v.Person.Name, f.Language)
	}); err != nil {
		return p.showAgain(w, r, "operator_new.html", f, err)
	}
	p.makeKeys(r)
	return p.view.Redirect(w, r, "/operator/institutions", "institution_made")
}
