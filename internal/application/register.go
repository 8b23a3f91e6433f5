package application

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/sheet"
)

// MaxRegister is the maximum number of rows of a register.
const MaxRegister = 100_000

// RegisterRow is a row of a register. A row has a number or a name. Birth is a date in a form that
// sheet.Date reads.
type RegisterRow struct{ Number, Name, Birth string }

// SetRegister replaces the register of an offer, and compares the open applications again. Without rows,
// it removes the register. Only keyed digests of the values are stored. The error is fault.Invalid with
// cert.Problems of the field register.
func (s *Service) SetRegister(ctx context.Context, institutionID int64, offerUUID string, rows []RegisterRow) error {
	if len(rows) > MaxRegister {
		return cert.Problems{{Field: "register", Code: CodeRows, Limit: MaxRegister}}.Err()
	}
	o, err := s.Offer(ctx, institutionID, offerUUID)
	if err != nil {
		return err
	}
	digests := make([]registerDigest, len(rows))
	for i, row := range rows {
		if digests[i], err = s.digest(o, row); err != nil {
			return err
		}
		if digests[i].number == nil && digests[i].name == nil {
			return cert.Problems{{Field: "register", Code: CodeRow, Detail: strconv.Itoa(i + 1)}}.Err()
		}
	}
	_, err = s.changeOffer(ctx, institutionID, offerUUID, "changing a register", func(tx *db.Tx, o *Offer, now time.Time) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM offer_registers WHERE offer_id = $1`, o.ID); err != nil {
			return err
		}
		for some := range slices.Chunk(digests, rowsAtOnce) {
			if err := insertRowsTx(ctx, tx, o, some); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE offers SET register_rows = $1, revision = revision + 1, updated_at = $2 WHERE id = $3`,
			len(rows), db.Micros(now), o.ID); err != nil {
			return err
		}
		o.RegisterRows = len(rows)
		if err := s.compareTx(ctx, tx, o); err != nil {
			return err
		}
		return recordOfferTx(ctx, tx, audit.RegisterSet, o, now, audit.Detail{"rows": len(rows)})
	})
	return err
}

// rowsAtOnce is the maximum number of rows in one statement.
const rowsAtOnce = 200

func insertRowsTx(ctx context.Context, tx *db.Tx, o *Offer, some []registerDigest) error {
	var b strings.Builder
	var args []any
	for i, d := range some {
		if i > 0 {
			b.WriteString(", ")
		}
		args = append(args, o.InstitutionID, o.ID, d.number, d.name, d.birth)
		b.WriteString("(" + db.Placeholders(len(args)-4, 5) + ")")
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO offer_registers (institution_id, offer_id, number, name, birth) VALUES `+b.String(), args...); err != nil {
		return fmt.Errorf("storing a register: %w", err)
	}
	return nil
}

// registerDigest has the digests of a row. A digest is nil if the value is empty.
type registerDigest struct{ number, name, birth []byte }

// digest returns the digests of a row of the register of an offer.
func (s *Service) digest(o *Offer, row RegisterRow) (d registerDigest, err error) {
	for _, v := range []struct {
		to         *[]byte
		kind, text string
	}{{&d.number, "number", foldNumber(row.Number)}, {&d.name, "name", foldName(row.Name)}, {&d.birth, "birth", foldDate(row.Birth)}} {
		if v.text == "" {
			continue
		}
		// The digest includes the offer, so that equal values in two registers have different digests.
		if *v.to, err = s.keyring.MAC(keyring.RegisterDigest, []byte(o.UUID+"\x00"+v.kind+"\x00"+v.text)); err != nil {
			return d, fmt.Errorf("computing the digest of a register: %w", err)
		}
	}
	return d, nil
}

// plainFold returns a text in lower case and without accents. It replaces each character that is not a
// letter or a digit with a space.
func plainFold(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Mn, r):
			return -1
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			return r
		}
		return ' '
	}, norm.NFKD.String(cases.Fold().String(norm.NFKC.String(strings.ToValidUTF8(text, "")))))
}

// foldName returns a name in the form in which it is compared, with its words in alphabetical order.
func foldName(name string) string {
	return strings.Join(slices.Sorted(strings.FieldsSeq(plainFold(name))), " ")
}

// foldNumber returns a number without spaces, punctuation and leading zeros. Spreadsheets may have removed
// the zeros in a register.
func foldNumber(number string) string {
	text := strings.Join(strings.Fields(plainFold(number)), "")
	if trimmed := strings.TrimLeft(text, "0"); trimmed != "" {
		return trimmed
	}
	return text
}

// foldDate returns a date as YYYY-MM-DD, or the folded text if it is not a date. In a date that is valid
// in both orders, the day comes first.
func foldDate(date string) string {
	if date = strings.TrimSpace(date); date == "" {
		return ""
	}
	if found, _ := sheet.Date(date, sheet.DayFirst); found != "" {
		return found
	}
	if found, _ := sheet.Date(date, sheet.MonthFirst); found != "" {
		return found
	}
	return strings.Join(strings.Fields(plainFold(date)), "")
}

// advise compares an application with the rows of the register that have its number. If the offer has no
// RegisterNumber, advise uses the rows that have its name. The name is fullName if the offer has no
// RegisterName. Values that are missing in the row or in the application are not compared.
func (s *Service) advise(ctx context.Context, q db.Queryer, o *Offer, fullName string, values map[string]string) (Advice, error) {
	if o.RegisterRows == 0 {
		return NoRegister, nil
	}
	name := fullName
	if o.RegisterName != "" {
		name = values[o.RegisterName]
	}
	d, err := s.digest(o, RegisterRow{Number: values[o.RegisterNumber], Name: name, Birth: values[o.RegisterBirth]})
	if err != nil {
		return Unknown, err
	}
	condition, arg := `number = $2`, d.number
	if o.RegisterNumber == "" {
		condition, arg = `name = $2`, d.name
	}
	if arg == nil {
		return Unknown, nil
	}
	rows, err := q.QueryContext(ctx, `SELECT name, birth FROM offer_registers WHERE offer_id = $1 AND `+condition, o.ID, arg)
	if err != nil {
		return Unknown, fmt.Errorf("reading a register: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (found registerDigest, err error) {
		err = rows.Scan(&found.name, &found.birth)
		return found, err
	})
	if err != nil {
		return Unknown, fmt.Errorf("reading a register: %w", err)
	}
	same := func(a, b []byte) bool { return len(a) == 0 || len(b) == 0 || bytes.Equal(a, b) }
	for _, row := range list {
		if same(row.name, d.name) && same(row.birth, d.birth) {
			return Matches, nil
		}
	}
	if len(list) > 0 {
		return Differs, nil
	}
	return Unknown, nil
}

// compareTx compares the open applications of an offer with its register again, and stores the results.
func (s *Service) compareTx(ctx context.Context, tx *db.Tx, o *Offer) error {
	type open struct {
		id     int64
		name   string
		values map[string]string
	}
	rows, err := tx.QueryContext(ctx, `
		SELECT a.id, c.full_name, a.field_values FROM applications a JOIN certificates c ON c.id = a.certificate_id
		WHERE a.offer_id = $1 AND a.status IN ('pending', 'in_review')`, o.ID)
	if err != nil {
		return fmt.Errorf("reading open applications: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (x open, err error) {
		var text string
		err = rows.Scan(&x.id, &x.name, &text)
		return x, errors.Join(err, json.Unmarshal([]byte(text), &x.values))
	})
	if err != nil {
		return fmt.Errorf("reading open applications: %w", err)
	}
	for _, x := range list {
		advice, err := s.advise(ctx, tx, o, x.name, x.values)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE applications SET advice = $1 WHERE id = $2`, string(advice), x.id); err != nil {
			return fmt.Errorf("storing an advice: %w", err)
		}
	}
	return nil
}
