package authority

import (
	"cmp"
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/db"
)

// rootHolder is the holder of the roots. The holder of any other key is the id of an institution.
const rootHolder = ""

// keyID identifies a key. The key with the highest number is the current key of its holder.
type keyID struct {
	holder string
	number int
}

// record is a key of the database in memory.
type record struct {
	keyID

	chain     []*x509.Certificate
	entry     entry
	createdAt time.Time
}

// errExists means that a key or a file exists already.
var errExists = errors.New("another process created it first")

// storage returns an error of the database as a *Fault.
func storage(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return &Fault{Code: CodeStorage, Err: err}
}

// read returns the keys of holders, the current ones first. If this process has read all of them
// before, read reads only their numbers, because keys never change.
func (a *Authority) read(ctx context.Context, holders ...string) (map[string][]record, error) {
	args := make([]any, len(holders))
	for i, h := range holders {
		args[i] = h
	}
	where := ` FROM signing_keys WHERE holder IN (` + db.Placeholders(1, len(holders)) + `)`
	rows, err := a.db.QueryContext(ctx, `SELECT holder, number`+where, args...)
	if err != nil {
		return nil, storage(fmt.Errorf("reading the signing keys: %w", err))
	}
	ids, err := db.Collect(rows, func(rows *sql.Rows) (id keyID, err error) {
		err = rows.Scan(&id.holder, &id.number)
		return id, err
	})
	if err != nil {
		return nil, storage(fmt.Errorf("reading the signing keys: %w", err))
	}
	// The statement has no ORDER BY: with it, PostgreSQL would plan the statement again for each signature.
	slices.SortFunc(ids, func(x, y keyID) int { return cmp.Or(cmp.Compare(x.holder, y.holder), cmp.Compare(y.number, x.number)) })
	if list, ok := a.known(ids); ok {
		return list, nil
	}
	rows, err = a.db.QueryContext(ctx, `SELECT holder, number, kind, certificates, private_key, command, created_at`+where+` ORDER BY holder, number DESC`, args...)
	if err != nil {
		return nil, storage(fmt.Errorf("reading the signing keys: %w", err))
	}
	all, err := db.Collect(rows, scanRecord)
	if err != nil {
		return nil, storage(fmt.Errorf("reading the signing keys: %w", err))
	}
	list := map[string][]record{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range all {
		a.records[r.keyID] = r
		list[r.holder] = append(list[r.holder], r)
	}
	return list, nil
}

// known returns the keys with ids. It returns false if this process has not read all of them before.
func (a *Authority) known(ids []keyID) (map[string][]record, bool) {
	list := map[string][]record{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		r, ok := a.records[id]
		if !ok {
			return nil, false
		}
		list[id.holder] = append(list[id.holder], r)
	}
	return list, true
}

func scanRecord(rows *sql.Rows) (r record, err error) {
	var command string
	var createdAt int64
	if err := rows.Scan(&r.holder, &r.number, &r.entry.Kind, &r.entry.Certificates, &r.entry.Key, &command, &createdAt); err != nil {
		return r, err
	}
	r.createdAt = db.Time(createdAt)
	if command != "" {
		err = json.Unmarshal([]byte(command), &r.entry.Command)
	}
	if err == nil {
		r.chain, err = parseChain([]byte(r.entry.Certificates))
	}
	if err != nil {
		return r, &Fault{Code: CodeBroken, Err: fmt.Errorf("reading key %d of %s: %w", r.number, holderName(r.holder), err)}
	}
	return r, nil
}

func holderName(holder string) string {
	if holder == rootHolder {
		return "the root"
	}
	return "institution " + holder
}

// existing returns the keys of a holder. The error has the code CodeMissing if there is none.
func existing(list map[string][]record, holder string) ([]record, error) {
	if len(list[holder]) == 0 {
		return nil, &Fault{Code: CodeMissing, Err: fmt.Errorf("the database has no key of %s", holderName(holder))} //nolint:err113 // callers distinguish it by its code
	}
	return list[holder], nil
}

// add adds a key with the next number, and calls the function then in the same transaction. If other processes
// add keys at the same time, add tries at most eight times.
func (a *Authority) add(ctx context.Context, holder string, e entry, then Record) error {
	var err error
	for range 8 { // another process may store a key with this number first
		err = a.db.Tx(ctx, func(tx *db.Tx) error {
			var last int
			if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(number), 0) FROM signing_keys WHERE holder = $1`, holder).Scan(&last); err != nil {
				return fmt.Errorf("reading the signing keys: %w", err)
			}
			if last == 0 {
				if err := a.checkImported(holder); err != nil {
					return err
				}
			}
			inserted, err := insertTx(ctx, tx, keyID{holder, last + 1}, e, a.options.Now())
			if err == nil && !inserted {
				err = errExists
			}
			if err != nil || then == nil {
				return err
			}
			return then(tx)
		})
		if !errors.Is(err, errExists) {
			break
		}
	}
	return storage(err)
}

// addFirst adds a key with the number 1, unless the holder has a key with this number or e is nil. In all cases
// it calls the function then in the same transaction.
func (a *Authority) addFirst(ctx context.Context, holder string, e *entry, then Record) error {
	if err := a.checkImported(holder); e != nil && err != nil {
		return err
	}
	return storage(a.db.Tx(ctx, func(tx *db.Tx) error {
		if e != nil {
			if _, err := insertTx(ctx, tx, keyID{holder, 1}, *e, a.options.Now()); err != nil {
				return err
			}
		}
		if then == nil {
			return nil
		}
		return then(tx)
	}))
}

// insertTx stores a key, unless the holder has a key with this number. It reports whether it stored
// the key.
func insertTx(ctx context.Context, tx *db.Tx, id keyID, e entry, at time.Time) (bool, error) {
	chain, err := parseChain([]byte(e.Certificates))
	if err != nil {
		return false, &Fault{Code: CodeBroken, Err: err}
	}
	command := ""
	if e.Command != nil {
		text, err := json.Marshal(e.Command)
		if err != nil {
			return false, fmt.Errorf("storing a signing key: %w", err)
		}
		command = string(text)
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO signing_keys (holder, number, kind, certificates, private_key, command, expires_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (holder, number) DO NOTHING`,
		id.holder, id.number, string(e.Kind), e.Certificates, e.Key, command, db.Micros(Expiry(chain)), db.Micros(at))
	if err != nil {
		return false, fmt.Errorf("storing a signing key: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("storing a signing key: %w", err)
	}
	return n > 0, nil
}

// Expiring counts the institutions whose current key has a certificate that expires before a time.
func (a *Authority) Expiring(ctx context.Context, before time.Time) (n int, err error) {
	err = a.db.QueryRowContext(ctx, `
		SELECT count(*) FROM signing_keys k WHERE k.expires_at < $1 AND k.holder <> ''
			AND NOT EXISTS (SELECT 1 FROM signing_keys n WHERE n.holder = k.holder AND n.number > k.number)`, db.Micros(before)).Scan(&n)
	if err != nil {
		return 0, storage(fmt.Errorf("counting expiring signing keys: %w", err))
	}
	return n, nil
}
