package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/vaulttest"
)

// The page of an upload shows the stamped page of the file. The default is the placement in the
// institution's settings, or else the placement of the last upload with the same page size, or else
// automatic.
func TestPlacementIsShown(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	at := o.pathOf("upload/" + o.stageFile(o.inst))
	w := o.get("issuer", at)
	checkPage(t, "automatic placement", w, http.StatusOK, "Auto Corner Strip Extra page Custom", "Default (free space on the page)")
	if body := w.Body.String(); !strings.Contains(body, `<img src="`+at+`/stamped.png?`) {
		t.Error("the page does not show the stamped page")
	}
	o.Exec(`INSERT INTO stamp_layouts (institution_id, width, height, box, updated_at) SELECT id, 595, 842, '[0.4,0.8,0.6,0.9]', 1 FROM institutions`)
	checkPage(t, "the placement of the last upload", o.get("issuer", at), http.StatusOK, "Default (the position of an earlier certificate with a page of this size)")
	o.Exec(`UPDATE institutions SET placement = 'top-left'`)
	checkPage(t, "a placement in the settings", o.get("issuer", at), http.StatusOK, "Default (top left)", "Default Auto Corner Strip")
	checkPage(t, "the settings", o.get("owner", o.pathOf("settings/stamps")), http.StatusOK, "Auto Corner Strip Extra page Custom", "Left Top Width Height")
}

// Every placement has a picture, also without a script. The headers of a picture describe the stamp.
func TestEveryPlacementHasAPicture(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	at := o.pathOf("upload/" + o.stageFile(o.inst))
	for query, want := range map[string]string{
		"placement=strip": "strip", "placement=appended": "appended", "placement=corner&corner=top-left": "top-left", "placement=bottom-left": "bottom-left",
		"placement=exact&x=10&y=20&width=30&height=40": "exact", "placement=&placement_page=2&default_page=1&default_mode=strip": "strip",
		"placement=&placement_page=1&default_page=1&default_mode=strip": "auto",
	} {
		for _, base := range []string{at, o.pathOf("settings/stamps")} {
			w := o.get("owner", base+"/stamped.png?"+query)
			if got := w.Header().Get("Stamp-Placement"); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" || got != want {
				t.Errorf("%s: status = %d, placement %q, want 200 and %q", query, w.Code, got, want)
			}
		}
	}
	if box := o.get("issuer", at+"/stamped.png?placement=exact&x=10&y=20&width=30&height=40").Header().Get("Stamp-Box"); box != "0.1000,0.2000,0.4000,0.6000" {
		t.Errorf("Stamp-Box = %q, want 0.1000,0.2000,0.4000,0.6000", box)
	}
	if w := o.get("issuer", at+"/stamped.png?placement=exact&x=10"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("an invalid box: status = %d, want 422", w.Code)
	}
	form := url.Values{"placement": {"strip"}, "full_name": {"Ada Obi"}, "look": {"1"}}
	w := o.post("issuer", at, form)
	checkPage(t, "the preview without a script", w, http.StatusOK)
	if body := w.Body.String(); !strings.Contains(body, `stamped.png?placement=strip"`) || !strings.Contains(body, `value="Ada Obi"`) || strings.Contains(body, `class="problems"`) {
		t.Error("the preview lacks the strip or the submitted name, or shows a problem")
	}
	w = o.post("owner", o.pathOf("settings/stamps"), url.Values{"placement": {"appended"}, "look": {"1"}})
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, `stamped.png?placement=appended"`) {
		t.Errorf("the preview of the settings: status = %d, want 200 and the extra page", w.Code)
	}
	checkPage(t, "the settings after the preview", o.get("owner", o.pathOf("settings/stamps")), http.StatusOK)
	if body := o.get("owner", o.pathOf("settings/stamps")).Body.String(); !strings.Contains(body, `id="place-auto" name="placement" value="auto" checked`) {
		t.Error("the preview changed the settings")
	}
}

// The picture of an extra page contains the valid texts of the form. The log does not contain them.
func TestExtraPageHasTheTextsOfTheForm(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	at := o.pathOf("upload/" + o.stageFile(o.inst))
	today := o.Now().UTC().Format("2 January 2006")
	for want, form := range map[string]url.Values{
		"Zoë Obi|Bachelor of Arts|4 March 2026": {"full_name": {" Zoë Obi "}, "title": {"Bachelor of Arts"}, "issue_date": {"2026-03-04"}},
		"||" + today:                            {},
		"|Art|":                                 {"full_name": {strings.Repeat("x", 256)}, "title": {"Art"}, "issue_date": {"4.3.2026"}},
	} {
		form.Set("placement", "appended")
		for _, base := range []string{at, o.pathOf("settings/stamps")} {
			w := o.post("owner", base+"/stamped.png", form)
			if got := strings.TrimPrefix(w.Body.String(), vaulttest.Picture+"\n"); w.Code != http.StatusOK || got != want || w.Header().Get("Stamp-Placement") != "appended" {
				t.Errorf("%s: status = %d, texts %q, want %q on an extra page", base, w.Code, got, want)
			}
		}
	}
	if strings.Contains(o.log.String(), "Bachelor") {
		t.Errorf("the log contains a text of the form: %s", o.log.String())
	}
}

// The numbers of a box may have a decimal comma and a percent sign. A box ends at the edge of the page.
func TestWantedOf(t *testing.T) {
	t.Parallel()
	box := func(x, y, width, height string) url.Values {
		return url.Values{"placement": {"exact"}, "x": {x}, "y": {y}, "width": {width}, "height": {height}}
	}
	for _, form := range []url.Values{
		box("", "1", "2", "3"), box("-1", "1", "2", "3"), box("1", "1", "0", "3"), box("1", "1", "2", "101"), box("100", "1", "2", "3"), box("NaN", "1", "2", "3"),
		{"placement": {"strip"}, "placement_page": {"0"}}, {"placement": {"strip"}, "placement_page": {"x"}},
	} {
		if w, err := wantedOf(form); err == nil {
			t.Errorf("wantedOf(%v) = %+v, want an error", form, w)
		}
	}
	w, err := wantedOf(box("70", "80,5 %", "40", "5"))
	if err != nil || *w.Box != (seal.Box{0.7, 0.805, 1, 0.855}) {
		t.Errorf("wantedOf = %+v, %v; want a box that ends at the edge of the page", w, err)
	}
}
