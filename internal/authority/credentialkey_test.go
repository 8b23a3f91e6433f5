package authority

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

// Keys for credentials are created only once, also by several processes at the same time. After a
// rotation, the former keys can still be used. The private keys are encrypted.
func TestCredentialKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		recorded := 0
		var mu sync.Mutex
		record := func(*db.Tx) error {
			mu.Lock()
			defer mu.Unlock()
			recorded++
			return nil
		}
		var wait sync.WaitGroup
		for _, process := range []*Authority{a, again(a), again(a)} {
			wait.Go(func() {
				if _, err := process.CredentialKeys(t.Context(), university, record); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		first, err := a.CredentialKeys(t.Context(), university, record)
		if err != nil || len(first) != 2 || recorded != 1 {
			t.Fatalf("%d keys, recorded %d times, error %v; want 2 keys, recorded once", len(first), recorded, err)
		}
		if err := a.RotateCredentialKeys(t.Context(), university, nil, record); err != nil {
			t.Fatal(err)
		}
		all, err := again(a).CredentialKeys(t.Context(), university, nil)
		if err != nil || len(all) != 4 || all[0].Number != 2 || all[3].Number != 1 || recorded != 2 {
			t.Fatalf("after the rotation: %+v, recorded %d times, error %v; want 2 generations, recorded twice", all, recorded, err)
		}
		for _, k := range all {
			signer, err := again(a).CredentialSigner(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			if public, ok := k.Public.(ed25519.PublicKey); ok {
				signature, err := signer.Sign(rand.Reader, []byte("text"), crypto.Hash(0))
				if err != nil || !ed25519.Verify(public, []byte("text"), signature) {
					t.Errorf("key %d makes no valid signature, error %v", k.Number, err)
				}
			}
		}
		texts, err := db.Column[string](d.QueryContext(t.Context(), `SELECT private_key FROM credential_keys`))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.HasPrefix(text, "-----BEGIN AGE ENCRYPTED FILE-----") {
				t.Errorf("the stored private key is %.40q, want it encrypted", text)
			}
		}
	})
}

// A private key that does not belong to the public key of its row is not used.
func TestCredentialKeyOfAnotherKey(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	a := open(t, d, options())
	list, err := a.CredentialKeys(t.Context(), university, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.RotateCredentialKeys(t.Context(), university, nil, nil); err != nil {
		t.Fatal(err)
	}
	newer, err := a.CredentialKeys(t.Context(), university, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := list[0]
	k.private = newer[0].private
	_, err = a.CredentialSigner(t.Context(), k)
	if f, ok := errors.AsType[*Fault](err); !ok || f.Code != CodeBroken {
		t.Errorf("error = %v, want a fault with the code %s", err, CodeBroken)
	}
}

// If an institution has no keys, RotateCredentialKeys creates two generations and calls the record of each.
func TestFirstRotationOfCredentialKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := open(t, d, options())
		var recorded []string
		record := func(what string) Record {
			return func(*db.Tx) error { recorded = append(recorded, what); return nil }
		}
		if err := a.RotateCredentialKeys(t.Context(), university, record("created"), record("rotated")); err != nil || !slices.Equal(recorded, []string{"created", "rotated"}) {
			t.Errorf("recorded %v, error %v; want created and rotated", recorded, err)
		}
	})
}
