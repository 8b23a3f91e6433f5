package panel

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// The page shows the placement of the QR code on the file. The automatic placement is the placement
// on the last upload with the same page size. A corner in the institution's settings replaces the
// automatic placement.
func TestPlacementIsShown(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	at := o.pathOf("upload/" + o.stageFile(o.inst))
	w := o.get("issuer", at)
	checkPage(t, "automatic placement", w, http.StatusOK, "As your settings say: a blank place on the page")
	if body := w.Body.String(); !strings.Contains(body, `<svg class="spot" x=`) {
		t.Error("the page does not show the frame of the stamp")
	}
	o.Exec(`INSERT INTO stamp_layouts (institution_id, width, height, box, updated_at) SELECT id, 595, 842, '[0.4,0.8,0.6,0.9]', 1 FROM institutions`)
	checkPage(t, "the placement of the last upload", o.get("issuer", at), http.StatusOK, "As your settings say: where it was on your last upload of this size")
	o.Exec(`UPDATE institutions SET placement = 'top-left'`)
	checkPage(t, "a placement in the settings", o.get("issuer", at), http.StatusOK, "As your settings say: top left")
	checkPage(t, "the settings", o.get("owner", o.pathOf("settings/stamps")), http.StatusOK, "A blank place on the page", "The place you chose")
}
