package panel

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/search"
)

// hasExpired reports whether a certificate is approved and has expired.
func (p *Panel) hasExpired(c *cert.Certificate) bool {
	return c.Status == cert.Approved && p.Certs.HasExpired(c)
}

// expirySelectors are the values of the filter by expiry, with the keys of their names.
var expirySelectors = map[search.Expiry]string{search.Expired: "expiry.only_expired", search.Unexpired: "expiry.only_unexpired"}

// Expiries returns the values of the filter by expiry.
func (*certificateList) Expiries() []search.Expiry { return search.Expiries }

// ExpiryLabel returns the key of the name of a value of the filter by expiry, or "" if it is unknown.
func (*certificateList) ExpiryLabel(e search.Expiry) string { return expirySelectors[e] }

// soon is the maximum number of days until the last day of validity of a certificate that expires soon.
const soon = 30

// expirySoon contains the number of certificates that expire soon, or 0 if there are too many to count.
// Path is the address of their list.
type expirySoon struct {
	Path  string
	Count int
}

// expiringSoon counts the approved certificates that expire soon. It returns nil if there are none.
func (p *Panel) expiringSoon(ctx context.Context, v *Visit) (*expirySoon, error) {
	today := p.Now().UTC()
	first, last := cert.Today(today), cert.Today(today.AddDate(0, 0, soon))
	found, err := p.Search.List(ctx, v.Institution().ID, search.Filter{
		Statuses: []cert.Status{cert.Approved}, ExpiresFrom: first, ExpiresTo: last, Range: listing.Range{Page: 1, PerPage: 1},
	})
	if err != nil || len(found.Items) == 0 {
		return nil, err
	}
	out := &expirySoon{Path: v.Path("certificates") + "?" + url.Values{"status": {string(cert.Approved)}, "expires_from": {first}, "expires_to": {last}}.Encode()}
	if found.Total != nil {
		out.Count = *found.Total
	}
	return out, nil
}

// setExpiry saves how many days before the expiry of a certificate the vault reports the expiry, and whether
// the recipient gets a mail.
func (p *Panel) setExpiry(w http.ResponseWriter, r *http.Request, v *Visit) error {
	submitted := account.Expiry{ExpiryMail: r.PostForm.Get("expiry_mail") != ""}
	var err error
	if submitted.ExpiryDays, err = strconv.Atoi(strings.TrimSpace(r.PostForm.Get("expiry_days"))); err != nil {
		err = fault.OfField("expiry_days", "expiry.not_a_number")
	}
	if err == nil {
		err = p.Accounts.SetExpiry(r.Context(), v.Institution().ID, submitted)
	}
	if err == nil {
		return p.redirect(w, r, v, "settings/mail", "settings_kept")
	}
	s, e := p.mailPage(r, v, "", recipient.Expiring)
	if e != nil {
		return e
	}
	s.Expiry, s.ExpiryDays = submitted, r.PostForm.Get("expiry_days")
	return p.showAgain(w, r, "settings_mail.html", s, err)
}

// ExpiredOn returns the last day of validity of the certificate if it is approved and has expired, or "".
func (c *certificatePage) ExpiredOn() string {
	if c.C.Status == cert.Approved && c.C.Expired(c.Now) {
		return c.C.ExpiresOn
	}
	return ""
}

// ExpiresSoon reports whether the certificate is valid and expires soon. Its last day of validity may be
// today.
func (c *certificatePage) ExpiresSoon() bool {
	day, err := time.Parse(time.DateOnly, c.C.ExpiresOn)
	if err != nil || c.C.Status != cert.Approved || c.ExpiredOn() != "" {
		return false
	}
	return !day.After(c.Now.UTC().AddDate(0, 0, soon))
}
