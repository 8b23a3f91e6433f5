package recipient

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
)

// exportTime is the time limit for sending an export.
const exportTime = 30 * time.Minute

// accountPage is the data of one page of the list of a person's certificates, with its filter.
type accountPage struct {
	*recipient.Wallet

	Filter recipient.Filter
	// Filtered reports whether the list is filtered.
	Filtered bool
	// Before and After are the addresses of the previous and the next page, or "".
	Before, After string
	Email         string
	// Verified reports whether the address of the account is verified. Without a verified address,
	// the account gets no certificates.
	Verified bool
}

// Issuer returns the institution with the given id, or an empty Summary.
func (w *accountPage) Issuer(id int64) *account.Summary {
	for i := range w.Issuers {
		if w.Issuers[i].ID == id {
			return &w.Issuers[i]
		}
	}
	return &account.Summary{}
}

// accountCertificates lists the certificates of the signed-in person.
func (p *Pages) accountCertificates(w http.ResponseWriter, r *http.Request) error {
	s, _ := p.Gate.Person(r)
	q := r.URL.Query()
	f := recipient.Filter{Text: strings.TrimSpace(q.Get("search")), Issuer: q.Get("institution"), Page: 1}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 0 {
		f.Page = n
	}
	if status := cert.Status(q.Get("status")); status == cert.Approved || status == cert.Revoked || status == recipient.ExpiredStatus {
		f.Status = status
	}
	list, err := p.listed(r.Context(), s.Person.ID, &f)
	if err != nil {
		f.Page = 1
		data := &accountPage{Wallet: &recipient.Wallet{}, Filter: f, Filtered: true, Email: s.Person.Email, Verified: s.Person.Verified}
		return p.signedIn.ShowAgain(w, r, "wallet.html", data, translate(err))
	}
	data := accountPage{
		Wallet: list, Filter: f, Filtered: f.Text != "" || f.Issuer != "" || f.Status != "", Email: s.Person.Email, Verified: s.Person.Verified,
	}
	if f.Page > 1 {
		data.Before = pageOf(q, f.Page-1)
	}
	if f.Page < list.Pages() {
		data.After = pageOf(q, f.Page+1)
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "wallet.html", &data)
}

// listed returns a page of the certificates of a person. If f selects a page after the last page, for
// example because the list has become shorter, listed changes f and returns the last page.
func (p *Pages) listed(ctx context.Context, personID int64, f *recipient.Filter) (*recipient.Wallet, error) {
	list, err := p.Recipients.Wallet(ctx, personID, *f)
	if err == nil && f.Page > list.Pages() {
		f.Page = list.Pages()
		list, err = p.Recipients.Wallet(ctx, personID, *f)
	}
	return list, err
}

// pageOf returns the address of a page of the list. It changes q.
func pageOf(q url.Values, n int) string {
	q.Set("page", strconv.Itoa(n))
	return "/account?" + q.Encode()
}

func (p *Pages) exportPage(w http.ResponseWriter, r *http.Request) error {
	return p.signedIn.Draw(w, r, http.StatusOK, "export.html", nil)
}

// export sends all data of the signed-in person.
func (p *Pages) export(w http.ResponseWriter, r *http.Request) error {
	s, _ := p.Gate.Person(r)
	e, err := p.Recipients.Export(r.Context(), s.Person.ID)
	if err != nil {
		return p.signedIn.ShowAgain(w, r, "export.html", nil, translate(err))
	}
	id := s.Person.ID
	sessions, err := p.People.Sessions(r.Context(), id)
	if err != nil {
		return err
	}
	passkeys, err := p.People.Passkeys(r.Context(), id)
	if err != nil {
		return err
	}
	e.SignIns(sessions, passkeys)
	// If w does not support deadlines, the write timeout of the server applies.
	_ = http.NewResponseController(w).SetWriteDeadline(p.Now().Add(exportTime))
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", `attachment; filename="certvault-`+p.Now().UTC().Format(time.DateOnly)+`.zip"`)
	if err := e.Write(r.Context(), w); err != nil {
		p.Log.WarnContext(r.Context(), "an export was interrupted", slog.Any("error", err))
		panic(http.ErrAbortHandler) //nolint:forbidigo // a truncated response must not look complete
	}
	return nil
}

// deletion is the data of the page that asks for confirmation before an account is deleted.
type deletion struct {
	Email, Confirm string
	// Count is the number of certificates in the account.
	Count int
	// Member reports whether the person belongs to an institution, which prevents the deletion.
	Member bool
}

func (p *Pages) deletion(r *http.Request) (*deletion, error) {
	s, _ := p.Gate.Person(r)
	list, err := p.Recipients.Wallet(r.Context(), s.Person.ID, recipient.Filter{Page: 1})
	if err != nil {
		return nil, err
	}
	return &deletion{Email: s.Person.Email, Count: list.All, Member: s.Person.Member}, nil
}

func (p *Pages) deletePage(w http.ResponseWriter, r *http.Request) error {
	d, err := p.deletion(r)
	if err != nil {
		return err
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "delete.html", d)
}

// delete deletes the account of the signed-in person. The person must type the address of the
// account.
func (p *Pages) delete(w http.ResponseWriter, r *http.Request) error {
	s, _ := p.Gate.Person(r)
	d, err := p.deletion(r)
	if err != nil {
		return err
	}
	d.Confirm = r.PostFormValue("confirm")
	if !strings.EqualFold(strings.TrimSpace(d.Confirm), s.Person.Email) {
		return p.signedIn.ShowAgain(w, r, "delete.html", d, translate(fault.OfField("confirm", "Type the address of the account.")))
	}
	if err := p.People.Delete(r.Context(), s.Person.ID); err != nil {
		return p.signedIn.ShowAgain(w, r, "delete.html", d, translate(err))
	}
	return p.secret.Redirect(w, r, p.secret.Reader(r).Link("/account/deleted"), "")
}
