package token_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
)

func institution(t *testing.T, d *db.DB, prefix string) int64 {
	t.Helper()
	i, err := account.New(d, time.Now, account.WithCost(certtest.Cost)).CreateInstitution(t.Context(), account.NewInstitution{
		Name: "University " + prefix, Prefix: prefix, OwnerEmail: "o@example.org", OwnerName: "Owner", OwnerPassword: "correct horse",
	})
	if err != nil {
		t.Fatal(err)
	}
	return i.ID
}

func TestTokenOfDisabledInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s, accounts := token.New(d, time.Now), account.New(d, time.Now)
		mine := institution(t, d, "AAA")
		created, secret, err := s.Create(ctx, mine, "CI", []token.Permission{token.VaultView}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := accounts.Disable(ctx, mine, ""); err != nil {
			t.Fatal(err)
		}
		if got, _, err := s.Authenticate(ctx, secret); !fault.Is(err, fault.Forbidden) || got == nil {
			t.Fatalf("Authenticate = %v, error %v; want the token and fault.Forbidden", got, err)
		}
		// A request that was authenticated before the institution was disabled must not change anything.
		if err := d.Tx(ctx, func(tx *db.Tx) error { return s.CheckTx(ctx, tx, created) }); !fault.Is(err, fault.Forbidden) {
			t.Fatalf("CheckTx: error = %v, want fault.Forbidden", err)
		}
		if err := accounts.Enable(ctx, mine); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Authenticate(ctx, secret); err != nil {
			t.Fatalf("after the institution was enabled: error = %v, want nil", err)
		}
	})
}

func TestTokenLifecycle(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		s := token.New(d, func() time.Time { return now })
		mine, other := institution(t, d, "AAA"), institution(t, d, "BBB")
		end := now.Add(time.Hour)
		created, secret, err := s.Create(ctx, mine, " CI ", []token.Permission{token.VaultView, token.VaultList, token.VaultView}, &end)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`^cvt_[0-9A-Za-z]{36}$`).MatchString(secret) {
			t.Fatalf("secret = %s, want cvt_ and 36 letters or digits", secret)
		}
		var stored []byte
		if err := d.QueryRowContext(ctx, `SELECT hash FROM tokens WHERE id = $1`, created.ID).Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if len(stored) != 32 || bytes.Contains(stored, []byte(secret[4:])) {
			t.Fatal("the stored hash has the wrong length or contains the secret, want 32 bytes")
		}
		got, inst, err := s.Authenticate(ctx, secret)
		if err != nil || got.ID != created.ID || got.InstitutionID != mine || inst.ID != mine || inst.Prefix != "AAA" || got.Name != "CI" {
			t.Fatalf("Authenticate = %+v, error %v; want the token CI and its institution", got, err)
		}
		if !got.Has(token.VaultList) || !got.Has(token.VaultCreate, token.VaultView) || got.Has(token.VaultCreate) {
			t.Fatalf("permissions = %v, want list and view, and not create", got.Permissions)
		}
		if err := s.Revoke(ctx, other, created.ID); !fault.Is(err, fault.NotFound) {
			t.Fatalf("revoking a token of another institution: error = %v, want fault.NotFound", err)
		}
		now = end
		if _, _, err := s.Authenticate(ctx, secret); !fault.Is(err, fault.Unauthorized) {
			t.Fatalf("a token at its expiry: error = %v, want fault.Unauthorized", err)
		}
		now = end.Add(-time.Minute)
		if err := s.Revoke(ctx, mine, created.ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Authenticate(ctx, secret); !fault.Is(err, fault.Unauthorized) {
			t.Fatalf("a revoked token: error = %v, want fault.Unauthorized", err)
		}
		revoked := now
		now = now.Add(time.Second)
		if err := s.Revoke(ctx, mine, created.ID); err != nil {
			t.Fatalf("revoking a revoked token: error = %v, want nil", err)
		}
		if list, err := s.List(ctx, mine); err != nil || !list[0].RevokedAt.Equal(revoked) {
			t.Errorf("the token does not have the time of the first revocation, or List failed: error %v", err)
		}
		entries, _, err := audit.New(d).List(ctx, mine, audit.Filter{Action: "token"}, "", 10)
		if err != nil || len(entries) != 2 || entries[0].Action != audit.TokenRevoked || entries[1].Action != audit.TokenCreated || entries[1].Subject.Name != "CI" ||
			strings.Contains(fmt.Sprint(entries), secret[4:]) {
			t.Errorf("the audit entries are %+v, want the creation and the revocation of CI without the secret; error %v", entries, err)
		}
	})
}

func TestAuthenticateRefusesMalformedSecrets(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	s := token.New(d, time.Now)
	_, secret, err := s.Create(t.Context(), institution(t, d, "AAA"), "x", []token.Permission{token.VaultList}, nil)
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(secret)
	flipped[10] ^= 1
	for _, bad := range []string{"", "cvt_", secret[:39], secret + "0", "CVT_" + secret[4:], string(flipped), " " + secret} {
		if _, _, err := s.Authenticate(t.Context(), bad); !fault.Is(err, fault.Unauthorized) {
			t.Errorf("secret %q: error = %v, want fault.Unauthorized", bad, err)
		}
	}
}

func TestCreateRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, t.TempDir(), "")
	s := token.New(d, time.Now)
	inst := institution(t, d, "AAA")
	past := time.Now().Add(-time.Second)
	for name, create := range map[string]func() error{
		"no name":       func() error { _, _, err := s.Create(t.Context(), inst, " ", token.All, nil); return err },
		"no permission": func() error { _, _, err := s.Create(t.Context(), inst, "x", nil, nil); return err },
		"unknown permission": func() error {
			_, _, err := s.Create(t.Context(), inst, "x", []token.Permission{"all"}, nil)
			return err
		},
		"past expiry": func() error { _, _, err := s.Create(t.Context(), inst, "x", token.All, &past); return err },
	} {
		if err := create(); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: error = %v, want fault.Invalid", name, err)
		}
	}
}

func TestTouchWritesAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		s := token.New(d, func() time.Time { return now })
		inst := institution(t, d, "AAA")
		created, _, err := s.Create(t.Context(), inst, "x", token.All, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := now
		for _, step := range []time.Duration{0, 30 * time.Second, 29 * time.Second} {
			now = now.Add(step)
			if err := s.Touch(t.Context(), created); err != nil {
				t.Fatal(err)
			}
		}
		list, err := s.List(t.Context(), inst)
		if err != nil || len(list) != 1 || list[0].LastUsedAt == nil || !list[0].LastUsedAt.Equal(first) {
			t.Fatalf("list = %+v, error %v; want one token with the time of the first use", list, err)
		}
		now = now.Add(time.Minute)
		if err := s.Touch(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		if list, err = s.List(t.Context(), inst); err != nil || !list[0].LastUsedAt.Equal(now) {
			t.Fatalf("last used at %v, want the time of the last use; error %v", list[0].LastUsedAt, err)
		}
	})
}

// The new token has the permissions of the old token. The old token works for the overlap, but not
// longer than without the rotation.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := audit.WithActor(t.Context(), audit.Actor{Type: audit.User, ID: "u", Name: "Jane Doe"})
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		s := token.New(d, func() time.Time { return now })
		mine, other := institution(t, d, "AAA"), institution(t, d, "BBB")
		end := now.AddDate(0, 0, 90)
		old, oldSecret, err := s.Create(ctx, mine, "CI", []token.Permission{token.VaultList}, &end)
		if err != nil {
			t.Fatal(err)
		}
		now = now.AddDate(0, 0, 30)
		if _, _, _, err := s.Rotate(ctx, other, old.ID, time.Hour); !fault.Is(err, fault.NotFound) {
			t.Fatalf("rotating a token of another institution: error = %v, want fault.NotFound", err)
		}
		if _, _, _, err := s.Rotate(ctx, mine, old.ID, token.MaxOverlap+1); !fault.Is(err, fault.Invalid) {
			t.Errorf("an overlap that is too long: error = %v, want fault.Invalid", err)
		}
		created, secret, before, err := s.Rotate(ctx, mine, old.ID, 24*time.Hour)
		if err != nil || created.Name != "CI" || !slices.Equal(created.Permissions, old.Permissions) || created.Creator != "Jane Doe" ||
			!created.ExpiresAt.Equal(now.AddDate(0, 0, 90)) || !before.ExpiresAt.Equal(now.Add(24*time.Hour)) {
			t.Fatalf("Rotate = %+v, %+v, error %v; want a new token that expires in 90 days and an old token that expires after the overlap", created, before, err)
		}
		works := func(secret string) bool {
			_, _, err := s.Authenticate(ctx, secret)
			return err == nil
		}
		if !works(secret) || !works(oldSecret) {
			t.Error("a token does not work during the overlap, want both tokens to work")
		}
		now = now.Add(24 * time.Hour)
		if !works(secret) || works(oldSecret) {
			t.Error("after the overlap, the old token works or the new token does not, want only the new token to work")
		}
		if _, _, _, err := s.Rotate(ctx, mine, old.ID, 0); !fault.Is(err, fault.BadRequest) {
			t.Errorf("rotating an expired token: error = %v, want fault.BadRequest", err)
		}
		_, third, before, err := s.Rotate(ctx, mine, created.ID, 0)
		if err != nil || before.RevokedAt == nil || works(secret) || !works(third) {
			t.Errorf("rotation without an overlap: the old token is %+v, want it revoked and only the new token to work; error %v", before, err)
		}
		now = now.AddDate(0, 0, 89).Add(12 * time.Hour)
		list, err := s.List(ctx, mine)
		if err != nil || len(list) != 3 || list[0].Creator != "Jane Doe" {
			t.Fatalf("the tokens are %+v, want 3, the newest by Jane Doe; error %v", list, err)
		}
		_, _, before, err = s.Rotate(ctx, mine, list[0].ID, 24*time.Hour)
		if err != nil || !before.ExpiresAt.Equal(*list[0].ExpiresAt) {
			t.Errorf("the old token expires at %v, want the same time as without the rotation; error %v", before.ExpiresAt, err)
		}
	})
}

// If a token is rotated again during its overlap, the new token has the lifetime that the old token had
// before its first rotation.
func TestRotationDuringTheOverlap(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		s := token.New(d, func() time.Time { return now })
		mine := institution(t, d, "AAA")
		end := now.AddDate(0, 0, 90)
		for name, expires := range map[string]*time.Time{"90 days": &end, "no expiry": nil} {
			old, _, err := s.Create(t.Context(), mine, name, []token.Permission{token.VaultList}, expires)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				created, _, _, err := s.Rotate(t.Context(), mine, old.ID, 24*time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				if got := created.ExpiresAt; (got == nil) != (expires == nil) || got != nil && !got.Equal(end) {
					t.Errorf("%s: the token of rotation %d expires at %v, want %v", name, i+1, got, expires)
				}
			}
		}
	})
}

// Every permission is in a group, and every preset has only existing permissions.
func TestGroupsHaveEveryPermission(t *testing.T) {
	t.Parallel()
	var grouped []token.Permission
	for _, g := range token.Groups {
		grouped = append(grouped, g.Permissions...)
	}
	if slices.Compare(slices.Sorted(slices.Values(grouped)), slices.Sorted(slices.Values(token.All))) != 0 {
		t.Errorf("the groups have the permissions %v, want every permission once", grouped)
	}
	for _, p := range token.Presets {
		if slices.ContainsFunc(p.Permissions, func(p token.Permission) bool { return !p.Valid() }) || len(p.Permissions) == 0 {
			t.Errorf("preset %s has the permissions %v, want at least one, and only valid permissions", p.Name, p.Permissions)
		}
	}
}
