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
	// maxStrays bounds the names that are stored though they belong to no entry.
	maxStrays = 1000
	// entryCost is about the memory of an entry beside its texts, in bytes.
	entryCost = 512
	// maxHeld bounds the memory of all drafts of a process, in bytes: some dozens of
	// usual batches of the largest size, or one of the longest texts.
	maxHeld = 64 << 20
	// busyRetry is when a batch may be sent again that found too many others.
	busyRetry = 5 * time.Second
)

// fields are the fields of an entry, in the order in which problems are listed.
var fields = append(slices.Clone(cert.Fields[:]), cert.FieldFile)

// Draft collects the entries of a batch as they come in, field by field and in
// any order. Each value is checked when it comes, so that a draft holds only values
// that can be stored. Close it when done.
type Draft struct {
	service *Service
	held    int64
	entries map[int]*entry
	strays  Problems
	strayed map[string]bool
}

// entry is an entry as far as it is known.
type entry struct {
	index  int
	text   cert.Text
	fileID string
	wanted *cert.Wanted
	// given are the fields that came.
	given map[cert.Field]bool
	// problems holds at most one problem of each field; that of the entry as a whole is
	// at "".
	problems map[cert.Field]cert.Problem
}

// add notes a problem of the entry, in place of an earlier one of its field.
func (e *entry) add(p cert.Problem) {
	if e.problems == nil {
		e.problems = map[cert.Field]cert.Problem{}
	}
	e.problems[p.Field] = p
}

// NewDraft begins a draft.
func (s *Service) NewDraft() *Draft {
	return &Draft{service: s, entries: map[int]*entry{}, strayed: map[string]bool{}}
}

// Close releases the memory that the draft counts.
func (d *Draft) Close() {
	d.service.held.Add(-d.held)
	d.held = 0
}

// hold counts bytes that the draft is about to hold.
func (d *Draft) hold(n int) error {
	d.held += int64(n)
	if d.service.held.Add(int64(n)) > maxHeld {
		return &fault.Error{Kind: fault.Unavailable, Message: "Too many bulk uploads are coming in at once.", RetryAfter: busyRetry}
	}
	return nil
}

// Entry notes that there is an entry of this number, from 0 to MaxIndex. The
// error, if any, is about the batch, and the draft is of no more use.
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

// Set sets a field of an entry; a second value is a problem. Fields that entries do
// not have are ignored. The error is as of Entry.
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
		return nil
	}
	// A copy, so that the buffer in which the value came is not held with it.
	valid = strings.Clone(valid)
	if field == cert.FieldFile {
		e.fileID = valid
	} else {
		*field.Of(&e.text) = valid
	}
	return d.hold(len(valid))
}

// check checks the value of a field of an entry. That of cert.FieldFile is the id of a
// staged file, in the one form in which it is stored.
func check(field cert.Field, value string) (valid string, problem *cert.Problem) {
	if field != cert.FieldFile {
		return field.Check(value)
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return "", &cert.Problem{Field: field, Code: cert.CodeRequired}
	}
	u, err := uuid.Parse(value)
	if valid = u.String(); err != nil || len(value) != len(valid) {
		return "", &cert.Problem{Field: field, Code: CodeUnknownFile}
	}
	return valid, nil
}

// Place notes that there is an entry of this number, and where its stamp is wanted;
// nil leaves it to the institution's choice. The error is as of Entry.
func (d *Draft) Place(index int, w *cert.Wanted) error {
	e, err := d.entry(index)
	if err == nil {
		e.wanted = w
	}
	return err
}

// Refuse notes a problem of a field that has no value which could be set, or of the
// entry as a whole. The error is as of Entry.
func (d *Draft) Refuse(index int, p cert.Problem) error {
	e, err := d.entry(index)
	if err != nil || p.Field != "" && !slices.Contains(fields, p.Field) {
		return err
	}
	e.given[p.Field] = true
	e.add(p)
	return nil
}

// TooLong notes that a field's value was too long to be read. The error is as of
// Entry.
func (d *Draft) TooLong(index int, field cert.Field) error {
	if field == cert.FieldFile {
		return d.Refuse(index, cert.Problem{Field: field, Code: CodeUnknownFile})
	}
	return d.Refuse(index, *field.TooLong())
}

// Stray notes a name that belongs to no entry, with the first problem of it.
func (d *Draft) Stray(name string, code cert.Code) {
	if len(d.strays) < maxStrays && !d.strayed[name] {
		d.strayed[name] = true
		d.strays = append(d.strays, Problem{Entry: NoEntry, Problem: cert.Problem{Code: code, Detail: name}})
	}
}

// sorted returns the entries by their numbers, with a problem for each value that is
// missing.
func (d *Draft) sorted() []*entry {
	list := make([]*entry, 0, len(d.entries))
	for _, index := range slices.Sorted(maps.Keys(d.entries)) {
		e := d.entries[index]
		// An entry that is refused as a whole lacks nothing.
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
