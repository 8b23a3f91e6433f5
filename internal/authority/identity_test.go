package authority

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// otherIdentity is an identity that decrypts no key of the tests.
const otherIdentity = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"

// protected returns options with a passphrase and a low work factor, so that tests are fast.
func protected() Options {
	o := options()
	o.Passphrase, o.WorkFactor = "correct horse", 10
	return o
}

func newSigning(t *testing.T, o Options) *Authority {
	t.Helper()
	a := open(t, dbtest.SQLite(t), o)
	if err := a.Create(t.Context(), university, "x", nil); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestPassphraseEncryptsIdentity(t *testing.T) {
	t.Parallel()
	a := newSigning(t, protected())
	if _, err := os.Stat(filepath.Join(a.options.Folder, plainFile)); err == nil {
		t.Errorf("the folder contains %s, want only the encrypted identity", plainFile)
	}
	requireSigning(t, again(a))
	for _, wrong := range []string{"battery staple", ""} {
		o := a.options
		o.Passphrase = wrong
		b := New(a.db, o)
		_, err := b.Signer(t.Context(), university)
		requireFault(t, err, CodeLocked)
		if _, err := b.CreateIdentity(); err == nil {
			t.Errorf("CreateIdentity with the passphrase %q succeeds, want an error", wrong)
		}
	}
}

// The default work factor of scrypt is 18, as in age.
func TestPassphraseWork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short skips the slow default work factor of scrypt")
	}
	o := options()
	o.Folder, o.Passphrase = t.TempDir(), "correct horse"
	if _, err := New(nil, o).CreateIdentity(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.Folder, encryptedFile))
	if err != nil {
		t.Fatal(err)
	}
	header, err := bufio.NewReader(armor.NewReader(bytes.NewReader(text))).Peek(100)
	if err != nil {
		t.Fatal(err)
	}
	if _, stanza, _ := strings.Cut(string(header), "-> scrypt "); !strings.HasSuffix(strings.SplitN(stanza, "\n", 2)[0], " 18") {
		t.Errorf("the header of the identity file is %q, want the work factor 18", header)
	}
}

// Signer returns an error for a missing, damaged or wrong identity, and does not change its file. After the
// identity is restored, the keys sign again.
func TestMissingOrDamagedIdentity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		data []byte // nil removes the file
		code string
		want error
	}{
		"missing":   {nil, CodeLocked, errNoIdentity},
		"damaged":   {[]byte("AGE-SECRET-KEY-1NONSENSE"), CodeBroken, nil},
		"too large": {make([]byte, maxFile+1), CodeBroken, nil},
		"another":   {[]byte(otherIdentity), CodeLocked, ErrOtherIdentity},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newSigning(t, options())
			file := a.options.identityFile()
			saved, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if test.data != nil {
				if err := os.WriteFile(file, test.data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b := again(a)
			_, err = b.Signer(t.Context(), university)
			requireFault(t, err, test.code)
			if test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("error = %v, want %v", err, test.want)
			}
			if err := b.MakeRoot(t.Context()); err != nil {
				t.Errorf("MakeRoot with a root: error = %v, want none", err)
			}
			if data, err := os.ReadFile(file); err == nil != (test.data != nil) || !bytes.Equal(data, test.data) {
				t.Errorf("the file has %d bytes, error %v; want it unchanged", len(data), err)
			}
			if err := os.WriteFile(file, saved, 0o600); err != nil {
				t.Fatal(err)
			}
			requireSigning(t, b)
		})
	}
}

// CheckIdentity refuses an identity that does not belong to the database, from a file and from the
// environment. The error contains the place of the identity and the recipient of the database.
func TestOtherIdentityIsNamed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		own, err := a.recipient(t.Context())
		if err != nil || !strings.HasPrefix(own, "age1") {
			t.Fatalf("the recipient of the database = %q, error %v, want a recipient of age", own, err)
		}
		file := filepath.Join(t.TempDir(), "identity")
		if err := os.WriteFile(file, []byte(otherIdentity+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for place, o := range map[string]Options{
			file:                     {Now: options().Now, IdentityFile: file},
			"CERTVAULT_KEY_IDENTITY": {Now: options().Now, Identity: otherIdentity},
		} {
			err := New(d, o).CheckIdentity(t.Context())
			requireFault(t, err, CodeLocked)
			if !errors.Is(err, ErrOtherIdentity) || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), own) {
				t.Errorf("error = %v, want ErrOtherIdentity with %s and %s", err, place, own)
			}
		}
	})
}

// If the database has no recipient, CheckIdentity checks the identity with a key. It stores the recipient
// unless Options.ReadOnly is set.
func TestReadOnlyCheckOfTheIdentity(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM signing_identities`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{true, false} {
			o := options()
			o.Folder, o.ReadOnly = a.options.Folder, readOnly
			if err := New(d, o).CheckIdentity(t.Context()); err != nil {
				t.Errorf("read-only %v: error = %v, want none", readOnly, err)
			}
			if own, err := a.recipient(t.Context()); err != nil || (own == "") != readOnly {
				t.Errorf("read-only %v: the recipient of the database = %q, error %v; want none only if read-only", readOnly, own, err)
			}
		}
		other := Options{Now: options().Now, Identity: otherIdentity, ReadOnly: true}
		if err := d.Tx(t.Context(), func(tx *db.Tx) error {
			_, err := tx.ExecContext(t.Context(), `DELETE FROM signing_identities`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := New(d, other).CheckIdentity(t.Context()); !errors.Is(err, ErrOtherIdentity) {
			t.Errorf("another identity: error = %v, want ErrOtherIdentity", err)
		}
	})
}

// The identity may be in Options.IdentityFile or in Options.Identity, and may be encrypted in both.
func TestPlacesOfTheIdentity(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"plain": options(), "protected": protected()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.IdentityFile = filepath.Join(t.TempDir(), "secrets", "identity")
			a := newSigning(t, o)
			if entries, err := os.ReadDir(a.options.Folder); err != nil || len(entries) > 0 {
				t.Errorf("the folder contains %v, %v; want no file", entries, err)
			}
			text, err := os.ReadFile(o.IdentityFile)
			if err != nil {
				t.Fatal(err)
			}
			if isEncrypted(text) != (o.Passphrase != "") {
				t.Errorf("the file is %.30q, want it encrypted if and only if a passphrase is set", text)
			}
			o.IdentityFile, o.Identity = "", string(text)
			requireSigning(t, New(a.db, o))
		})
	}
}

// After Protect, no file contains the unencrypted identity, and the existing keys still sign.
func TestProtect(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"folder", "file"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			o := options()
			if place == "file" {
				o.IdentityFile = filepath.Join(t.TempDir(), "identity")
			}
			a := newSigning(t, o)
			o = a.options
			if err := again(a).Protect(t.Context()); err == nil {
				t.Error("Protect without a passphrase succeeds, want an error")
			}
			p := o
			p.Passphrase, p.WorkFactor = "correct horse", 10
			if _, err := New(a.db, p).Signer(t.Context(), university); err == nil || !strings.Contains(err.Error(), "key protect") {
				t.Errorf("with a passphrase before Protect: error = %v, want one that names key protect", err)
			}
			for range 2 {
				if err := New(a.db, p).Protect(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			err := filepath.WalkDir(filepath.Dir(p.identityFile()), func(path string, e os.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				if bytes.Contains(text, []byte("AGE-SECRET-KEY")) {
					t.Errorf("%s contains the unencrypted identity", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			requireSigning(t, New(a.db, p))
			_, err = New(a.db, o).Signer(t.Context(), university)
			requireFault(t, err, CodeLocked)
			p.Passphrase = "battery staple"
			requireFault(t, New(a.db, p).Protect(t.Context()), CodeLocked)
		})
	}
}

// Protect refuses the identity in Options.Identity, and an identity of another database.
func TestProtectRefuses(t *testing.T) {
	t.Parallel()
	a := newSigning(t, options())
	text, err := os.ReadFile(a.options.identityFile())
	if err != nil {
		t.Fatal(err)
	}
	o := protected()
	o.Identity = string(text)
	requireFault(t, New(a.db, o).Protect(t.Context()), CodeRefused)
	o.Identity, o.IdentityFile = "", filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(o.IdentityFile, []byte(otherIdentity), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New(a.db, o).Protect(t.Context()); !errors.Is(err, ErrOtherIdentity) {
		t.Errorf("another identity: error = %v, want ErrOtherIdentity", err)
	}
	if text, err := os.ReadFile(o.IdentityFile); err != nil || string(text) != otherIdentity {
		t.Errorf("the file contains %q, error %v; want it unchanged", text, err)
	}
}

// RestoreIdentity creates the file of a lost identity. It refuses an identity of another database, and does
// not overwrite a file with another identity.
func TestRestoreIdentity(t *testing.T) {
	t.Parallel()
	a := newSigning(t, options())
	secret, err := a.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := a.options.identityFile()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := again(a).RestoreIdentity(t.Context(), otherIdentity); !errors.Is(err, ErrOtherIdentity) {
		t.Errorf("another identity: error = %v, want ErrOtherIdentity", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file of another identity was written, want no file")
	}
	p := a.options
	p.Passphrase, p.WorkFactor = "correct horse", 10
	for _, o := range []Options{a.options, a.options, p} { // the second call changes nothing
		if got, err := New(a.db, o).RestoreIdentity(t.Context(), secret); err != nil || got != o.identityFile() {
			t.Fatalf("RestoreIdentity = %q, %v; want %s", got, err, o.identityFile())
		}
		requireSigning(t, New(a.db, o))
	}
	if _, err := New(nil, a.options).RestoreIdentity(t.Context(), otherIdentity); err == nil || !strings.Contains(err.Error(), "move the file") {
		t.Errorf("an existing file without a database: error = %v, want the advice to move the file", err)
	}
	identity, err := age.ParseX25519Identity(secret)
	if err != nil || identity.String() != secret {
		t.Errorf("Identity = %q, error %v; want an identity of age", secret, err)
	}
}

// ReplaceIdentity replaces a lost identity, and refuses to replace an identity that can be read. After the
// replacement, new keys sign and the old certificates remain.
func TestReplaceIdentity(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		if err := a.Create(t.Context(), university, "x", nil); err != nil {
			t.Fatal(err)
		}
		none := func(*db.Tx) error { return nil }
		requireFault(t, again(a).ReplaceIdentity(t.Context(), none), CodeRefused)
		if err := os.Remove(a.options.identityFile()); err != nil {
			t.Fatal(err)
		}
		b := again(a)
		if err := errors.Join(b.ReplaceIdentity(t.Context(), none), b.RotateRoot(t.Context(), nil)); err != nil {
			t.Fatal(err)
		}
		_, err := b.Signer(t.Context(), university)
		requireFault(t, err, CodeLocked)
		if err := b.Rotate(t.Context(), university, "x", nil); err != nil {
			t.Fatal(err)
		}
		requireSigning(t, again(b))
		if list, err := b.Certificates(t.Context(), university); err != nil || len(list) != 2 {
			t.Errorf("%d certificates, %v; want the old one and the new one", len(list), err)
		}
	})
}
