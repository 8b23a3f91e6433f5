package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// DeedOutcome is what became of one certificate of a deed.
type DeedOutcome string

const (
	// DeedDone is one that was changed.
	DeedDone DeedOutcome = "done"
	// DeedPassedOver is one that was in no status in which there was anything to do.
	DeedPassedOver DeedOutcome = "passed_over"
	// DeedFailed is one that could not be changed by a fault of the vault.
	DeedFailed DeedOutcome = "failed"
)

// DeedOutcomes are all outcomes.
var DeedOutcomes = []DeedOutcome{DeedDone, DeedPassedOver, DeedFailed}

// DeedResult is what became of one certificate of a deed.
type DeedResult struct {
	// Number is its place among those that the deed came to, from 1.
	Number  int64
	UUID    string
	Outcome DeedOutcome
	// Was is the status for which it was passed over, "" where there was no such
	// certificate.
	Was cert.Status
	At  time.Time
	// Certificate is as it is now, nil where the institution has none.
	Certificate *cert.Certificate
}

// Why says why a certificate was not changed, "" for one that was.
func (r *DeedResult) Why(kind DeedKind) string {
	switch {
	case r.Outcome == DeedDone:
		return ""
	case r.Outcome == DeedFailed:
		return "A fault of the vault kept it from being changed. Try it again; the log of the server says more."
	case slices.Contains(deedStatuses[kind], r.Was):
		return "Somebody else changed it at the same moment."
	case r.Was == cert.Revoked && kind == RevokeMany:
		return "It was revoked already."
	case r.Was == cert.Revoked:
		return "It is revoked, and only what is failed can be retried."
	case r.Was == cert.Approved:
		return "It is approved, and only what is failed can be retried."
	case r.Was == cert.Processing:
		return "It was being processed already."
	default:
		return "There is no such certificate."
	}
}

// pageOfResults bounds a page of results, and exportedResults is how many an export
// reads at a time.
const pageOfResults, exportedResults = 100, 500

// ResultQuery says which results of a deed are asked for.
type ResultQuery struct {
	// Outcome limits them to one; empty is all.
	Outcome DeedOutcome
	// After gives those behind a number, Before those right before one.
	After, Before int64
	// Limit is 1 to 100.
	Limit int
}

// Results gives what became of the certificates of a deed, in the order in which it
// came to them.
func (s *Service) Results(ctx context.Context, d *Deed, q ResultQuery) ([]*DeedResult, error) {
	if q.Limit < 1 || q.Limit > pageOfResults {
		return nil, fault.OfField("limit", fmt.Sprintf("The limit must be 1 to %d.", pageOfResults))
	}
	if q.Outcome != "" && !slices.Contains(DeedOutcomes, q.Outcome) {
		return nil, fault.OfField("outcome", "There is no such outcome.")
	}
	return s.results(ctx, d, q)
}

func (s *Service) results(ctx context.Context, d *Deed, q ResultQuery) (list []*DeedResult, err error) {
	where, args := `deed_id = $1`, []any{d.id}
	if q.Outcome != "" {
		where, args = where+` AND result = $2`, append(args, string(q.Outcome))
	}
	beyond, from, direction := ` > `, q.After, ` ASC`
	if q.Before > 0 {
		beyond, from, direction = ` < `, q.Before, ` DESC`
	}
	args = append(args, from, q.Limit)
	rows, err := s.db.QueryContext(ctx, fmt.Sprintf(`SELECT number, uuid, result, why, at FROM certificate_deed_results
		WHERE `+where+` AND number`+beyond+`$%d ORDER BY number`+direction+` LIMIT $%d`, len(args)-1, len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("reading the results of a deed: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		r := &DeedResult{}
		var at int64
		if err := rows.Scan(&r.Number, &r.UUID, &r.Outcome, &r.Was, &at); err != nil {
			return nil, fmt.Errorf("reading the results of a deed: %w", err)
		}
		r.At = db.Time(at)
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the results of a deed: %w", err)
	}
	if q.Before > 0 {
		slices.Reverse(list)
	}
	return list, s.nowOf(ctx, d, list)
}

// nowOf finds the certificates of results as they are now.
func (s *Service) nowOf(ctx context.Context, d *Deed, list []*DeedResult) (err error) {
	if len(list) == 0 {
		return nil
	}
	byUUID := make(map[string]*DeedResult, len(list))
	args := []any{d.institutionID}
	for _, r := range list {
		byUUID[r.UUID], args = r, append(args, r.UUID)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+cert.Columns+` FROM certificates WHERE institution_id = $1 AND uuid IN (`+db.Places(2, len(list))+`)`, args...)
	if err != nil {
		return fmt.Errorf("reading the certificates of a deed: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		c, err := cert.Scan(rows)
		if err != nil {
			return fmt.Errorf("reading the certificates of a deed: %w", err)
		}
		byUUID[c.UUID].Certificate = c
	}
	return rows.Err()
}

// outcomeNames are what exports call outcomes.
var outcomeNames = map[DeedOutcome]string{DeedDone: "done", DeedPassedOver: "passed over", DeedFailed: "failed"}

// WriteResults writes what became of all certificates of a deed as CSV.
func (s *Service) WriteResults(ctx context.Context, d *Deed, out io.Writer) error {
	w := sheet.NewWriter(out)
	if err := w.Write("Number", "Result", "Why", "Reference id", "Certificate title", "Full name", "E-mail", "Status now", "Certificate", "At"); err != nil {
		return err
	}
	for q := (ResultQuery{Limit: exportedResults}); ; {
		list, err := s.results(ctx, d, q)
		if err != nil {
			return err
		}
		for _, r := range list {
			var c cert.Certificate
			if r.Certificate != nil {
				c = *r.Certificate
			}
			if err := w.Write(fmt.Sprint(r.Number), outcomeNames[r.Outcome], r.Why(d.Kind), c.ReferenceID, c.Title, c.FullName, c.Email, string(c.Status), r.UUID,
				r.At.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
			q.After = r.Number
		}
		if len(list) < q.Limit {
			return w.Flush()
		}
	}
}

// keepResultsTx notes what became of the certificates of a step.
func (s *Service) keepResultsTx(ctx context.Context, tx *db.Tx, d *Deed, list []DeedResult) error {
	if len(list) == 0 {
		return nil
	}
	const perRow = 4
	args := []any{d.id, db.Micros(s.now())}
	rows := make([]string, len(list))
	for i, r := range list {
		rows[i] = "($1, " + db.Places(len(args)+1, perRow) + ", $2)"
		args = append(args, int64(d.Came()+i+1), r.UUID, string(r.Outcome), string(r.Was))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO certificate_deed_results (deed_id, number, uuid, result, why, at) VALUES `+strings.Join(rows, ", "), args...)
	return err
}

const (
	// DeedsKeptFor is how long a deed that is done can be looked at.
	DeedsKeptFor = 30 * 24 * time.Hour
	// deedsListed is how many deeds are listed.
	deedsListed = 100
	// resultsForgotten bounds one transaction of forgetting.
	resultsForgotten = 5000
)

// Deeds gives the newest deeds of an institution.
func (s *Service) Deeds(ctx context.Context, institutionID int64) (list []*Deed, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+deedColumns+` FROM certificate_deeds WHERE institution_id = $1 ORDER BY id DESC LIMIT $2`, institutionID, deedsListed)
	if err != nil {
		return nil, fmt.Errorf("listing deeds: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		d, err := scanDeed(rows)
		if err != nil {
			return nil, fmt.Errorf("listing deeds: %w", err)
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

// forgetDeeds ends deeds whose time is over, with their results.
func (s *Service) forgetDeeds(ctx context.Context) error {
	for {
		ids, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id FROM certificate_deeds WHERE finished_at IS NOT NULL AND finished_at < $1 ORDER BY finished_at LIMIT 1`,
			db.Micros(s.now().Add(-DeedsKeptFor))))
		if err != nil {
			return fmt.Errorf("looking for deeds whose time is over: %w", err)
		}
		if len(ids) == 0 {
			return nil
		}
		if err := s.forgetDeed(ctx, ids[0]); err != nil {
			return fmt.Errorf("forgetting a deed: %w", err)
		}
		s.log.DebugContext(ctx, "a deed on many certificates was forgotten", slog.Int64("deed", ids[0]))
	}
}

func (s *Service) forgetDeed(ctx context.Context, id int64) error {
	for {
		var n int64
		err := s.db.Tx(ctx, func(tx *db.Tx) error {
			res, err := tx.ExecContext(ctx, `DELETE FROM certificate_deed_results WHERE deed_id = $1 AND number IN (
				SELECT number FROM certificate_deed_results WHERE deed_id = $1 ORDER BY number LIMIT $2)`, id, resultsForgotten)
			if err != nil {
				return err
			}
			if n, err = res.RowsAffected(); err != nil || n == resultsForgotten {
				return err
			}
			_, err = tx.ExecContext(ctx, `DELETE FROM certificate_deeds WHERE id = $1`, id)
			return err
		})
		if err != nil || n < resultsForgotten {
			return err
		}
	}
}
