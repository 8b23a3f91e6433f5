package recipient

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

// unsubscribePage asks for confirmation, because programs also follow the links in a mail.
func (p *Pages) unsubscribePage(w http.ResponseWriter, r *http.Request) error {
	u, err := p.Recipients.Unsubscribe(r.Context(), r.PathValue("token"))
	if err != nil {
		return p.notFound(w, r, err)
	}
	return p.secret.Draw(w, r, http.StatusOK, "unsubscribe.html", u)
}

// unsubscribe stops or resumes the mail of an institution to an address. The request comes from a mail
// program (RFC 8058, 3.2) or from the button on the page.
func (p *Pages) unsubscribe(w http.ResponseWriter, r *http.Request) error {
	u, err := p.Recipients.SetUnsubscribed(r.Context(), r.PathValue("token"), r.PostFormValue("again") == "")
	if err != nil {
		return p.notFound(w, r, err)
	}
	return p.secret.Draw(w, r, http.StatusOK, "unsubscribe.html", u)
}

var errNoHook = fault.New(fault.Unauthorized, "The token of the hook is missing or wrong.")

// bounce accepts a report of a failed delivery: as JSON with recipient and status, or as a delivery
// status notification (RFC 3464). The token of the hook is in the path or in the Authorization
// header.
func (p *Pages) bounce(w http.ResponseWriter, r *http.Request) error {
	given := r.PathValue("token")
	if given == "" {
		given, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	// The digests have equal length, so the duration of the comparison reveals nothing about the
	// secret.
	want, got := sha256.Sum256([]byte(p.BounceToken)), sha256.Sum256([]byte(given))
	if p.BounceToken == "" || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return errNoHook
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return fault.New(fault.TooLarge, "The report is too large.")
		}
		return fault.Wrap(fault.BadRequest, "The report could not be read.", err)
	}
	report, err := readReport(r, body)
	if err != nil {
		return err
	}
	if err := p.Mailer.Bounced(r.Context(), report); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func readReport(r *http.Request, body []byte) (mail.Report, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return mail.ParseReport(body)
	}
	var given struct {
		Recipient string `json:"recipient"`
		Status    string `json:"status"`
	}
	if err := json.Unmarshal(body, &given); err != nil {
		return mail.Report{}, fault.Wrap(fault.BadRequest, "The body must be JSON with recipient and status.", err)
	}
	return mail.Report{Recipient: given.Recipient, Status: given.Status}, nil
}
