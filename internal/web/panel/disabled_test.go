package panel

import (
	"net/http"
	"net/url"
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
		t.Errorf("the page lacks the reason or the advice in German: %s", page)
	}
	if strings.Contains(page, o.pathOf("upload")) {
		t.Error("the page has a link to a page of the institution")
	}
	// The response to a person who is not a member does not reveal that the institution exists.
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
		t.Errorf("status = %d, Location = %q; want 308 to the same page with the new slug", w.Code, to)
	}
	if w := o.get("outsider", "/panel/"+former+"/certificates"); w.Code != http.StatusNotFound {
		t.Errorf("an outsider: status = %d, want 404", w.Code)
	}
}

func TestOperatorChangesInstitution(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	o.person("operator")
	o.makeOperator("operator")
	at := "/operator/institutions/" + o.other.Slug
	checkPage(t, "an institution", o.get("operator", at), http.StatusOK, "South East College", "1.5 GB, no limit", "Approved 12", "Failed 3")

	checkPage(t, "the question", o.get("operator", at+"/state"), http.StatusOK, "Disable “ South East College ”?", "Public pages")
	w := o.followRedirect(t, "operator", o.post("operator", at+"/state", url.Values{"state": {"disabled"}, "reason": {"The contract ended."}}), at)
	checkPage(t, "a disabled institution", w, http.StatusOK, "The institution is disabled.", "Disabled since", "The contract ended.")
	checkPage(t, "the list", o.get("operator", "/operator/institutions"), http.StatusOK, "South East College Disabled")
	w = o.followRedirect(t, "operator", o.post("operator", at+"/state", url.Values{"state": {"enabled"}}), at)
	checkPage(t, "an enabled institution", w, http.StatusOK, "The institution is enabled.")

	for _, bad := range []url.Values{{"storage": {"much"}}, {"storage": {""}, "certificates": {"-1"}}, {"storage": {""}, "requests": {"1.5"}}} {
		checkPage(t, "a bad limit", o.post("operator", at+"/limits", bad), http.StatusUnprocessableEntity, "0 means no limit.")
	}
	w = o.followRedirect(t, "operator", o.post("operator", at+"/limits", url.Values{"storage": {"2 GB"}, "certificates": {"500"}, "requests": {""}}), at)
	checkPage(t, "limits", w, http.StatusOK, "The limits were saved.", "1.5 GB of 2.0 GB", "4 of 500", "No limit")
	checkPage(t, "the form", o.get("operator", at+"/limits"), http.StatusOK, "Limits of “ South East College ”")
	if i, err := o.Accounts.Institution(t.Context(), o.other.ID); err != nil || i.Limits != (account.Limits{Storage: 2 << 30, Certificates: 500}) || i.DisabledAt != nil {
		t.Errorf("institution = %+v, error %v; want it enabled, with a storage of 2 GB and 500 certificates", i, err)
	}

	checkPage(t, "an address in use", o.post("operator", at+"/address", url.Values{"slug": {o.inst.Slug}}), http.StatusUnprocessableEntity, "Another institution has or had this name in web addresses.")
	w = o.followRedirect(t, "operator", o.post("operator", at+"/address", url.Values{"slug": {"South"}}), "/operator/institutions/south")
	checkPage(t, "the new address", w, http.StatusOK, "The name in web addresses was saved.", "south")
	if w := o.get("operator", at); w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "/operator/institutions/south" {
		t.Errorf("the old address: status = %d, Location = %q; want 308 to the new address", w.Code, w.Header().Get("Location"))
	}
	for _, log := range []string{"disabled the institution", "changed the limits of the institution", "changed the institution's name in web addresses"} {
		checkPage(t, "the audit log", o.get("operator", "/operator/audit"), http.StatusOK, log)
	}
}
