package application_test

import (
	"archive/zip"
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/webhook"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		o := f.offer("course")
		open, rejected, approved := f.submitFile(o, f.applicant("Ann")), f.submitFile(o, f.applicant("Bea")), f.submitFile(o, f.applicant("Cid"))
		_, err := f.Applications.Reject(t.Context(), f.by(f.ada), rejected.UUID, "No.", "")
		f.ok(err)
		_, err = f.approve(f.by(f.ada), approved.UUID)
		f.ok(err)
		f.Settle()
		f.Advance(89 * 24 * time.Hour)
		f.ok(f.Applications.Sweep(t.Context()))
		if n := f.blobs(); n != 3 {
			t.Errorf("%d attachments before the end of the retention, want 3", n)
		}
		f.Advance(2 * 24 * time.Hour)
		f.ok(f.Applications.Sweep(t.Context()))
		if n := f.blobs(); n != 1 {
			t.Errorf("%d attachments after the retention, want 1, that of the open application", n)
		}
		if a := f.get(open.UUID); a.FilesDeleted || a.Files[0].Deleted {
			t.Error("the attachment of the open application was deleted")
		}
		a := f.get(approved.UUID)
		if !a.FilesDeleted || len(a.Files) != 1 || !a.Files[0].Deleted || a.Status != cert.Approved {
			t.Errorf("approved application = %+v, want it approved with its attachment deleted", a)
		}
		_, _, err = f.Applications.OpenFile(t.Context(), f.inst.ID, a.UUID, a.Files[0].ID)
		wantFault(t, "a deleted attachment", err, fault.NotFound)
		_, err = f.Applications.ByUUID(t.Context(), f.inst.ID, rejected.UUID)
		wantFault(t, "the rejected application", err, fault.NotFound)
		if n := f.count(`SELECT count(*) FROM applications WHERE status = 'rejected' AND certificate_id IS NULL AND email_folded = '' AND field_values = '{}' AND reason IS NULL`); n != 1 {
			t.Errorf("%d rows remain for the counts, want 1", n)
		}
		if n := f.count(`SELECT count(*) FROM certificates`); n != 2 {
			t.Errorf("%d records, want 2", n)
		}
	})
}

// An application that cannot be deleted does not stop the deletion of others.
func TestSweepContinuesAfterAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, dbtest.SQLite(t))
	o := f.offer("course")
	for _, name := range []string{"Ann", "Bea"} {
		_, err := f.Applications.Reject(t.Context(), f.by(f.ada), f.submitFile(o, f.applicant(name)).UUID, "No.", "")
		f.ok(err)
	}
	f.Exec(`CREATE TRIGGER failing BEFORE DELETE ON application_files WHEN old.application_id = (SELECT min(id) FROM applications) BEGIN SELECT RAISE(ABORT, 'failing'); END`)
	f.Advance(91 * 24 * time.Hour)
	if err := f.Applications.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "failing") {
		t.Errorf("error = %v, want that of the application that cannot be deleted", err)
	}
	if n := f.blobs(); n != 1 {
		t.Errorf("%d attachments, want 1, that of the application that cannot be deleted", n)
	}
}

// After the data of a person is erased, only the counts, the issued certificates and the undelivered
// events of the person's applications remain. The events have no personal data.
func TestErasure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		who, other := f.applicant("Chi Eze"), f.applicant("Dee Low")
		var offers []*application.Offer
		for _, slug := range []string{"one", "two", "three", "four"} {
			offers = append(offers, f.offer(slug))
		}
		_, _, err := f.Hooks.Create(t.Context(), f.inst.ID, "https://receiver.example/hooks", nil)
		f.ok(err)
		open, rejected, approved := f.submitFile(offers[0], who), f.submitFile(offers[1], who), f.submitFile(offers[2], who)
		f.submitFile(offers[0], other)
		_, err = f.Applications.AddDraftFile(t.Context(), who, offers[3], "proof", cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)))
		f.ok(err)
		_, err = f.Applications.Hold(t.Context(), f.by(f.ada), open.UUID, application.Information, "Question to Chi Eze?")
		f.ok(err)
		_, err = f.Applications.Reject(t.Context(), f.by(f.ada), rejected.UUID, "Chi Eze did not attend.", "A note about Chi Eze")
		f.ok(err)
		_, err = f.approve(f.by(f.bob), approved.UUID)
		f.ok(err)
		f.Settle()
		f.export(who, open, rejected, approved)

		// Mark all events as delivered, except the last event of the rejected application.
		f.Exec(`UPDATE webhook_deliveries SET status = 'delivered' WHERE event_id <> (SELECT max(id) FROM webhook_events WHERE certificate_id = $1)`, rejected.ID)

		f.ok(f.People.Delete(t.Context(), who.UserID))
		f.checkErasedEvents(t, open, rejected)
		for _, a := range []*application.Application{open, rejected, approved} {
			_, err := f.Applications.ByUUID(t.Context(), f.inst.ID, a.UUID)
			wantFault(t, "an application of the erased person", err, fault.NotFound)
		}
		if n := f.blobs(); n != 1 {
			t.Errorf("%d attachments remain, want 1, that of the other person", n)
		}
		for table, query := range map[string]string{
			"applications": `SELECT uuid, user_id, email_folded, name_folded, fields, field_values, hold_text, answer, claimed_by_name, decided_by_name, reason, note
				FROM applications WHERE status <> 'pending'`,
			"application_files":  `SELECT uuid, name, file_key, application_id, draft_id FROM application_files`,
			"application_events": `SELECT by_name, text FROM application_events`,
			"application_drafts": `SELECT uuid, full_name, field_values FROM application_drafts`,
		} {
			rows, err := f.DB.QueryContext(t.Context(), query)
			f.ok(err)
			if text := dump(t, rows); strings.Contains(strings.ToLower(text), "eze") || strings.Contains(text, approved.UUID) {
				t.Errorf("table %s = %s, want no personal data", table, text)
			}
		}
		for status, want := range map[string]int{"withdrawn": 1, "rejected": 1, "accepted": 1, "pending": 1} {
			if n := f.count(`SELECT count(*) FROM applications WHERE status = $1`, status); n != want {
				t.Errorf("%d applications are counted as %s, want %d", n, status, want)
			}
		}
		// The issued certificate belongs to the institution.
		if c, err := f.Certs.ByUUID(t.Context(), f.inst.ID, approved.UUID); err != nil || c.Status != cert.Approved {
			t.Errorf("the issued certificate = %v, err = %v, want it to remain approved", c, err)
		}
		if n := f.count(`SELECT count(*) FROM certificates`); n != 2 {
			t.Errorf("%d records, want 2, the certificate and the application of the other person", n)
		}
	})
}

// checkErasedEvents checks that only the undelivered events of a withdrawn and of a rejected application
// remain, without personal data. They must not be marked as test events.
func (f *fixture) checkErasedEvents(t *testing.T, withdrawn, rejected *application.Application) {
	t.Helper()
	rows, err := f.DB.QueryContext(t.Context(), `SELECT e.name, e.payload, d.body, d.status FROM webhook_events e JOIN webhook_deliveries d ON d.event_id = e.id
		WHERE e.certificate_id IS NULL ORDER BY e.id`)
	f.ok(err)
	var got []string
	_, err = db.Collect(rows, func(rows *sql.Rows) (struct{}, error) {
		var name, status string
		var payload, body []byte
		if err := rows.Scan(&name, &payload, &body, &status); err != nil {
			return struct{}{}, err
		}
		var p struct {
			UUID   string `json:"uuid"`
			Status string `json:"status"`
		}
		for _, text := range [][]byte{payload, body} {
			f.ok(json.Unmarshal(text, &p))
			if strings.Contains(strings.ToLower(string(text)), "eze") || strings.Contains(string(text), "example.org") {
				t.Errorf("event of the erased person = %s, want no personal data", text)
			}
		}
		got = append(got, name+" "+p.Status+" "+p.UUID+" "+status)
		return struct{}{}, nil
	})
	f.ok(err)
	want := []string{
		"certificate_application.rejected rejected " + rejected.UUID + " pending", "certificate_application.updated withdrawn " + withdrawn.UUID + " pending",
	}
	if !slices.Equal(got, want) {
		t.Errorf("events = %q, want %q", got, want)
	}
	list, err := f.Hooks.Log(t.Context(), f.inst.ID, "", webhook.LogQuery{Status: webhook.DeliveryPending, Limit: 50})
	f.ok(err)
	for _, d := range list {
		if d.Test {
			t.Errorf("the delivery of %s has Test = true, want false", d.Event)
		}
	}
}

// export checks the applications in the export of a person's data.
func (f *fixture) export(who application.Applicant, want ...*application.Application) {
	f.TB.Helper()
	e, err := f.Recipients.Export(f.TB.Context(), who.UserID)
	f.ok(err)
	var b bytes.Buffer
	f.ok(e.Write(f.TB.Context(), &b))
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	f.ok(err)
	file, err := z.Open("export.json")
	f.ok(err)
	text, err := io.ReadAll(file)
	f.ok(err)
	var got struct {
		Applications []struct {
			UUID, Status string
			Answers      []struct{ Question, Answer string }
			Files        []struct{ File string }
		}
	}
	f.ok(json.Unmarshal(text, &got))
	if len(got.Applications) != len(want) {
		f.TB.Fatalf("the export has %d applications, want %d", len(got.Applications), len(want))
	}
	for _, a := range got.Applications {
		if !slices.ContainsFunc(want, func(w *application.Application) bool { return w.UUID == a.UUID }) || len(a.Files) != 1 || a.Answers[0].Answer != "M-1001" {
			f.TB.Errorf("exported application = %+v, want one of the person, with an answer and a file", a)
			continue
		}
		if x, err := z.Open(a.Files[0].File); err != nil {
			f.TB.Errorf("opening the attachment %q: %v", a.Files[0].File, err)
		} else {
			f.ok(x.Close())
		}
	}
	if strings.Contains(string(text), "A note about") || strings.Contains(string(text), "Member ") {
		f.TB.Errorf("export = %s, want no notes and no names of reviewers", text)
	}
}

// dump returns all values of rows as text.
func dump(t *testing.T, rows *sql.Rows) string {
	t.Helper()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if _, err := db.Collect(rows, func(rows *sql.Rows) (struct{}, error) {
		values := make([]any, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		err := rows.Scan(dest...)
		for i, v := range values {
			if raw, ok := v.([]byte); ok {
				v = string(raw)
			}
			fmt.Fprintf(&b, "%s=%v ", columns[i], v)
		}
		b.WriteByte('\n')
		return struct{}{}, err
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
