package public

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/colour"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// Only the pages of valid certificates show the institution's colour, so that the colour does not
// contradict the verdict.
func TestColourOfInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c, withdrawn := v.upload("BSc Physics", "Ada Obi", "diploma.pdf"), v.upload("MSc Physics", "Ada Obi", "diploma.pdf")
		v.Work(2)
		v.revoke(withdrawn, "Issued by mistake")
		page := "/verify/" + c.ReferenceID
		fills := func(target string) []string { return attributes(t, v.get(target), "rect", "fill") }
		if got := fills(page); len(got) != 0 {
			t.Errorf("the fills without a colour are %v, want none", got)
		}
		if err := v.pages.Accounts.SetColour(t.Context(), v.inst.ID, "#1a237e"); err != nil {
			t.Fatal(err)
		}
		w := v.get(page)
		checkPage(t, "valid", w, http.StatusOK, "This certificate is valid")
		if got := fills(page); len(got) != 2 || got[0] != "#1a237e" || got[1] == got[0] {
			t.Errorf("the fills for light and dark pages are %v, want #1a237e and another shade", got)
		}
		if strings.Contains(w.Body.String(), "style=") || strings.Contains(w.Body.String(), "<style") {
			t.Error("the page has an inline style, which its Content-Security-Policy forbids")
		}
		other := "/verify/file/" + strings.Repeat("ab", sha256.Size) + "?reference_id=" + c.ReferenceID
		for name, target := range map[string]string{"revoked": "/verify/" + withdrawn.ReferenceID, "another file": other} {
			if got := fills(target); len(got) != 0 {
				t.Errorf("%s: the fills are %v, want none", name, got)
			}
		}
		for _, result := range []string{"failed", "not_run"} {
			v.Exec(`UPDATE certificate_checks SET result = $1`, result)
			if got := fills(page); len(got) != 0 {
				t.Errorf("checks with the result %s: the fills are %v, want none", result, got)
			}
		}
	})
}

// Package colour assumes a white background, and a dark background that is not lighter than
// colour.DarkBackground.
func TestStyleBackgrounds(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	style := v.get(attributes(t, v.get("/verify"), "link", "href")[0]).Body.String()
	for _, paper := range []string{"#fff;", "#18201e;"} {
		if !strings.Contains(style, "--paper: "+paper) && !strings.Contains(style, "--paper:"+paper) {
			t.Errorf("the style sheet has no background colour %s", paper)
		}
	}
	dark, err := colour.Parse("#18201e")
	if err != nil || colour.Contrast(dark, colour.White) < colour.Contrast(colour.DarkBackground, colour.White) {
		t.Errorf("the dark background is %s, error %v, want one that is not lighter than %s", dark, err, colour.DarkBackground)
	}
}
