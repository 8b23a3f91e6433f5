package panel

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
)

type retentionSettings struct {
	settingsPage

	// Failed, Revoked and Mail are the saved or submitted numbers of days. An empty text means that
	// the data is stored forever.
	Failed, Revoked, Mail string
	Retention             account.Retention
	// Min and Max are the limits of a number of days.
	Min, Max int
	// Expired is set only on the page that asks for confirmation.
	Expired *expired
}

// expired contains the numbers of items that new retention periods would affect at once: failed
// certificates to delete, revoked certificates whose files are deleted, mails whose addresses are
// removed, and webhook events whose names and addresses are removed.
type expired struct{ Failed, Revoked, Mails, Events int }

// Nothing reports whether all numbers are 0.
func (o *expired) Nothing() bool { return *o == expired{} }

// days formats a number of days. It returns "" for 0, because 0 means forever.
func days(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func newRetentionSettings(v *Visit, k account.Retention) *retentionSettings {
	return &retentionSettings{
		settingsPage: settingsPage{v, "settings/retention"}, Retention: k, Failed: days(k.Failed), Revoked: days(k.Revoked), Mail: days(k.Mail),
		Min: account.MinRetention, Max: account.MaxRetention,
	}
}

// retentionPage shows the retention periods.
func (p *Panel) retentionPage(w http.ResponseWriter, r *http.Request, v *Visit) error {
	k, err := p.Accounts.Retention(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_retention.html", newRetentionSettings(v, k))
}

// setRetention changes the retention periods. If a period becomes shorter, a page first shows which data
// would be deleted at once. The person must then type the name of the institution.
func (p *Panel) setRetention(w http.ResponseWriter, r *http.Request, v *Visit) error {
	ctx, id, f := r.Context(), v.Institution().ID, r.PostForm
	s := newRetentionSettings(v, account.Retention{})
	s.Failed, s.Revoked, s.Mail = f.Get("keep_failed"), f.Get("keep_revoked"), f.Get("keep_mail")
	var err error
	if s.Retention, err = readRetention(s); err != nil {
		return p.showAgain(w, r, "settings_retention.html", s, err)
	}
	old, err := p.Accounts.Retention(ctx, id)
	if err != nil {
		return err
	}
	if shorter(old.Failed, s.Retention.Failed) || shorter(old.Revoked, s.Retention.Revoked) || shorter(old.Mail, s.Retention.Mail) {
		name, submitted := f.Get("confirm"), f.Has("confirm")
		if !submitted || strings.TrimSpace(name) != v.Institution().Name {
			return p.askRetention(w, r, s, submitted)
		}
	}
	if err := p.Accounts.SetRetention(ctx, id, s.Retention); err != nil {
		return p.showAgain(w, r, "settings_retention.html", s, err)
	}
	return p.redirect(w, r, v, "settings/retention", "settings_kept")
}

// askRetention asks for confirmation before old data is deleted. submitted reports whether the
// person has typed a wrong name.
func (p *Panel) askRetention(w http.ResponseWriter, r *http.Request, s *retentionSettings, submitted bool) (err error) {
	ctx, id := r.Context(), s.Visit.Institution().ID
	s.Expired = &expired{}
	if s.Expired.Failed, s.Expired.Revoked, err = p.Certs.Expired(ctx, id, s.Retention); err != nil {
		return err
	}
	if s.Expired.Mails, s.Expired.Events, err = p.Mail.Expired(ctx, id, s.Retention.Mail); err != nil {
		return err
	}
	if submitted {
		return p.showAgain(w, r, "retention_confirm.html", s, fault.OfField("confirm", "settings.confirm_name"))
	}
	return p.draw(w, r, "retention_confirm.html", s)
}

// readRetention parses and checks the numbers of days.
func readRetention(s *retentionSettings) (k account.Retention, err error) {
	var bad fault.Fields
	for _, field := range []struct {
		name, text string
		n          *int
	}{{"keep_failed", s.Failed, &k.Failed}, {"keep_revoked", s.Revoked, &k.Revoked}, {"keep_mail", s.Mail, &k.Mail}} {
		text := strings.TrimSpace(field.text)
		if text == "" {
			continue
		}
		if *field.n, err = strconv.Atoi(text); err != nil || *field.n < 0 {
			bad.Add(field.name, "settings.not_a_number")
		}
	}
	if err := bad.Err(); err != nil {
		return k, err
	}
	return k, k.Check()
}

// shorter reports whether to is a shorter retention period than from. 0 means forever.
func shorter(from, to int) bool { return to != 0 && (from == 0 || to < from) }
