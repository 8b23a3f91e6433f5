// Package roster owns bulk uploads through a vault's interface. It reads a list of certificates,
// in a CSV file beside the files it names, stores the files, and submits the rows in batches.
// It continues after an interruption and reports the result of each row. It accesses the vault only
// through package client.
package roster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxText    = 255
	maxDetails = 1000
	// maxNumber is the highest row number, because it is the entry's index in the interface.
	maxNumber = 999_999
)

// Row is one certificate of a list.
type Row struct {
	// Number is the number of the row in a spreadsheet, where the header is 1.
	Number                                       int
	Title, Name, Email, File, IssueDate, Details string
	// Problem is the reason why the row cannot be sent, or "".
	Problem string
}

// hash identifies a row by its content, independent of its position.
func (r *Row) hash() string {
	b, err := json.Marshal([]string{r.Title, r.Name, r.Email, r.File, r.IssueDate, r.Details})
	if err != nil {
		return "" // strings always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// check returns the problem of a row, as far as it can be found here.
func (r *Row) check() string {
	for _, f := range []struct {
		name, value string
		limit       int
		required    bool
	}{
		{"title", r.Title, maxText, true},
		{"full_name", r.Name, maxText, true},
		{"email", r.Email, maxText, true},
		{"file", r.File, 4096, true},
		{"details", r.Details, maxDetails, false},
	} {
		switch {
		case f.value == "" && f.required:
			return "The " + f.name + " is missing."
		case utf8.RuneCountInString(f.value) > f.limit:
			return "The " + f.name + " is too long."
		case strings.ContainsRune(f.value, utf8.RuneError):
			return "The " + f.name + " has a character that was lost when the file was saved."
		}
	}
	if !strings.Contains(r.Email, "@") {
		return "The email is no e-mail address."
	}
	if r.IssueDate != "" {
		if _, err := time.Parse(time.DateOnly, r.IssueDate); err != nil {
			return "The issue_date must be a date that exists, as YYYY-MM-DD."
		}
	}
	return ""
}
