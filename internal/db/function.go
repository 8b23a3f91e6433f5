package db

import (
	"database/sql/driver"
	"fmt"
	"sync"

	"golang.org/x/text/unicode/norm"
	"modernc.org/sqlite"
)

// registerFunctions registers the functions that migrations need and SQLite does not have. nfc
// returns a text in Normalization Form C, as normalize does in PostgreSQL.
var registerFunctions = sync.OnceValue(func() error {
	err := sqlite.RegisterDeterministicScalarFunction("nfc", 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		if text, ok := args[0].(string); ok {
			return norm.NFC.String(text), nil
		}
		return args[0], nil
	})
	if err != nil {
		return fmt.Errorf("registering the functions of SQLite: %w", err)
	}
	return nil
})
