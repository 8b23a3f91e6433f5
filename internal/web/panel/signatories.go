package panel

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/body"
)

// signatoriesPage is the data of the form with the signatories of a template.
type signatoriesPage struct {
	Visit *Visit
	T     *template.Template
	// Members are the members who may be named as signatories.
	Members []account.Member
	Rows    []signatoryRow
	InOrder bool
	// Missing reports whether a signatory may no longer sign.
	Missing bool
}

// signatoryRow is a line of the form.
type signatoryRow struct {
	Index             int
	UUID, Designation string
	// Left is the name of a signatory who may no longer sign, or "".
	Left string
}

// spareRows is the number of empty lines at the end of the form. The form has at most cert.MaxSignatories
// lines.
const spareRows = 2

func (p *Panel) signatoriesPage(r *http.Request, v *Visit) (*signatoriesPage, error) {
	t, err := p.templateOf(r, v)
	if err != nil {
		return nil, err
	}
	d := &signatoriesPage{Visit: v, T: t, InOrder: t.Latest().InOrder}
	if d.Members, err = p.Accounts.Signers(r.Context(), v.Institution().ID); err != nil {
		return nil, err
	}
	for _, s := range t.Latest().Signatories {
		row := signatoryRow{UUID: s.UUID, Designation: s.Designation}
		if s.Left {
			row.UUID, row.Left, d.Missing = "", s.Name, true
		}
		d.Rows = append(d.Rows, row)
	}
	d.number()
	return d, nil
}

// number adds the empty lines and sets the index of each line.
func (d *signatoriesPage) number() {
	for n := min(len(d.Rows)+spareRows, cert.MaxSignatories); len(d.Rows) < n; {
		d.Rows = append(d.Rows, signatoryRow{})
	}
	for i := range d.Rows {
		d.Rows[i].Index = i + 1
	}
}

// signatories shows the form with the signatories of a template.
func (p *Panel) signatories(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.signatoriesPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "signatories.html", d)
}

// saveSignatories changes the signatories of a template. It ignores lines without a member.
func (p *Panel) saveSignatories(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.signatoriesPage(r, v)
	if err != nil {
		return err
	}
	revision, err := strconv.ParseInt(r.PostForm.Get("revision"), 10, 64)
	if err != nil {
		return fault.New(fault.BadRequest, "The form has no revision.")
	}
	n := template.Naming{Revision: revision, InOrder: r.PostForm.Get("in_order") != ""}
	members, designations := r.PostForm["member"], r.PostForm["designation"]
	d.Rows, d.InOrder = nil, n.InOrder
	for i := range min(len(members), len(designations), cert.MaxSignatories) {
		if members[i] == "" {
			continue
		}
		n.Signatories = append(n.Signatories, template.NamedSignatory{UUID: members[i], Designation: designations[i]})
		d.Rows = append(d.Rows, signatoryRow{UUID: members[i], Designation: designations[i]})
	}
	d.number()
	if _, err := p.Templates.SetSignatories(r.Context(), v.Institution(), d.T.UUID, n); err != nil {
		return p.showAgain(w, r, "signatories.html", d, err)
	}
	return p.redirect(w, r, v, "templates/"+d.T.UUID, "signatories_saved")
}

// missingPage is the data of the page with the signatories who may no longer sign.
type missingPage struct {
	Visit   *Visit
	Missing []template.Missing
	Members []account.Member
}

func (p *Panel) missingPage(r *http.Request, v *Visit) (*missingPage, error) {
	d := &missingPage{Visit: v}
	var err error
	if d.Missing, err = p.Templates.MissingSignatories(r.Context(), v.Institution().ID); err != nil {
		return nil, err
	}
	d.Members, err = p.Accounts.Signers(r.Context(), v.Institution().ID)
	return d, err
}

// missingSignatories shows the signatories who may no longer sign.
func (p *Panel) missingSignatories(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.missingPage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "signatories_replace.html", d)
}

// replaceSignatory names a replacement for a signatory who may no longer sign.
func (p *Panel) replaceSignatory(w http.ResponseWriter, r *http.Request, v *Visit) error {
	id, err := strconv.ParseInt(r.PostForm.Get("signatory"), 10, 64)
	if err != nil {
		return fault.New(fault.BadRequest, "The form names no signatory.")
	}
	if err := p.Templates.ReplaceSignatory(r.Context(), v.Institution(), id, r.PostForm.Get("replacement")); err != nil {
		d, pageErr := p.missingPage(r, v)
		if pageErr != nil {
			return errors.Join(err, pageErr)
		}
		return p.showAgain(w, r, "signatories_replace.html", d, err)
	}
	return p.redirect(w, r, v, "signatories", "signatory_replaced")
}

// signatureLimits are the limits of the form that uploads the picture of a signature.
var signatureLimits = &body.Limits{Size: 2 << 20, Time: 5 * time.Minute, Parts: 4, TooLarge: fault.New(fault.TooLarge, "approvals.picture_too_large"), Broken: errUpload}

// signaturePage is the data of the page of the member's own signature.
type signaturePage struct {
	Visit *Visit
	// Exists reports whether the member has a picture.
	Exists bool
}

func (p *Panel) signaturePage(r *http.Request, v *Visit) (*signaturePage, error) {
	_, err := p.Templates.Signature(r.Context(), v.Institution().ID, v.Person.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return &signaturePage{v, err == nil}, nil
}

// signature shows the page of the member's own signature.
func (p *Panel) signature(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.signaturePage(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "signature.html", d)
}

// saveSignature stores the picture of the member's own signature.
func (p *Panel) saveSignature(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.receiveSignature(r, v); err != nil {
		d, pageErr := p.signaturePage(r, v)
		if pageErr != nil {
			return errors.Join(err, pageErr)
		}
		return p.showAgain(w, r, "signature.html", d, err)
	}
	return p.redirect(w, r, v, "signature", "signature_saved")
}

func (p *Panel) receiveSignature(r *http.Request, v *Visit) error {
	form, err := body.OpenForm(r)
	if err != nil {
		return err
	}
	for form.Next() {
		part := form.Part()
		if part.FormName() != "picture" || part.FileName() == "" {
			part.Value(maxForm, io.Discard)
			continue
		}
		return p.Templates.SetSignature(r.Context(), v.Institution(), v.Person.ID, part)
	}
	if err := form.Err(); err != nil {
		return err
	}
	return fault.OfField("picture", "approvals.no_picture")
}

// deleteSignature deletes the picture of the member's own signature.
func (p *Panel) deleteSignature(w http.ResponseWriter, r *http.Request, v *Visit) error {
	if err := p.Templates.DeleteSignature(r.Context(), v.Institution().ID, v.Person.ID); err != nil {
		return err
	}
	return p.redirect(w, r, v, "signature", "signature_deleted")
}

// signaturePicture sends the picture of the member's own signature, or the status 204 if there is none.
func (p *Panel) signaturePicture(w http.ResponseWriter, r *http.Request, v *Visit) error {
	picture, err := p.Templates.Signature(r.Context(), v.Institution().ID, v.Person.ID)
	if fault.Is(err, fault.NotFound) {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if err != nil {
		return err
	}
	return sendPrivate(w, picture)
}
