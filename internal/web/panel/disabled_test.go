package panel

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestPanelOfDisabledInstitution(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.addMember("owner", o.other, account.Owner)
	at := o.Now()
	disabled := &o.people.members[o.people.persons["owner"].ID][0].Institution
	disabled.DisabledAt, disabled.DisabledReason = &at, "The contract ended."
	for _, w := range []int{o.get("owner", o.pathOf("certificates")).Code, o.post("owner", o.pathOf("upload"), nil).Code} {
		if w != http.StatusForbidden {
			t.Errorf("status = %d, want 403", w)
		}
	}
	r := o.request("owner", http.MethodGet, o.pathOf("certificates"), nil)
	r.Header.Set("Accept-Language", "de")
	page := o.send(r).Body.String()
	if !strings.Contains(page, "ist gesperrt: The contract ended. Bitten Sie") {
		t.Errorf("the page does not say why, and whom to ask: %s", page)
	}
	if strings.Contains(page, o.pathOf("upload")) {
		t.Error("the page links to pages of the institution")
	}
	// Someone who is not a member learns nothing.
	if w := o.get("outsider", o.pathOf("certificates")); w.Code != http.StatusNotFound {
		t.Errorf("an outsider: status = %d, want 404", w.Code)
	}
	if w := o.get("owner", "/panel/"+o.other.Slug+"/certificates"); w.Code != http.StatusOK {
		t.Errorf("another institution: status = %d, want 200", w.Code)
	}
}

func TestPanelRedirectsFromFormerSlug(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	former := o.inst.Slug
	if err := o.Accounts.SetSlug(t.Context(), o.inst.ID, "northern"); err != nil {
		t.Fatal(err)
	}
	o.people.members[o.people.persons["owner"].ID][0].Institution.Slug = "northern"
	w := o.get("owner", "/panel/"+former+"/certificates?status=failed")
	if to := w.Header().Get("Location"); w.Code != http.StatusPermanentRedirect || to != "/panel/northern/certificates?status=failed" {
		t.Errorf("status = %d, location = %q; want 308 to the same page", w.Code, to)
	}
	if w := o.get("outsider", "/panel/"+former+"/certificates"); w.Code != http.StatusNotFound {
		t.Errorf("an outsider: status = %d, want 404", w.Code)
	}
}
