package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// token is an authenticator with one passkey. It implements WebAuthn, 6.3. Tests change its fields
// to produce invalid responses.
type token struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	id     []byte
	handle []byte
	count  uint32
	origin string
	host   string
	flags  byte
}

// Flags of authenticator data (WebAuthn, 6.1).
const (
	userPresent  = 1 << 0
	userVerified = 1 << 2
	hasKey       = 1 << 6
)

func newToken(t testing.TB, p Person) *token {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	handle := uuid.MustParse(p.UUID)
	return &token{t: t, key: key, id: []byte(rand.Text()), handle: handle[:], origin: "https://vault.example:8443", host: "vault.example", flags: userPresent | userVerified}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// challenge returns the challenge in the options of a ceremony.
func (k *token) challenge(c *Ceremony) string {
	k.t.Helper()
	text, err := json.Marshal(c.Options)
	if err != nil {
		k.t.Fatal(err)
	}
	var o map[string]struct {
		Challenge string `json:"challenge"`
	}
	if err := json.Unmarshal(text, &o); err != nil || o["publicKey"].Challenge == "" {
		k.t.Fatalf("the options %s have no challenge; error %v", text, err)
	}
	return o["publicKey"].Challenge
}

func (k *token) client(kind string, c *Ceremony) []byte {
	text, err := json.Marshal(map[string]any{"type": kind, "challenge": k.challenge(c), "origin": k.origin, "crossOrigin": false})
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}

func (k *token) data(flags byte) []byte {
	host := sha256.Sum256([]byte(k.host))
	return binary.BigEndian.AppendUint32(append(host[:], flags), k.count)
}

func (k *token) create(c *Ceremony) []byte {
	k.t.Helper()
	point, err := k.key.PublicKey.Bytes()
	if err != nil {
		k.t.Fatal(err)
	}
	public, err := cbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	if err != nil {
		k.t.Fatal(err)
	}
	data := append(k.data(k.flags|hasKey), make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(k.id)))
	data = append(append(data, k.id...), public...)
	attested, err := cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data})
	if err != nil {
		k.t.Fatal(err)
	}
	return k.response(map[string]any{"clientDataJSON": b64(k.client("webauthn.create", c)), "attestationObject": b64(attested)})
}

func (k *token) get(c *Ceremony) []byte {
	k.t.Helper()
	client, data := k.client("webauthn.get", c), k.data(k.flags)
	hash := sha256.Sum256(client)
	digest := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.key, digest[:])
	if err != nil {
		k.t.Fatal(err)
	}
	return k.response(map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature), "userHandle": b64(k.handle)})
}

func (k *token) response(r map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"id": b64(k.id), "rawId": b64(k.id), "type": "public-key", "response": r, "clientExtensionResults": map[string]any{}})
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}

func (b *bench) addPasskey(s *Session) *token {
	b.t.Helper()
	k := newToken(b.t, s.Person)
	c, err := b.BeginNewPasskey(b.t.Context(), s.Person)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.AddPasskey(b.t.Context(), s, c.Secret, " My  key ", k.create(c)); err != nil {
		b.t.Fatal(err)
	}
	return k
}

func (b *bench) ceremony() *Ceremony {
	b.t.Helper()
	c, err := b.BeginPasskey(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestPasskey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		joined := b.join(address)
		p := joined.Session.Person
		b.enrol(joined)
		k := b.addPasskey(&joined.Session)
		second := b.addPasskey(&joined.Session)
		list, err := b.Passkeys(ctx, p.ID)
		if err != nil || len(list) != 2 || list[0].Name != "My key" || list[0].UsedAt != nil {
			t.Fatalf("Passkeys = %+v, error %v, want two unused passkeys, the first with the name My key", list, err)
		}
		k.count++
		c := b.ceremony()
		response := k.get(c)
		e, err := b.SignInByPasskey(ctx, c.Secret, response, home)
		if err != nil || e.Session.Person.ID != p.ID || e.Session.Pending {
			t.Fatalf("SignInByPasskey = %+v, error %v, want a session of the person that is not pending", e, err)
		}
		if _, err := b.Session(ctx, e.with(home)); err != nil {
			t.Error(err)
		}
		if _, err := b.SignInByPasskey(ctx, c.Secret, response, home); !errors.Is(err, ErrLink) {
			t.Errorf("using a response for the second time: error = %v, want ErrLink", err)
		}
		if _, err := b.SignInByPasskey(ctx, b.ceremony().Secret, response, home); !errors.Is(err, ErrPasskey) {
			t.Errorf("using a response to another challenge: error = %v, want ErrPasskey", err)
		}
		for name, change := range map[string]func(k *token){
			"an unchanged count":         func(k *token) { k.count-- },
			"another origin":             func(k *token) { k.origin = "https://vault.example.evil.example" },
			"another host":               func(k *token) { k.host = "evil.example" },
			"an unverified user":         func(k *token) { k.flags = userPresent },
			"an absent user":             func(k *token) { k.flags = userVerified },
			"the handle of another user": func(k *token) { k.handle = make([]byte, 16) },
			"an unknown credential":      func(k *token) { k.id = []byte("unknown") },
			"another key":                func(k *token) { k.key = second.key },
		} {
			changed := *k
			changed.count++
			change(&changed)
			c := b.ceremony()
			if _, err := b.SignInByPasskey(ctx, c.Secret, changed.get(c), home); !errors.Is(err, ErrPasskey) {
				t.Errorf("signing in with %s: error = %v, want ErrPasskey", name, err)
			}
		}
		for _, text := range []string{"", "{}", "null", "[]", `{"id":"x"}`} {
			if _, err := b.SignInByPasskey(ctx, b.ceremony().Secret, []byte(text), home); !errors.Is(err, ErrPasskey) {
				t.Errorf("signing in with the response %q: error = %v, want ErrPasskey", text, err)
			}
		}
		// A person cannot remove the passkey of another person.
		eve := b.join("eve@example.org").Session
		if err := b.RemovePasskey(ctx, &eve, list[0].ID); err != nil {
			t.Fatal(err)
		}
		k.count++
		c = b.ceremony()
		if err := b.ConfirmByPasskey(ctx, &eve, c.Secret, k.get(c)); !errors.Is(err, ErrPasskey) {
			t.Errorf("confirming with the passkey of another person: error = %v, want ErrPasskey", err)
		}
		c = b.ceremony()
		b.Advance(recent)
		if err := b.ConfirmByPasskey(ctx, &e.Session, b.ceremony().Secret, k.get(c)); !errors.Is(err, ErrPasskey) {
			t.Errorf("confirming with a response to another challenge: error = %v, want ErrPasskey", err)
		}
		c = b.ceremony()
		if err := b.ConfirmByPasskey(ctx, &e.Session, c.Secret, k.get(c)); err != nil {
			t.Error(err)
		}
		if s, err := b.Session(ctx, e.with(home)); err != nil || !s.Recent(b.Now()) {
			t.Errorf("the session after the confirmation is %+v, error %v, want a recent session", s, err)
		}
		if err := b.RemovePasskey(ctx, &joined.Session, list[0].ID); err != nil {
			t.Fatal(err)
		}
		k.count++
		c = b.ceremony()
		if _, err := b.SignInByPasskey(ctx, c.Secret, k.get(c), home); !errors.Is(err, ErrPasskey) {
			t.Errorf("signing in with a removed passkey: error = %v, want ErrPasskey", err)
		}
	})
}

// Synced passkeys do not count signatures: the count is always 0.
func TestPasskeyWithoutCount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		k := b.addPasskey(&b.join(address).Session)
		for range 2 {
			c := b.ceremony()
			if _, err := b.SignInByPasskey(ctx, c.Secret, k.get(c), home); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAddPasskeyRefusesInvalidResponses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b, ctx := open(t, d), t.Context()
		ada, eve := b.join(address).Session, b.join("eve@example.org").Session
		k := newToken(t, ada.Person)
		c, err := b.BeginNewPasskey(ctx, ada.Person)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.AddPasskey(ctx, &eve, c.Secret, "x", k.create(c)); !errors.Is(err, ErrPasskey) {
			t.Errorf("adding a passkey with the ceremony of another person: error = %v, want ErrPasskey", err)
		}
		c, err = b.BeginNewPasskey(ctx, ada.Person)
		if err != nil {
			t.Fatal(err)
		}
		k.flags = userPresent
		if err := b.AddPasskey(ctx, &ada, c.Secret, "x", k.create(c)); !errors.Is(err, ErrPasskey) {
			t.Errorf("adding a passkey without user verification: error = %v, want ErrPasskey", err)
		}
		k = b.addPasskey(&ada)
		if c, err = b.BeginNewPasskey(ctx, eve.Person); err != nil {
			t.Fatal(err)
		}
		if err := b.AddPasskey(ctx, &eve, c.Secret, "x", k.create(c)); !errors.Is(err, ErrPasskey) {
			t.Errorf("adding a passkey that another person has: error = %v, want ErrPasskey", err)
		}
	})
}

func TestPasskeysRequireHostName(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]bool{"https://localhost:8443": true, "https://192.0.2.1": false, "https://[2001:db8::1]:8443": false, "": false} {
		s, err := New(Config{BaseURL: base})
		if err != nil || s.HasPasskeys() != want {
			t.Errorf("with the base URL %q, HasPasskeys = %v, want %v; error %v", base, s.HasPasskeys(), want, err)
		}
		if want {
			continue
		}
		if _, err := s.BeginPasskey(t.Context()); !fault.Is(err, fault.BadRequest) {
			t.Errorf("with the base URL %q, BeginPasskey: error = %v, want fault.BadRequest", base, err)
		}
	}
}
