package approval_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/pdf/pdftest"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vaulttest"
)

// fixture is an institution with two signatories and a template that names them.
type fixture struct {
	*vaulttest.Vault

	inst      *account.Institution
	dean, rec *account.Member
	tmpl      *template.Template
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func textField(id string, kind design.Kind, text string, y float64) design.Field {
	return design.Field{ID: id, Kind: kind, Page: 1, Box: design.Box{60, y, 400, 40}, Text: text, Font: design.Font{Family: "Inter"}, Size: 20, MinSize: 6}
}

func newFixture(t testing.TB, d *db.DB, inOrder bool) *fixture {
	t.Helper()
	f := &fixture{Vault: vaulttest.New(t, d, vaulttest.DrawTemplates)}
	f.inst = f.Institution("NWU", "Northern & Western University")
	f.dean, f.rec = f.member(t, "Ada Obi", account.Signatory), f.member(t, "Bo Li", account.Admin)
	created, err := f.Templates.Create(t.Context(), template.NewTemplate{Institution: f.inst, Name: "Diploma", Design: bytes.NewReader(pdftest.Page("a design"))})
	ok(t, err)
	f.tmpl, err = f.Templates.Save(t.Context(), f.inst, created.UUID, template.Draft{Revision: created.Draft.Revision, Layout: design.Layout{
		Language: "en", Title: "BSc Physics", Fields: []design.Field{
			textField("name", design.Name, "{name}", 200), textField("who", design.Text, "{signatory:1}, {designation:1}; {signatory:2}", 300),
			{ID: "first", Kind: design.Signature, Page: 1, Box: design.Box{60, 400, 150, 50}, Text: "{signatory:1}"},
			{ID: "qr", Kind: design.QR, Page: 1, Box: design.Box{440, 700, 80, 80}},
		},
	}})
	ok(t, err)
	if _, err := f.Templates.Publish(t.Context(), f.inst, f.tmpl.UUID, f.tmpl.Draft.Revision); !fault.Is(err, fault.Invalid) {
		t.Fatalf("publishing fields of signatories that the template does not name: err = %v, want Invalid", err)
	}
	f.tmpl, err = f.Templates.SetSignatories(t.Context(), f.inst, f.tmpl.UUID, template.Naming{
		Revision: f.tmpl.Draft.Revision, InOrder: inOrder,
		Signatories: []template.NamedSignatory{{UUID: f.dean.UUID, Designation: " Dean "}, {UUID: f.rec.UUID, Designation: "Rector"}},
	})
	ok(t, err)
	f.tmpl, err = f.Templates.Publish(t.Context(), f.inst, f.tmpl.UUID, f.tmpl.Draft.Revision)
	ok(t, err)
	return f
}

func (f *fixture) member(t testing.TB, name string, role account.Role) *account.Member {
	t.Helper()
	m, err := f.Accounts.AddMember(t.Context(), f.inst.ID, account.NewMember{Name: name, Email: strings.ReplaceAll(strings.ToLower(name), " ", ".") + "@example.org", Role: role})
	ok(t, err)
	return m
}

// issue issues a batch and waits until all its certificates wait for signatories. It returns the batch and
// its certificates.
func (f *fixture) issue(t testing.TB, names ...string) (*batch.Batch, []*cert.Certificate) {
	t.Helper()
	var entries []template.Entry
	batches := f.one(t, `SELECT count(*) FROM batches`)
	for i, name := range names {
		entries = append(entries, template.Entry{FullName: name, Email: fmt.Sprintf("p%d.%d@example.org", batches, i)})
	}
	b, err := f.Templates.Issue(t.Context(), f.tmpl.UUID, template.Issue{Institution: f.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Entries: entries})
	ok(t, err)
	f.Until("all certificates of the batch wait", func() bool {
		got, err := f.Batches.ByUUID(t.Context(), f.inst.ID, b.UUID, "")
		ok(t, err)
		return got.Pending == len(names)
	})
	return b, f.certificates(t, b)
}

func (f *fixture) certificates(t testing.TB, b *batch.Batch) (list []*cert.Certificate) {
	t.Helper()
	entries, err := f.Batches.AllEntries(t.Context(), b)
	ok(t, err)
	for _, e := range entries {
		c, err := f.Certs.ByUUID(t.Context(), f.inst.ID, e.UUID)
		ok(t, err)
		list = append(list, c)
	}
	return list
}

func (f *fixture) get(t testing.TB, uuid string) (*cert.Certificate, []*cert.Signature) {
	t.Helper()
	c, err := f.Certs.ByUUID(t.Context(), f.inst.ID, uuid)
	ok(t, err)
	found, err := f.Certs.Signatures(t.Context(), f.inst.ID, c.ID)
	ok(t, err)
	return c, found[c.ID]
}

// one returns the result of a query for one number.
func (f *fixture) one(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	ok(t, f.DB.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

// scribble returns a picture of a signature on light grey paper, as PNG.
func scribble(t testing.TB) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 800, 300))
	for i := range img.Pix {
		img.Pix[i] = 230
	}
	for x := 200; x < 600; x++ {
		for y := 100; y < 110; y++ {
			img.SetGray(x, y+x/10, color.Gray{Y: 20})
		}
	}
	var b bytes.Buffer
	ok(t, png.Encode(&b, img))
	return b.Bytes()
}

// Two signatories approve a batch. Each certificate is processed after the second approval. It keeps the
// names that the signatories had when they approved, and has one event created and one event approved.
func TestTwoSignatoriesApproveABatch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		ctx := t.Context()
		ok(t, f.Templates.SetSignature(ctx, f.inst, f.dean.UserID, bytes.NewReader(scribble(t))))
		b, list := f.issue(t, "Amelia Hart", "Jo Li", "Maximiliana Konstantinopoulou")
		for _, m := range []*account.Member{f.dean, f.rec} {
			groups, err := f.Approvals.Groups(ctx, f.inst.ID, m.UserID)
			if err != nil || len(groups) != 1 || groups[0].Count != 3 || groups[0].BatchID != b.UUID || groups[0].Name != b.Name {
				t.Fatalf("waiting for %s: %+v, %v, want the batch with 3 certificates", m.Name, groups, err)
			}
		}
		review, err := f.Approvals.Review(ctx, f.inst.ID, f.dean.UserID, b.UUID)
		ok(t, err)
		reasons := map[string]int{}
		for _, s := range review.Shown {
			for _, r := range s.Reasons {
				reasons[string(r)+" "+s.FullName]++
			}
		}
		if len(review.Certificates) != 3 || reasons["longest Maximiliana Konstantinopoulou"] != 1 || reasons["shortest Jo Li"] != 1 {
			t.Errorf("the review has %d certificates and the reasons %v, want 3 with the longest and the shortest name", len(review.Certificates), reasons)
		}
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, approval.Choice{BatchID: b.UUID}); err != nil || n != 3 {
			t.Fatalf("the first signatory approved %d, error %v, want 3", n, err)
		}
		c, signatures := f.get(t, list[0].UUID)
		if c.Status != cert.Pending || signatures[0].Status != cert.SignatureApproved || signatures[0].Name != "Ada Obi" || signatures[0].Designation != "Dean" ||
			signatures[0].ApprovedAt == nil || signatures[1].Status != cert.SignaturePending || signatures[1].Name != "Bo Li" || signatures[1].ApprovedAt != nil {
			t.Errorf("after one approval: %s %+v %+v, want pending, approved by Ada Obi and pending for Bo Li", c.Status, signatures[0], signatures[1])
		}
		// A signatory cannot approve twice, and a member who is not a signatory cannot approve.
		admin := f.member(t, "Cy Ito", account.Admin)
		for who, id := range map[string]int64{"the same signatory": f.dean.UserID, "another member": admin.UserID} {
			if _, err := f.Approvals.Approve(ctx, f.inst.ID, id, approval.Choice{BatchID: b.UUID}); !fault.Is(err, fault.Conflict) {
				t.Errorf("approval by %s: err = %v, want Conflict", who, err)
			}
		}
		// A change of the name after the approval does not change the signature.
		f.Exec(`UPDATE users SET name = 'Ada Obi-Roy' WHERE id = $1`, f.dean.UserID)
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.rec.UserID, approval.Choice{UUIDs: []string{list[0].UUID}}); err != nil || n != 1 {
			t.Fatalf("the second signatory approved %d, error %v, want 1", n, err)
		}
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.rec.UserID, approval.Choice{BatchID: b.UUID}); err != nil || n != 2 {
			t.Fatalf("the second signatory approved %d, error %v, want the other 2", n, err)
		}
		// SweepJobs creates lost jobs again.
		f.Exec(`DELETE FROM river_job`)
		f.Advance(time.Hour)
		ok(t, f.Certs.SweepJobs(ctx))
		f.Settle()
		for _, c := range f.certificates(t, b) {
			_, signatures := f.get(t, c.UUID)
			if c.Status != cert.Approved || signatures[0].Name != "Ada Obi" {
				t.Errorf("%s is %s (%+v) with the signature of %s, want approved with Ada Obi", c.FullName, c.Status, c.Failure, signatures[0].Name)
			}
		}
		for _, event := range []string{"created", "approved"} {
			if n := f.one(t, `SELECT count(*) FROM webhook_events WHERE name = $1`, "certificate_application."+event); n != 3 {
				t.Errorf("%d events %s, want 3", n, event)
			}
		}
		if n := f.one(t, `SELECT count(*) FROM audit_entries WHERE action IN ('batch.signed', 'certificate.signed')`); n != 3 {
			t.Errorf("%d entries in the audit log, want 3", n)
		}
		if n := f.one(t, `SELECT count(*) FROM certificate_signatures WHERE asked_at IS NOT NULL`); n != 0 {
			t.Errorf("%d signatories are still asked to approve, want 0", n)
		}
	})
}

// If the signatories approve in order, a signatory is asked only after the previous one has approved.
func TestOrder(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, true)
		ctx := t.Context()
		b, list := f.issue(t, "Amelia Hart", "Jo Li")
		if _, err := f.Approvals.Approve(ctx, f.inst.ID, f.rec.UserID, approval.Choice{BatchID: b.UUID}); !fault.Is(err, fault.Conflict) {
			t.Errorf("approval out of order: err = %v, want Conflict", err)
		}
		_, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, approval.Choice{UUIDs: []string{list[0].UUID}})
		ok(t, err)
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.rec.UserID, approval.Choice{BatchID: b.UUID}); err != nil || n != 1 {
			t.Errorf("the second signatory approved %d, error %v, want the 1 that the first signatory approved", n, err)
		}
	})
}

// A certificate that a signatory declines fails. After a retry, all signatories must approve it again.
func TestDeclineAndRetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, true)
		ctx := t.Context()
		_, list := f.issue(t, "Amelia Hart")
		one := approval.Choice{UUIDs: []string{list[0].UUID}}
		_, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, one)
		ok(t, err)
		if _, err := f.Approvals.Decline(ctx, f.inst.ID, f.rec.UserID, one, " "); !fault.Is(err, fault.Invalid) {
			t.Errorf("a refusal without a reason: err = %v, want Invalid", err)
		}
		if n, err := f.Approvals.Decline(ctx, f.inst.ID, f.rec.UserID, one, " The date is wrong. "); err != nil || n != 1 {
			t.Fatalf("%d certificates are declined, error %v, want 1", n, err)
		}
		c, signatures := f.get(t, list[0].UUID)
		if c.Status != cert.Failed || c.Failure == nil || *c.Failure != (cert.Failure{Code: "declined", Message: "Declined by Bo Li (Rector): The date is wrong."}) ||
			signatures[1].Status != cert.SignatureDeclined {
			t.Fatalf("the certificate is %+v with the signature %+v, want failed and declined", c, signatures[1])
		}
		_, err = f.Certs.Retry(ctx, f.inst.ID, c.UUID, nil)
		ok(t, err)
		c, signatures = f.get(t, c.UUID)
		if c.Status != cert.Pending || c.Failure != nil || !signatures[0].Asked || signatures[0].Status != cert.SignaturePending || signatures[1].Asked {
			t.Fatalf("after the retry: %s %+v %+v, want pending and only the first signatory asked", c.Status, signatures[0], signatures[1])
		}
		for _, m := range []*account.Member{f.dean, f.rec} {
			_, err := f.Approvals.Approve(ctx, f.inst.ID, m.UserID, one)
			ok(t, err)
		}
		f.Settle()
		if c, _ = f.get(t, c.UUID); c.Status != cert.Approved {
			t.Errorf("the certificate is %s, want approved", c.Status)
		}
		if n := f.one(t, `SELECT count(*) FROM webhook_events WHERE name IN ('certificate_application.failed', 'certificate_application.retried')`); n != 2 {
			t.Errorf("%d events of the refusal and the retry, want 2", n)
		}
	})
}

// Declining a batch again is a conflict.
func TestDeclineBatchAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		b, list := f.issue(t, "Amelia Hart", "Jo Li")
		all := approval.Choice{BatchID: b.UUID, Seen: cert.SetDigest([]string{list[1].UUID, list[0].UUID})}
		if n, err := f.Approvals.Decline(t.Context(), f.inst.ID, f.dean.UserID, all, "Wrong date"); err != nil || n != len(list) {
			t.Fatalf("%d certificates are declined, error %v, want %d", n, err, len(list))
		}
		if _, err := f.Approvals.Decline(t.Context(), f.inst.ID, f.dean.UserID, all, "Wrong date"); !fault.Is(err, fault.Conflict) {
			t.Errorf("declining the batch again: err = %v, want Conflict", err)
		}
	})
}

// A certificate that waits for signatories can be revoked. Then it does not wait for them anymore.
func TestRevokeWaiting(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		_, list := f.issue(t, "Amelia Hart")
		_, err := f.Certs.Revoke(t.Context(), f.inst.ID, list[0].UUID, cert.Revocation{Reason: "Issued by mistake"})
		ok(t, err)
		if n, err := f.Certs.CountWaiting(t.Context(), f.inst.ID, f.dean.UserID); err != nil || n != 0 {
			t.Errorf("%d certificates wait, error %v, want 0", n, err)
		}
		if _, err := f.Approvals.Approve(t.Context(), f.inst.ID, f.dean.UserID, approval.Choice{UUIDs: []string{list[0].UUID}}); !fault.Is(err, fault.Conflict) {
			t.Errorf("approval of a revoked certificate: err = %v, want Conflict", err)
		}
	})
}

// The signatures of a declined certificate are deleted with its record after the retention period.
func TestRetentionDeletesSignatures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		_, list := f.issue(t, "Amelia Hart", "Jo Li")
		_, err := f.Approvals.Decline(t.Context(), f.inst.ID, f.dean.UserID, approval.Choice{UUIDs: []string{list[0].UUID}}, "Wrong name")
		ok(t, err)
		ok(t, f.Accounts.SetRetention(t.Context(), f.inst.ID, account.Retention{Failed: 30}))
		f.Advance(31 * 24 * time.Hour)
		ok(t, f.Certs.SweepExpired(t.Context()))
		if n := f.one(t, `SELECT count(*) FROM certificate_signatures`); n != 2 {
			t.Errorf("%d signatures, want the 2 of the other certificate", n)
		}
	})
}

// A signatory who is no longer a member can be replaced. The designation and the former approvals remain.
func TestReplace(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		ctx := t.Context()
		b, list := f.issue(t, "Amelia Hart", "Jo Li")
		_, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, approval.Choice{UUIDs: []string{list[0].UUID}})
		ok(t, err)
		next := f.member(t, "Cy Ito", account.Issuer)
		auditor := f.member(t, "Di Roy", account.Auditor)
		if err := f.Templates.ReplaceSignatory(ctx, f.inst, f.dean.UserID, next.UUID); !fault.Is(err, fault.Conflict) {
			t.Errorf("replacing a signatory who can sign: err = %v, want Conflict", err)
		}
		f.Exec(`DELETE FROM members WHERE user_id = $1`, f.dean.UserID)
		missing, err := f.Templates.MissingSignatories(ctx, f.inst.ID)
		if err != nil || len(missing) != 1 || missing[0] != (template.Missing{UserID: f.dean.UserID, Name: "Ada Obi", Signing: template.Signing{Templates: 1, Waiting: 1}}) {
			t.Errorf("missing signatories: %+v, error %v, want Ada Obi with 1 template and 1 waiting certificate", missing, err)
		}
		if _, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, approval.Choice{BatchID: b.UUID}); !fault.Is(err, fault.Forbidden) {
			t.Errorf("approval by a person who left: err = %v, want Forbidden", err)
		}
		if err := f.Templates.ReplaceSignatory(ctx, f.inst, f.dean.UserID, auditor.UUID); !fault.Is(err, fault.Invalid) {
			t.Errorf("a replacement who may not sign: err = %v, want Invalid", err)
		}
		if err := f.Templates.ReplaceSignatory(ctx, f.inst, f.dean.UserID, f.rec.UUID); !fault.Is(err, fault.Conflict) {
			t.Errorf("a replacement who is the other signatory: err = %v, want Conflict", err)
		}
		other := f.Institution("UTH", "University of the Highlands")
		if err := f.Templates.ReplaceSignatory(ctx, other, f.dean.UserID, next.UUID); !fault.Is(err, fault.Invalid) {
			t.Errorf("a replacement in another institution: err = %v, want Invalid", err)
		}
		ok(t, f.Templates.ReplaceSignatory(ctx, f.inst, f.dean.UserID, next.UUID))
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, next.UserID, approval.Choice{BatchID: b.UUID}); err != nil || n != 1 {
			t.Errorf("the replacement approved %d, error %v, want 1", n, err)
		}
		_, first := f.get(t, list[0].UUID)
		_, second := f.get(t, list[1].UUID)
		if first[0].Name != "Ada Obi" || second[0].Name != "Cy Ito" || second[0].Designation != "Dean" {
			t.Errorf("the signatures are of %q and %q (%s), want Ada Obi and Cy Ito (Dean)", first[0].Name, second[0].Name, second[0].Designation)
		}
		tmpl, err := f.Templates.ByUUID(ctx, f.inst.ID, f.tmpl.UUID)
		if err != nil || tmpl.Published.Signatories[0].Name != "Cy Ito" {
			t.Errorf("the template names %+v, error %v, want Cy Ito first", tmpl.Published.Signatories, err)
		}
		if n := f.one(t, `SELECT count(*) FROM audit_entries WHERE action = 'template.signatory-replaced'`); n != 1 {
			t.Errorf("%d entries in the audit log, want 1", n)
		}
	})
}

// If the values of a certificate change after it was issued, it fails although all signatories approve it.
func TestChangedValuesAreNotProcessed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		b, list := f.issue(t, "Amelia Hart", "Jo Li")
		f.Exec(`UPDATE certificates SET full_name = 'Amelia Heart' WHERE uuid = $1`, list[0].UUID)
		for _, m := range []*account.Member{f.dean, f.rec} {
			_, err := f.Approvals.Approve(t.Context(), f.inst.ID, m.UserID, approval.Choice{BatchID: b.UUID})
			ok(t, err)
		}
		f.Settle()
		changed, _ := f.get(t, list[0].UUID)
		if changed.Status != cert.Failed || changed.Failure.Code != "approval_mismatch" {
			t.Errorf("the changed certificate is %s (%+v), want failed with approval_mismatch", changed.Status, changed.Failure)
		}
		if same, _ := f.get(t, list[1].UUID); same.Status != cert.Approved {
			t.Errorf("the other certificate is %s, want approved", same.Status)
		}
	})
}

// If both signatories approve a batch twice at the same time, each approval is counted once and all
// certificates are processed.
func TestApprovalsAtTheSameTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprintf("Person %d", i))
		}
		b, _ := f.issue(t, names...)
		var mu sync.Mutex
		approved := map[int64]int{}
		var wg sync.WaitGroup
		for _, m := range []*account.Member{f.dean, f.rec, f.dean, f.rec} {
			wg.Go(func() {
				n, err := f.Approvals.Approve(t.Context(), f.inst.ID, m.UserID, approval.Choice{BatchID: b.UUID})
				if err != nil && !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
				mu.Lock()
				approved[m.UserID] += n
				mu.Unlock()
			})
		}
		wg.Wait()
		if approved[f.dean.UserID] != 40 || approved[f.rec.UserID] != 40 {
			t.Errorf("approvals of the users: %v, want 40 each", approved)
		}
		if n := f.one(t, `SELECT count(*) FROM certificates WHERE status = 'processing'`); n != 40 {
			t.Errorf("%d certificates are in processing, want 40", n)
		}
	})
}

// A member of two institutions cannot approve or decline the certificates of one institution in the other
// one, and cannot read their signatures there. The picture of a signature is stored for one member of one
// institution. SetSignature rejects files that cannot be such a picture.
func TestIsolation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		ctx := t.Context()
		b, list := f.issue(t, "Amelia Hart")
		other := f.Institution("UTH", "University of the Highlands")
		m, err := f.Accounts.AddMember(ctx, other.ID, account.NewMember{Name: "Ada Obi", Email: "ada.obi@example.org", Role: account.Owner})
		if err != nil || m.UserID != f.dean.UserID {
			t.Fatalf("the same person in another institution: %+v, error %v, want the user %d", m, err, f.dean.UserID)
		}
		for _, c := range []approval.Choice{{BatchID: b.UUID}, {UUIDs: []string{list[0].UUID}}} {
			if _, err := f.Approvals.Approve(ctx, other.ID, m.UserID, c); !fault.Is(err, fault.Conflict) {
				t.Errorf("approval in another institution: err = %v, want Conflict", err)
			}
			if n, err := f.Approvals.Decline(ctx, other.ID, m.UserID, c, "x"); err == nil {
				t.Errorf("%d refusals in another institution, want an error", n)
			}
		}
		if found, err := f.Certs.Signatures(ctx, other.ID, list[0].ID); err != nil || len(found) != 0 {
			t.Errorf("signatures for another institution: %+v, error %v, want none", found, err)
		}
		ok(t, f.Templates.SetSignature(ctx, f.inst, f.dean.UserID, bytes.NewReader(scribble(t))))
		picture, err := f.Templates.Signature(ctx, f.inst.ID, f.dean.UserID)
		ok(t, err)
		if img, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || img.Width > 600 || img.Width < 390 || len(picture) > 5000 {
			t.Errorf("the stored picture is %+v with %d bytes, error %v, want a width of 390 to 600 and at most 5000 bytes", img, len(picture), err)
		}
		for what, get := range map[string]func() ([]byte, error){
			"another institution": func() ([]byte, error) { return f.Templates.Signature(ctx, other.ID, f.dean.UserID) },
			"another member":      func() ([]byte, error) { return f.Templates.Signature(ctx, f.inst.ID, f.rec.UserID) },
		} {
			if _, err := get(); !fault.Is(err, fault.NotFound) {
				t.Errorf("the picture for %s: err = %v, want NotFound", what, err)
			}
		}
		for name, c := range map[string]struct {
			file  []byte
			cause string
		}{
			"SVG": {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), "unknown format"}, "white": {whitePNG(t), "it shows no ink"},
			"large": {append(scribble(t), make([]byte, 1<<20)...), "at most 1 MB"},
		} {
			if err := f.Templates.SetSignature(ctx, f.inst, f.rec.UserID, bytes.NewReader(c.file)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.cause) {
				t.Errorf("%s: err = %v, want Invalid and %q", name, err, c.cause)
			}
		}
	})
}

func whitePNG(t *testing.T) []byte {
	t.Helper()
	img := image.NewGray(image.Rect(0, 0, 50, 50))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	var b bytes.Buffer
	ok(t, png.Encode(&b, img))
	return b.Bytes()
}
