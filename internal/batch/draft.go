package batch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// FileField is the field of an entry that contains the id of its staged file.
	FileField = "file_id"
	// fileAt is the index of that field, after the texts.
	fileAt = len(cert.Fields)
	// fields is the number of fields of an entry.
	fields = fileAt + 1
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

// Draft collects the entries of a batch field by field, in any order. It checks each value on
// arrival, so that it only stores valid values. The caller must call Close.
type Draft struct {
	service *Service
	held    int64
	entries map[int]*entry
	strays  []fault.Field
	strayed map[string]bool
}

// entry is an entry with the fields received so far.
type entry struct {
	index  int
	text   cert.Text
	fileID string
	wanted *cert.Wanted
	// given marks the received fields, problems what is wrong with them, and problem what is wrong
	// with the entry as a whole.
	given    [fields]bool
	problems [fields]string
	problem  string
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

// Known reports whether entries have a field of this name. Unknown fields are ignored.
func Known(field string) bool { return placeOf(field) >= 0 }

func placeOf(field string) int {
	if field == FileField {
		return fileAt
	}
	return slices.IndexFunc(cert.Fields[:], func(f cert.Field) bool { return f.Name == field })
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
		return nil, fault.OfField("entries", fmt.Sprintf("The entries field must not have more than %d entries.", MaxEntries))
	}
	if err := d.hold(entryCost); err != nil {
		return nil, err
	}
	e := &entry{index: index}
	d.entries[index] = e
	return e, nil
}

// Set sets a field of an entry. A second value for the same field is a problem. Unknown fields are
// ignored. Errors are as for Entry.
func (d *Draft) Set(index int, field, value string) error {
	e, err := d.entry(index)
	at := placeOf(field)
	if err != nil || at < 0 {
		return err
	}
	if e.given[at] {
		e.problems[at] = "The " + label(field) + " field is given more than once."
		return nil
	}
	e.given[at] = true
	if at == fileAt {
		e.fileID, e.problems[at] = checkFileID(value)
		return d.hold(len(e.fileID))
	}
	f := &cert.Fields[at]
	kept, problem := f.Check(value)
	if problem != "" {
		e.problems[at] = problem
		return nil
	}
	// Copy the value, so that the draft does not keep the buffer of the request.
	*f.Of(&e.text) = strings.Clone(kept)
	return d.hold(len(kept))
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

// refuse records a problem of a field that has no valid value.
func (d *Draft) refuse(index int, field, problem string) error {
	e, err := d.entry(index)
	at := placeOf(field)
	if err != nil || at < 0 {
		return err
	}
	e.given[at], e.problems[at] = true, problem
	return nil
}

// TooLong records that a field's value was too long to be read. Errors are as for Entry.
func (d *Draft) TooLong(index int, field string) error {
	at := placeOf(field)
	if at < 0 || at == fileAt {
		return d.refuse(index, field, invalidFile)
	}
	return d.refuse(index, field, cert.Fields[at].TooLong())
}

// NotText records that a field's value was not text. Errors are as for Entry.
func (d *Draft) NotText(index int, field string) error {
	return d.refuse(index, field, "The "+label(field)+" field must be text.")
}

// NotEntry records why an element is not an entry. Errors are as for Entry.
func (d *Draft) NotEntry(index int, problem string) error {
	e, err := d.entry(index)
	if err != nil {
		return err
	}
	e.problem = problem
	return nil
}

// Stray records a problem of a name that belongs to no entry.
func (d *Draft) Stray(name, problem string) {
	if len(d.strays) < maxStrays && !d.strayed[name] {
		d.strayed[name] = true
		d.strays = append(d.strays, fault.Field{Name: name, Messages: []string{problem}})
	}
}

const invalidFile = "The selected file id is invalid: upload the file first; it can be referred to for 24 hours."

// checkFileID returns a file id in its stored form.
func checkFileID(value string) (id, problem string) {
	value = strings.TrimSpace(value)
	if value == "" {
		return "", "The file id field is required."
	}
	u, err := uuid.Parse(value)
	if id = u.String(); err != nil || len(value) != len(id) {
		return "", invalidFile
	}
	return id, ""
}

func label(field string) string { return strings.ReplaceAll(field, "_", " ") }

// sorted returns the entries by index, and records missing fields as problems.
func (d *Draft) sorted() []*entry {
	list := make([]*entry, 0, len(d.entries))
	for _, index := range slices.Sorted(maps.Keys(d.entries)) {
		e := d.entries[index]
		for at := range fields {
			switch {
			case e.given[at] || e.problem != "":
			case at == fileAt:
				_, e.problems[at] = checkFileID("")
			default:
				_, e.problems[at] = cert.Fields[at].Check("")
			}
		}
		list = append(list, e)
	}
	return list
}

// problemsOf returns all problems in the order of names and entries; nil if there are none.
func (d *Draft) problemsOf(entries []*entry) error {
	list := slices.Clone(d.strays)
	for _, e := range entries {
		if e.problem != "" {
			list = append(list, fault.Field{Name: fmt.Sprintf("entries.%d", e.index), Messages: []string{e.problem}})
		}
		for at, problem := range e.problems {
			if problem == "" {
				continue
			}
			name := FileField
			if at < fileAt {
				name = cert.Fields[at].Name
			}
			list = append(list, fault.Field{Name: fmt.Sprintf("entries.%d.%s", e.index, name), Messages: []string{problem}})
		}
	}
	switch {
	case len(list) > 0:
		return &fault.Error{Kind: fault.Invalid, Fields: list}
	case len(entries) == 0:
		return fault.OfField("entries", "The entries field is required.")
	default:
		return nil
	}
}
