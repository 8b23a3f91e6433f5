package panel

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// If no chosen reviewer may review any more, the pages of the offer say so, and saving the offer does not
// silently make all members reviewers.
func TestOfferWithoutReviewer(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	left, err := o.Accounts.AddMember(t.Context(), o.inst.ID, account.NewMember{Name: "Bob Left", Email: "bob@nwu.example", Role: account.Reviewer})
	if err != nil {
		t.Fatal(err)
	}
	offer := o.openOffer(o.inst, func(in *application.OfferInput) { in.Reviewers = []int64{left.UserID} })
	path := o.pathOf("offers/" + offer.UUID)
	const warning = "No one in this selection can review any more."
	if text := visibleText(t, o.get("admin", path)); strings.Contains(text, warning) {
		t.Errorf("the page of an offer with a reviewer has the warning: %s", text)
	}
	if err := o.Accounts.Leave(t.Context(), o.inst.ID, left.UserID); err != nil {
		t.Fatal(err)
	}
	a := o.applyFor(offer, o.inst, "Ada Obi", nil)
	checkPage(t, "the list of offers", o.get("admin", o.pathOf("offers")), http.StatusOK, "No reviewer left")
	w := o.get("admin", path)
	checkPage(t, "the offer", w, http.StatusOK, warning, "Bob Left (can no longer review)")
	id := strconv.FormatInt(left.UserID, 10)
	if !strings.Contains(w.Body.String(), `value="`+id+`" checked`) {
		t.Errorf("the former reviewer is not selected: %s", w.Body)
	}
	form := url.Values{
		"name": {offer.Name}, "slug": {offer.Slug}, "hold_days": {"14"}, "retention_days": {"90"}, "max_files": {"3"}, "questions": {"0"},
		"revision": {strconv.FormatInt(offer.Revision, 10)}, "reviewers": {id},
	}
	checkPage(t, "saving the offer", o.post("admin", path, form), http.StatusUnprocessableEntity, "One of the reviewers is no longer a member.", warning)
	checkPage(t, "the application for an administrator", o.get("admin", o.pathOf("applications/"+a.UUID)), http.StatusOK, "Save note")
	checkPage(t, "the application for a reviewer", o.get("reviewer", o.pathOf("applications/"+a.UUID)), http.StatusOK, "Only the reviewers of this offer can decide.")
}

// A note does not replace the note that a colleague has saved in the meantime.
func TestNoteOfAColleague(t *testing.T) {
	t.Parallel()
	o := newPanelTest(t, dbtest.SQLite(t))
	a := o.apply(o.inst, "Ada Obi", nil)
	path := o.pathOf("applications/" + a.UUID)
	w := o.post("admin", path+"/note", url.Values{"revision": {"1"}, "note": {"The diploma is forged."}})
	o.followRedirect(t, "admin", w, path)
	w = o.post("reviewer", path+"/note", url.Values{"revision": {"1"}, "note": {"Called on Tuesday."}})
	checkPage(t, "a note on an old page", w, http.StatusConflict, "Your change was not saved", "Saved note: The diploma is forged.", "Called on Tuesday.")
	if now := o.applicationNow(a); now.Note != "The diploma is forged." {
		t.Errorf("note = %q, want that of the colleague", now.Note)
	}
	if !strings.Contains(w.Body.String(), `name="revision" value="2"`) {
		t.Error("the page does not have the new revision")
	}
	o.followRedirect(t, "reviewer", o.post("reviewer", path+"/note", url.Values{"revision": {"2"}, "note": {"Forged. Called on Tuesday."}}), path)
	if now := o.applicationNow(a); now.Note != "Forged. Called on Tuesday." {
		t.Errorf("note = %q, want the second note", now.Note)
	}
}
