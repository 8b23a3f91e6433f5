package cert

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

const day = 24 * time.Hour

func (v *vault) setRetention(k account.Retention) {
	v.tb.Helper()
	if err := account.New(v.d, v.clock.Now).SetRetention(v.tb.Context(), v.inst.ID, k); err != nil {
		v.tb.Fatal(err)
	}
}

// sweep deletes expired records, and then files that no record refers to.
func (v *vault) sweep() {
	v.tb.Helper()
	if err := v.SweepExpired(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
	v.sweepFiles()
}

// sweepFiles runs the daily sweep, which deletes files that no record refers to.
func (v *vault) sweepFiles() {
	v.tb.Helper()
	v.exec(`UPDATE blob_sweeps SET next_at = 0`)
	if err := v.sweeper.Sweep(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
}

// exists reports whether a blob exists.
func (v *vault) exists(key string) bool {
	v.tb.Helper()
	o, err := v.folder.Open(v.tb.Context(), key)
	if errors.Is(err, blob.ErrNotFound) {
		return false
	}
	if err := errors.Join(err, o.Close()); err != nil {
		v.tb.Fatal(err)
	}
	return true
}

func (v *vault) queryInt(query string, args ...any) (n int) {
	v.tb.Helper()
	if err := v.d.QueryRowContext(v.tb.Context(), query, args...).Scan(&n); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

// deletions returns the reference ids in the audit log's entries of an automatic deletion. It fails the
// test unless the system is the actor of these entries.
func (v *vault) deletions(action audit.Action) (names []string) {
	v.tb.Helper()
	list, _, err := audit.New(v.d).List(v.tb.Context(), v.inst.ID, audit.Filter{Action: string(action)}, "", 100)
	if err != nil {
		v.tb.Fatal(err)
	}
	for i := range list {
		if list[i].Actor.Type != audit.System {
			v.tb.Errorf("the actor of %s is %+v, want the system", action, list[i].Actor)
		}
		names = append(names, list[i].Subject.Name)
	}
	return names
}

// failed creates a failed certificate.
func (v *vault) failed(title string) *Certificate {
	v.tb.Helper()
	c := v.upload(titled(title))
	seals := v.sealer.seal
	v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
		return nil, &seal.Refusal{Code: "no_room", Reason: "There is no room for the stamp."}
	}
	defer func() { v.sealer.seal = seals }()
	if err := v.work(v.tb.Context(), c, 1); err != nil {
		v.tb.Fatal(err)
	}
	return v.get(c.UUID)
}

// The sweep deletes no certificate of an institution without a retention. With a retention, it deletes
// only old failed certificates.
func TestSweepDeletesFailedCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var purged []string
		v := newVault(t, d, func(c *Config) {
			c.Purged = func(_ context.Context, _ *db.Tx, c *Certificate) error {
				purged = append(purged, c.Title)
				return nil
			}
		})
		ctx := t.Context()
		old := v.failed("old")
		retried := v.failed("retried")
		approved := v.approved(v.upload(titled("approved")))
		v.clock.Advance(31 * day)
		young := v.failed("young")
		if _, err := v.Retry(ctx, v.inst.ID, retried.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.sweep()
		if v.get(old.UUID).Status != Failed || !v.exists(old.File.Key) {
			t.Fatal("the sweep without a retention deleted or changed the old certificate")
		}
		if failed, revoked, err := v.Expired(ctx, v.inst.ID, account.Retention{Failed: 30, Revoked: 30}); err != nil || failed != 1 || revoked != 0 {
			t.Errorf("Expired = %d failed and %d revoked certificates, want 1 and 0; err = %v", failed, revoked, err)
		}
		v.setRetention(account.Retention{Failed: 30})
		v.sweep()
		if _, err := v.ByUUID(ctx, v.inst.ID, old.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("reading the expired certificate: err = %v, want NotFound", err)
		}
		if v.exists(old.File.Key) {
			t.Error("the file of the expired certificate still exists")
		}
		for _, c := range []*Certificate{retried, approved, young} {
			if v.get(c.UUID); !v.exists(c.File.Key) {
				t.Errorf("the file of the certificate %q was deleted", c.Title)
			}
		}
		if n := v.queryInt(`SELECT count(*) FROM webhook_events WHERE payload LIKE '%"certificate_title":"old"%'`); n != 0 {
			t.Errorf("%d events of the deleted certificate remain, want 0", n)
		}
		if got := v.deletions(audit.CertificateExpired); !slices.Equal(got, []string{old.ReferenceID}) || !slices.Equal(purged, []string{"old"}) {
			t.Errorf("recorded deletions = %v, purged certificates = %v, want only the expired certificate", got, purged)
		}
		// The certificate is no longer counted, and an upload with the same values is not a duplicate.
		if n := v.queryInt(`SELECT sum(n) FROM certificate_counts WHERE status = 'failed'`); n != 1 {
			t.Errorf("%d failed certificates are counted, want 1", n)
		}
		v.upload(titled("old"))
	})
}

// The id of a deleted certificate is never used again, because servers of institutions store ids.
func TestIDsOfDeletedCertificatesAreNotReused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.failed("one")
		last := v.failed("last")
		v.setRetention(account.Retention{Failed: 30})
		v.clock.Advance(31 * day)
		v.sweep()
		next := v.upload(titled("next"))
		if next.ID <= last.ID {
			t.Errorf("the id of the next certificate = %d, want more than %d", next.ID, last.ID)
		}
		v.sweep()
		if n := v.queryInt(`SELECT count(*) FROM certificates`); n != 1 {
			t.Errorf("%d certificates remain after the second sweep, want 1", n)
		}
	})
}

func TestSweepDeletesFilesOfRevokedCertificates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		shared := v.receive(v.inst, samplePDF("shared", 0))
		of := func(title string) *Certificate {
			return v.upload(func(u *Upload) { u.Title, u.File = title, shared })
		}
		revoke := func(c *Certificate) *Certificate {
			t.Helper()
			if _, err := v.Revoke(ctx, v.inst.ID, c.UUID, Revocation{Reason: "Issued by mistake"}); err != nil {
				t.Fatal(err)
			}
			return v.get(c.UUID)
		}
		expired, other := v.approved(of("expired")), v.approved(of("other"))
		picture, err := v.OpenImage(ctx, expired)
		if err := errors.Join(err, picture.Close()); err != nil {
			t.Fatal(err)
		}
		expired = revoke(expired)
		unapproved := revoke(of("unapproved"))
		young := v.approved(v.upload(titled("young")))
		v.clock.Advance(29 * day)
		young = revoke(young)
		v.clock.Advance(2 * day)
		v.setRetention(account.Retention{Revoked: 30})
		if _, revoked, err := v.Expired(ctx, v.inst.ID, account.Retention{Revoked: 30}); err != nil || revoked != 2 {
			t.Errorf("Expired = %d revoked certificates, want 2; err = %v", revoked, err)
		}
		v.sweep()
		for _, key := range []string{expired.Verified.TailKey, expired.imageKey} {
			if v.exists(key) {
				t.Errorf("the file %s still exists", key)
			}
		}
		// The record of another certificate refers to the shared file, so the file remains.
		if !v.exists(shared.Key) || !v.exists(other.Verified.TailKey) || !v.exists(young.File.Key) || !v.exists(young.Verified.TailKey) {
			t.Error("the shared original, the tail of the other certificate or a file of the young certificate was deleted")
		}
		now := v.get(expired.UUID)
		if now.Status != Revoked || now.RevocationReason != "Issued by mistake" || now.FilesDeletedAt == nil || now.Verified == nil ||
			now.Verified.SHA256 != expired.Verified.SHA256 || now.File.SHA256 != expired.File.SHA256 || !now.UpdatedAt.Equal(expired.UpdatedAt) {
			t.Errorf("record = %+v, want a revoked certificate that is unchanged except for the files", now)
		}
		if v.get(unapproved.UUID).FilesDeletedAt == nil || v.get(young.UUID).FilesDeletedAt != nil {
			t.Error("FilesDeletedAt is not set for the expired certificate without a verified PDF, or is set for the young certificate")
		}
		// ByDigest still finds the revoked certificate of a copy of the file.
		if m, err := v.ByDigest(ctx, expired.Verified.SHA256); err != nil || m.Certificate.UUID != expired.UUID || m.Certificate.Status != Revoked {
			t.Errorf("ByDigest = %+v, err = %v, want the revoked certificate", m, err)
		}
		for name, open := range map[string]func(context.Context, *Certificate) (*Content, error){"verified": v.OpenVerified, "image": v.OpenImage, "original": v.OpenOriginal} {
			if _, err := open(ctx, now); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "are no longer available") {
				t.Errorf("opening the %s: err = %v, want NotFound with the text that the files are no longer available", name, err)
			}
		}
		checks, err := v.Checks(ctx, now)
		if err != nil || checks[1].Result != NotRun || checks[2].Result != NotRun {
			t.Errorf("checks = %+v, err = %v, want not_run for the file and the signature", checks, err)
		}
		if got := v.deletions(audit.FilesExpired); len(got) != 2 || !slices.Contains(got, expired.ReferenceID) || !slices.Contains(got, unapproved.ReferenceID) {
			t.Errorf("recorded deletions of files = %v, want the expired and the unapproved certificate", got)
		}
		// Rehash reports no missing file, even if the result of a check was stored after the deletion.
		v.exec(`INSERT INTO certificate_checks (certificate_id, name, result, checked_at) VALUES ($1, $2, 'passed', 0)`, now.ID, CheckFile)
		v.clock.Advance(RehashAge + time.Minute)
		for range 5 {
			if err := v.Rehash(ctx, 0, fastRate); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := v.Damaged(ctx); err != nil || n != 0 {
			t.Errorf("%d certificates are damaged, want 0; err = %v", n, err)
		}
		if n := v.queryInt(`SELECT count(*) FROM certificate_checks WHERE certificate_id = $1`, now.ID); n != 0 {
			t.Errorf("%d checks of deleted files are stored, want 0", n)
		}
	})
}

// A certificate that was retried after the sweep listed it is not deleted.
func TestRetriedCertificateIsNotDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		c := v.failed("one")
		v.failed("newest")
		v.clock.Advance(31 * day)
		before := cutoff(v.clock.Now(), 30)
		if _, err := v.Retry(ctx, v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		err := d.Tx(ctx, func(tx *db.Tx) error { return v.deleteFailedTx(ctx, tx, c.ID, before, 30) })
		if !errors.Is(err, ErrInvalidState) || v.get(c.UUID).Status != Processing {
			t.Errorf("deleting a retried certificate: err = %v, status = %s, want ErrInvalidState and processing", err, v.get(c.UUID).Status)
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return v.deleteFilesTx(ctx, tx, c.ID, before, 30) }); !errors.Is(err, ErrInvalidState) {
			t.Errorf("deleting the files of a retried certificate: error = %v, want ErrInvalidState", err)
		}
	})
}

// Two nodes can sweep at the same time. The audit log has one entry for each deleted certificate.
func TestConcurrentSweeps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for _, title := range []string{"a", "b", "c", "d", "e", "newest"} {
			v.failed(title)
		}
		v.setRetention(account.Retention{Failed: 30})
		v.clock.Advance(31 * day)
		done := make(chan error)
		for range 2 {
			go func() { done <- v.SweepExpired(t.Context()) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := v.deletions(audit.CertificateExpired); len(got) != 5 {
			t.Errorf("recorded deletions = %v, want 5, one for each certificate except the newest", got)
		}
		v.rows(`SELECT count(*) FROM certificates`, func(rows *sql.Rows) error {
			var n int
			if err := rows.Scan(&n); err != nil || n != 1 {
				t.Errorf("%d certificates remain after both sweeps, err = %v, want 1", n, err)
			}
			return nil
		})
	})
}
