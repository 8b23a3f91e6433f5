package approval_test

import (
	"testing"

	"github.com/certvault/certvault/internal/approval"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
)

// single issues a certificate without a batch.
func (f *fixture) single(t testing.TB, name, email string) *cert.Certificate {
	t.Helper()
	u, err := f.Templates.Upload(t.Context(), f.inst, cert.Actor{Type: "user", ID: 7, Name: "Issuer"}, f.tmpl.UUID, template.Entry{FullName: name, Email: email})
	ok(t, err)
	c, err := f.Certs.Upload(t.Context(), u)
	ok(t, err)
	return c
}

// revoke revokes a certificate that waits for its signatories.
func (f *fixture) revoke(t testing.TB, c *cert.Certificate) {
	t.Helper()
	_, err := f.Certs.Revoke(t.Context(), f.inst.ID, c.UUID, cert.Revocation{Reason: "Issued by mistake"})
	ok(t, err)
}

// If a certificate of a group is cancelled and another one is issued after a signatory looked at the group,
// the signatory can neither approve nor decline all, although the number is the same.
func TestUnseenCertificate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		ctx := t.Context()
		cancelled := f.single(t, "Amelia Hart", "amelia@example.org")
		f.single(t, "Jo Li", "jo@example.org")
		review, err := f.Approvals.Review(ctx, f.inst.ID, f.dean.UserID, "")
		ok(t, err)
		f.revoke(t, cancelled)
		unseen := f.single(t, "Zoë Unseen", "zoe@example.org")
		all := approval.Choice{Single: true, Seen: review.Digest}
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, all); !fault.Is(err, fault.Conflict) {
			t.Errorf("approving all: %d, error %v, want Conflict", n, err)
		}
		if n, err := f.Approvals.Decline(ctx, f.inst.ID, f.dean.UserID, all, "Wrong date"); !fault.Is(err, fault.Conflict) {
			t.Errorf("declining all: %d, error %v, want Conflict", n, err)
		}
		if _, signatures := f.get(t, unseen.UUID); signatures[0].Status != cert.SignaturePending {
			t.Errorf("the signature on the unseen certificate is %s, want pending", signatures[0].Status)
		}
		review, err = f.Approvals.Review(ctx, f.inst.ID, f.dean.UserID, "")
		ok(t, err)
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, approval.Choice{Single: true, Seen: review.Digest}); err != nil || n != 2 {
			t.Errorf("approving all after another look: %d, error %v, want 2", n, err)
		}
		if review, err = f.Approvals.Review(ctx, f.inst.ID, f.rec.UserID, ""); err != nil || review.Digest == "" {
			t.Fatalf("the review of the other signatory: digest %q, error %v", review.Digest, err)
		}
		if n, err := f.Approvals.Decline(ctx, f.inst.ID, f.rec.UserID, approval.Choice{Single: true, Seen: review.Digest}, "Wrong date"); err != nil || n != 2 {
			t.Errorf("declining all: %d, error %v, want 2", n, err)
		}
	})
}

// If a certificate of a batch is cancelled after a signatory looked at the batch, and the retry of a declined
// one waits instead, the signatory can neither approve nor decline the batch.
func TestUnseenCertificateOfBatch(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, false)
		ctx := t.Context()
		b, list := f.issue(t, "Amelia Hart", "Jo Li", "Bo Ek")
		_, err := f.Approvals.Decline(ctx, f.inst.ID, f.rec.UserID, approval.Choice{UUIDs: []string{list[2].UUID}}, "Wrong name")
		ok(t, err)
		review, err := f.Approvals.Review(ctx, f.inst.ID, f.dean.UserID, b.UUID)
		ok(t, err)
		if len(review.Certificates) != 2 {
			t.Fatalf("%d certificates wait, want 2", len(review.Certificates))
		}
		f.revoke(t, list[0])
		_, err = f.Certs.Retry(ctx, f.inst.ID, list[2].UUID, nil)
		ok(t, err)
		all := approval.Choice{BatchID: b.UUID, Seen: review.Digest}
		if n, err := f.Approvals.Approve(ctx, f.inst.ID, f.dean.UserID, all); !fault.Is(err, fault.Conflict) {
			t.Errorf("approving the batch: %d, error %v, want Conflict", n, err)
		}
		if n, err := f.Approvals.Decline(ctx, f.inst.ID, f.dean.UserID, all, "Wrong date"); !fault.Is(err, fault.Conflict) {
			t.Errorf("declining the batch: %d, error %v, want Conflict", n, err)
		}
	})
}
