package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

// placeOf returns the path of the field or the entry of a problem. For a problem without an entry, the
// path contains the name that AddMalformed recorded.
func placeOf(p Problem) string {
	switch {
	case p.Entry == NoEntry:
		return "entries" + p.Detail
	case p.Field == "":
		return fmt.Sprintf("entries.%d", p.Entry)
	default:
		return fmt.Sprintf("entries.%d.%s", p.Entry, p.Field)
	}
}

// codesOf maps the paths of the problems of an Invalid error to their codes.
func codesOf(err error) map[string]cert.Code {
	fields := map[string]cert.Code{}
	if problems, ok := errors.AsType[Problems](err); ok && fault.Is(err, fault.Invalid) {
		for _, p := range problems {
			fields[placeOf(p)] = p.Code
		}
	}
	return fields
}

// The text of problems for the log names the entry of the first problem, unless that problem has no entry.
func TestErrorOfProblems(t *testing.T) {
	t.Parallel()
	for entry, want := range map[int]string{7: "1 problems, the first in entry 7: ", NoEntry: "1 problems, the first: "} {
		p := Problems{{Entry: entry, Problem: cert.Problem{Field: cert.FieldName, Code: cert.CodeRequired}}}
		if got := p.Error(); !strings.HasPrefix(got, want) {
			t.Errorf("Error() = %q, want it to begin with %q", got, want)
		}
	}
}

func TestSubmitReportsAllProblems(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	staged := v.stage(v.inst)
	foreign := v.stage(v.institution("OTH"))
	for name, tc := range map[string]struct {
		change func(d *Draft) error
		want   string
	}{
		"valid entry": {func(*Draft) error { return nil }, ""},
		"with date and details": {func(d *Draft) error {
			return errors.Join(d.Set(7, "issue_date", "2024-02-29"), d.Set(7, "details", "x"))
		}, ""},
		"empty date and details":            {func(d *Draft) error { return errors.Join(d.Set(7, "issue_date", ""), d.Set(7, "details", " ")) }, ""},
		"an unknown field":                  {func(d *Draft) error { return d.Set(7, "colour", "blue") }, ""},
		"an empty entry":                    {func(d *Draft) error { return d.Entry(0) }, "entries.0.email entries.0.file entries.0.name entries.0.title"},
		"only an unknown field":             {func(d *Draft) error { return d.Set(3, "colour", "blue") }, "entries.3.email entries.3.file entries.3.name entries.3.title"},
		"a field twice":                     {func(d *Draft) error { return d.Set(7, cert.FieldName, "Ada Obi") }, "entries.7.name"},
		"a file twice":                      {func(d *Draft) error { return d.Set(7, cert.FieldFile, staged.UUID) }, "entries.7.file"},
		"a value that is not text":          {func(d *Draft) error { return d.Refuse(7, cert.Problem{Field: cert.FieldDetails, Code: "not_string"}) }, "entries.7.details"},
		"an unknown field that is not text": {func(d *Draft) error { return d.Refuse(7, cert.Problem{Field: "colour", Code: "not_string"}) }, ""},
		"values that are too long":          {func(d *Draft) error { return errors.Join(d.TooLong(7, "details"), d.TooLong(7, cert.FieldFile)) }, "entries.7.details entries.7.file"},
		"a value that is not an entry":      {func(d *Draft) error { return d.Refuse(9, cert.Problem{Code: "not_entry"}) }, "entries.9"},
		"a name without an entry":           {func(d *Draft) error { d.AddMalformed(".01.full_name", "bad_index"); return nil }, "entries.01.full_name"},
		"NUL":                               {func(d *Draft) error { return d.Set(7, "details", "a\x00b") }, "entries.7.details"},
		"an unpaired surrogate":             {func(d *Draft) error { return d.Set(7, "details", "\xed\xa0\x80") }, "entries.7.details"},
		"an invalid date":                   {func(d *Draft) error { return d.Set(7, "issue_date", "2023-02-29") }, "entries.7.issue_date"},
	} {
		d := v.NewDraft()
		if err := errors.Join(setPerson(d, 7, "Ada Obi", staged.UUID), tc.change(d)); err != nil {
			t.Fatalf("setting the fields of %s: %v", name, err)
		}
		before := one[int](v, `SELECT count(*) FROM batches`)
		_, err := v.Submit(t.Context(), Submission{Institution: v.inst, Draft: d})
		d.Close()
		if got := strings.Join(slices.Sorted(maps.Keys(codesOf(err))), " "); got != tc.want || (err == nil) != (tc.want == "") {
			t.Errorf("%s: paths of the problems = %q, want %q; error %v", name, got, tc.want, err)
		}
		if n := one[int](v, `SELECT count(*) FROM batches`) - before; (n == 1) != (tc.want == "") {
			t.Errorf("%s: Submit created %d batches, want 1 if the draft has no problem and otherwise 0", name, n)
		}
	}
	for name, id := range map[string]string{
		"unknown": uuid.NewString(), "of another institution": foreign.UUID, "not an id": "diploma.pdf", "braces": "{" + staged.UUID + "}",
		"without hyphens": strings.ReplaceAll(staged.UUID, "-", ""), "empty": "", "a number": "1",
	} {
		if err := v.tryFile(id); len(codesOf(err)) != 1 || codesOf(err)["entries.0.file"] == "" {
			t.Errorf("file id %s: error = %v, want only a problem of the field file", name, err)
		}
	}
	if err := v.tryFile(" " + strings.ToUpper(staged.UUID) + "\n"); err != nil {
		t.Errorf("a file id in upper case: error = %v, want none", err)
	}
	if _, err := v.Submit(t.Context(), Submission{Institution: v.inst, Draft: v.NewDraft()}); codesOf(err)["entries"] == "" {
		t.Errorf("a batch without entries: error = %v, want a problem of the batch", err)
	}
	if n := v.reserved.Load(); n != 0 {
		t.Errorf("%d bytes are reserved after all drafts are closed, want 0", n)
	}
}

// tryFile submits one entry with a file id.
func (v *vault) tryFile(id string) error {
	d := v.NewDraft()
	defer d.Close()
	if err := setPerson(d, 0, "Ada Obi", id); err != nil {
		return err
	}
	_, err := v.Submit(v.tb.Context(), Submission{Institution: v.inst, Draft: d})
	return err
}

// Problems are in the order of the entries and of the fields, not in the order in which the entries
// were set.
func TestOrderOfProblems(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	d := v.NewDraft()
	defer d.Close()
	for _, index := range []int{20, 3, 100} {
		if err := errors.Join(d.Refuse(index, cert.Problem{Field: cert.FieldFile, Code: "not_string"}),
			d.Refuse(index, cert.Problem{Field: cert.FieldEmail, Code: "not_string"}), d.Set(index, cert.FieldName, "Ada")); err != nil {
			t.Fatal(err)
		}
	}
	d.AddMalformed(".x", "bad_index")
	d.AddMalformed(".x", "bad_index")
	_, err := v.Submit(t.Context(), Submission{Institution: v.inst, Draft: d})
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		t.Fatal(err)
	}
	want := []string{"entries.x"}
	for _, index := range []int{3, 20, 100} {
		for _, field := range []cert.Field{cert.FieldTitle, cert.FieldEmail, cert.FieldFile} {
			want = append(want, fmt.Sprintf("entries.%d.%s", index, field))
		}
	}
	var got []string
	for _, p := range problems {
		got = append(got, placeOf(p))
	}
	if !slices.Equal(got, want) {
		t.Errorf("paths of the problems = %v, want %v", got, want)
	}
}

func TestDraftLimits(t *testing.T) {
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
		t.Errorf("an existing entry: error = %v, want none", err)
	}
	if err := d.Set(1, cert.FieldName, "x"); codesOf(err)["entries"] == "" {
		t.Errorf("one entry more than MaxEntries: error = %v, want a problem of the batch", err)
	}
	for i := range 2 * maxStrays {
		d.AddMalformed(fmt.Sprintf(".x%d", i), "bad_index")
	}
	if len(d.strays) != maxStrays {
		t.Errorf("%d names without an entry are stored, want maxStrays", len(d.strays))
	}
	// Entries are refused when all drafts together have reserved more than maxReserved.
	long := strings.Repeat("🎓", 255)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		other := v.NewDraft()
		t.Cleanup(other.Close)
		for i := 0; i < MaxEntries && err == nil; i++ {
			err = errors.Join(other.Set(i, cert.FieldTitle, long), other.Set(i, cert.FieldName, long), other.Set(i, "details", long+long+long))
		}
	}
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Unavailable || e.RetryAfter == 0 {
		t.Errorf("too many drafts: error = %v, want fault.Unavailable with a RetryAfter", err)
	}
	if reservedBytes := v.reserved.Load(); reservedBytes > maxReserved+1<<20 {
		t.Errorf("%d bytes are reserved, want at most 1 MiB more than maxReserved", reservedBytes)
	}
}
