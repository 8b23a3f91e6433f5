package cert

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/seal"
)

// verdict returns a Verifier with a fixed result.
func verdict(given pades.Verdict) Verifier {
	return func(io.ReaderAt, int64, pades.Options) (*pades.Report, error) {
		return &pades.Report{Verdict: given}, nil
	}
}

func (v *vault) check(c *Certificate, name string) Check {
	v.tb.Helper()
	list, err := v.Checks(v.tb.Context(), c)
	if err != nil {
		v.tb.Fatal(err)
	}
	for _, k := range list {
		if k.Name == name {
			return k
		}
	}
	v.tb.Fatalf("check %s is missing in %+v", name, list)
	return Check{}
}

// Each attempt signs with the current key of the institution and the current time.
func TestSignsWithTheInstitutionsKey(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	var got *seal.Signature
	v.sealer.seal = func(_ context.Context, o seal.Original, stamp seal.Stamp) (*seal.Verified, error) {
		got = stamp.Signature
		return sealed(o, []byte(tailText), false)
	}
	for _, inst := range []string{"ONE", "TWO"} {
		i := v.institution(inst)
		for range 2 {
			v.approved(v.upload(func(u *Upload) { *u = v.input(i); u.Title = titleWithKeyCount(v, i.UUID) }))
			list, err := v.ring.Certificates(v.tb.Context(), i.UUID)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Signer.Chain[0].Equal(list[0].Chain[0]) || !got.Time.Equal(v.clock.Now()) {
				t.Errorf("signed by %v at %v, want the current key of the institution and the current time", got.Signer.Chain[0].Subject, got.Time)
			}
			if err := v.ring.Rotate(t.Context(), i.UUID, i.Name, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// titleWithKeyCount returns a title that contains the number of keys of the institution.
func titleWithKeyCount(v *vault, institution string) string {
	list, err := v.ring.Certificates(v.tb.Context(), institution)
	if err != nil {
		v.tb.Fatal(err)
	}
	return "After " + string(rune('0'+len(list))) + " keys"
}

// An attempt is repeated after an error of the time-stamp authority or of the signature, and after an error
// of the key other than its expiry. After the last attempt, the certificate fails with the code of the
// error. A retry approves the certificate after the cause is fixed.
func TestSigningFaultsAreTransient(t *testing.T) {
	t.Parallel()
	type repair func()
	for name, test := range map[string]struct {
		cause func(t *testing.T, v *vault) repair
		code  string
	}{
		"the key is missing": {func(t *testing.T, v *vault) repair {
			t.Helper()
			rename := func(from, to string) {
				v.tx(func(tx *db.Tx) error {
					_, err := tx.ExecContext(t.Context(), `UPDATE signing_keys SET holder = $1 WHERE holder = $2`, to, from)
					return err
				})
			}
			rename(v.inst.UUID, "away")
			return func() { rename("away", v.inst.UUID) }
		}, authority.CodeMissing},
		"the time-stamp authority is unavailable": {func(_ *testing.T, v *vault) repair {
			ok := v.sealer.seal
			v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) {
				return nil, pades.ErrTimeStamp
			}
			return func() { v.sealer.seal = ok }
		}, "timestamp_unavailable"},
		"the key cannot sign": {func(_ *testing.T, v *vault) repair {
			ok := v.sealer.seal
			v.sealer.seal = func(context.Context, seal.Original, seal.Stamp) (*seal.Verified, error) { return nil, pades.ErrKey }
			return func() { v.sealer.seal = ok }
		}, "key_unusable"},
		"the signature is not valid": {func(_ *testing.T, v *vault) repair {
			ok := v.verify
			v.verify = verdict(pades.Invalid)
			return func() { v.verify = ok }
		}, "signature_invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Attempts = 2 })
			c := v.upload(nil)
			repair := test.cause(t, v)
			if err := v.work(t.Context(), c, 1); err == nil || v.get(c.UUID).Status != Processing {
				t.Errorf("first attempt: err = %v, status = %s, want an error and processing", err, v.get(c.UUID).Status)
			}
			if err := v.work(t.Context(), c, 2); err != nil {
				t.Fatal(err)
			}
			got := v.get(c.UUID)
			if got.Status != Failed || got.Failure.Code != test.code || got.Failure.Message == "" {
				t.Fatalf("status = %s, failure = %+v, want the code %s", got.Status, got.Failure, test.code)
			}
			// The files of failed attempts are deleted.
			if keys := v.keys(); len(keys) != 1 {
				t.Errorf("stored files = %v, want only the original", keys)
			}
			repair()
			if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
				t.Fatal(err)
			}
			v.approved(c)
		})
	}
}

// If the signing key expires within a day, the first attempt fails with the code key_expired and is not
// repeated, because the next attempt would use the same key. A retry with another key approves the
// certificate.
func TestExpiredSigningKeyFailsAtOnce(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	list, err := v.ring.Certificates(v.tb.Context(), v.inst.UUID)
	if err != nil {
		t.Fatal(err)
	}
	v.clock.Advance(authority.Expiry(list[0].Chain).Sub(v.clock.Now()) - 23*time.Hour)
	c := v.upload(nil)
	if err := v.work(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	if got := v.get(c.UUID); got.Status != Failed || got.Failure.Code != "key_expired" || got.Failure.Message == "" {
		t.Fatalf("status = %s, failure = %+v, want failed with key_expired", got.Status, got.Failure)
	}
	if keys := v.keys(); len(keys) != 1 {
		t.Errorf("stored files = %v, want only the original", keys)
	}
	if err := v.ring.Rotate(t.Context(), v.inst.UUID, v.inst.Name, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Retry(t.Context(), v.inst.ID, c.UUID, nil); err != nil {
		t.Fatal(err)
	}
	v.approved(c)
}

// A certificate is approved even if its signature cannot be verified. The result of the check is
// then NotRun.
func TestUnknownSignatureIsNotRun(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Verify = verdict(pades.Unknown) })
	if k := v.check(v.approved(v.upload(nil)), CheckSignature); k.Result != NotRun || k.CheckedAt != nil {
		t.Errorf("check of a signature that cannot be verified = %+v, want not_run without a time", k)
	}
}

// Rehash reports a signature that is no longer valid, even if the digest of the file is unchanged. An
// error of the verification does not change the stored result.
func TestRehashVerifiesSignatures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		ctx := t.Context()
		c := v.approved(v.upload(nil))
		first := v.check(c, CheckSignature)
		if first.Result != Passed || first.CheckedAt == nil {
			t.Fatalf("check at approval = %+v, want passed", first)
		}
		recheck := func(verdict pades.Verdict, err error) Check {
			v.verify = func(_ io.ReaderAt, size int64, o pades.Options) (*pades.Report, error) {
				if size != c.Verified.Size || len(o.Roots) == 0 || !o.Now.Equal(v.clock.Now()) {
					t.Errorf("verify was called with %d bytes and the options %+v, want the size of the verified PDF, roots and the current time", size, o)
				}
				return &pades.Report{Verdict: verdict}, err
			}
			v.clock.Advance(RehashAge + time.Minute)
			if err := v.Rehash(ctx, 0, fastRate); err != nil {
				t.Fatal(err)
			}
			return v.check(c, CheckSignature)
		}
		if k := recheck(pades.Valid, nil); k.Result != Passed || !k.CheckedAt.After(*first.CheckedAt) {
			t.Errorf("check after a month = %+v, want passed at a later time", k)
		}
		if k := recheck(pades.Invalid, nil); k.Result != FailedCheck {
			t.Errorf("check of an invalid signature = %+v, want failed", k)
		}
		if n, err := v.Damaged(ctx); err != nil || n != 1 {
			t.Errorf("%d certificates are damaged, want 1; err = %v", n, err)
		}
		if k := v.check(c, CheckFile); k.Result != Passed {
			t.Errorf("check of the file with an invalid signature = %+v, want passed", k)
		}
		before := v.check(c, CheckSignature)
		if k := recheck("", errors.New("disk error")); k.Result != before.Result || !k.CheckedAt.Equal(*before.CheckedAt) {
			t.Errorf("check after a disk error = %+v, want %+v", k, before)
		}
		if k := recheck(pades.Unknown, nil); k.Result != NotRun || k.CheckedAt != nil {
			t.Errorf("check of an unknown signature = %+v, want not_run", k)
		}
	})
}
