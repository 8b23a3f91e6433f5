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

	// Failed, Revoked and Mail are numbers of days as typed; empty means for ever.
	Failed, Revoked, Mail string
	Keep                  account.Retention
	// Min and Max are the limits of a number of days.
	Min, Max int
	// Expired is what would be deleted at once, nil except on the page that asks for confirmation.
	Expired *expired
}

// expired is the number of records that would be deleted at once.
type expired struct{ Failed, Revoked, Mails, Events int }

// Nothing reports whether no record would be deleted.
func (o *expired) Nothing() bool { return *o == expired{} }

// days formats a number of days; 0, for ever, is empty.
func days(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func newRetentionSettings(v *Visit, k account.Retention) *retentionSettings {
	return &retentionSettings{
		settingsPage: settingsPage{v, "settings/retention"}, Keep: k, Failed: days(k.Failed), Revoked: days(k.Revoked), Mail: days(k.Mail),
		Min: account.MinRetention, Max: account.MaxRetention,
	}
}

// retentionPage shows how long records are stored.
func (p *Panel) retentionPage(w http.ResponseWriter, r *http.Request, v *Visit) error {
	k, err := p.Accounts.Retention(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_retention.html", newRetentionSettings(v, k))
}

// setRetention changes the retention periods. If one becomes shorter, a page first shows how many
// records would be deleted at once, and asks for the name of the institution.
func (p *Panel) setRetention(w http.ResponseWriter, r *http.Request, v *Visit) error {
	ctx, id, f := r.Context(), v.Institution().ID, r.PostForm
	s := newRetentionSettings(v, account.Retention{})
	s.Failed, s.Revoked, s.Mail = f.Get("keep_failed"), f.Get("keep_revoked"), f.Get("keep_mail")
	var err error
	if s.Keep, err = readRetention(s); err != nil {
		return p.showAgain(w, r, "settings_retention.html", s, err)
	}
	was, err := p.Accounts.Retention(ctx, id)
	if err != nil {
		return err
	}
	if sooner(was.Failed, s.Keep.Failed) || sooner(was.Revoked, s.Keep.Revoked) || sooner(was.Mail, s.Keep.Mail) {
		named, asked := f.Get("confirm"), f.Has("confirm")
		if !asked || strings.TrimSpace(named) != v.Institution().Name {
			return p.askRetention(w, r, s, asked)
		}
	}
	if err := p.Accounts.SetRetention(ctx, id, s.Keep); err != nil {
		return p.showAgain(w, r, "settings_retention.html", s, err)
	}
	return p.redirect(w, r, v, "settings/retention", "settings_kept")
}

// askRetention asks for confirmation before old records are deleted.
func (p *Panel) askRetention(w http.ResponseWriter, r *http.Request, s *retentionSettings, asked bool) (err error) {
	ctx, id := r.Context(), s.Visit.Institution().ID
	s.Expired = &expired{}
	if s.Expired.Failed, s.Expired.Revoked, err = p.Certs.Expired(ctx, id, s.Keep); err != nil {
		return err
	}
	if s.Expired.Mails, s.Expired.Events, err = p.Mail.Expired(ctx, id, s.Keep.Mail); err != nil {
		return err
	}
	if asked {
		return p.showAgain(w, r, "retention_confirm.html", s, fault.OfField("confirm", "Type the name of the institution as it is written here."))
	}
	return p.draw(w, r, "retention_confirm.html", s)
}

// readRetention parses the numbers of days.
func readRetention(s *retentionSettings) (k account.Retention, err error) {
	var bad fault.Fields
	for _, one := range []struct {
		name, text string
		n          *int
	}{{"keep_failed", s.Failed, &k.Failed}, {"keep_revoked", s.Revoked, &k.Revoked}, {"keep_mail", s.Mail, &k.Mail}} {
		text := strings.TrimSpace(one.text)
		if text == "" {
			continue
		}
		if *one.n, err = strconv.Atoi(text); err != nil || *one.n < 0 {
			bad.Add(one.name, "This must be a number of days, or empty for ever.")
		}
	}
	if err := bad.Err(); err != nil {
		return k, err
	}
	return k, k.Check()
}

// sooner reports whether a retention period becomes shorter.
func sooner(was, is int) bool { return is != 0 && (was == 0 || is < was) }
