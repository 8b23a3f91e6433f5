package account_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func institution(name, prefix string) account.NewInstitution {
	return account.NewInstitution{
		Name: name, Prefix: prefix, OwnerEmail: "owner@example.org", OwnerName: "The Owner", OwnerPassword: "correct horse",
	}
}

func TestCreateInstitution(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		link, err := s.NewSetupLink(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct{ name, prefix, slug, wantPrefix string }{
			{"Universität Zürich", "uzh", "universitat-zurich", "UZH"},
			{"Universität Zürich", "UZ2", "universitat-zurich-2", "UZ2"},
			{"北京大学", "PKU", "pku", "PKU"},
			{"St. John's -- College", "SJC", "st-johns-college", "SJC"},
		} {
			n := institution(tc.name, tc.prefix)
			n.AllowSameName = tc.prefix == "UZ2"
			got, err := s.CreateInstitution(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			if got.Slug != tc.slug || got.Prefix != tc.wantPrefix || got.ID == 0 {
				t.Errorf("%s: the institution is %+v, want slug %s and prefix %s", tc.name, got, tc.slug, tc.wantPrefix)
			}
			back, err := s.InstitutionBySlug(ctx, tc.slug)
			if err != nil || back.UUID != got.UUID || back.Name != tc.name {
				t.Errorf("InstitutionBySlug(%q) = %+v, error %v, want the created institution", tc.slug, back, err)
			}
		}
		if has, err := s.HasOwner(ctx); err != nil || !has {
			t.Fatalf("HasOwner = %v, error %v, want true", has, err)
		}
		if works, err := s.SetupLinkWorks(ctx, link); err != nil || works {
			t.Fatalf("SetupLinkWorks after the first owner was created = %v, error %v, want false", works, err)
		}
		_, err = s.CreateInstitution(ctx, institution("Other", "UZH"))
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Kind != fault.Invalid || e.Fields[0].Name != "prefix" {
			t.Fatalf("creating an institution with a prefix in use: error = %v, want fault.Invalid for the prefix", err)
		}
		var users int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM users`).Scan(&users); err != nil || users != 1 {
			t.Fatalf("there are %d users, want 1; error %v", users, err)
		}
	})
}

func TestCreateInstitutionNamesEveryBadField(t *testing.T) {
	t.Parallel()
	s := account.New(dbtest.Open(t, t.TempDir(), ""), time.Now)
	_, err := s.CreateInstitution(t.Context(), account.NewInstitution{
		Name: " ", Prefix: "N-U", OwnerEmail: "nobody", OwnerName: strings.Repeat("x", 256), OwnerPassword: "short",
	})
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatal(err)
	}
	var names []string
	for _, f := range e.Fields {
		names = append(names, f.Name)
		for _, text := range f.Messages {
			if !strings.HasPrefix(text, "The ") || !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the message %q is not a sentence", f.Name, text)
			}
		}
	}
	if got := strings.Join(names, " "); got != "name owner_name prefix owner_email owner_password" {
		t.Fatalf("the refused fields are %q, want name, owner_name, prefix, owner_email and owner_password", got)
	}
}

func TestSetupLinkExpiresAndIsDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		s := account.New(d, func() time.Time { return now }, cheap)
		works := func(secret string) bool {
			t.Helper()
			ok, err := s.SetupLinkWorks(ctx, secret)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		first, err := s.NewSetupLink(ctx)
		if err != nil || !works(first) {
			t.Fatal("the new link is not valid; error", err)
		}
		if works("guess") {
			t.Fatal("an unknown secret is valid")
		}
		second, err := s.NewSetupLink(ctx)
		if err != nil || !works(first) || !works(second) {
			t.Fatal("one of two links is not valid; error", err)
		}
		now = now.Add(time.Hour)
		if works(second) {
			t.Fatal("the link is still valid after an hour")
		}
		if _, err := s.NewSetupLink(ctx); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := d.QueryRowContext(ctx, `SELECT count(*) FROM setup_links`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d links are stored after two of three expired, want 1; error %v", n, err)
		}
	})
}

func TestParseEmail(t *testing.T) {
	t.Parallel()
	for in, folded := range map[string]string{
		" Jane.Doe@Example.ORG ":     "jane.doe@example.org",
		"jane+tag@example.org":       "jane+tag@example.org",
		"josé@bücher.example":        "josé@xn--bcher-kva.example",
		"jose\u0301@BÜCHER.example":  "josé@xn--bcher-kva.example",
		"x@xn--bcher-kva.example":    "x@xn--bcher-kva.example",
		"用户@例子.广告":                   "用户@xn--fsqu00a.xn--4rr70v",
		"o'brien@sub.example.co.uk":  "o'brien@sub.example.co.uk",
		"a!#$%&*+-/=?^_`{|}~@a.test": "a!#$%&*+-/=?^_`{|}~@a.test",
		"a@نامه\u200cای.com":         "a@xn--mgba3gch31f060k.com", // with a zero-width non-joiner, RFC 5892, appendix A.1
		"a@4.example":                "a@4.example",

		// Only ASCII letters are converted to lower case.
		"\u0130ris@example.org":   "\u0130ris@example.org",
		"\u03f4eo@example.org":    "\u03f4eo@example.org",
		"gro\u1e9e@example.org":   "gro\u1e9e@example.org",
		"J\u00dcRGEN@example.org": "j\u00dcrgen@example.org",
		// NFC converts the Kelvin sign to K, which is then converted to lower case.
		"\u212aEVIN@example.org": "kevin@example.org",

		"a@" + strings.Repeat("b", 63) + ".cd": "a@" + strings.Repeat("b", 63) + ".cd",
	} {
		got, err := account.ParseEmail(in)
		if err != nil || got.Folded != folded || got.Text != strings.TrimSpace(in) {
			t.Errorf("ParseEmail(%q) = %+v, error %v, want the trimmed text and the folded form %q", in, got, err, folded)
		}
	}
	for _, in := range []string{
		"", "a", "@", "a@", "@b.c", "a@b", "a b@c.de", "Jane <a@b.cd>", "<a@b.cd>", "a@b.cd, e@f.gh", "a@b.cd\r\nBcc: x@y.zz",
		"a@@b.cd", "a@b..cd", "a@.b.cd", "a@b.cd.", ".a@b.cd", "a.@b.cd", "a..b@c.de", `"a b"@c.de`, "a@[127.0.0.1]", "a@b.cd (x)",
		"a\u00a0b@c.de", "a\u200b@b.cd", "a\u202e@b.cd", "a\u2028@b.cd", "a\u0085@b.cd", "a\ufeff@b.cd", "a\u200d@b.cd", "a@b\u00ad.cd", "a@b\u200b.cd", "a@b\u200d.cd",
		"a@xn--a.cd", "a@1.2.3.4", "a@b.123",
		"a\x00@b.cd", "a\xff@b.cd", "a@-b.cd", strings.Repeat("a", 65) + "@b.cd", "a@" + strings.Repeat("b", 260) + ".cd",
		"a@" + strings.Repeat("b", 64) + ".cd", "a@" + strings.Repeat("ü", 60) + ".cd",
	} {
		if got, err := account.ParseEmail(in); err == nil {
			t.Errorf("ParseEmail(%q) = %+v, want an error", in, got)
		}
	}
}

// cheap is an option that makes password hashing fast.
var cheap = account.WithCost(account.Cost{Time: 1, Memory: 8, Threads: 1})

// TestHashPassword computes the hash again from the password and the parameters in the PHC string.
func TestHashPassword(t *testing.T) {
	t.Parallel()
	s := account.New(nil, time.Now)
	a, err := s.HashPassword(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.HashPassword(t.Context(), "correct horse")
	if err != nil || a == b {
		t.Fatal("two hashes of one password are equal; error", err)
	}
	parts := strings.Split(a, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != "v=19" || parts[3] != "m=65536,t=3,p=4" {
		t.Fatalf("the hash is %s, want a PHC string of argon2id with version 19 and the default cost", a)
	}
	var m, tm uint32
	var p uint8
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &m, &tm, &p); err != nil {
		t.Fatal(err)
	}
	salt, err1 := base64.RawStdEncoding.DecodeString(parts[4])
	key, err2 := base64.RawStdEncoding.DecodeString(parts[5])
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(argon2.IDKey([]byte("correct horse"), salt, tm, m, p, 32), key) {
		t.Fatal("the hash was not computed from the password")
	}
}
