package panel

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

// Status is the state of the installation. It contains names and numbers of institutions, but no
// certificates.
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
	// SameName reports whether the form asks for the consent to a name that looks the same as the
	// name of another institution. Allowed reports whether the operator has consented.
	SameName, Allowed bool
}

func (p *Panel) institutionForm(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.draw(w, r, "operator_new.html", institutionForm{Language: "en", Languages: p.Site.Languages()})
}

// makeInstitution creates an institution and its signing key, and notifies the owner by mail.
func (p *Panel) makeInstitution(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := institutionForm{
		Name: r.PostFormValue("name"), Prefix: r.PostFormValue("prefix"), OwnerName: r.PostFormValue("owner_name"),
		OwnerEmail: r.PostFormValue("owner_email"), Language: r.PostFormValue("language"), Languages: p.Site.Languages(),
		Allowed: r.PostFormValue("allow_same_name") != "",
	}
	n := account.NewInstitution{Name: f.Name, Prefix: f.Prefix, OwnerName: f.OwnerName, OwnerEmail: f.OwnerEmail, AllowSameName: f.Allowed}
	if _, err := p.Accounts.OpenInstitution(r.Context(), n, func(ctx context.Context, tx *db.Tx, i *account.Institution) error {
		return p.Invitations.MailOwnerTx(ctx, tx, i, account.Person{Name: f.OwnerName, Email: f.OwnerEmail}, v.Person.Name, f.Language)
	}); err != nil {
		f.SameName = f.Allowed || errors.Is(err, account.ErrSameName)
		return p.showAgain(w, r, "operator_new.html", f, err)
	}
	p.makeKeys(r)
	return p.view.Redirect(w, r, "/operator/institutions", p.mailNotice("institution_made"))
}

// nameForm is the data of the form in which an operator changes the name of an institution. Allowed
// reports whether the operator allows a name that looks the same as the name of another
// institution.
type nameForm struct {
	Institution *account.Institution
	Name        string
	Allowed     bool
}

func (p *Panel) nameForm(r *http.Request) (*nameForm, error) {
	inst, err := p.Accounts.InstitutionBySlug(r.Context(), r.PathValue("slug"))
	if err != nil {
		return nil, err
	}
	return &nameForm{Institution: inst, Name: inst.Name}, nil
}

func (p *Panel) askName(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	f, err := p.nameForm(r)
	if err != nil {
		return err
	}
	return p.draw(w, r, "operator_name.html", f)
}

// rename changes the name of an institution. Only an operator can allow a name that looks the same as
// the name of another institution.
func (p *Panel) rename(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	f, err := p.nameForm(r)
	if err != nil {
		return err
	}
	f.Name, f.Allowed = r.PostFormValue("name"), r.PostFormValue("allow_same_name") != ""
	if _, err := p.Accounts.Change(r.Context(), f.Institution.ID, func(c *account.Changes) error {
		c.Name, c.AllowSameName = f.Name, f.Allowed
		return nil
	}); err != nil {
		return p.showAgain(w, r, "operator_name.html", f, err)
	}
	return p.view.Redirect(w, r, "/operator/institutions", "institution_named")
}
