package application_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// An application is sent only with the texts, the questions and the files that the person has reviewed.
func TestOnlyReviewedDraftIsSubmitted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o, who := f.offer("course"), f.applicant("Chi Eze")
		ctx := t.Context()
		content := func() string {
			draft, err := f.Applications.DraftOf(ctx, who, o)
			f.ok(err)
			return draft.Content()
		}
		save := func(values map[string]string) {
			_, err := f.Applications.SaveDraft(ctx, who, o, "", who.Name, values)
			f.ok(err)
		}
		refused := func(what, seen string) {
			t.Helper()
			if _, err := f.Applications.SubmitDraft(ctx, f.inst, who, o, seen); !errors.Is(err, application.ErrDraft) {
				t.Fatalf("submission after %s: error = %v, want ErrDraft", what, err)
			}
		}
		save(map[string]string{"matric": "M-1"})
		refused("no review", "")
		seen := content()
		save(map[string]string{"matric": "M-2"})
		refused("another answer", seen)
		seen = content()
		file, err := f.Applications.AddDraftFile(ctx, who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		f.ok(err)
		refused("another file", seen)
		seen = content()
		f.ok(f.Applications.RemoveDraftFile(ctx, who, o, file.ID))
		refused("a removed file", seen)
		seen = content()
		in := input("course")
		in.Fields[0].Label = "Student number of the last year"
		o, err = f.Applications.ChangeOffer(ctx, f.inst.ID, o.UUID, o.Revision, in)
		f.ok(err)
		refused("another question", seen)
		// A setting that the applicant does not see may change.
		seen, in.RetentionDays = content(), 30
		_, err = f.Applications.ChangeOffer(ctx, f.inst.ID, o.UUID, o.Revision, in)
		f.ok(err)
		a, err := f.Applications.SubmitDraft(ctx, f.inst, who, o, seen)
		f.ok(err)
		if a.Values["matric"] != "M-2" || len(a.Files) != 0 || a.Fields[0].Label != in.Fields[0].Label {
			t.Errorf("application = %+v, want the reviewed one", a)
		}
	})
}

// A draft is not replaced by texts that were entered before it changed.
func TestChangedDraftIsNotReplaced(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o, who := f.offer("course"), f.applicant("Chi Eze")
		ctx := t.Context()
		save := func(seen, number string) (*application.DraftApplication, error) {
			return f.Applications.SaveDraft(ctx, who, o, seen, who.Name, map[string]string{"matric": number})
		}
		empty := (&application.DraftApplication{Offer: o, FullName: who.Name}).Texts()
		_, err := f.Applications.AddDraftFile(ctx, who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		f.ok(err)
		first, err := save(empty, "M-1")
		f.ok(err)
		second, err := save(first.Texts(), "M-2")
		f.ok(err)
		f.Advance(time.Hour)
		for _, seen := range []string{empty, first.Texts()} {
			if _, err := save(seen, "M-3"); !errors.Is(err, application.ErrDraft) {
				t.Errorf("saving after another change: error = %v, want ErrDraft", err)
			}
		}
		got, err := f.Applications.DraftOf(ctx, who, o)
		f.ok(err)
		if got.Values["matric"] != "M-2" || !got.UpdatedAt.Equal(second.UpdatedAt) {
			t.Errorf("draft = %+v, want the second one", got)
		}
		_, err = save(first.Texts(), "M-2") // a second click
		f.ok(err)
	})
}
