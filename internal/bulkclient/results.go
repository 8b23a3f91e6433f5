package bulkclient

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/certvault/certvault/internal/sheet"
)

// WriteResults writes the result of each row as CSV, atomically.
func WriteResults(path string, results []*Result) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".results-*.csv")
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	w := csv.NewWriter(file)
	rows := make([][]string, 0, len(results)+1)
	rows = append(rows, []string{"row", "status", "uuid", "reference_id", "error"})
	for _, r := range results {
		rows = append(rows, []string{strconv.Itoa(r.Row), string(r.Status), r.UUID, r.ReferenceID, sheet.EscapeFormula(r.Error)})
	}
	if err := errors.Join(w.WriteAll(rows), file.Close()); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

// Count returns the number of rows by status.
func Count(results []*Result) map[Status]int {
	counts := map[Status]int{}
	for _, r := range results {
		counts[r.Status]++
	}
	return counts
}
