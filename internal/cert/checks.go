package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// Result is the result of a check.
type Result string

const (
	// Passed is the result of a check that found no problem.
	Passed Result = "passed"
	// FailedCheck is the result of a check that found a problem.
	FailedCheck Result = "failed"
	// NotRun is the result of a check that did not run.
	NotRun Result = "not_run"
)

const (
	// CheckRecord checks that the status of the certificate is approved.
	CheckRecord = "record"
	// CheckFile checks that the stored verified PDF has the size and digest that were stored at
	// approval.
	CheckFile = "file"
	// CheckOriginal checks that the stored original has the size and digest that were stored at the
	// upload. It exists only for uploaded originals that are not a part of the verified PDF, and is not
	// public.
	CheckOriginal = "original"
	// CheckSignature checks the digital signature of the verified PDF.
	CheckSignature = "signature"
)

// Check is the result of one check.
type Check struct {
	Name   string
	Result Result
	// CheckedAt is nil for a check that did not run.
	CheckedAt *time.Time
}

// reread reads the stored blob of a verified PDF and returns an error if the size or digest of the
// verified PDF is wrong. If the blob is a tail, reread starts from the hash state of the original, so
// that its cost does not depend on the size of the original. The blob of a certificate from a template
// begins with the fields tail, which is a part of the original. reread compares it with the fields tail
// that was drawn.
func (s *Service) reread(ctx context.Context, in *input, v *Verified) (err error) {
	o, err := s.blobs.Open(ctx, v.TailKey)
	if err != nil {
		return fmt.Errorf("rereading the verified PDF: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	hash := sha256.New()
	size := o.Size()
	tail := int64(len(in.fields))
	stored := make([]byte, tail)
	if n, err := o.ReadAt(stored, 0); err != nil && (!errors.Is(err, io.EOF) || n < len(stored)) {
		return fmt.Errorf("rereading the fields of the original: %w", err)
	}
	if !bytes.Equal(stored, in.fields) {
		return errors.New("the stored fields of the original differ from those that were drawn")
	}
	if !v.Whole {
		size += in.Size - tail
		state, ok := hash.(encoding.BinaryUnmarshaler)
		if !ok {
			return errors.New("the hash cannot restore a state")
		}
		if err := state.UnmarshalBinary(in.State); err != nil {
			return fmt.Errorf("restoring the original's hash state: %w", err)
		}
	}
	if _, err := io.Copy(hash, io.NewSectionReader(o, tail, o.Size()-tail)); err != nil {
		return fmt.Errorf("rereading the verified PDF: %w", err)
	}
	if size != v.Size || [sha256.Size]byte(hash.Sum(nil)) != v.SHA256 {
		return errors.New("the stored verified PDF has a different size or digest")
	}
	return nil
}

// recordApprovalTx stores the results of CheckFile and CheckSignature at an approval.
func recordApprovalTx(ctx context.Context, tx *db.Tx, id int64, signed Result, now int64) error {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO certificate_checks (certificate_id, name, result, checked_at) VALUES ($1, $2, $3, $4), ($1, $5, $6, $4)
		ON CONFLICT (certificate_id, name) DO UPDATE SET result = excluded.result, checked_at = excluded.checked_at`,
		id, CheckFile, string(Passed), now, CheckSignature, string(signed)); err != nil {
		return fmt.Errorf("storing the results of checks: %w", err)
	}
	return nil
}

// recordCheckTx stores the result of a check and its time. It replaces an earlier result.
func recordCheckTx(ctx context.Context, tx *db.Tx, id int64, k Check, now int64) error {
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO certificate_checks (certificate_id, name, result, checked_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (certificate_id, name) DO UPDATE SET result = excluded.result, checked_at = excluded.checked_at`,
		id, k.Name, string(k.Result), now); err != nil {
		return fmt.Errorf("storing the result of a check: %w", err)
	}
	return nil
}

// Checks returns the public checks of a certificate in the order in which the pages show them. It runs
// CheckRecord now, and returns the stored results of the other checks.
func (s *Service) Checks(ctx context.Context, c *Certificate) (_ []Check, err error) {
	now := s.now().UTC()
	record := Check{Name: CheckRecord, Result: Passed, CheckedAt: &now}
	if c.Status != Approved {
		record.Result = FailedCheck
	}
	list := []Check{record, {Name: CheckFile, Result: NotRun}, {Name: CheckSignature, Result: NotRun}}
	rows, err := s.db.QueryContext(ctx, `SELECT name, result, checked_at FROM certificate_checks WHERE certificate_id = $1`, c.ID)
	if err != nil {
		return nil, fmt.Errorf("reading checks: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k Check
		var at int64
		if err := rows.Scan(&k.Name, &k.Result, &at); err != nil {
			return nil, fmt.Errorf("reading checks: %w", err)
		}
		if k.Result != NotRun {
			t := db.Time(at)
			k.CheckedAt = &t
		}
		for i := range list {
			if list[i].Name == k.Name {
				list[i] = k
			}
		}
	}
	return list, rows.Err()
}
