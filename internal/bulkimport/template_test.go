package bulkimport_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// newTemplateFixture returns a fixture whose vault draws templates, with a published template that has
// the required column "Final Grade" and the column "Supervisor".
func newTemplateFixture(t *testing.T, d *db.DB) (*fixture, *template.Template) {
	t.Helper()
	k := &fixture{t: t, sealer: &sealer{}, person: cert.Actor{Type: "user", ID: 7, Name: "Regina Registrar"}}
	k.Vault = vaulttest.New(t, d, vaulttest.DrawTemplates, func(d *vault.Deps) { d.Sealer, d.Attempts = k.sealer, 3 })
	k.Service = k.BulkImports
	k.inst = k.institution("NWU")
	made := k.template("Diploma")
	return k, made
}

func (k *fixture) template(name string) *template.Template {
	k.t.Helper()
	ctx := k.t.Context()
	made, err := k.Templates.Create(ctx, template.NewTemplate{Institution: k.inst, Name: name, BuiltIn: "letterpress"})
	k.ok(err)
	made, err = k.Templates.Save(ctx, k.inst, made.UUID, template.Draft{Revision: made.Draft.Revision, Layout: withColumns(made.Draft.Layout)})
	k.ok(err)
	made, err = k.Templates.Publish(ctx, k.inst, made.UUID, made.Draft.Revision)
	k.ok(err)
	return made
}

// withColumns adds two columns to a layout, at the top of the page, and a default title.
func withColumns(l design.Layout) design.Layout {
	for i, text := range []string{"{column:Final Grade}", "{column:Supervisor}"} {
		l.Fields = append(l.Fields, design.Field{
			ID: fmt.Sprintf("column%d", i), Kind: design.Column, Page: 1, Box: design.Box{20, 4 + 12*float64(i), 120, 10}, Text: text,
			Font: design.Font{Family: "Inter"}, Size: 8, MinSize: 6, Required: i == 0,
		})
	}
	l.Title = "Bachelor of Arts"
	return l
}

func (k *fixture) createFrom(t *template.Template) *bulkimport.Draft {
	k.t.Helper()
	d, err := k.CreateForTemplate(k.t.Context(), k.inst, k.person, t.UUID)
	k.ok(err)
	return d
}

// A list for a template needs no files. Its columns are detected although their names differ in case and
// accents, and its texts are checked before the submission.
func TestListForTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		k, made := newTemplateFixture(t, d)
		draft := k.createFrom(made)
		k.ok(k.SetList(t.Context(), draft, "class.csv", strings.NewReader(
			"Name,Mail,FINAL GRÁDE,supervisor of the thesis,Date of birth\nAda Obi,ada@example.org,A,Grace Hopper,2001-02-03\nZoë 𓀀,zoe@example.org,B,,2001-02-03\nBea Obi,bea@example.org,,,\n")))
		draft = k.reload(draft)
		if got := fmt.Sprint(draft.Mapping.Columns); got != "map[email:1 full_name:0 values.Final Grade:2 values.Supervisor:3]" {
			t.Errorf("the detected columns are %s, want the name, the address, the grade and the supervisor", got)
		}
		k.ok(k.SetMapping(t.Context(), draft, draft.Mapping))
		review := k.review(draft)
		if got := problemsOf(review); got != "3 full_name missing_characters; 4 values.Final Grade value_missing" {
			t.Errorf("the problems of the rows are %q, want missing_characters in row 3 and value_missing in row 4", got)
		}
		if review.Valid != 1 || review.Rows[0].Text.Title != "Bachelor of Arts" || review.Rows[0].Values["Supervisor"] != "Grace Hopper" {
			t.Errorf("%d rows are valid, and the first row is %+v, want 1 row, a Bachelor of Arts with the supervisor Grace Hopper", review.Valid, review.Rows[0])
		}
		if err := k.Submit(t.Context(), k.reload(draft), nil); !fault.Is(err, fault.BadRequest) {
			t.Errorf("submitting a list with problems: error = %v, want fault.BadRequest", err)
		}
		// The corrections are checked too.
		k.ok(k.FixAll(t.Context(), k.reload(draft), map[int]map[sheet.Column]string{
			3: {sheet.Name: "Zoë Smith"}, 4: {bulkimport.ValueColumn("Final Grade"): strings.Repeat("very good ", 90)},
		}, nil))
		if got := problemsOf(k.review(draft)); got != "4 values.Final Grade no_room" {
			t.Errorf("the problems after the corrections are %q, want no_room in row 4", got)
		}
		k.ok(k.Fix(t.Context(), k.reload(draft), 4, map[sheet.Column]string{bulkimport.ValueColumn("Final Grade"): "C"}))
		k.ok(k.Submit(t.Context(), k.reload(draft), nil))
		if p := k.finish(draft); p.Approved != 3 || len(p.Batches) != 1 {
			t.Fatalf("the progress is %+v, want 3 approved certificates of one batch", p)
		}
		if n := one[int](k, `SELECT count(*) FROM certificates WHERE source = 'template' AND template_version_id = $1 AND template_values LIKE '%"Final Grade":"C"%'`, made.Published.ID); n != 1 {
			t.Errorf("%d certificates have the corrected value, want 1", n)
		}
		results, err := k.Results(t.Context(), k.reload(draft))
		k.ok(err)
		for _, r := range results {
			if r.UUID == "" || r.ReferenceID == "" {
				t.Errorf("the result of row %d is %+v, want a certificate", r.Number, r)
			}
		}
	})
}

// If the name of a column is unknown, the addresses, dates or names in the column determine its meaning.
func TestListForTemplateByContent(t *testing.T) {
	t.Parallel()
	k, made := newTemplateFixture(t, dbtest.SQLite(t))
	layout := made.Published.Layout
	layout.Fields = append(layout.Fields, layout.Fields[len(layout.Fields)-1])
	last := &layout.Fields[len(layout.Fields)-1]
	last.ID, last.Text, last.Box[1] = "birth", "{column:Date of birth}", 40
	next, err := k.Templates.Save(t.Context(), k.inst, made.UUID, template.Draft{Revision: made.Published.Revision, Layout: layout})
	k.ok(err)
	_, err = k.Templates.Publish(t.Context(), k.inst, made.UUID, next.Draft.Revision)
	k.ok(err)
	for list, want := range map[string]string{
		// The column of the recipients is detected although the column Supervisor has names too.
		"Who,Where,Supervisor\nAda Obi,ada@example.org,Grace Hopper\nBea Ito,bea@example.org,Alan Turing\n": "map[email:1 full_name:0 values.Supervisor:2]",
		// A date of birth is not a date of issue. Only one other column has names, so it is the supervisor.
		"Name,Mail,Betreut von,geb.,Final grade\nAda Obi,a@example.org,Grace Hopper,12.03.2001,A\nBea Ito,b@example.org,Grace Hopper,13.03.2002,B\n": "map[email:1 full_name:0 values.Date of birth:3 values.Final Grade:4 values.Supervisor:2]",
		// If two other columns have names, neither is detected as the supervisor.
		"Name,Mail,First reader,Second reader\nAda Obi,a@example.org,Grace Hopper,Alan Turing\nBea Ito,b@example.org,Grace Hopper,Alan Turing\n": "map[email:1 full_name:0]",
	} {
		d := k.createFrom(made)
		k.ok(k.SetList(t.Context(), d, "class.csv", strings.NewReader(list)))
		if d = k.reload(d); fmt.Sprint(d.Mapping.Columns) != want || d.Mapped {
			t.Errorf("the detected columns of the list\n%s are %v, confirmed %t, want %s, not confirmed", list, d.Mapping.Columns, d.Mapped, want)
		}
	}
}

// Examples returns the first rows of a list and the row with the longest name. It stores nothing.
func TestExamples(t *testing.T) {
	t.Parallel()
	k, made := newTemplateFixture(t, dbtest.SQLite(t))
	var b strings.Builder
	b.WriteString("Teilnehmer\tMail\tFinal grade\tDate\n")
	for i := range 300 {
		fmt.Fprintf(&b, "Ada Obi%s\tada%d@example.org\tA\t31.12.2025\n", strings.Repeat(" X", i%150), i)
	}
	list, longest, err := k.Examples(t.Context(), &made.Published.Layout, strings.NewReader(b.String()))
	k.ok(err)
	if len(list) != bulkimport.MaxExamples+1 || longest != bulkimport.MaxExamples || list[longest].Email != "ada149@example.org" {
		t.Errorf("%d examples, the longest has the index %d, the last is %+v; want the row with the longest name at the end", len(list), longest, list[len(list)-1])
	}
	if e := list[0]; e.FullName != "Ada Obi" || e.IssueDate != "2025-12-31" || e.Title != "Bachelor of Arts" || e.Values["Final Grade"] != "A" {
		t.Errorf("the first example is %+v, want the first row of the list", e)
	}
	if _, _, err := k.Examples(t.Context(), &made.Published.Layout, strings.NewReader("Name\n")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a list without rows: error = %v, want fault.Invalid", err)
	}
	if n := one[int](k, `SELECT count(*) FROM bulk_import_drafts`); n != 0 {
		t.Errorf("%d drafts are stored, want 0", n)
	}
}

// problemsOf returns the problems of all rows as text.
func problemsOf(v *bulkimport.Review) string {
	var list []string
	for _, row := range v.Rows {
		for _, p := range row.Problems {
			list = append(list, fmt.Sprintf("%d %s %s", row.Number, p.Column, p.Code))
		}
	}
	return strings.Join(list, "; ")
}

// If the list has no column for a required column of the template, the error names the required column. A
// default replaces the missing column.
func TestMappingOfTemplateColumns(t *testing.T) {
	t.Parallel()
	k, made := newTemplateFixture(t, dbtest.SQLite(t))
	d := k.createFrom(made)
	k.ok(k.SetList(t.Context(), d, "class.csv", strings.NewReader("Name,Mail\nAda Obi,ada@example.org\n")))
	d = k.reload(d)
	err := k.SetMapping(t.Context(), d, d.Mapping)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(fmt.Sprint(err), "values.Final Grade") {
		t.Errorf("a mapping without a required column: error = %v, want fault.Invalid with the column", err)
	}
	m := d.Mapping
	m.Defaults = map[sheet.Column]string{bulkimport.ValueColumn("Final Grade"): "Passed"}
	k.ok(k.SetMapping(t.Context(), d, m))
	if v := k.review(d); v.Valid != 1 || v.Rows[0].Values["Final Grade"] != "Passed" {
		t.Errorf("the first row with a default is %+v, want a valid row with the default", v.Rows[0])
	}
	m.Columns[bulkimport.ValueColumn("Other")] = 0
	if err := k.SetMapping(t.Context(), d, m); !fault.Is(err, fault.Invalid) {
		t.Errorf("a column that the template does not have: error = %v, want fault.Invalid", err)
	}
	// The mapping of a list for a template is not used for a list with files.
	plain := k.create()
	k.ok(k.SetList(t.Context(), plain, "class.csv", strings.NewReader("Name,Mail\nAda Obi,ada@example.org\n")))
	if plain = k.reload(plain); plain.Mapping.Remembered {
		t.Error("a list with files has the mapping of a list for a template")
	}
}

// A draft uses the same version of its template until UsePublished is called. No draft for an archived
// template can be created or submitted.
func TestVersionOfList(t *testing.T) {
	t.Parallel()
	k, made := newTemplateFixture(t, dbtest.SQLite(t))
	d := k.createFrom(made)
	d = k.list(d, "Name,Mail,Final grade\nAda Obi,ada@example.org,A\n")
	layout := made.Published.Layout
	layout.Title = "Master of Arts"
	next, err := k.Templates.Save(t.Context(), k.inst, made.UUID, template.Draft{Revision: made.Published.Revision, Layout: layout})
	k.ok(err)
	_, err = k.Templates.Publish(t.Context(), k.inst, made.UUID, next.Draft.Revision)
	k.ok(err)
	if d = k.reload(d); !d.Template.Outdated || d.Template.Number != 1 || k.review(d).Rows[0].Text.Title != "Bachelor of Arts" {
		t.Errorf("after a new version, the list uses %+v, want the outdated version 1", d.Template)
	}
	stale := d
	k.ok(k.UsePublished(t.Context(), d))
	if d = k.reload(d); d.Template.Outdated || d.Template.Number != 2 || d.Mapped || k.review(d).Rows[0].Text.Title != "Master of Arts" {
		t.Errorf("after UsePublished, the list uses %+v, mapped %t, want version 2, not mapped", d.Template, d.Mapped)
	}
	if err := k.Submit(t.Context(), stale, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("submitting a list for the former version: error = %v, want fault.Conflict", err)
	}
	k.ok(k.SetMapping(t.Context(), d, d.Mapping))
	k.ok(k.Templates.Archive(t.Context(), k.inst, made.UUID))
	if err := k.Submit(t.Context(), k.reload(d), nil); !fault.Is(err, fault.BadRequest) {
		t.Errorf("submitting a list for an archived template: error = %v, want fault.BadRequest", err)
	}
	if _, err := k.CreateForTemplate(t.Context(), k.inst, k.person, made.UUID); !fault.Is(err, fault.BadRequest) {
		t.Errorf("creating a list for an archived template: error = %v, want fault.BadRequest", err)
	}
	if _, err := k.CreateForTemplate(t.Context(), k.institution("UTH"), k.person, made.UUID); !fault.Is(err, fault.NotFound) {
		t.Errorf("creating a list for another institution's template: error = %v, want fault.NotFound", err)
	}
}

// A large list with names in many scripts is valid. The log has the times of the first review and of the
// second review, which uses the stored results.
func TestFullTemplateList(t *testing.T) {
	count := 5000
	if testing.Short() {
		count = 200
	}
	k, made := newTemplateFixture(t, dbtest.SQLite(t))
	var b strings.Builder
	b.WriteString("Name,Mail,Final grade,Supervisor,Date\n")
	given := []string{"Amelia", "Zoë", "Jürgen", "María José", "Łukasz", "Ngọc Ánh", "Διονύσιος", "Екатерина", "محمد", "ज्ञानेश्वर"}
	for i := range count {
		fmt.Fprintf(&b, "%s Person-%c%c,person%d@example.org,Distinction %d,Dr Grace Hopper,2026-06-30\n", given[i%len(given)], 'A'+rune(i%26), 'a'+rune(i/26%26), i, i%100)
	}
	d := k.list(k.createFrom(made), b.String())
	var took [2]time.Duration
	for i := range took {
		start := time.Now()
		if v := k.review(d); v.Valid != count {
			t.Fatalf("%d rows are valid, want all; the problems are %.200s", v.Valid, problemsOf(v))
		}
		took[i] = time.Since(start)
	}
	t.Logf("the first review took %s, the second one %s", took[0], took[1])
}
