package public

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// TestPublicPagesAfterOperatorActions checks that the pages of offers redirect from a former slug, and that
// a disabled institution has no open offers, but its certificates stay public.
func TestPublicPagesAfterOperatorActions(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("Diploma", "Ada", "a.pdf")
	v.Settle()
	if err := v.Accounts.SetSlug(t.Context(), v.inst.ID, "northern"); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"/apply/nwu?lang=de": "/apply/northern?lang=de", "/apply/nwu/nwu": "/apply/northern/nwu"} {
		if w := v.get(from); w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != to {
			t.Errorf("%s: status = %d, location = %q; want 308 to %s", from, w.Code, w.Header().Get("Location"), to)
		}
	}
	o, err := v.Applications.CreateOffer(t.Context(), v.inst, application.OfferInput{Slug: "diploma", Name: "Diploma of Law"})
	if err == nil {
		_, err = v.Applications.SetOfferStatus(t.Context(), v.inst.ID, o.UUID, application.Open)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, "apply", v.get("/apply/northern"), http.StatusOK, "Diploma of Law")
	checkPage(t, "apply", v.get("/apply/northern/diploma"), http.StatusOK, "Diploma of Law")
	if err := v.Accounts.Disable(t.Context(), v.inst.ID, ""); err != nil {
		t.Fatal(err)
	}
	checkPage(t, "apply", v.get("/apply/northern"), http.StatusOK, "No open applications")
	checkPage(t, "apply", v.get("/apply/northern/diploma"), http.StatusNotFound, "You cannot apply here at the moment")
	if w := v.get("/verify/" + c.ReferenceID); w.Code != http.StatusOK {
		t.Errorf("the certificate of a disabled institution: status = %d, want 200", w.Code)
	}
}

// TestOffersArePublicOnlyWhileOpen checks the page of an offer in every status, and the list of offers
// while the offer is a draft and while it is open.
func TestOffersArePublicOnlyWhileOpen(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	checkPage(t, "apply", v.get("/apply/nwu"), http.StatusOK, "No open applications")
	o, err := v.Applications.CreateOffer(t.Context(), v.inst, application.OfferInput{
		Slug: "diploma", Name: "Diploma <b>of Law</b>", Description: strings.Repeat("Long text. ", 40) + "\n\nEnd", Criteria: "You have passed.\nAll of it.", MaxFiles: 4,
		Fields: []application.Field{
			{Key: "number", Label: "Student number", Type: application.Line, Required: true}, {Key: "about", Label: "About", Type: application.Area},
			{Key: "proof", Label: "Proof", Type: application.Upload, Required: true}, {Key: "photo", Label: "Photo", Type: application.Upload},
		},
		HoldTexts: map[application.HoldKind]string{application.Payment: secretNote},
	})
	if err != nil {
		t.Fatal(err)
	}
	checkPage(t, "apply", v.get("/apply/nwu"), http.StatusOK, "No open applications")
	for _, status := range []application.OfferStatus{"", application.Closed, application.Open} {
		if status != "" {
			if _, err := v.Applications.SetOfferStatus(t.Context(), v.inst.ID, o.UUID, application.Open); err != nil {
				t.Fatal(err)
			}
			if o, err = v.Applications.SetOfferStatus(t.Context(), v.inst.ID, o.UUID, status); err != nil {
				t.Fatal(err)
			}
		}
		if status == application.Open {
			break
		}
		w := v.get("/apply/nwu/diploma")
		checkPage(t, "apply", w, http.StatusNotFound, "You cannot apply here at the moment", "Show open applications")
		if strings.Contains(w.Body.String(), "Law") || w.Header().Get("X-Robots-Tag") != "noindex" {
			t.Errorf("the page of an offer with the status %q has its name, or may be indexed", o.Status)
		}
	}
	list := v.get("/apply/nwu")
	checkPage(t, "apply", list, http.StatusOK, "Diploma <b>of Law</b>", "Northern & Western University (NWU)", "…")
	page := v.get("/apply/nwu/diploma")
	checkPage(t, "apply", page, http.StatusOK, "Diploma <b>of Law</b>", "You have passed.", "Student number", "About (optional)", "Proof (file)", "Photo (file, optional)", "up to 4 files", "at most 20 MB")
	if links := strings.Join(attributes(t, page, "a", "href"), " "); !strings.Contains(links, "/account/apply/nwu/diploma") {
		t.Errorf("the page has the links %s, want a link to the form", links)
	}
	for name, w := range map[string]int{"list": list.Body.Len(), "offer": page.Body.Len()} {
		if w > 15<<10 {
			t.Errorf("%s: the page has %d bytes, want at most 15 KB", name, w)
		}
	}
	for name, want := range map[string]string{"Cache-Control": "no-cache", "X-Robots-Tag": "", "Set-Cookie": ""} {
		if got := page.Header().Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	for _, l := range []string{"es", "fr", "de", "pt", "ar", "hi", "zh"} {
		w := v.get("/apply/nwu/diploma?lang=" + l)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/account/apply/nwu/diploma?lang="+l) {
			t.Errorf("%s: status = %d, want 200 and a link to the form with this language", l, w.Code)
		}
	}
	other := v.Institution("OTH", "Other")
	for _, target := range []string{"/apply/" + other.Slug + "/diploma", "/apply/unknown", "/apply/unknown/diploma", "/apply/nwu/diploma/more"} {
		if w := v.get(target); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: status = %d, want 404", target, w.Code)
		}
	}
	v.checkSecrets()
}
