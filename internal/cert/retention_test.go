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

const aDay = 24 * time.Hour

func (v *vault) keeps(k account.Retention) {
	v.tb.Helper()
	if err := account.New(v.d, v.clock.Now).SetRetention(v.tb.Context(), v.inst.ID, k); err != nil {
		v.tb.Fatal(err)
	}
}

// sweepKept sweeps expired records, and then files without references.
func (v *vault) sweepKept() {
	v.tb.Helper()
	if err := errors.Join(v.SweepExpired(v.tb.Context()), v.SweepBlobs(v.tb.Context())); err != nil {
		v.tb.Fatal(err)
	}
}

// has reports whether a blob exists.
func (v *vault) has(key string) bool {
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

func (v *vault) number(query string, args ...any) (n int) {
	v.tb.Helper()
	if err := v.d.QueryRowContext(v.tb.Context(), query, args...).Scan(&n); err != nil {
		v.tb.Fatal(err)
	}
	return n
}

// ends returns the entries of the audit log about automatic deletions.
func (v *vault) ends(action audit.Action) (names []string) {
	v.tb.Helper()
	list, _, err := audit.New(v.d).List(v.tb.Context(), v.inst.ID, audit.Filter{Action: string(action)}, "", 100)
	if err != nil {
		v.tb.Fatal(err)
	}
	for i := range list {
		if list[i].Actor.Type != audit.System {
			v.tb.Errorf("%s was done by %+v", action, list[i].Actor)
		}
		names = append(names, list[i].Subject.Name)
	}
	return names
}

// failed creates a failed certificate.
func (v *vault) failed(title string) *Certificate {
	v.tb.Helper()
	c := v.upload(titled(title))
	was := v.sealer.seal
	v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
		return nil, &seal.Refusal{Code: "no_room", Reason: "There is no room for the stamp."}
	}
	defer func() { v.sealer.seal = was }()
	if err := v.work(v.tb.Context(), c, 1); err != nil {
		v.tb.Fatal(err)
	}
	return v.get(c.UUID)
}

// Nothing expires unless the institution has set a retention. Then only old records expire.
func TestFailedCertificatesEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var told []string
		v := newVault(t, d, func(c *Config) {
			c.Purged = func(_ context.Context, _ *db.Tx, c *Certificate) error {
				told = append(told, c.Title)
				return nil
			}
		})
		ctx := t.Context()
		old := v.failed("old")
		retried := v.failed("retried")
		approved := v.approved(v.upload(titled("approved")))
		v.clock.Advance(31 * aDay)
		young := v.failed("young")
		if _, err := v.Retry(ctx, v.inst.ID, retried.UUID, nil); err != nil {
			t.Fatal(err)
		}
		v.sweepKept()
		if v.get(old.UUID).Status != Failed || !v.has(old.File.Key) {
			t.Fatal("something ended unasked")
		}
		if failed, revoked, err := v.Expired(ctx, v.inst.ID, account.Retention{Failed: 30, Revoked: 30}); err != nil || failed != 1 || revoked != 0 {
			t.Errorf("%d failed and %d revoked are over, %v", failed, revoked, err)
		}
		v.keeps(account.Retention{Failed: 30})
		v.sweepKept()
		if _, err := v.ByUUID(ctx, v.inst.ID, old.UUID); !fault.Is(err, fault.NotFound) {
			t.Errorf("the old one: %v", err)
		}
		if v.has(old.File.Key) {
			t.Error("the file of the old one is there")
		}
		for _, c := range []*Certificate{retried, approved, young} {
			if v.get(c.UUID); !v.has(c.File.Key) {
				t.Errorf("%s lost its file", c.Title)
			}
		}
		if n := v.number(`SELECT count(*) FROM webhook_events WHERE payload LIKE '%"certificate_title":"old"%'`); n != 0 {
			t.Errorf("%d events of it are left", n)
		}
		if got := v.ends(audit.CertificateEnded); !slices.Equal(got, []string{old.ReferenceID}) || !slices.Equal(told, []string{"old"}) {
			t.Errorf("recorded %v, told %v", got, told)
		}
		// Lists no longer count it, and it can be created again.
		if n := v.number(`SELECT sum(n) FROM certificate_counts WHERE status = 'failed'`); n != 1 {
			t.Errorf("%d failed are counted", n)
		}
		v.upload(titled("old"))
	})
}

// Other servers know the id of a certificate, so it is never reused.
func TestNumbersOfEndedCertificatesAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.failed("one")
		last := v.failed("last")
		v.keeps(account.Retention{Failed: 30})
		v.clock.Advance(31 * aDay)
		v.sweepKept()
		next := v.upload(titled("next"))
		if next.ID <= last.ID {
			t.Errorf("%d comes after %d", next.ID, last.ID)
		}
		v.sweepKept()
		if n := v.number(`SELECT count(*) FROM certificates`); n != 1 {
			t.Errorf("%d certificates are left", n)
		}
	})
}

func TestFilesOfRevokedCertificatesEnd(t *testing.T) {
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
		gone, stays := v.approved(of("gone")), v.approved(of("stays"))
		picture, err := v.OpenImage(ctx, gone)
		if err := errors.Join(err, picture.Close()); err != nil {
			t.Fatal(err)
		}
		gone = revoke(gone)
		early := revoke(of("early"))
		young := v.approved(v.upload(titled("young")))
		v.clock.Advance(29 * aDay)
		young = revoke(young)
		v.clock.Advance(2 * aDay)
		v.keeps(account.Retention{Revoked: 30})
		if _, revoked, err := v.Expired(ctx, v.inst.ID, account.Retention{Revoked: 30}); err != nil || revoked != 2 {
			t.Errorf("%d are over, %v", revoked, err)
		}
		v.sweepKept()
		for _, key := range []string{gone.Verified.TailKey, gone.imageKey} {
			if v.has(key) {
				t.Errorf("%s is there", key)
			}
		}
		// Another certificate was made from the same file, so the file remains.
		if !v.has(shared.Key) || !v.has(stays.Verified.TailKey) || !v.has(young.File.Key) || !v.has(young.Verified.TailKey) {
			t.Error("a file of another certificate is gone")
		}
		now := v.get(gone.UUID)
		if now.Status != Revoked || now.RevocationReason != "Issued by mistake" || now.FilesEndedAt == nil || now.Verified == nil ||
			now.Verified.SHA256 != gone.Verified.SHA256 || now.File.SHA256 != gone.File.SHA256 || !now.UpdatedAt.Equal(gone.UpdatedAt) {
			t.Errorf("the record is %+v", now)
		}
		if v.get(early.UUID).FilesEndedAt == nil || v.get(young.UUID).FilesEndedAt != nil {
			t.Error("the wrong ones ended")
		}
		// A person who has the file can still find out that it was revoked.
		if m, err := v.ByDigest(ctx, gone.Verified.SHA256); err != nil || m.Certificate.UUID != gone.UUID || m.Certificate.Status != Revoked {
			t.Errorf("by its digest: %+v, %v", m, err)
		}
		for name, open := range map[string]func(context.Context, *Certificate) (*Content, error){"verified": v.OpenVerified, "image": v.OpenImage, "original": v.OpenOriginal} {
			if _, err := open(ctx, now); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "have ended") {
				t.Errorf("%s: %v", name, err)
			}
		}
		checks, err := v.Checks(ctx, now)
		if err != nil || checks[1].Result != NotRun || checks[2].Result != NotRun {
			t.Errorf("checks: %+v, %v", checks, err)
		}
		if got := v.ends(audit.FilesEnded); len(got) != 2 || !slices.Contains(got, gone.ReferenceID) || !slices.Contains(got, early.ReferenceID) {
			t.Errorf("recorded: %v", got)
		}
		// The monthly check reports no missing file, even if a result arrives too late.
		v.exec(`INSERT INTO certificate_checks (certificate_id, name, result, checked_at) VALUES ($1, $2, 'passed', 0)`, now.ID, CheckFile)
		v.clock.Advance(rehashAge + time.Minute)
		for range 5 {
			if err := v.Rehash(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := v.Damaged(ctx); err != nil || n != 0 {
			t.Errorf("%d are damaged, %v", n, err)
		}
		if n := v.number(`SELECT count(*) FROM certificate_checks WHERE certificate_id = $1`, now.ID); n != 0 {
			t.Errorf("%d checks of files that are not there", n)
		}
	})
}

// A certificate that is retried just before the sweep deletes it is not deleted.
func TestEndingYieldsToRetry(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		c := v.failed("one")
		v.failed("newest")
		v.clock.Advance(31 * aDay)
		before := since(v.clock.Now(), 30)
		if _, err := v.Retry(ctx, v.inst.ID, c.UUID, nil); err != nil {
			t.Fatal(err)
		}
		err := d.Tx(ctx, func(tx *db.Tx) error { return v.endFailedTx(ctx, tx, c.ID, before, 30) })
		if !errors.Is(err, ErrInvalidState) || v.get(c.UUID).Status != Processing {
			t.Errorf("%v, %s", err, v.get(c.UUID).Status)
		}
		if err := d.Tx(ctx, func(tx *db.Tx) error { return v.endFilesTx(ctx, tx, c.ID, before, 30) }); !errors.Is(err, ErrInvalidState) {
			t.Error(err)
		}
	})
}

// Two nodes may sweep at the same time.
func TestSweepsTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		for _, title := range []string{"a", "b", "c", "d", "e", "newest"} {
			v.failed(title)
		}
		v.keeps(account.Retention{Failed: 30})
		v.clock.Advance(31 * aDay)
		done := make(chan error)
		for range 2 {
			go func() { done <- v.SweepExpired(t.Context()) }()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := v.ends(audit.CertificateEnded); len(got) != 5 {
			t.Errorf("recorded: %v", got)
		}
		v.rows(`SELECT count(*) FROM certificates`, func(rows *sql.Rows) error {
			var n int
			if err := rows.Scan(&n); err != nil || n != 1 {
				t.Errorf("%d are left", n)
			}
			return nil
		})
	})
}
