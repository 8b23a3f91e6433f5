// Package bulkclient makes bulk uploads through a vault's API. It reads a list of certificates (a CSV
// file that names the files of the certificates), stores the files, and submits the rows in batches.
// After an interruption, the next run continues the upload. The package can also issue the certificates
// of a list from a template. It reports the result of each row, and accesses the vault only through
// package client.
package bulkclient

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
	// maxNumber is the highest row number. A row is submitted with its number as the index of the entry,
	// and the API accepts no higher index.
	maxNumber = 999_999
)

// Row is one certificate of a list.
type Row struct {
	// Number is the number of the row in a spreadsheet, where the header is row 1.
	Number                                                  int
	Title, Name, Email, File, IssueDate, Details, ExpiresOn string
	// Problem is the reason why the row cannot be submitted, or "".
	Problem string
}

// hash identifies a row by its content, independently of its position.
func (r *Row) hash() string {
	texts := []string{r.Title, r.Name, r.Email, r.File, r.IssueDate, r.Details}
	if r.ExpiresOn != "" { // a row without an expiry has the same hash as in journals of earlier releases
		texts = append(texts, r.ExpiresOn)
	}
	b, err := json.Marshal(texts)
	if err != nil {
		return "" // strings always marshal
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// check returns the first problem of a row that can be found without the vault, or "".
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
			return "The " + f.name + " contains a character that was damaged when the file was saved."
		}
	}
	if !strings.Contains(r.Email, "@") {
		return "The email is not an e-mail address."
	}
	for _, d := range []struct{ name, value string }{{"issue_date", r.IssueDate}, {"expires_on", r.ExpiresOn}} {
		if _, err := time.Parse(time.DateOnly, d.value); d.value != "" && err != nil {
			return "The " + d.name + " must be an existing date in the form YYYY-MM-DD."
		}
	}
	return ""
}
