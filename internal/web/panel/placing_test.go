package panel

import (
	"net/http"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

// The page shows where the QR code will be on this file. The initial choice is that of the last
// upload.
func TestPlacementIsShown(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	at := o.pathOf("upload/" + o.staged(o.mine))
	w := o.get("issuer", at)
	says(t, "blank", w, http.StatusOK, "As your settings say: a blank place on the page")
	if body := w.Body.String(); !strings.Contains(body, `<svg class="spot" x=`) {
		t.Error("the place is not drawn")
	}
	o.Exec(`INSERT INTO stamp_layouts (institution_id, width, height, box, updated_at) SELECT id, 595, 842, '[0.4,0.8,0.6,0.9]', 1 FROM institutions`)
	says(t, "as before", o.get("issuer", at), http.StatusOK, "As your settings say: where it was on your last upload of this size")
	o.Exec(`UPDATE institutions SET placement = 'top-left'`)
	says(t, "a corner", o.get("issuer", at), http.StatusOK, "As your settings say: top left")
	says(t, "settings", o.get("owner", o.pathOf("settings/stamps")), http.StatusOK, "A blank place on the page", "The place you chose")
}
