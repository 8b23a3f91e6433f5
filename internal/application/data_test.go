package application_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

func TestOpenApplicationsAreLimited(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		who := f.applicant("Chi Eze")
		first := f.offer("course-0")
		a := f.submit(first, who)
		_, err := f.Applications.Submit(t.Context(), f.submission(first, who))
		wantCode(t, "a second application", err, cert.FieldEmail, application.CodeOpen)
		if p := cert.ProblemsOf(err); p[0].Detail != a.UUID {
			t.Errorf("Detail of the problem = %q, want %s", p[0].Detail, a.UUID)
		}
		for i := range 4 {
			f.submit(f.offer("course-"+string(rune('1'+i))), who)
		}
		last := f.offer("course-5")
		_, err = f.Applications.Submit(t.Context(), f.submission(last, who))
		wantCode(t, "a sixth application", err, cert.FieldEmail, application.CodeTooManyOpen)
		api := f.submission(last, who)
		api.Applicant, api.Creator, api.Email = nil, cert.Actor{Type: "token", ID: 7, Name: "Portal"}, "CHI.EZE@example.org"
		_, err = f.Applications.Submit(t.Context(), api)
		wantCode(t, "a sixth application by the API", err, cert.FieldEmail, application.CodeTooManyOpen)
		if n := f.count(`SELECT count(*) FROM applications`); n != 5 {
			t.Errorf("%d applications, want 5", n)
		}
		_, err = f.Applications.WithdrawOwn(t.Context(), who.UserID, a.UUID)
		f.ok(err)
		// An application through the API belongs to the person who has verified the address.
		b, err := f.Applications.Submit(t.Context(), api)
		f.ok(err)
		if b.ApplicantID != who.UserID {
			t.Errorf("applicant = %d, want %d", b.ApplicantID, who.UserID)
		}
	})
}

// The files of the drafts for an institution have a quota. The files of submitted applications do not count.
func TestQuotaOfDrafts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t), func(d *vault.Deps) { d.StagedQuota = 1 })
	o, chi, dee := f.offer("course"), f.applicant("Chi Eze"), f.applicant("Dee Eze")
	add := func(who application.Applicant) error {
		_, err := f.Applications.AddDraftFile(t.Context(), who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		return err
	}
	f.ok(add(chi))
	if err := add(dee); !errors.Is(err, application.ErrFull) {
		t.Errorf("a file above the quota: error = %v, want ErrFull", err)
	}
	_, err := f.Applications.SaveDraft(t.Context(), chi, o, "", "Chi Eze", map[string]string{"matric": "M-1"})
	f.ok(err)
	_, err = f.submitDraft(chi, o)
	f.ok(err)
	f.ok(add(dee))
}

// The address of an application cannot be corrected until the application is approved.
func TestAddressOfAnApplication(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course")
	a := f.submit(o, f.applicant("Chi Eze"))
	_, err := f.Recipients.CorrectEmail(t.Context(), f.inst.ID, a.UUID, "other@example.org", nil)
	wantFault(t, "CorrectEmail", err, fault.BadRequest)
	a, err = f.approve(f.by(f.ada), a.UUID)
	f.ok(err)
	_, err = f.Recipients.CorrectEmail(t.Context(), f.inst.ID, a.UUID, "other@example.org", nil)
	f.ok(err)
}

func TestOnlyVerifiedPeopleApply(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o, who := f.offer("course"), f.applicant("Chi Eze")
	f.Exec(`UPDATE users SET confirmed_at = NULL WHERE id = $1`, who.UserID)
	_, err := f.Applications.Submit(t.Context(), f.submission(o, who))
	wantFault(t, "Submit", err, fault.Forbidden)
	_, err = f.Applications.SaveDraft(t.Context(), who, o, "", "Chi", nil)
	wantFault(t, "SaveDraft", err, fault.Forbidden)
	_, err = f.Applications.AddDraftFile(t.Context(), who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
	wantFault(t, "AddDraftFile", err, fault.Forbidden)
	other := f.applicant("Eve Low")
	other.Email = "chi.eze@example.org"
	_, err = f.Applications.Submit(t.Context(), f.submission(o, other))
	wantFault(t, "Submit with another address", err, fault.Forbidden)
	if n := f.count(`SELECT (SELECT count(*) FROM applications) + (SELECT count(*) FROM application_drafts) + (SELECT count(*) FROM certificates)`); n != 0 {
		t.Errorf("%d rows are stored, want none", n)
	}
}

func TestNetworksAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o, who := f.offer("course"), f.applicant("Chi Eze")
	f.submit(o, who)
	ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, Address: netip.MustParseAddr("203.0.113.7")})
	var err error
	for range 121 {
		_, err = f.Applications.Submit(ctx, f.submission(o, who))
	}
	wantFault(t, "the 121st request of a minute", err, fault.TooMany)
	f.Advance(time.Minute)
	_, err = f.Applications.Submit(ctx, f.submission(o, who))
	wantFault(t, "a request after a minute", err, fault.Invalid)
}

func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course", func(in *application.OfferInput) {
		in.Fields = []application.Field{
			{Key: "line", Label: "Line", Type: application.Line, Required: true},
			{Key: "area", Label: "Area", Type: application.Area},
			{Key: "day", Label: "Day", Type: application.Date},
			{Key: "points", Label: "Points", Type: application.Number},
			{Key: "group", Label: "Group", Type: application.Choice, Choices: []string{"A", "B"}},
			{Key: "agree", Label: "Agree", Type: application.Check, Required: true},
			{Key: "proof", Label: "Proof", Type: application.Upload, Required: true},
		}
		in.MaxFiles = 1
	})
	in := f.submission(o, f.applicant("Chi Eze"))
	in.Values = map[string]string{
		"line": strings.Repeat("x", 256), "area": "a\x00b", "day": "30.06.2026", "points": "many", "group": "C", "agree": "perhaps", "secret": "x", "proof": "x",
	}
	in.FullName = ""
	in.Files = map[string][]*cert.File{"other": {{}, {}}}
	_, err := f.Applications.Submit(t.Context(), in)
	for field, code := range map[cert.Field]cert.Code{
		cert.FieldName: cert.CodeRequired, "fields.line": cert.CodeTooLong, "fields.area": cert.CodeNotText, "fields.day": cert.CodeNotDate,
		"fields.points": application.CodeNumber, "fields.group": application.CodeChoice, "fields.agree": application.CodeCheck,
		"fields.secret": application.CodeField, "fields.proof": application.CodeField,
		"files.other": application.CodeField, "files.proof": cert.CodeRequired, "files": application.CodeFiles,
	} {
		wantCode(t, "wrong input", err, field, code)
	}
	in.FullName, in.Values = "Chi Eze", map[string]string{"line": "  one  two ", "points": "3,5", "group": "B", "agree": "on", "day": "2026-06-30"}
	f.ok(f.Applications.Receive(t.Context(), f.inst.UUID, cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)), func(file *cert.File) error {
		in.Files = map[string][]*cert.File{"proof": {file}}
		a, err := f.Applications.Submit(t.Context(), in)
		if err == nil && (a.Values["line"] != "one two" || a.Values["points"] != "3.5" || a.Values["agree"] != application.Yes || len(a.Files) != 1) {
			t.Errorf("values = %v, files = %v, want the stored form of the answers and one file", a.Values, a.Files)
		}
		return err
	}))
	_, err = f.Applications.SetOfferStatus(t.Context(), f.inst.ID, o.UUID, application.Closed)
	f.ok(err)
	_, err = f.Applications.Submit(t.Context(), f.submission(o, f.applicant("Dee Eze")))
	wantFault(t, "Submit to a closed offer", err, fault.NotFound)
}

func TestOffersAreChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course")
	in := application.OfferInput{
		Slug: "Not a slug", HoldDays: -1, RetentionDays: 4000, MaxFiles: 11, RegisterNumber: "none", HoldTexts: map[application.HoldKind]string{"x": "y"},
		Fields: []application.Field{
			{Key: "A", Label: "", Type: "list"}, {Key: "b", Label: "B", Type: application.Choice, Choices: []string{"one"}}, {Key: "b", Label: "B", Type: application.Line},
		},
	}
	_, err := f.Applications.CreateOffer(t.Context(), f.inst, in)
	for field, code := range map[cert.Field]cert.Code{
		"slug": application.CodeSlug, "name": cert.CodeRequired, "hold_days": application.CodeRange, "retention_days": application.CodeRange,
		"max_files": application.CodeRange, "register_number": application.CodeField, "hold_texts": application.CodeHoldKind,
		"fields.0.key": application.CodeKey, "fields.0.label": cert.CodeRequired, "fields.0.type": application.CodeType,
		"fields.1.choices": application.CodeChoices, "fields.2.key": application.CodeSameKey,
	} {
		wantCode(t, "wrong offer", err, field, code)
	}
	_, err = f.Applications.CreateOffer(t.Context(), f.inst, input("course"))
	wantCode(t, "a slug in use", err, "slug", application.CodeTaken)
	second, err := f.Applications.CreateOffer(t.Context(), f.inst, input("second"))
	f.ok(err)
	_, err = f.Applications.ChangeOffer(t.Context(), f.inst.ID, second.UUID, second.Revision, input("course"))
	wantCode(t, "a change to a slug in use", err, "slug", application.CodeTaken)
	_, err = f.Applications.ChangeOffer(t.Context(), f.inst.ID, o.UUID, o.Revision-1, input("course"))
	wantFault(t, "a change of an old revision", err, fault.Conflict)
	a := f.submit(o, f.applicant("Chi Eze"))
	changed := input("course")
	changed.Fields, changed.Name = nil, "Course"
	if o, err = f.Applications.ChangeOffer(t.Context(), f.inst.ID, o.UUID, o.Revision, changed); err != nil || o.Name != "Course" || len(o.Fields) != 0 {
		t.Errorf("changed offer = %+v, err = %v, want the name Course and no fields", o, err)
	}
	if got := f.get(a.UUID); len(got.Fields) != 3 || got.Values["matric"] != "M-1001" {
		t.Errorf("fields = %v, values = %v, want those of the submission", got.Fields, got.Values)
	}
	wantFault(t, "deletion of an offer with applications", f.Applications.DeleteOffer(t.Context(), f.inst.ID, o.UUID), fault.Conflict)
	f.ok(f.Applications.DeleteOffer(t.Context(), f.inst.ID, second.UUID))
	offers, err := f.Applications.Offers(t.Context(), f.inst.ID, "")
	f.ok(err)
	if len(offers) != 1 {
		t.Errorf("%d offers, want 1", len(offers))
	}
}

func TestDraft(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o, who := f.offer("course"), f.applicant("Chi Eze")
		ctx := t.Context()
		draft, err := f.Applications.SaveDraft(ctx, who, o, "", "", map[string]string{"birth": "30 June", "unknown": "x"})
		f.ok(err)
		if draft.Values["birth"] != "30 June" || len(draft.Values) != 1 {
			t.Errorf("values = %v, want only birth", draft.Values)
		}
		err = f.Applications.CheckDraft(ctx, who, o)
		wantCode(t, "an incomplete draft", err, "fields.matric", cert.CodeRequired)
		wantCode(t, "an incomplete draft", err, "fields.birth", cert.CodeNotDate)
		wantCode(t, "an incomplete draft", err, cert.FieldName, cert.CodeRequired)
		_, err = f.submitDraft(who, o)
		wantCode(t, "submission of an incomplete draft", err, "fields.matric", cert.CodeRequired)
		_, err = f.Applications.AddDraftFile(ctx, who, o, "proof", cert.NewIncoming("proof.exe", strings.NewReader("MZ")))
		wantCode(t, "a program", err, "files.proof", cert.CodeRefusedFile)
		_, err = f.Applications.AddDraftFile(ctx, who, o, "matric", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		wantFault(t, "a file for a text", err, fault.Invalid)
		var files []*application.File
		for range 3 {
			file, err := f.Applications.AddDraftFile(ctx, who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
			f.ok(err)
			files = append(files, file)
		}
		_, err = f.Applications.AddDraftFile(ctx, who, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		wantCode(t, "a fourth file", err, "files.proof", application.CodeFiles)
		if n := f.blobs(); n != 3 {
			t.Errorf("%d files are stored, want 3", n)
		}
		f.ok(f.Applications.RemoveDraftFile(ctx, who, o, files[0].ID))
		if n := f.blobs(); n != 2 {
			t.Errorf("%d files are stored after a removal, want 2", n)
		}
		_, err = f.Applications.SaveDraft(ctx, who, o, "", "Chi Eze", map[string]string{"matric": "M-1"})
		f.ok(err)
		list, err := f.Applications.Drafts(ctx, who.UserID)
		f.ok(err)
		if len(list) != 1 || len(list[0].Files) != 2 || list[0].Offer.UUID != o.UUID {
			t.Errorf("drafts = %+v, want one with two files", list)
		}
		content, _, err := f.Applications.OpenOwnFile(ctx, who.UserID, draft.UUID, files[1].ID)
		f.ok(err)
		f.ok(content.Close())
		f.ok(f.Applications.CheckDraft(ctx, who, o))
		a, err := f.submitDraft(who, o)
		f.ok(err)
		if len(a.Files) != 2 || a.Values["matric"] != "M-1" {
			t.Errorf("application = %+v, want the two files and the answer of the draft", a)
		}
		content, file, err := f.Applications.OpenFile(ctx, f.inst.ID, a.UUID, a.Files[0].ID)
		f.ok(err)
		data, err := io.ReadAll(content)
		f.ok(err)
		f.ok(content.Close())
		if !bytes.Equal(data, vaulttest.PDF) || file.Name != "proof.pdf" || file.Type != "application/pdf" {
			t.Errorf("file = %+v of %d bytes, want proof.pdf of %d bytes", file, len(data), len(vaulttest.PDF))
		}
		_, err = f.submitDraft(who, o)
		wantFault(t, "a second submission", err, fault.NotFound)
		f.SweepFiles()
		f.Advance(vaulttest.Keep + time.Hour)
		f.SweepFiles()
		if n := f.blobs(); n != 2 {
			t.Errorf("%d files are stored after the sweep, want 2", n)
		}
		// A draft is deleted 30 days after its last change.
		dee := f.applicant("Dee Eze")
		_, err = f.Applications.AddDraftFile(ctx, dee, o, "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		f.ok(err)
		f.Advance(31 * 24 * time.Hour)
		f.ok(f.Applications.Sweep(ctx))
		if draft, err = f.Applications.DraftOf(ctx, dee, o); err != nil || draft != nil || f.blobs() != 2 {
			t.Errorf("old draft = %+v, err = %v, %d files, want no draft and 2 files", draft, err, f.blobs())
		}
	})
}

// blobs returns the number of stored attachments.
func (f *fixture) blobs() (n int) {
	f.TB.Helper()
	f.ok(f.Blobs.Walk(f.TB.Context(), "", func(i blob.Info) error {
		if strings.HasSuffix(i.Key, ".attachment") {
			n++
		}
		return nil
	}))
	return n
}

func TestRegister(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("course", func(in *application.OfferInput) { in.RegisterNumber, in.RegisterBirth = "matric", "birth" })
		unknown := f.submit(o, f.applicant("Zoe Nil"))
		if unknown.Advice != application.NoRegister {
			t.Errorf("advice without a register = %q, want none", unknown.Advice)
		}
		rows := []application.RegisterRow{{Number: "m 1001", Name: "Müller,  JOSÉ", Birth: "30/06/2001"}, {Number: "00M1002", Name: "Ann Low"}}
		f.ok(f.Applications.SetRegister(t.Context(), f.inst.ID, o.UUID, rows))
		if a := f.get(unknown.UUID); a.Advice != application.Differs {
			t.Errorf("advice after the upload = %q, want differs", a.Advice)
		}
		for i, tc := range []struct {
			name, number, birth string
			want                application.Advice
		}{
			{"José Müller", "M-1001", "2001-06-30", application.Matches},
			{"jose muller", "m1001", "", application.Matches},
			{"José Müller", "M-1001", "2001-06-29", application.Differs},
			{"Josef Müller", "M-1001", "2001-06-30", application.Differs},
			{"Ann Low", "M-10020", "1999-01-01", application.Unknown},
			{"Ann Low", "M1002", "1999-01-01", application.Matches},
			{"José Müller", "M-1003", "2001-06-30", application.Unknown},
		} {
			who := f.applicant("Person " + string(rune('A'+i)))
			in := f.submission(o, who)
			in.FullName, in.Values = tc.name, map[string]string{"matric": tc.number, "birth": tc.birth}
			a, err := f.Applications.Submit(t.Context(), in)
			f.ok(err)
			if a.Advice != tc.want {
				t.Errorf("%s, %s, %s: advice = %q, want %q", tc.name, tc.number, tc.birth, a.Advice, tc.want)
			}
			own, err := f.Applications.ByApplicant(t.Context(), who.UserID, a.UUID)
			f.ok(err)
			if own.Advice != "" {
				t.Errorf("the applicant sees the advice %q, want none", own.Advice)
			}
		}
		rowsOf, err := f.DB.QueryContext(t.Context(), `SELECT number, name, birth FROM offer_registers`)
		f.ok(err)
		if text := dump(t, rowsOf); strings.Contains(strings.ToLower(text), "ann low") || strings.Contains(strings.ToLower(text), "m1001") {
			t.Errorf("the register = %s, want only digests", text)
		}
		err = f.Applications.SetRegister(t.Context(), f.inst.ID, o.UUID, []application.RegisterRow{{Number: "1"}, {Birth: "2001-06-30"}})
		wantCode(t, "an empty row", err, "register", application.CodeRow)
		f.ok(f.Applications.SetRegister(t.Context(), f.inst.ID, o.UUID, nil))
		if a := f.get(unknown.UUID); a.Advice != application.NoRegister {
			t.Errorf("advice after the removal = %q, want none", a.Advice)
		}
	})
}

func TestTemplateOffer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, vaulttest.DrawTemplates)
		tmpl := f.Template(f.inst, "Diploma", "guild")
		o := f.offer("course", func(in *application.OfferInput) { in.TemplateID = tmpl.UUID })
		in := f.submission(o, f.applicant("Chi Eze"))
		in.FullName = "\U00013000"
		_, err := f.Applications.Submit(t.Context(), in)
		wantCode(t, "a name with a character that no font has", err, cert.FieldName, "missing_characters")
		a := f.submit(o, f.applicant("Dee Eze"))
		_, err = f.Applications.Approve(t.Context(), f.by(f.ada), a.UUID, application.Approval{Title: strings.Repeat("Very long title ", 15)})
		wantFault(t, "a title that does not fit", err, fault.Invalid)
		a, err = f.Applications.Approve(t.Context(), f.by(f.ada), a.UUID, application.Approval{IssueDate: "2026-06-30"})
		f.ok(err)
		f.Settle()
		if a = f.get(a.UUID); a.Status != cert.Approved || a.Title == "" {
			t.Errorf("status = %s (%v), title = %q, want approved and a title", a.Status, a.Failure, a.Title)
		}
		f.ok(f.Templates.Archive(t.Context(), f.inst, tmpl.UUID))
		_, err = f.Applications.SetOfferStatus(t.Context(), f.inst.ID, f.offer("other").UUID, application.Closed)
		f.ok(err)
		b := f.submit(o, f.applicant("Fay Eze"))
		_, err = f.Applications.Approve(t.Context(), f.by(f.ada), b.UUID, application.Approval{})
		wantFault(t, "approval with an archived template", err, fault.Invalid)
		if got := f.get(b.UUID).Status; got != cert.Pending {
			t.Errorf("status = %s after the failed approval, want pending", got)
		}
	})
}

// An institution may submit applications for an address that no one has verified. When a person verifies
// the address, the applications are assigned to this person.
func TestApplicationsOfAVerifiedAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course")
	a, err := f.Applications.Submit(t.Context(), application.Submission{
		Institution: f.inst, Offer: o, Creator: cert.Actor{Type: "token", ID: 7, Name: "Portal"}, FullName: "Chi Eze", Email: "Chi.Eze@example.org",
		Values: map[string]string{"matric": "1"},
	})
	f.ok(err)
	who := f.applicant("Chi Eze")
	f.Tx(func(tx *db.Tx) error {
		return f.Applications.AssignTx(t.Context(), tx, who.UserID, "chi.eze@example.org")
	})
	list, err := f.Applications.OfApplicant(t.Context(), who.UserID)
	f.ok(err)
	if len(list) != 1 || list[0].UUID != a.UUID {
		t.Errorf("applications = %v, want only %s", list, a.UUID)
	}
	if m := f.mails(1)[0]; !strings.Contains(m.Text, "Northern & Western University") || m.To.Email != "Chi.Eze@example.org" {
		t.Errorf("mail = %s to %s, want the name of the institution and the submitted address", m.Text, m.To.Email)
	}
}

// Each mail to applicants can be written in each language, and does not contain the note.
func TestMailsInAllLanguages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o, who := f.offer("course"), f.applicant("Chi Eze")
	for _, l := range f.Languages.Languages() {
		f.Tx(func(tx *db.Tx) error { return account.SetUserLanguageTx(t.Context(), tx, who.UserID, l.Tag) })
		a := f.submit(o, who)
		for _, kind := range application.HoldKinds {
			_, err := f.Applications.Hold(t.Context(), f.by(f.ada), a.UUID, kind, "Question one?\nQuestion two?")
			f.ok(err)
		}
		_, err := f.Applications.Reject(t.Context(), f.by(f.ada), a.UUID, "The reason.", "The note.")
		f.ok(err)
	}
	for _, m := range f.mails(5 * len(f.Languages.Languages())) {
		if strings.Contains(m.Text, "{") || strings.Contains(m.Text, "The note.") || !strings.Contains(m.Text, "/account/applications/") {
			t.Errorf("mail %q = %s, want no placeholder, no note and a link to the application", m.Subject, m.Text)
		}
	}
}
