package recipient_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/vaulttest"
)

// fixture is a vault whose queue does not run. The tests approve certificates, and run jobs and sweeps,
// themselves.
type fixture struct {
	*vaulttest.Vault
	*recipient.Service

	t    *testing.T
	inst *account.Institution
}

func open(t *testing.T, d *db.DB) *fixture {
	t.Helper()
	b := &fixture{t: t, Vault: vaulttest.New(t, d)}
	b.Service = b.Recipients
	b.Set(time.Date(2026, 7, 1, 8, 0, 0, 0, time.UTC))
	b.inst = b.institution("NWU")
	return b
}

func (b *fixture) institution(prefix string) *account.Institution {
	b.t.Helper()
	return b.Institution(prefix, "University "+prefix)
}

// user creates an account, whose address is verified if verified is true.
func (b *fixture) user(email string, verified bool) (id int64) {
	b.t.Helper()
	e, err := account.ParseEmail(email)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Tx(func(tx *db.Tx) error {
		return tx.QueryRowContext(b.t.Context(), `
			INSERT INTO users (uuid, email, email_folded, name, created_at, confirmed_at) VALUES ($1, $2, $3, 'Ada Account', $4, $5) RETURNING id`,
			uuid.NewString(), e.Text, e.Folded, db.Micros(b.Now()), sql.NullInt64{Int64: db.Micros(b.Now()), Valid: verified}).Scan(&id)
	})
	return id
}

// verify sets the address of an account and marks it as verified, as package identity does.
func (b *fixture) verify(user int64, email string) {
	b.t.Helper()
	e, err := account.ParseEmail(email)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Tx(func(tx *db.Tx) error {
		if _, err := tx.ExecContext(b.t.Context(), `UPDATE users SET email = $1, email_folded = $2, confirmed_at = $3 WHERE id = $4`,
			e.Text, e.Folded, db.Micros(b.Now()), user); err != nil {
			return err
		}
		return b.ClaimTx(b.t.Context(), tx, user, e.Folded)
	})
}

type change func(*cert.Upload)

func titled(title string) change { return func(u *cert.Upload) { u.Title = title } }
func to(email string) change     { return func(u *cert.Upload) { u.Email = email } }
func of(i *account.Institution) change {
	return func(u *cert.Upload) { u.Institution = i }
}

// upload creates a certificate as the API does.
func (b *fixture) upload(changes ...change) *cert.Certificate {
	b.t.Helper()
	u := b.input(changes...)
	c, err := b.Certs.Upload(b.t.Context(), u)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *fixture) input(changes ...change) cert.Upload {
	u := cert.Upload{
		Institution: b.inst, Creator: cert.Actor{Type: "token", ID: 7, Name: "Registry"}, Context: cert.SingleUpload,
		Title: "BSc Physics", FullName: "Ada Obi", Email: "ada@example.org", IssueDate: "2026-06-30",
		File: &cert.File{Name: "diploma.pdf", Type: seal.PDF, Size: 3, State: []byte{}, Key: "key-" + uuid.NewString()},
	}
	for _, f := range changes {
		f(&u)
	}
	return u
}

// move changes the status of a certificate and reports the change, as package cert does.
func (b *fixture) move(c *cert.Certificate, s cert.Status) {
	b.t.Helper()
	b.Tx(func(tx *db.Tx) error {
		approved := sql.NullInt64{Int64: db.Micros(b.Now()), Valid: s == cert.Approved || c.ApprovedAt != nil}
		if _, err := tx.ExecContext(b.t.Context(), `UPDATE certificates SET status = $1, approved_at = $2 WHERE id = $3`, string(s), approved, c.ID); err != nil {
			return err
		}
		now := *c
		now.Status = s
		return b.MovedTx(b.t.Context(), tx, &now)
	})
	*c = *b.get(c.UUID)
}

// approve approves certificates and runs the jobs that follow.
func (b *fixture) approve(list ...*cert.Certificate) {
	b.t.Helper()
	for _, c := range list {
		b.move(c, cert.Approved)
		b.runJob(c)
	}
}

func (b *fixture) runJob(c *cert.Certificate) {
	b.t.Helper()
	if err := b.Notify(b.t.Context(), c.UUID); err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) sweep() {
	b.t.Helper()
	if err := b.Sweep(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) get(uuid string) *cert.Certificate {
	b.t.Helper()
	c, err := b.Certs.BySignedLink(b.t.Context(), uuid)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// queuedMail is a message in the queue.
type queuedMail struct {
	mail.Message

	uuid, status string
}

// mails returns all messages that were queued, in order. A cancelled message has no text.
func (b *fixture) mails() []queuedMail {
	b.t.Helper()
	rows, err := b.DB.QueryContext(b.t.Context(), `SELECT uuid, message, status FROM mails ORDER BY id`)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (k queuedMail, err error) {
		var text string
		if err := rows.Scan(&k.uuid, &text, &k.status); err != nil || text == "" {
			return k, err
		}
		return k, json.Unmarshal([]byte(text), &k.Message)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// sent returns the addresses of the messages that were not cancelled, sorted.
func (b *fixture) sent() []string {
	b.t.Helper()
	list := []string{}
	for _, m := range b.mails() {
		if m.status != "cancelled" {
			list = append(list, m.To.Email)
		}
	}
	slices.Sort(list)
	return list
}

// wantSent checks the addresses of the messages that were not cancelled.
func (b *fixture) wantSent(want ...string) {
	b.t.Helper()
	if got := b.sent(); !slices.Equal(got, want) {
		b.t.Fatalf("mail was queued for %v, want %v", got, want)
	}
}

var (
	mailLink        = regexp.MustCompile(`https://vault\.example/c/([A-Z2-7]+)`)
	unsubscribeLink = regexp.MustCompile(`https://vault\.example/unsubscribe/([A-Z2-7]+)`)
)

// link returns the secret of the link in message n, counted from 0.
func (b *fixture) link(n int) string {
	b.t.Helper()
	m := mailLink.FindStringSubmatch(b.mails()[n].Text)
	if m == nil {
		b.t.Fatalf("the message has no mailed link: %q", b.mails()[n].Text)
	}
	return m[1]
}

// finish records the result of a message, as the mailer does.
func (b *fixture) finish(id string, status mail.Status, reason string) {
	b.t.Helper()
	b.Exec(`UPDATE mails SET status = $2 WHERE uuid = $1`, id, string(status))
	b.Tx(func(tx *db.Tx) error {
		return b.MailFinishedTx(b.t.Context(), tx, mail.Result{UUID: id, Status: status, Reason: reason})
	})
}

// statuses returns the statuses of a certificate's notices, the latest first.
func (b *fixture) statuses(c *cert.Certificate) (list []recipient.Status) {
	b.t.Helper()
	notices, err := b.Notices(b.t.Context(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, n := range notices {
		list = append(list, n.Status)
	}
	return list
}

// batch creates a batch of certificates in processing, one for each address. expanded is the value of
// the batch's column of that name.
func (b *fixture) batch(expanded bool, addresses ...string) (list []*cert.Certificate) {
	b.t.Helper()
	id := uuid.NewString()
	b.Exec(`INSERT INTO batches (uuid, institution_id, name, source, trigger_context, creator_type, creator_name, total, expanded, created_at)
		VALUES ($1, $2, 'n', 'vault', 'bulk_upload', 'token', 'Registry', $3, $4, $5)`, id, b.inst.ID, len(addresses), expanded, db.Micros(b.Now()))
	for i, a := range addresses {
		u := b.input(to(a), titled("Course "+string(rune('A'+i))))
		u.BatchID = id
		b.Tx(func(tx *db.Tx) error {
			c, err := b.Certs.CreateTx(b.t.Context(), tx, u)
			list = append(list, c)
			return err
		})
	}
	return list
}

// tail is the tail of all stored certificates.
const tail = " and a tail"

// store stores the files of a certificate.
func (b *fixture) store(c *cert.Certificate, original string) {
	b.t.Helper()
	key := b.inst.UUID + "/00/" + uuid.NewString()
	for suffix, text := range map[string]string{".original": original, ".verified": tail} {
		if _, err := b.Blobs.Put(b.t.Context(), key+suffix, strings.NewReader(text)); err != nil {
			b.t.Fatal(err)
		}
	}
	sum, verified := sha256.Sum256([]byte(original)), sha256.Sum256([]byte(original+tail))
	b.Exec(`UPDATE certificates SET original_key = $1, size = $2, sha256 = $3, tail_key = $4, verified_sha256 = $5, verified_size = $6 WHERE id = $7`,
		key+".original", len(original), sum[:], key+".verified", verified[:], len(original)+len(tail), c.ID)
	*c = *b.get(c.UUID)
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
