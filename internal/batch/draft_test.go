package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// fieldsOf returns the messages of an Invalid error by field.
func fieldsOf(err error) map[string]string {
	fields := map[string]string{}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Invalid {
		for _, f := range e.Fields {
			fields[f.Name] = strings.Join(f.Messages, "|")
		}
	}
	return fields
}

func TestSubmitTellsAllThatIsWrong(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	staged := v.stage(v.inst)
	foreign := v.stage(v.institution("OTH"))
	for name, tc := range map[string]struct {
		change func(d *Draft) error
		want   string
	}{
		"in order": {func(*Draft) error { return nil }, ""},
		"with date and details": {func(d *Draft) error {
			return errors.Join(d.Set(7, "issue_date", "2024-02-29"), d.Set(7, "details", "x"))
		}, ""},
		"empty date and details":    {func(d *Draft) error { return errors.Join(d.Set(7, "issue_date", ""), d.Set(7, "details", " ")) }, ""},
		"a field that nobody knows": {func(d *Draft) error { return d.Set(7, "colour", "blue") }, ""},
		"an entry of nothing":       {func(d *Draft) error { return d.Entry(0) }, "entries.0.applicant_email entries.0.certificate_title entries.0.file_id entries.0.full_name"},
		"an unknown field alone":    {func(d *Draft) error { return d.Set(3, "colour", "blue") }, "entries.3.applicant_email entries.3.certificate_title entries.3.file_id entries.3.full_name"},
		"a field twice":             {func(d *Draft) error { return d.Set(7, "full_name", "Ada Obi") }, "entries.7.full_name"},
		"a file twice":              {func(d *Draft) error { return d.Set(7, FileField, staged.UUID) }, "entries.7.file_id"},
		"no text":                   {func(d *Draft) error { return d.NotText(7, "details") }, "entries.7.details"},
		"no text, unknown field":    {func(d *Draft) error { return d.NotText(7, "colour") }, ""},
		"too long to be read":       {func(d *Draft) error { return errors.Join(d.TooLong(7, "details"), d.TooLong(7, FileField)) }, "entries.7.details entries.7.file_id"},
		"no entry":                  {func(d *Draft) error { return d.NotEntry(9, "It is a number.") }, "entries.9"},
		"a name that is none's":     {func(d *Draft) error { d.Stray("entries.01.full_name", "No."); return nil }, "entries.01.full_name"},
		"NUL":                       {func(d *Draft) error { return d.Set(7, "details", "a\x00b") }, "entries.7.details"},
		"half a surrogate pair":     {func(d *Draft) error { return d.Set(7, "details", "\xed\xa0\x80") }, "entries.7.details"},
		"a date that is none":       {func(d *Draft) error { return d.Set(7, "issue_date", "2023-02-29") }, "entries.7.issue_date"},
	} {
		d := v.NewDraft()
		if err := errors.Join(person(d, 7, "Ada Obi", staged.UUID), tc.change(d)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := one[int](v, `SELECT count(*) FROM batches`)
		_, err := v.Submit(t.Context(), Submission{Institution: v.inst, Draft: d})
		d.Close()
		if got := strings.Join(slices.Sorted(maps.Keys(fieldsOf(err))), " "); got != tc.want || (err == nil) != (tc.want == "") {
			t.Errorf("%s: fields %q, want %q; %v", name, got, tc.want, err)
		}
		if n := one[int](v, `SELECT count(*) FROM batches`) - before; (n == 1) != (tc.want == "") {
			t.Errorf("%s: %d batches more", name, n)
		}
	}
	for name, id := range map[string]string{
		"unknown": uuid.NewString(), "another institution's": foreign.UUID, "no id": "diploma.pdf", "braces": "{" + staged.UUID + "}",
		"without hyphens": strings.ReplaceAll(staged.UUID, "-", ""), "empty": "", "a certificate's field": "1",
	} {
		if err := v.tryFile(id); len(fieldsOf(err)) != 1 || fieldsOf(err)["entries.0.file_id"] == "" {
			t.Errorf("file id %s: %v", name, err)
		}
	}
	if err := v.tryFile(" " + strings.ToUpper(staged.UUID) + "\n"); err != nil {
		t.Errorf("the file id in upper case: %v", err)
	}
	if _, err := v.Submit(t.Context(), Submission{Institution: v.inst, Draft: v.NewDraft()}); fieldsOf(err)["entries"] == "" {
		t.Errorf("no entries: %v", err)
	}
	if n := v.held.Load(); n != 0 {
		t.Errorf("closed drafts hold %d bytes", n)
	}
}

// tryFile submits one entry with a file id.
func (v *vault) tryFile(id string) error {
	d := v.NewDraft()
	defer d.Close()
	if err := person(d, 0, "Ada Obi", id); err != nil {
		return err
	}
	_, err := v.Submit(v.tb.Context(), Submission{Institution: v.inst, Draft: d})
	return err
}

// Errors are in the order of the entries' indexes and of the fields, whatever the order of arrival.
func TestProblemsHaveAnOrder(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	d := v.NewDraft()
	defer d.Close()
	for _, index := range []int{20, 3, 100} {
		if err := errors.Join(d.NotText(index, FileField), d.NotText(index, "applicant_email"), d.Set(index, "full_name", "Ada")); err != nil {
			t.Fatal(err)
		}
	}
	d.Stray("entries.x", "No.")
	d.Stray("entries.x", "No.")
	_, err := v.Submit(t.Context(), Submission{Institution: v.inst, Draft: d})
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		t.Fatal(err)
	}
	want := []string{"entries.x"}
	for _, index := range []int{3, 20, 100} {
		for _, field := range []string{"certificate_title", "applicant_email", "file_id"} {
			want = append(want, fmt.Sprintf("entries.%d.%s", index, field))
		}
	}
	var got []string
	for _, f := range e.Fields {
		got = append(got, f.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("fields %v, want %v", got, want)
	}
}

func TestDraftIsBounded(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	d := v.NewDraft()
	defer d.Close()
	for i := range MaxEntries {
		if err := d.Entry(i * 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Entry(7); err != nil {
		t.Errorf("a known entry: %v", err)
	}
	if err := d.Set(1, "full_name", "x"); fieldsOf(err)["entries"] == "" {
		t.Errorf("one entry too many: %v", err)
	}
	for i := range 2 * maxStrays {
		d.Stray(fmt.Sprintf("entries.x%d", i), "No.")
	}
	if len(d.strays) != maxStrays {
		t.Errorf("%d strays are held", len(d.strays))
	}
	// Drafts with the longest texts reserve no more memory in total than the bound.
	long := strings.Repeat("🎓", 255)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		other := v.NewDraft()
		t.Cleanup(other.Close)
		for i := 0; i < MaxEntries && err == nil; i++ {
			err = errors.Join(other.Set(i, "certificate_title", long), other.Set(i, "full_name", long), other.Set(i, "details", long+long+long))
		}
	}
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Unavailable || e.RetryAfter == 0 {
		t.Errorf("too many at once: %v", err)
	}
	if held := v.held.Load(); held > maxHeld+1<<20 {
		t.Errorf("%d bytes are held", held)
	}
}
