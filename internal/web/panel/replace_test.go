package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// record returns the current record of a certificate.
func (o *panelTest) record(uuid string) *cert.Certificate {
	o.tb.Helper()
	c, err := o.Certs.ByUUID(o.tb.Context(), o.inst.ID, uuid)
	if err != nil {
		o.tb.Fatal(err)
	}
	return c
}

// created returns the certificate to whose page a response redirects.
func (o *panelTest) created(w interface{ Header() http.Header }) *cert.Certificate {
	o.tb.Helper()
	to, ok := strings.CutPrefix(w.Header().Get("Location"), o.pathOf("certificates/"))
	if !ok {
		o.tb.Fatalf("the response redirects to %q, want the page of a certificate", w.Header().Get("Location"))
	}
	return o.record(strings.TrimSuffix(to, "/uploaded"))
}

// The form that replaces a certificate contains its values and shows the request to correct it. The request
// is closed when the replacement is approved.
func TestReplaceFromCorrectionRequest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		old := o.approvedCertificate(o.inst)
		o.requestCorrection(old, "It is Zoë, <b>not</b> Zoe.")
		at := o.pathOf("certificates/" + old.UUID)
		checkPage(t, "the page of the certificate", o.get("issuer", at), http.StatusOK, "Replace certificate", "Renew")
		first := o.get("issuer", at+"/replace").Header().Get("Location")
		if first != o.pathOf("upload?replaces="+old.UUID) {
			t.Fatalf("Location = %q, want the page for an upload", first)
		}
		checkPage(t, "the form for the file", o.get("issuer", first), http.StatusOK, "Replace certificate", "It is Zoë, <b>not</b> Zoe.", old.ReferenceID)
		second := o.sendFiles(first, "file", formFile{"b.pdf", slices.Concat(vaulttest.PDF, []byte("% b"))}).Header().Get("Location")
		w := o.get("issuer", second)
		checkPage(t, "the form for the fields", w, http.StatusOK, "It is Zoë, <b>not</b> Zoe.", "Replace certificate")
		for _, want := range []string{`value="` + old.Title + `"`, `value="` + old.FullName + `"`, `value="` + old.Email + `"`, `value="` + old.IssueDate + `"`, `?replaces=` + old.UUID} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the form lacks %s", want)
			}
		}
		form := url.Values{"certificate_title": {old.Title}, "full_name": {"Zoë"}, "applicant_email": {old.Email}, "issue_date": {old.IssueDate}}
		c := o.created(o.post("issuer", second, form))
		if c.Replaces == nil || c.Replaces.UUID != old.UUID || c.FullName != "Zoë" || c.TriggerContext != cert.PanelUpload {
			t.Fatalf("new certificate = %+v, want an upload for Zoë that replaces the old certificate", c)
		}
		checkPage(t, "the old certificate", o.get("issuer", at), http.StatusOK, "A replacement is being prepared: "+c.ReferenceID, "It is Zoë")
		checkPage(t, "the form while the replacement is prepared", o.get("issuer", first), http.StatusBadRequest, "cannot be replaced")
		o.processAll()
		w = o.get("issuer", at)
		checkPage(t, "the replaced certificate", w, http.StatusOK, "Replaced by "+c.ReferenceID, "replaced a certificate")
		if body := w.Body.String(); strings.Contains(body, "/replace") || strings.Contains(body, "/done") {
			t.Error("the replaced certificate can be replaced again, or its request is open")
		}
		checkPage(t, "the new certificate", o.get("issuer", o.pathOf("certificates/"+c.UUID)), http.StatusOK, "Replaces "+old.ReferenceID)
		checkPage(t, "the list", o.get("issuer", o.pathOf("certificates")), http.StatusOK, "Replaced")
		for query, want := range map[string]string{"?replaced=true": old.ReferenceID, "?replaced=false": c.ReferenceID} {
			w := o.get("issuer", o.pathOf("certificates")+query)
			checkPage(t, "the list with "+query, w, http.StatusOK, "Replacement: ", want)
			for _, other := range []*cert.Certificate{old, c} {
				if other.ReferenceID != want && strings.Contains(w.Body.String(), other.UUID) {
					t.Errorf("the list with %s contains %s, want only %s", query, other.ReferenceID, want)
				}
			}
		}
		checkPage(t, "the form for a replaced certificate", o.get("issuer", at+"/replace"), http.StatusBadRequest, "cannot be replaced")
	})
}

func TestReplaceNeedsPermissions(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	c, foreign := o.approvedCertificate(o.inst), o.approvedCertificate(o.other)
	for _, person := range []string{"auditor", "outsider"} {
		for _, page := range []string{"certificates/" + c.UUID + "/replace", "upload?replaces=" + c.UUID} {
			if w := o.get(person, o.pathOf(page)); w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
				t.Errorf("%s: %s: status = %d, want 403 or 404", person, page, w.Code)
			}
		}
	}
	for _, id := range []string{foreign.UUID, "x", "00000000-0000-4000-8000-000000000000"} {
		if w := o.get("issuer", o.pathOf("upload?replaces="+id)); w.Code != http.StatusNotFound {
			t.Errorf("replaces=%s: status = %d, want 404", id, w.Code)
		}
	}
	// A member who has only one of the permissions to upload and to revoke cannot replace a certificate.
	for _, info := range account.Roles {
		role := info.Role
		if role.Can(account.MayUpload) != role.Can(account.MayRevoke) {
			o.addMember("uploader", o.inst, role)
			if w := o.get("uploader", o.pathOf("upload?replaces="+c.UUID)); w.Code != http.StatusForbidden {
				t.Errorf("a member with the role %s: status = %d, want 403", role, w.Code)
			}
		}
	}
}

// A certificate from a template is renewed with its values and the current date.
func TestRenewFromTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		path := o.published(t)
		form := url.Values{
			"full_name": {"Zoë Smith"}, "applicant_email": {"zoe@example.org"}, "certificate_title": {"Bachelor of Arts"}, "issue_date": {"2020-06-30"}, gradeControl: {"A"},
		}
		old := o.created(o.post("issuer", path+"/issue", form))
		o.processAll()
		at := o.pathOf("certificates/" + old.UUID)
		to := o.get("issuer", at+"/replace?renew=1").Header().Get("Location")
		if to != path+"/issue?renew=1&replaces="+old.UUID {
			t.Fatalf("Location = %q, want the page that issues from the template", to)
		}
		w := o.get("issuer", to)
		checkPage(t, "the form", w, http.StatusOK, "Renew certificate", "Use a file instead")
		for _, want := range []string{`value="Zoë Smith"`, `value="zoe@example.org"`, `value="Bachelor of Arts"`, `value="A"`, `value="` + cert.Today(o.Now()) + `"`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the form lacks %s", want)
			}
		}
		same := o.pathOf("templates/") + strings.TrimPrefix(path, o.pathOf("templates/")) + "/issue?replaces=" + old.UUID
		checkPage(t, "the form without a change", o.post("issuer", same, form), http.StatusConflict, "Nothing has changed")
		form.Set("issue_date", "2026-06-30")
		c := o.created(o.post("issuer", to, form))
		o.processAll()
		if c, old = o.record(c.UUID), o.record(old.UUID); c.Status != cert.Approved || c.Source != cert.Template || !old.Replaced() || old.ReplacedBy.UUID != c.UUID {
			t.Errorf("new certificate is %s, old certificate is %s and replaced by %+v, want an approved replacement", c.Status, old.Status, old.ReplacedBy)
		}
	})
}

// A task renews many certificates. It skips certificates that are not from templates, and does not renew
// the certificates that it created.
func TestRenewMany(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		path := o.published(t)
		var old []*cert.Certificate
		for _, name := range []string{"Zoë Smith", "Ada Obi", "Grace Hopper"} {
			old = append(old, o.created(o.post("issuer", path+"/issue", url.Values{
				"full_name": {name}, "applicant_email": {"person@example.org"}, "certificate_title": {"Diploma of " + name}, "issue_date": {"2020-06-30"}, gradeControl: {"A"},
			})))
		}
		o.processAll()
		uploaded := o.approvedCertificate(o.inst)
		form := url.Values{"which": {"all"}}
		// There are two such buttons: one for all certificates and one for the selected certificates.
		for query, want := range map[string]int{"": 2, "?status=approved": 2, "?status=revoked": 0} {
			if n := strings.Count(o.get("issuer", o.pathOf("certificates")+query).Body.String(), "certificates/renew"); n != want {
				t.Errorf("the list %q has %d buttons to renew certificates, want %d", query, n, want)
			}
		}
		checkPage(t, "the question", o.post("issuer", o.pathOf("certificates/renew"), form), http.StatusOK, "Renew 4 certificates?", "Zoë Smith", "Only certificates from templates")
		if w := o.post("auditor", o.pathOf("certificates/renew"), form); w.Code != http.StatusForbidden {
			t.Errorf("a member who may not upload: status = %d, want 403", w.Code)
		}
		form.Set("sure", "1")
		o.Advance(time.Millisecond) // a renewal omits certificates that are not older than the task
		at := o.post("issuer", o.pathOf("certificates/renew"), form).Header().Get("Location")
		o.processUntil("the task is finished", func() bool {
			w := o.get("issuer", at)
			return strings.Contains(visibleText(t, w), "Done")
		})
		o.processAll()
		checkPage(t, "the task", o.get("issuer", at), http.StatusOK, "Renewing certificates", "3 certificates are being renewed", "1 skipped", "not made from a template")
		checkPage(t, "the tasks", o.get("issuer", o.pathOf("tasks")), http.StatusOK, "Renew")
		for _, c := range old {
			c = o.record(c.UUID)
			if !c.Replaced() {
				t.Errorf("%s is %s, want replaced", c.FullName, c.Status)
				continue
			}
			if renewed := o.record(c.ReplacedBy.UUID); renewed.Status != cert.Approved || renewed.IssueDate != cert.Today(o.Now()) || renewed.Title != c.Title ||
				string(renewed.Template.Values) != string(c.Template.Values) || renewed.Creator.ID == 0 || renewed.Creator != c.Creator {
				t.Errorf("renewal of %s = %+v, want an approved certificate with the current date, the old values and the creator %+v", c.FullName, renewed, c.Creator)
			}
		}
		if c := o.record(uploaded.UUID); c.Status != cert.Approved {
			t.Errorf("the uploaded certificate is %s, want approved", c.Status)
		}
		var n int
		if err := d.QueryRowContext(t.Context(), `SELECT count(*) FROM certificates WHERE institution_id = $1`, o.inst.ID).Scan(&n); err != nil || n != 7 {
			t.Errorf("number of certificates = %d, error %v, want 7", n, err)
		}
	})
}
