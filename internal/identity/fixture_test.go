package identity

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/clocktest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/job"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
)

const (
	address  = "Ada@Example.org"
	password = "correct horse"
)

// bench is a service with a clock that the test advances. The test runs the jobs and reads the mail from the
// database.
type bench struct {
	*clocktest.Clock
	*Service

	t testing.TB
	d *db.DB
	// verified and deleted have the people that the hooks received. fail is the error that the hooks return.
	verified, deleted []Person
	fail              error
	// read and worked are the ids of the last mail and the last job that the test has read.
	read, worked int64
}

func open(t testing.TB, d *db.DB) *bench {
	t.Helper()
	b := &bench{t: t, d: d, Clock: clocktest.At(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))}
	log := slog.New(slog.DiscardHandler)
	ring, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	q, err := job.New(d, job.Config{NodeID: "test", MaxAttempts: 1, Timeout: time.Minute, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	languages, err := locale.Load()
	if err != nil {
		t.Fatal(err)
	}
	mailer, err := mail.New(mail.Config{DB: d, Queue: q, From: mail.Address{Email: "no-reply@vault.example"}, Now: b.Now, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	b.Service, err = New(Config{
		DB: d, Keyring: ring, Queue: q, Mailer: mailer, Languages: languages, BaseURL: "https://vault.example:8443", PasswordCost: certtest.Cost, Now: b.Now, Log: log,
		OnVerified: func(_ context.Context, _ *db.Tx, p Person) error {
			b.verified = append(b.verified, p)
			return b.fail
		},
		OnDeleted: func(_ context.Context, _ *db.Tx, p Person) error {
			b.deleted = append(b.deleted, p)
			return b.fail
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Wait)
	return b
}

func from(address string) Origin {
	return Origin{Address: netip.MustParseAddr(address), UserAgent: "Mozilla/5.0 (X11; Linux x86_64; rv:150.0) Gecko/20100101 Firefox/150.0"}
}

var home = from("192.0.2.1")

// work handles the requests for links that were queued since the last call.
func (b *bench) work() {
	b.t.Helper()
	for _, args := range b.requests() {
		if err := b.sendLink(b.t.Context(), args); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) requests() (all []requestArgs) {
	b.t.Helper()
	args := `args`
	if b.d.Dialect == db.SQLite {
		args = `json(args)`
	}
	rows, err := b.d.QueryContext(b.t.Context(), `SELECT id, `+args+` FROM river_job WHERE kind = 'identity_link' AND id > $1 ORDER BY id`, b.worked)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text []byte
		var args requestArgs
		if err := rows.Scan(&b.worked, &text); err != nil {
			b.t.Fatal(err)
		}
		if err := json.Unmarshal(text, &args); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, args)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return all
}

// mails returns the messages that were queued since the last call.
func (b *bench) mails() (list []mail.Message) {
	b.t.Helper()
	rows, err := b.d.QueryContext(b.t.Context(), `SELECT id, message FROM mails WHERE id > $1 ORDER BY id`, b.read)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text []byte
		var m mail.Message
		if err := rows.Scan(&b.read, &text); err != nil {
			b.t.Fatal(err)
		}
		if err := json.Unmarshal(text, &m); err != nil {
			b.t.Fatal(err)
		}
		list = append(list, m)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return list
}

// link requests a link, and returns the secret from the mail. It first resets the counts of mail, so that the
// mail is sent even if another mail was sent a short time ago.
func (b *bench) link(purpose Purpose, email string) string {
	b.t.Helper()
	b.work()
	b.mails()
	if err := b.d.Tx(b.t.Context(), func(tx *db.Tx) error { return resetMailTx(b.t.Context(), tx, fold(email)) }); err != nil {
		b.t.Fatal(err)
	}
	if err := b.RequestLink(b.t.Context(), purpose, email, "en", "", home); err != nil {
		b.t.Fatal(err)
	}
	b.work()
	list := b.mails()
	if len(list) != 1 {
		b.t.Fatalf("%d mails were queued, want 1", len(list))
	}
	return b.secretIn(list[0], purpose)
}

func (b *bench) secretIn(m mail.Message, purpose Purpose) string {
	b.t.Helper()
	_, after, ok := strings.Cut(m.Text, b.BaseURL+paths[purpose])
	if !ok {
		b.t.Fatalf("the mail has no link with the purpose %s:\n%s", purpose, m.Text)
	}
	return strings.Fields(after)[0]
}

// join creates an account with CreateTx, as another package does for an invitation, and signs in.
func (b *bench) join(email string) (e *Entry) {
	b.t.Helper()
	hash, err := b.PasswordCost.Hash(b.t.Context(), password)
	if err != nil {
		b.t.Fatal(err)
	}
	parsed, err := account.ParseEmail(email)
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.d.Tx(b.t.Context(), func(tx *db.Tx) error {
		p, err := b.CreateTx(b.t.Context(), tx, parsed, NewPerson{Name: "Ada", Language: "de"}, hash)
		if err != nil {
			return err
		}
		e, err = b.EnterTx(b.t.Context(), tx, p.ID, ByInvitation, home)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// with returns an origin with the secrets of an entry.
func (e *Entry) with(from Origin) Origin {
	from.Session, from.Device = e.Secret, e.Device
	return from
}

func (b *bench) count(query string, args ...any) (n int) {
	b.t.Helper()
	if err := b.d.QueryRowContext(b.t.Context(), query, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// institution creates an institution. Its owner has not verified the address.
func (b *bench) institution(owner string) *account.Institution {
	b.t.Helper()
	inst, err := account.New(b.d, b.Now, account.WithCost(certtest.Cost)).CreateInstitution(b.t.Context(), account.NewInstitution{
		Name: "One", Prefix: "ONE", OwnerEmail: owner, OwnerName: "Ada", OwnerPassword: password,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return inst
}
