package public

import (
	"context"
	"errors"
	"html/template"
	"io"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

// The code in this file checks a credential or a badge of any issuer. Unlike a PDF, the credential is sent
// to the vault, because a browser can neither fetch the issuer's key from another site nor check the
// signature. The vault does not store the credential.

var (
	errCredentialSize = fault.New(fault.TooLarge, "The file is too large.")
	errBusy           = fault.New(fault.Unavailable, "The check takes too long now. Please try again in a minute.")
	errInterrupted    = fault.New(fault.BadRequest, "The file did not arrive completely.")
)

// credentialLimits bounds a form with a credential.
var credentialLimits = body.Limits{Size: credential.MaxFile + 1<<20, Time: 2 * time.Minute, Parts: 10, TooLarge: errCredentialSize, Broken: errInterrupted}

const (
	// maxVerifications is the maximum number of credentials that are checked concurrently. A check can
	// require a second of processor time, and waits for other servers.
	maxVerifications = 16
	// credentialTime is the time limit for a check, including the time for fetching documents.
	credentialTime = 45 * time.Second
)

// checkedCredential is the data of the page of a credential: the report, or a problem with the file.
type checkedCredential struct {
	*credential.Report

	// Problem is the key of a message, or "".
	Problem string
	// Lost reports whether this vault issued the credential, but no longer has its certificate.
	Lost bool
}

// checkCredential checks the file of the form and shows the result.
func (p *Pages) checkCredential(w http.ResponseWriter, r *http.Request) error {
	noStore(w)
	body.Limit(w, r, credentialLimits)
	data, err := credentialFile(r)
	if errors.Is(err, errCredentialSize) {
		return p.noCredential(w, r, "credential.too_large")
	}
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return p.noCredential(w, r, "credential.choose")
	}
	ctx, cancel := context.WithTimeout(r.Context(), credentialTime)
	defer cancel()
	select {
	case p.verifications <- struct{}{}:
		defer func() { <-p.verifications }()
	case <-ctx.Done():
		return errBusy
	}
	report, err := credential.Verify(ctx, data, credential.Options{Fetcher: p.Fetcher, Now: p.Now()})
	switch {
	case errors.Is(err, credential.ErrNoCredential):
		return p.noCredential(w, r, "credential.none")
	case ctx.Err() != nil:
		return errBusy
	case err != nil: // a damaged picture
		return p.noCredential(w, r, "credential.damaged")
	}
	checked := &checkedCredential{Report: report}
	if p.Issuer != nil && report.Verdict != credential.Invalid {
		if checked.Lost, err = p.Issuer.Lost(ctx, report); err != nil {
			return err
		}
	}
	return p.view.Draw(w, r, http.StatusOK, "credential.html", checked)
}

// noCredential shows the form again with a problem.
func (p *Pages) noCredential(w http.ResponseWriter, r *http.Request, problem string) error {
	return p.view.Draw(w, r, http.StatusUnprocessableEntity, "credential.html", &checkedCredential{Problem: problem})
}

// credentialFile returns the content of the file in the form. It is empty if no file was chosen.
func credentialFile(r *http.Request) ([]byte, error) {
	form, err := body.OpenForm(r)
	if err != nil {
		return nil, err
	}
	var data []byte
	for form.Next() {
		part := form.Part()
		if part.FormName() != "credential" {
			continue
		}
		if data, err = io.ReadAll(io.LimitReader(part, credential.MaxFile+1)); err != nil {
			return nil, err
		}
		if len(data) > credential.MaxFile {
			return nil, errCredentialSize
		}
	}
	return data, form.Err()
}

// MaxMegabytes returns the maximum size of a file in MB.
func (*checkedCredential) MaxMegabytes() int { return credential.MaxFile >> 20 }

// Sign returns the class of the verdict, which also selects its picture.
func (c *checkedCredential) Sign() string {
	switch {
	case c.Verdict == credential.Valid:
		return "valid"
	case c.Verdict == credential.Unknown:
		return "unchecked"
	case c.Check(credential.CheckStatus).Code == credential.CodeRevoked:
		return "revoked"
	}
	return "different"
}

// Permanent reports whether the issuer cannot revoke the credential.
func (c *checkedCredential) Permanent() bool {
	return c.Check(credential.CheckStatus).Code == credential.CodeNoStatus
}

// From returns the date on which the validity of the credential begins, or nil.
func (c *checkedCredential) From() *string { return dateOf(c.Statement.ValidFrom) }

// Until returns the date on which the validity of the credential ends, or nil.
func (c *checkedCredential) Until() *string { return dateOf(c.Statement.ValidUntil) }

func dateOf(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.Format(time.DateOnly)
	return &s
}

// checkKey returns the key of the message for a check. The message has no technical details, because
// they can contain addresses of the vault's network.
func checkKey(c credential.Check) string {
	if c.Result == credential.Passed {
		return "credential_passed." + string(c.Name)
	}
	code := c.Code
	if code == credential.CodeOffline || code == credential.CodeUnreachable {
		code = "unreachable_issuer"
		if c.Name == credential.CheckStatus {
			code = "unreachable_status"
		}
	}
	return "credential_code." + string(code)
}

// leftToRight returns an address as markup that browsers show from left to right in any text.
func leftToRight(address string) template.HTML {
	return template.HTML(`<bdi dir="ltr" class="address">` + template.HTMLEscapeString(address) + `</bdi>`) //nolint:gosec // the address is escaped
}
