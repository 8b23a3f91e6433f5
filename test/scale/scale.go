// Package scale fills the database of a vault with very many certificates. Lists can then be measured at the
// size that they have in a large institution after years. The records are like those of uploads, but there
// are no files.
package scale

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/search"
)

const (
	// years is the number of years before now in which the certificates were created.
	years = 6
	// chunk is the maximum number of rows stored in one transaction.
	chunk = 50_000
	// batchSize is the number of consecutive certificates that are in the same batch, except those in no
	// batch. single is the percentage of certificates in no batch.
	batchSize = 2500
	single    = 30
	// validYears is the number of years from the creation of every second certificate to its expiry.
	validYears = 3
)

// Fill stores certificates of an institution. Their times of creation are spread evenly over the last
// six years. The random values depend only on Count, Seed and the current time.
type Fill struct {
	InstitutionID int64
	Count         int
	Seed          uint64
	// Yearly makes the certificates expire within a year from now, about the same number on each day, in the
	// order of their creation. Otherwise every second certificate expires validYears after its creation.
	Yearly bool
	// Progress, if not nil, is called after each transaction with the number of stored certificates.
	Progress func(done int)
}

// columns are the columns that Fill sets.
var columns = []string{
	"uuid", "institution_id", "reference_id", "reference_folded", "title", "full_name", "email", "email_folded", "issue_date", "search_text", "source",
	"trigger_context", "event_context", "status", "failure_code", "failure_message", "batch_id", "customer_id", "creator_type", "creator_id", "creator_name",
	"file_name", "mime_type", "size", "sha256", "sha256_state", "original_key", "tail_key", "verified_sha256", "verified_size", "placement", "placement_page",
	"placement_box", "created_at", "updated_at", "approved_at", "revoked_at", "revocation_reason", "job_id",
	"expires_on",
}

// Run stores the certificates of an existing institution. Its statements and transactions have no time
// limit.
func (f Fill) Run(ctx context.Context, d *db.DB) error {
	ctx = db.Unlimited(ctx)
	var prefix string
	if err := d.QueryRowContext(ctx, `SELECT prefix FROM institutions WHERE id = $1`, f.InstitutionID).Scan(&prefix); err != nil {
		return fmt.Errorf("reading the institution: %w", err)
	}
	m := &maker{fill: f, prefix: prefix, random: rand.New(rand.NewPCG(f.Seed, 1)), now: time.Now().UTC(), used: map[[3]string]bool{}} //nolint:gosec // test data
	var err error
	if f.Count > 1 {
		if m.job, err = farJob(ctx, d); err != nil {
			return err
		}
	}
	for done := 0; done < f.Count; {
		n := min(chunk, f.Count-done)
		rows := make([][]any, n)
		for i := range rows {
			if rows[i], err = m.row(done + i); err != nil {
				return err
			}
		}
		if err := store(ctx, d, rows); err != nil {
			return fmt.Errorf("storing certificates: %w", err)
		}
		done += n
		if f.Progress != nil {
			f.Progress(done)
		}
	}
	return nil
}

// Into opens the database in a data folder, or the database with a URL if database is not empty. It migrates
// the schema, stores certificates of the institution with a slug, and updates the search index. If there is
// no institution with the slug, Into creates it.
func (f Fill) Into(ctx context.Context, data, database, slug string) (err error) {
	ctx = db.Unlimited(ctx)
	d, err := db.Open(ctx, data, database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Migrate(ctx); err != nil {
		return err
	}
	if f.InstitutionID, err = institution(ctx, d, slug); err != nil {
		return err
	}
	if err := f.Run(ctx, d); err != nil {
		return err
	}
	return search.Fold(ctx, d)
}

func institution(ctx context.Context, d *db.DB, slug string) (id int64, err error) {
	err = d.QueryRowContext(ctx, `SELECT id FROM institutions WHERE slug = $1`, slug).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		prefix := strings.ToUpper(slug)
		err = d.Tx(ctx, func(tx *db.Tx) error {
			return tx.QueryRowContext(ctx, `INSERT INTO institutions (uuid, slug, name, prefix, created_at) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
				uuid.NewString(), slug, "University "+prefix, prefix, db.Micros(time.Now())).Scan(&id)
		})
	}
	if err != nil {
		return 0, fmt.Errorf("inserting the institution: %w", err)
	}
	return id, nil
}

// farJob creates a job that is due in 2099. The certificates refer to this job, so that a server does not
// process those with the status processing.
func farJob(ctx context.Context, d *db.DB) (id int64, err error) {
	err = d.Tx(ctx, func(tx *db.Tx) error {
		return tx.QueryRowContext(ctx, `
			INSERT INTO river_job (args, kind, max_attempts, queue, scheduled_at, state)
			VALUES ('{}', 'scale', 1, 'scale', '2099-01-01 00:00:00', 'scheduled') RETURNING id`).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("inserting a job: %w", err)
	}
	return id, nil
}

func store(ctx context.Context, d *db.DB, rows [][]any) error {
	if d.Dialect == db.PostgreSQL && len(rows) > 1 {
		return copyRows(ctx, d, rows)
	}
	return d.Tx(ctx, func(tx *db.Tx) (err error) {
		marks := make([]string, len(columns))
		for i := range marks {
			marks[i] = "$" + strconv.Itoa(i+1)
		}
		insert, err := tx.PrepareContext(ctx, `INSERT INTO certificates (`+strings.Join(columns, ", ")+`) VALUES (`+strings.Join(marks, ", ")+`)`)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, insert.Close()) }()
		if d.Dialect == db.SQLite && len(rows) > 1 {
			// The rows are not in the order of the indexes of names and addresses. If these indexes do not
			// fit into the cache, each row reads and writes many pages.
			if _, err := tx.ExecContext(ctx, `PRAGMA cache_size = -1500000`); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if _, err := insert.ExecContext(ctx, row...); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyRows stores rows on PostgreSQL. It disables statement_timeout, because the caller may have opened
// the database without db.Unlimited.
func copyRows(ctx context.Context, d *db.DB, rows [][]any) error {
	return pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"certificates"}, columns, pgx.CopyFromRows(rows))
		return err
	})
}

// maker creates rows in chronological order.
type maker struct {
	fill   Fill
	prefix string
	random *rand.Rand
	now    time.Time
	batch  string
	job    int64
	used   map[[3]string]bool
}

func (m *maker) row(i int) ([]any, error) {
	r := m.random
	age := time.Duration(float64(years*365*24*time.Hour) * (1 - float64(i+1)/float64(m.fill.Count)))
	created := m.now.Add(-age).Truncate(time.Microsecond)
	name := person(r)
	title := fmt.Sprintf("%s %d", pick(r, titles), created.Year())
	issued := created.AddDate(0, 0, -r.IntN(45)).Format(time.DateOnly)
	first := int(m.fill.Seed) * 10_000_000
	mail := address(r, name, first, i, r.IntN(3) == 0)
	if m.used[[3]string{mail, title, issued}] {
		mail = address(r, name, first, i, false)
	}
	m.used[[3]string{mail, title, issued}] = true
	email, err := account.ParseEmail(mail)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mail, err)
	}
	c := &cert.Certificate{
		FullName: name, Title: title, Email: mail, ReferenceID: m.prefix + "-" + letters(r, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 16),
	}
	if i%batchSize == 0 || m.batch == "" {
		m.batch = m.id().String()
	}
	var batch, customer, failureCode, failureMessage, tail, approvedDigest, verifiedSize, placement, page, box, approved, revoked, reason any
	trigger := "single_upload"
	if r.IntN(100) >= single {
		batch, trigger = m.batch, "bulk_upload"
	}
	if r.IntN(10) < 7 {
		customer = int64(1 + r.IntN(1+m.fill.Count/3))
	}
	updated := created
	digest := sha256.Sum256(binary.BigEndian.AppendUint64(nil, r.Uint64()))
	status := statusOf(r.IntN(1000))
	if status == cert.Approved || status == cert.Revoked {
		at := created.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
		if r.IntN(200) == 0 {
			at = at.Add(time.Duration(r.IntN(240)) * time.Hour) // after a retry
		}
		approved, updated = db.Micros(at), at
		tail, approvedDigest, verifiedSize = fmt.Sprintf("scale/%d.verified", i), digest[:], int64(112_000)
		placement, page, box = "bottom-right", int64(1), "[0.82,0.86,0.97,0.97]"
	}
	switch status {
	case cert.Revoked:
		if updated = updated.Add(time.Duration(r.IntN(8000)) * time.Hour); updated.After(m.now) {
			updated = m.now
		}
		revoked, reason = db.Micros(updated), "Issued in error."
	case cert.Failed:
		updated = updated.Add(time.Minute)
		failureCode, failureMessage = "no_room", "There is no room for the stamp."
	default:
	}
	var expires any
	switch {
	case m.fill.Yearly:
		expires = m.now.AddDate(0, 0, 1+i*365/m.fill.Count).Format(time.DateOnly)
	case i%2 == 0:
		expires = created.AddDate(validYears, 0, 0).Format(time.DateOnly)
	}
	return []any{
		m.id().String(), m.fill.InstitutionID, c.ReferenceID, cert.FoldReference(c.ReferenceID), c.Title, name, mail, email.Folded, issued,
		cert.SearchText(c, email), string(cert.Vault), trigger, trigger, string(status), failureCode, failureMessage, batch, customer, "token", int64(1), "Registry",
		fmt.Sprintf("certificate-%d.pdf", i), "application/pdf", int64(100_000 + r.IntN(50_000)), digest[:], make([]byte, 108), fmt.Sprintf("scale/%d.original", i), tail,
		approvedDigest, verifiedSize, placement, page,
		box, db.Micros(created), db.Micros(updated), approved, revoked, reason, m.job,
		expires,
	}, nil
}

// id returns a UUID from the random source of the maker, so that it depends on the seed.
func (m *maker) id() (u uuid.UUID) {
	binary.BigEndian.PutUint64(u[:8], m.random.Uint64())
	binary.BigEndian.PutUint64(u[8:], m.random.Uint64())
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	return u
}

func statusOf(n int) cert.Status {
	switch {
	case n < 5:
		return cert.Processing
	case n < 15:
		return cert.Failed
	case n < 40:
		return cert.Revoked
	default:
		return cert.Approved
	}
}

// address returns an e-mail address that begins with the ASCII letters of a name, followed by a number. If
// the name has few ASCII letters, the address begins with the letter s. If again is true, the number may be
// that of an earlier certificate, so that some addresses have several certificates.
func address(r *rand.Rand, name string, first, i int, again bool) string {
	domain := pick(r, []string{"northwind.example", "students.northwind.example", "mail.example", "例え.jp", "post.example.org"})
	who := first + i
	if again {
		who = first + r.IntN(i+1)
	}
	var b strings.Builder
	for _, c := range strings.ToLower(name) {
		switch {
		case c == ' ':
			b.WriteByte('.')
		case c >= 'a' && c <= 'z':
			b.WriteRune(c)
		default:
		}
	}
	local := strings.Trim(b.String(), ".")
	if len(local) < 5 {
		local = "s"
	}
	return fmt.Sprintf("%s%d@%s", local, who, domain)
}

func letters(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}
