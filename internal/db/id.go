package db

import (
	"context"
	"fmt"
)

// IDGap is the number of ids that a restore skips. The lost database may have used these ids after the
// backup, and other systems may have stored them.
const IDGap = 1_000_000

// publicIDs are the tables whose ids other systems may have stored, from the API, events, commands,
// the panel or exports. A statement that inserts into one of these tables must use NewID.
var publicIDs = []string{"audit_entries", "certificates", "institutions", "tokens", "users", "webhook_deliveries"}

// NewID returns the beginning of the list of columns and of the list of values of an INSERT into a
// table of publicIDs. The value is the id in id_floors, which AdvanceIDsTx and KeepIDTx set, if it is
// greater than all ids of the table. Otherwise the value is NULL, for which SQLite assigns the next id.
// If an INSERT has several rows, the value of each row after the first must be NULL. On PostgreSQL both
// texts are empty.
func NewID(tx *Tx, table string) (column, value string) {
	if tx.dialect == PostgreSQL {
		return "", ""
	}
	return "id, ", "(SELECT next FROM id_floors WHERE name = '" + table + "' AND next > (SELECT coalesce(max(id), 0) FROM " + table + ")), "
}

// KeepIDTx prevents a table of publicIDs from reusing the id of a row that the transaction deletes.
// PostgreSQL never reuses an id.
func KeepIDTx(ctx context.Context, tx *Tx, table string, id int64) error {
	if tx.dialect == PostgreSQL {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO id_floors (name, next) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET next = max(next, excluded.next)`, table, id+1); err != nil {
		return fmt.Errorf("keeping an id of %s: %w", table, err)
	}
	return nil
}

// AdvanceIDsTx increases the next id of each table of publicIDs by IDGap.
func AdvanceIDsTx(ctx context.Context, tx *Tx) error {
	for _, table := range publicIDs {
		var err error
		if tx.dialect == PostgreSQL {
			_, err = tx.ExecContext(ctx, `
				SELECT setval(pg_get_serial_sequence($1, 'id'), nextval(pg_get_serial_sequence($1, 'id')) + $2 - 1)`, table, int64(IDGap))
		} else {
			_, err = tx.ExecContext(ctx, `
				INSERT INTO id_floors (name, next)
				SELECT $1, $2 + max(coalesce((SELECT max(id) + 1 FROM `+table+`), 1), coalesce((SELECT next FROM id_floors WHERE name = $1), 1)) WHERE true
				ON CONFLICT (name) DO UPDATE SET next = excluded.next`, table, int64(IDGap))
		}
		if err != nil {
			return fmt.Errorf("advancing the ids of %s: %w", table, err)
		}
	}
	return nil
}

// SpentTx reports whether an id of a table of publicIDs is used up: a row has or had the id, or a restore
// skipped it. No new row gets such an id.
func SpentTx(ctx context.Context, tx *Tx, table string, id int64) (spent bool, err error) {
	query := `SELECT $2 <= coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, 'id')::regclass), 0)`
	if tx.dialect == SQLite {
		query = `SELECT $2 < max(coalesce((SELECT max(id) + 1 FROM ` + table + `), 1), coalesce((SELECT next FROM id_floors WHERE name = $1), 1))`
	}
	if err := tx.QueryRowContext(ctx, query, table, id).Scan(&spent); err != nil {
		return false, fmt.Errorf("reading the next id of %s: %w", table, err)
	}
	return spent, nil
}
