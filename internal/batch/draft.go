package batch

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxStrays is the maximum number of names without an entry that a draft records.
	maxStrays = 1000
	// entryCost is the approximate memory of an entry without its texts, in bytes.
	entryCost = 512
	// maxReserved is the maximum memory of all drafts of a process, in bytes. It is enough for about
	// 20 typical batches of MaxEntries entries.
	maxReserved = 64 << 20
	// busyRetry is the Retry-After if all drafts together exceed maxReserved.
	busyRetry = 5 * time.Second
)

// fields are the fields of an entry. The problems of an entry are listed in this order.
var fields = append(slices.Clone(cert.Fields[:]), cert.FieldFile)

// Draft collects the entries of a batch field by field, in any order. It checks each field when it
// is set and stores only valid fields. The caller must call Close.
type Draft struct {
	service  *Service
	reserved int64
	entries  map[int]*entry
	strays   Problems
	seen     map[string]bool
}

// entry is an entry with the fields received so far.
type entry struct {
	index  int
	text   cert.Text
	fileID string
	wanted *cert.RequestedPlacement
	// values are the values of a certificate from a template, in JSON.
	values json.RawMessage
	// given has the fields that were set or refused. The key "" means that the entry was refused as
	// a whole.
	given map[cert.Field]bool
	// problems has at most one problem of each field. The key "" has the problem of the entry as a
	// whole.
	problems map[cert.Field]cert.Problem
}

// add records a problem of the entry. It replaces an earlier problem of the same field.
func (e *entry) add(p cert.Problem) {
	if e.problems == nil {
		e.problems = map[cert.Field]cert.Problem{}
	}
	e.problems[p.Field] = p
}

// NewDraft returns an empty draft.
func (s *Service) NewDraft() *Draft {
	return &Draft{service: s, entries: map[int]*entry{}, seen: map[string]bool{}}
}

// Close releases the memory that the draft reserved.
func (d *Draft) Close() {
	d.service.reserved.Add(-d.reserved)
	d.reserved = 0
}

// reserve reserves n bytes of memory for the draft. The error is fault.Unavailable if all drafts
// together exceed maxReserved.
func (d *Draft) reserve(n int) error {
	d.reserved += int64(n)
	if d.service.reserved.Add(int64(n)) > maxReserved {
		return &fault.Error{Kind: fault.Unavailable, Message: "Too many bulk uploads are being received at the same time. Try again in a moment.", RetryAfter: busyRetry}
	}
	return nil
}

// Entry creates the entry with an index if it does not exist. The index is from 0 to MaxIndex; the
// caller checks it. An error concerns the whole batch. After an error, only Close may be called.
func (d *Draft) Entry(index int) error {
	_, err := d.entry(index)
	return err
}

func (d *Draft) entry(index int) (*entry, error) {
	if e := d.entries[index]; e != nil {
		return e, nil
	}
	if len(d.entries) == MaxEntries {
		return nil, Problems{{Entry: NoEntry, Problem: cert.Problem{Code: CodeTooManyEntries, Limit: MaxEntries}}}.Err()
	}
	if err := d.reserve(entryCost); err != nil {
		return nil, err
	}
	e := &entry{index: index, given: make(map[cert.Field]bool, len(fields))}
	d.entries[index] = e
	return e, nil
}

// Set sets a field of an entry. It creates the entry if necessary. An invalid value and a second
// value for the same field are recorded as problems. Unknown fields are ignored. Errors are as for
// Entry.
func (d *Draft) Set(index int, field cert.Field, value string) error {
	e, err := d.entry(index)
	if err != nil || !slices.Contains(fields, field) {
		return err
	}
	if e.given[field] {
		e.add(cert.Problem{Field: field, Code: CodeRepeated})
		return nil
	}
	e.given[field] = true
	valid, problem := check(field, value)
	if problem != nil {
		e.add(*problem)
		return nil //nolint:nilerr // The problem is recorded. An error would end the reading of the batch.
	}
	// The draft must not reference the buffer of the request.
	valid = strings.Clone(valid)
	if field == cert.FieldFile {
		e.fileID = valid
	} else {
		*field.Of(&e.text) = valid
	}
	return d.reserve(len(valid))
}

// check checks the value of a field of an entry and returns the form in which it is stored. The
// value of cert.FieldFile is the id of a staged file.
func check(field cert.Field, value string) (valid string, problem *cert.Problem) {
	if field != cert.FieldFile {
		return field.Check(value)
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return "", &cert.Problem{Field: field, Code: cert.CodeRequired}
	}
	// uuid.Parse also accepts formats of other lengths.
	if u, err := uuid.Parse(value); err == nil && len(value) == len(u.String()) {
		return u.String(), nil
	}
	return "", &cert.Problem{Field: field, Code: CodeUnknownFile}
}

// Place sets the placement of an entry; nil means the institution's default. Place creates the
// entry if necessary. Errors are as for Entry.
func (d *Draft) Place(index int, w *cert.RequestedPlacement) error {
	e, err := d.entry(index)
	if err == nil {
		e.wanted = w
	}
	return err
}

// Values sets the values that are drawn on the certificate of an entry, in JSON. It is for a batch
// from a template. It creates the entry if necessary. The caller checks the values. Errors are as
// for Entry.
func (d *Draft) Values(index int, values json.RawMessage) error {
	e, err := d.entry(index)
	if err != nil {
		return err
	}
	e.values = slices.Clone(values) // the draft must not reference the buffer of the request
	return d.reserve(len(values))
}

// Refuse records a problem of a field that has no valid value, or of the entry as a whole. It
// creates the entry if necessary. Unknown fields are ignored. Errors are as for Entry.
func (d *Draft) Refuse(index int, p cert.Problem) error {
	e, err := d.entry(index)
	if err != nil || p.Field != "" && !slices.Contains(fields, p.Field) {
		return err
	}
	e.given[p.Field] = true
	e.add(p)
	return nil
}

// TooLong records that the value of a field was too long to be read. Errors are as for Entry.
func (d *Draft) TooLong(index int, field cert.Field) error {
	if field == cert.FieldFile {
		return d.Refuse(index, cert.Problem{Field: field, Code: CodeUnknownFile})
	}
	return d.Refuse(index, *field.TooLong())
}

// AddMalformed records the name of a field that belongs to no entry, and the code of the problem. It
// records only the first code of each name, and at most maxStrays names.
func (d *Draft) AddMalformed(name string, code cert.Code) {
	if len(d.strays) < maxStrays && !d.seen[name] {
		d.seen[name] = true
		d.strays = append(d.strays, Problem{Entry: NoEntry, Problem: cert.Problem{Code: code, Detail: name}})
	}
}

// sorted returns the entries in the order of their indexes. It records missing required fields as
// problems. If template is true, entries need no file.
func (d *Draft) sorted(template bool) []*entry {
	list := make([]*entry, 0, len(d.entries))
	for _, index := range slices.Sorted(maps.Keys(d.entries)) {
		e := d.entries[index]
		// The missing fields of an entry that is refused as a whole are not reported.
		for _, field := range fields {
			if e.given[field] || e.given[""] || template && field == cert.FieldFile {
				continue
			}
			if _, problem := check(field, ""); problem != nil {
				e.add(*problem)
			}
		}
		list = append(list, e)
	}
	return list
}

// checkExpiry records the problem of the last day of validity, unless the issue date has a problem.
func (e *entry) checkExpiry(today string) {
	_, noIssueDate := e.problems[cert.FieldIssueDate]
	if problem := cert.CheckExpiry(e.text.IssueDate, e.text.ExpiresOn, today); problem != nil && !noIssueDate {
		e.add(*problem)
	}
}

// problemsOf returns all problems: first those of names without an entry, then those of the
// entries, in the order of entries and fields. A draft with neither entries nor problems has the
// problem that entries are required.
func (d *Draft) problemsOf(entries []*entry) Problems {
	list := slices.Clone(d.strays)
	for _, e := range entries {
		if p, ok := e.problems[""]; ok {
			list = append(list, Problem{e.index, p})
		}
		for _, field := range fields {
			if p, ok := e.problems[field]; ok {
				list = append(list, Problem{e.index, p})
			}
		}
	}
	if len(list) == 0 && len(entries) == 0 {
		list = Problems{{Entry: NoEntry, Problem: cert.Problem{Code: cert.CodeRequired}}}
	}
	return list
}
