// Package roster owns a list of certificates to be made, kept as a CSV file
// beside the files it names, and its way through a vault's interface: reading
// it, storing its files, submitting its rows in batches, going on where an
// earlier run ended, and what came of each row. It knows the vault through
// package client alone.
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
	// maxNumber is the highest row number, for it is the entry's index in the
	// interface.
	maxNumber = 999_999
)

// Row is one certificate of a list.
type Row struct {
	// Number counts the rows of the file from 1, which is the header, as a
	// spreadsheet does.
	Number                                       int
	Title, Name, Email, File, IssueDate, Details string
	// Problem is why the row cannot be sent; empty when it can.
	Problem string
}

// hash tells rows apart by what they say, wherever they stand.
func (r *Row) hash() string {
	b, err := json.Marshal([]string{r.Title, r.Name, r.Email, r.File, r.IssueDate, r.Details})
	if err != nil {
		return "" // texts can always be written
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// check says what is wrong with a row, as far as that can be told here.
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
