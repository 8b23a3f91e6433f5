package panel

import (
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// shownOf returns the hidden fields of a form with the settings that it shows.
func shownOf(w *httptest.ResponseRecorder, names ...string) url.Values {
	form := url.Values{}
	for _, name := range names {
		for _, value := range hiddenValues(w, "shown_"+name) {
			form.Set("shown_"+name, html.UnescapeString(value))
		}
	}
	return form
}

// A form of the public page that was opened before these settings were changed saves nothing. It is shown
// again with the changed settings, and with the typed values of the others.
func TestOldFormOfThePublicPage(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("settings/public")
		names := []string{"hide_name", "image", "download", "contact", "linkedin"}
		hide := shownOf(o.get("owner", page), names...)
		stale := shownOf(o.get("admin", page), names...)
		hide.Set("hide_name", "1")
		hide.Set("linkedin", "7654321")
		o.followRedirect(t, "owner", o.post("owner", page, hide), page)
		stale.Set("contact", "registry@example.org")
		stale.Set("linkedin", "1234567")
		w := o.post("admin", page, stale)
		checkPage(t, "an old form", w, http.StatusConflict, "These settings were changed after you opened this page")
		for _, want := range []string{`name="hide_name" value="1" checked`, `value="registry@example.org"`, `name="linkedin" type="text" value="7654321"`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the form that is shown again lacks %s", want)
			}
		}
		s, err := account.ReadSettings(t.Context(), d, o.inst.ID)
		if err != nil || s.Public != (account.Public{HideName: true, LinkedIn: "7654321"}) {
			t.Errorf("settings after an old form = %+v, error %v, want those of the owner", s, err)
		}
		// A problem of the new form does not hide a later change.
		again := shownOf(w, names...)
		again.Set("hide_name", "1")
		again.Set("contact", strings.Repeat("x", 300))
		w = o.post("admin", page, again)
		checkPage(t, "a contact that is too long", w, http.StatusUnprocessableEntity, "at most 255 characters")
		if got := shownOf(w, names...); got.Get("shown_hide_name") != "1" || got.Get("shown_linkedin") != "7654321" || got.Get("shown_contact") != "" {
			t.Errorf("the form with a problem has the shown settings %v, want the saved ones", got)
		}
		again.Set("contact", "registry@example.org")
		again.Set("linkedin", "7654321")
		o.followRedirect(t, "admin", o.post("admin", page, again), page)
		s, err = account.ReadSettings(t.Context(), d, o.inst.ID)
		if err != nil || s.Public != (account.Public{HideName: true, Contact: "registry@example.org", LinkedIn: "7654321"}) {
			t.Errorf("settings = %+v, error %v, want those of both", s, err)
		}
	})
}

// The form with the name, the language of mail and the colour does not undo the change of another person either,
// also after a preview.
func TestOldFormOfTheInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("settings")
		stale := shownOf(o.get("admin", page), "name", "mail_language", "colour")
		if _, err := o.Accounts.Change(t.Context(), o.inst.ID, func(c *account.Changes) error {
			c.Name, c.Colour = "Southern University", "#1a237e"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		stale.Set("name", o.inst.Name)
		stale.Set("mail_language", "de")
		stale.Set("colour", "#0b5d4b")
		preview := maps.Clone(stale)
		preview.Set("look", "1")
		w := o.send(o.settingsForm(preview, nil))
		checkPage(t, "a preview", w, http.StatusOK, "changes that are not saved yet")
		if got := shownOf(w, "name", "mail_language", "colour"); got.Get("shown_name") != o.inst.Name || got.Get("shown_colour") != "" {
			t.Errorf("the preview has the shown settings %v, want those of the form", got)
		}
		w = o.send(o.settingsForm(stale, nil))
		checkPage(t, "an old form", w, http.StatusConflict, "These settings were changed after you opened this page")
		for _, want := range []string{`name="name" type="text" value="Southern University"`, `value="de" lang="de" selected`, `name="colour" type="text" value="#1a237e"`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the form that is shown again lacks %s", want)
			}
		}
		form := shownOf(w, "name", "mail_language", "colour")
		form.Set("name", "Southern University")
		form.Set("mail_language", "de")
		form.Set("colour", "#1a237e")
		o.followRedirect(t, "admin", o.send(o.settingsForm(form, nil)), page)
		s, err := account.ReadSettings(t.Context(), d, o.inst.ID)
		if err != nil || s.Name != "Southern University" || s.MailLanguage != "de" || s.Colour != "#1a237e" {
			t.Errorf("settings = %+v, error %v, want those of both", s, err)
		}
	})
}
