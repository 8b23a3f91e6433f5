package panel

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/fault"
)

type keepSettings struct {
	settingsPage

	// Failed, Revoked and Mail are numbers of days as they were typed, empty for ever.
	Failed, Revoked, Mail string
	Keep                  account.Retention
	// Min and Max bound them.
	Min, Max int
	// Over is what would end at once, on the page that asks.
	Over *over
}

// over is how much would end at once.
type over struct{ Failed, Revoked, Mails, Events int }

// Nothing tells whether nothing would.
func (o *over) Nothing() bool { return *o == over{} }

// days writes a number of days, empty for ever.
func days(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func newKeepSettings(v *Visit, k account.Retention) *keepSettings {
	return &keepSettings{
		settingsPage: settingsPage{v, "settings/retention"}, Keep: k, Failed: days(k.Failed), Revoked: days(k.Revoked), Mail: days(k.Mail),
		Min: account.MinKeep, Max: account.MaxKeep,
	}
}

// keepSettings shows for how long what is kept.
func (p *Panel) keepSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	k, err := p.Accounts.Retention(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_retention.html", newKeepSettings(v, k))
}

// setKeep changes it. What lets anything end sooner is asked about first, with how
// much ends at once, and by the name of the institution.
func (p *Panel) setKeep(w http.ResponseWriter, r *http.Request, v *Visit) error {
	ctx, id, f := r.Context(), v.Institution().ID, r.PostForm
	s := newKeepSettings(v, account.Retention{})
	s.Failed, s.Revoked, s.Mail = f.Get("keep_failed"), f.Get("keep_revoked"), f.Get("keep_mail")
	var err error
	if s.Keep, err = readKeep(s); err != nil {
		return p.again(w, r, "settings_retention.html", s, err)
	}
	was, err := p.Accounts.Retention(ctx, id)
	if err != nil {
		return err
	}
	if sooner(was.Failed, s.Keep.Failed) || sooner(was.Revoked, s.Keep.Revoked) || sooner(was.Mail, s.Keep.Mail) {
		named, asked := f.Get("confirm"), f.Has("confirm")
		if !asked || strings.TrimSpace(named) != v.Institution().Name {
			return p.askKeep(w, r, s, asked)
		}
	}
	if err := p.Accounts.SetRetention(ctx, id, s.Keep); err != nil {
		return p.again(w, r, "settings_retention.html", s, err)
	}
	return p.lead(w, r, v, "settings/retention", "settings_kept")
}

// askKeep asks whether old data is to end.
func (p *Panel) askKeep(w http.ResponseWriter, r *http.Request, s *keepSettings, asked bool) (err error) {
	ctx, id := r.Context(), s.Visit.Institution().ID
	s.Over = &over{}
	if s.Over.Failed, s.Over.Revoked, err = p.Certs.Expired(ctx, id, s.Keep); err != nil {
		return err
	}
	if s.Over.Mails, s.Over.Events, err = p.Mail.Expired(ctx, id, s.Keep.Mail); err != nil {
		return err
	}
	if asked {
		return p.again(w, r, "retention_confirm.html", s, fault.OfField("confirm", "Type the name of the institution as it is written here."))
	}
	return p.draw(w, r, "retention_confirm.html", s)
}

// readKeep reads numbers of days.
func readKeep(s *keepSettings) (k account.Retention, err error) {
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

// sooner tells whether something ends sooner than it did.
func sooner(was, is int) bool { return is != 0 && (was == 0 || is < was) }
