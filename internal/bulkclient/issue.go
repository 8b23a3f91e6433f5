package bulkclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/sheet"
)

// Entries is a list of certificates that are to be issued from a template.
type Entries struct {
	// Rows are the row numbers in the spreadsheet. List has the entries of these rows.
	Rows []int
	List []client.IssueEntry
	// Unused has the names of the columns that are not used.
	Unused []string
}

// ReadEntries reads a list from an Excel workbook or a CSV file. It recognizes the columns of the
// template by their names, and the columns for the name, the address and the other data of a certificate
// by their names and their content. It returns an error if the list is not valid.
func ReadEntries(ctx context.Context, r io.Reader, columns []client.TemplateColumn, now time.Time) (*Entries, error) {
	table, err := sheet.Read(ctx, r)
	if err != nil {
		return nil, err
	}
	values := map[int]string{} // the names of the template's columns, by position in the list
	header := slices.Clone(table.Header)
	for i, name := range header {
		for _, c := range columns {
			if sheet.Fold(name) == sheet.Fold(c.Name) {
				values[i] = c.Name
				header[i] = "" // a column of the template is not also a column of the certificate
			}
		}
	}
	places := sheet.Detect(header, table.Rows, nil, nil, now)
	for i := range values {
		for meaning, at := range places {
			if at == i {
				delete(places, meaning)
			}
		}
	}
	if err := checkPlaces(places); err != nil {
		return nil, err
	}
	order := sheet.DetectOrder(func(yield func(string) bool) {
		for _, column := range []sheet.Column{sheet.IssueDate, sheet.ExpiresOn} {
			at, ok := places[column]
			for _, row := range table.Rows {
				if ok && !yield(row.Cell(at)) {
					return
				}
			}
		}
	})
	list := &Entries{Unused: unused(table.Header, places, values)}
	for _, row := range table.Rows {
		e, err := readEntry(row, places, values, order)
		if err != nil {
			return nil, err
		}
		list.Rows, list.List = append(list.Rows, row.Number), append(list.List, e)
	}
	return list, nil
}

// checkPlaces returns an error if a list has no column for names or no column for addresses.
func checkPlaces(places map[sheet.Column]int) error {
	_, whole := places[sheet.Name]
	_, family := places[sheet.FamilyName]
	if !whole && !family {
		return errors.New("the list has no column full_name")
	}
	if _, ok := places[sheet.Email]; !ok {
		return errors.New("the list has no column email")
	}
	return nil
}

func unused(header []string, places map[sheet.Column]int, values map[int]string) (names []string) {
	for i, name := range header {
		used := values[i] != ""
		for meaning, at := range places {
			used = used || at == i && meaning != sheet.File
		}
		if name = strings.TrimSpace(name); !used && name != "" {
			names = append(names, name)
		}
	}
	return names
}

func readEntry(row sheet.Row, places map[sheet.Column]int, values map[int]string, order sheet.Order) (client.IssueEntry, error) {
	cell := func(c sheet.Column) string {
		at, ok := places[c]
		if !ok {
			return ""
		}
		return strings.TrimSpace(row.Cell(at))
	}
	e := client.IssueEntry{FullName: cell(sheet.Name), ApplicantEmail: cell(sheet.Email), CertificateTitle: cell(sheet.Title), Details: cell(sheet.Details)}
	if e.FullName == "" {
		e.FullName = strings.TrimSpace(cell(sheet.GivenName) + " " + cell(sheet.FamilyName))
	}
	for column, to := range map[sheet.Column]*string{sheet.IssueDate: &e.IssueDate, sheet.ExpiresOn: &e.ExpiresOn} {
		text := cell(column)
		date, ambiguous := sheet.Date(text, order)
		if ambiguous {
			return e, fmt.Errorf("row %d: the date %s has two meanings; write dates as YYYY-MM-DD", row.Number, text)
		}
		if *to = date; date == "" {
			*to = text // the vault reports the text as a problem
		}
	}
	for at, name := range values {
		if value := strings.TrimSpace(row.Cell(at)); value != "" {
			if e.Values == nil {
				e.Values = map[string]string{}
			}
			e.Values[name] = value
		}
	}
	return e, nil
}

// Issue issues the certificates of a list from a template.
type Issue struct {
	Client     *client.Client
	TemplateID string
	// Name is the name of the batch, or "".
	Name    string
	Entries *Entries
	// Notify is the time of the mail to the recipients, as in client.Notify, or "".
	Notify string
	// Report is called with the progress; it may be nil.
	Report func(Progress)
}

// Check returns the results of the rows with problems. The status of these results is Refused. If
// existing is false, Check ignores the problem that a certificate exists already. unlisted is the number of
// further rows with problems, which the vault counts but does not list. Even if existing is false, unlisted
// also counts the rows whose only problem is that the certificate exists already.
func (i *Issue) Check(ctx context.Context, existing bool) (results []*Result, unlisted int, err error) {
	at := 0
	for chunk := range slices.Chunk(i.Entries.List, client.MaxEntries) {
		checked, err := i.Client.CheckEntries(ctx, i.TemplateID, chunk)
		if err != nil {
			return nil, 0, err
		}
		byRow, listed := map[int]*Result{}, map[int]bool{}
		for _, p := range checked.Problems {
			listed[p.Index] = true
			if p.Code == "duplicate" && !existing {
				continue
			}
			row := i.Entries.Rows[at+p.Index]
			if r := byRow[row]; r != nil {
				r.Error += " " + p.Message
				continue
			}
			byRow[row] = &Result{Row: row, Status: Refused, Error: p.Message}
			results = append(results, byRow[row])
		}
		at += len(chunk)
		unlisted += max(0, checked.Total-checked.Valid-len(listed))
	}
	return results, unlisted, nil
}

// Do issues the certificates and waits until they are finished. Each batch has an idempotency key that
// depends only on its content. If Do is called again with the same list within 24 hours, it therefore
// continues and issues nothing twice. Do returns the results of the rows that were submitted.
func (i *Issue) Do(ctx context.Context) (results []*Result, err error) {
	at := 0
	for chunk := range slices.Chunk(i.Entries.List, client.MaxEntries) {
		rows := i.Entries.Rows[at : at+len(chunk)]
		at += len(chunk)
		more, err := i.batch(ctx, rows, chunk)
		if results = append(results, more...); err != nil {
			return results, err
		}
	}
	return results, nil
}

// batch issues one batch and returns the results of its rows.
func (i *Issue) batch(ctx context.Context, rows []int, entries []client.IssueEntry) ([]*Result, error) {
	key, err := keyOf(i.TemplateID, i.Name, i.Notify, entries)
	if err != nil {
		return nil, err
	}
	accepted, err := i.Client.Issue(ctx, i.TemplateID, i.Name, entries, client.IdempotencyKey(key), client.Notify(i.Notify))
	if err != nil {
		return nil, err
	}
	results := make([]*Result, len(rows))
	for n, row := range rows {
		results[n] = &Result{Row: row, Status: Unfinished}
	}
	if _, err := i.Client.AwaitBatch(ctx, accepted.BatchID, func(b *client.Batch) {
		if i.Report != nil {
			i.Report(Progress{Total: b.Total, Stored: b.Total, Submitted: b.Total, Done: b.Total - b.Processing})
		}
	}); err != nil {
		return results, err
	}
	for e, err := range i.Client.BatchEntries(ctx, accepted.BatchID) {
		if err != nil {
			return results, err
		}
		if e.Index < len(results) {
			results[e.Index].set(e)
		}
	}
	return results, nil
}

// set sets r to the result of an entry.
func (r *Result) set(e *client.BatchEntry) {
	switch e.Status {
	case client.EntryApproved:
		r.Status = Approved
	case client.EntryFailed:
		r.Status = Failed
	case client.EntryRejected:
		r.Status = Rejected
	case client.EntryRevoked:
		r.Status = Revoked
	case client.EntryQueued, client.EntryPending, client.EntryProcessing:
	}
	r.UUID, r.ReferenceID, r.Error = textOf(e.UUID), textOf(e.ReferenceID), textOf(e.Error)
	if r.UUID == "" {
		r.UUID = textOf(e.ExistingUUID)
	}
}

// keyOf returns the idempotency key of a batch.
func keyOf(templateID, name, notify string, entries []client.IssueEntry) (string, error) {
	content, err := json.Marshal(struct {
		Template string              `json:"template"`
		Name     string              `json:"name"`
		Entries  []client.IssueEntry `json:"entries"`
		Notify   string              `json:"notify,omitempty"`
	}{templateID, name, entries, notify})
	if err != nil {
		return "", fmt.Errorf("writing the entries: %w", err)
	}
	sum := sha256.Sum256(content)
	return "issue-" + hex.EncodeToString(sum[:]), nil
}
