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

// Status is the state of the installation. It contains no data of certificates.
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
	// Institutions is the number of institutions.
	Institutions int
}

// Finding is the result of one check.
type Finding struct {
	Name   string
	Good   bool
	Detail string
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
