package batch

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxStrays bounds the number of stored names that belong to no entry.
	maxStrays = 1000
	// entryCost is the approximate memory of an entry without its texts, in bytes.
	entryCost = 512
	// maxHeld bounds the memory of all drafts of a process, in bytes: some dozens of typical
	// batches of the largest size, or one with the longest texts.
	maxHeld = 64 << 20
	// busyRetry is the Retry-After of a batch that exceeded maxHeld.
	busyRetry = 5 * time.Second
)

// fields are the fields of an entry, in the order in which their problems are listed.
var fields = append(slices.Clone(cert.Fields[:]), cert.FieldFile)

// Draft collects the entries of a batch field by field, in any order. It checks each value on
// arrival, so that it only stores valid values. The caller must call Close.
type Draft struct {
	service *Service
	held    int64
	entries map[int]*entry
	strays  Problems
	strayed map[string]bool
}

// entry is an entry with the fields received so far.
type entry struct {
	index  int
	text   cert.Text
	fileID string
	wanted *cert.Wanted
	// given are the fields that were set.
	given map[cert.Field]bool
	// problems contains at most one problem of each field. The problem of the entry as a whole has
	// the key "".
	problems map[cert.Field]cert.Problem
}

// add records a problem of the entry and replaces an earlier one of its field.
func (e *entry) add(p cert.Problem) {
	if e.problems == nil {
		e.problems = map[cert.Field]cert.Problem{}
	}
	e.problems[p.Field] = p
}

// NewDraft returns an empty draft.
func (s *Service) NewDraft() *Draft {
	return &Draft{service: s, entries: map[int]*entry{}, strayed: map[string]bool{}}
}

// Close releases the memory that the draft has reserved.
func (d *Draft) Close() {
	d.service.held.Add(-d.held)
	d.held = 0
}

// hold reserves memory for the draft.
func (d *Draft) hold(n int) error {
	d.held += int64(n)
	if d.service.held.Add(int64(n)) > maxHeld {
		return &fault.Error{Kind: fault.Unavailable, Message: "Too many bulk uploads are coming in at once.", RetryAfter: busyRetry}
	}
	return nil
}

// Entry records that an entry with this index exists. The index is 0 to MaxIndex. After an error,
// which concerns the whole batch, the draft must not be used.
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
	if err := d.hold(entryCost); err != nil {
		return nil, err
	}
	e := &entry{index: index, given: make(map[cert.Field]bool, len(fields))}
	d.entries[index] = e
	return e, nil
}

// Set sets a field of an entry. A second value for the same field is a problem. Unknown fields are
// ignored. Errors are as for Entry.
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
	// Copy the value, so that the draft does not reference the buffer of the request.
	valid = strings.Clone(valid)
	if field == cert.FieldFile {
		e.fileID = valid
	} else {
		*field.Of(&e.text) = valid
	}
	return d.hold(len(valid))
}

// check checks the value of a field of an entry. The value of cert.FieldFile is the id of a staged
// file, which is returned in its stored form.
func check(field cert.Field, value string) (valid string, problem *cert.Problem) {
	if field != cert.FieldFile {
		return field.Check(value)
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return "", &cert.Problem{Field: field, Code: cert.CodeRequired}
	}
	// Parse accepts other spellings too, of other lengths.
	if u, err := uuid.Parse(value); err == nil && len(value) == len(u.String()) {
		return u.String(), nil
	}
	return "", &cert.Problem{Field: field, Code: CodeUnknownFile}
}

// Place records that an entry with this index exists, and its placement; nil stands for the
// institution's default. Errors are as for Entry.
func (d *Draft) Place(index int, w *cert.Wanted) error {
	e, err := d.entry(index)
	if err == nil {
		e.wanted = w
	}
	return err
}

// Refuse records a problem of a field that has no valid value, or of the entry as a whole. Errors
// are as for Entry.
func (d *Draft) Refuse(index int, p cert.Problem) error {
	e, err := d.entry(index)
	if err != nil || p.Field != "" && !slices.Contains(fields, p.Field) {
		return err
	}
	e.given[p.Field] = true
	e.add(p)
	return nil
}

// TooLong records that a field's value was too long to be read. Errors are as for Entry.
func (d *Draft) TooLong(index int, field cert.Field) error {
	if field == cert.FieldFile {
		return d.Refuse(index, cert.Problem{Field: field, Code: CodeUnknownFile})
	}
	return d.Refuse(index, *field.TooLong())
}

// Stray records the first problem of a name that belongs to no entry.
func (d *Draft) Stray(name string, code cert.Code) {
	if len(d.strays) < maxStrays && !d.strayed[name] {
		d.strayed[name] = true
		d.strays = append(d.strays, Problem{Entry: NoEntry, Problem: cert.Problem{Code: code, Detail: name}})
	}
}

// sorted returns the entries by index, and records missing fields as problems.
func (d *Draft) sorted() []*entry {
	list := make([]*entry, 0, len(d.entries))
	for _, index := range slices.Sorted(maps.Keys(d.entries)) {
		e := d.entries[index]
		// An entry that is refused as a whole has no missing fields.
		for _, field := range fields {
			if e.given[field] || e.given[""] {
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

// problemsOf returns all problems, in the order of names, entries and fields.
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
