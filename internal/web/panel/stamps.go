package panel

import (
	"net/http"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/seal"
)

// stampSettings is the data of the settings for QR codes and files. The placement is shown on a
// blank page.
type stampSettings struct {
	settingsPage
	*placing

	PlainStamp, RefuseActive bool
}

// stampPage returns the data of the settings with the values of the policy or of the submitted form.
func (p *Panel) stampPage(r *http.Request, v *Visit, policy *cert.Policy) (*stampSettings, error) {
	form := formOf(&cert.RequestedPlacement{Mode: policy.Placement, Page: policy.Page, Box: policy.Box})
	plain, refuse := policy.PlainStamp, policy.RefuseActive
	if r.Method == http.MethodPost {
		form, plain, refuse = r.PostForm, r.PostForm.Get("plain_stamp") != "", r.PostForm.Get("refuse_active") != ""
	}
	l, err := p.placing(r.Context(), v, nil, &cert.RequestedPlacement{Mode: seal.Auto, Page: 1}, form)
	if err != nil {
		return nil, err
	}
	l.Base, l.Default, l.CanShow = v.Path("settings/stamps"), "", true
	return &stampSettings{settingsPage{v, "settings/stamps"}, l, plain, refuse}, nil
}

// stampSettings shows the settings for QR codes and files.
func (p *Panel) stampSettings(w http.ResponseWriter, r *http.Request, v *Visit) error {
	policy, err := p.Certs.Policy(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	s, err := p.stampPage(r, v, policy)
	if err != nil {
		return err
	}
	return p.draw(w, r, "settings_stamps.html", s)
}

// setStamps saves the settings for QR codes and files. If the form has the field "look", setStamps only
// shows them on the blank page.
func (p *Panel) setStamps(w http.ResponseWriter, r *http.Request, v *Visit) error {
	policy, err := p.Certs.Policy(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	wanted, err := wantedOf(r.PostForm)
	look := r.PostForm.Get("look") != ""
	if err == nil && !look {
		policy.PlainStamp, policy.RefuseActive = r.PostForm.Get("plain_stamp") != "", r.PostForm.Get("refuse_active") != ""
		if wanted != nil {
			policy.Placement, policy.Page, policy.Box = wanted.Mode, wanted.Page, wanted.Box
		}
		err = p.Certs.SetPolicy(r.Context(), v.Institution().ID, policy)
	}
	if err == nil && !look {
		return p.redirect(w, r, v, "settings/stamps", "settings_kept")
	}
	s, e := p.stampPage(r, v, policy)
	if e != nil {
		return e
	}
	if err == nil {
		return p.draw(w, r, "settings_stamps.html", s)
	}
	return p.showAgain(w, r, "settings_stamps.html", s, err)
}

// samplePicture sends an image of the blank page.
func (p *Panel) samplePicture(w http.ResponseWriter, r *http.Request, _ *Visit) error {
	return p.picture(w, r, nil)
}

// sampleStamped sends an image of the stamped blank page.
func (p *Panel) sampleStamped(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.stamped(w, r, v, nil, nil)
}

// sampleInk sends the image of the content of the blank page, which is entirely transparent.
func (p *Panel) sampleInk(w http.ResponseWriter, r *http.Request, v *Visit) error {
	return p.ink(w, r, v, nil)
}
