package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/bulkclient"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/design/builtin"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/panel"
)

type templateCommand struct {
	List    templateList    `cmd:"" help:"List the templates of an institution, or the built-in designs."`
	Import  templateImport  `cmd:"" help:"Create a template from an exported file, a built-in design, or a PDF, PNG or JPEG file."`
	Publish templatePublish `cmd:"" help:"Publish the draft of a template, so that certificates can be issued from it."`
	Archive templateArchive `cmd:"" help:"Archive a template, so that no more certificates are issued from it."`
	Export  templateExport  `cmd:"" help:"Write a template to a file, to import it into another institution or vault."`
	Issue   templateIssue   `cmd:"" help:"Issue the certificates of a list from a template, through the API."`
}

// withTemplates opens the templates of an institution and calls f.
func (c *console) withTemplates(s config.Storage, slug string, fonts []string, f func(t *template.Service, inst *account.Institution) error) error {
	return c.institution(s, slug, func(base *app.Base, inst *account.Institution) (err error) {
		t, done, err := base.Templates(c.ctx, s, fonts)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done(c.ctx)) }()
		return f(t, inst)
	})
}

// problemLines returns an English message for each problem of a layout.
func problemLines(problems design.Problems, l *design.Layout) ([]string, error) {
	languages, err := locale.Load()
	if err != nil {
		return nil, err
	}
	return panel.TemplateProblems(languages.FirstOf("en"), problems, l), nil
}

// templateError converts an error with the problems of a layout to a message with one line for each
// problem. It returns other errors unchanged.
func templateError(err error, l *design.Layout) error {
	problems, ok := errors.AsType[design.Problems](err)
	if !ok {
		return err
	}
	lines, err := problemLines(problems, l)
	if err != nil {
		return err
	}
	return fmt.Errorf("the template cannot be published; change it in the panel:\n  %s", strings.Join(lines, "\n  "))
}

type templateList struct {
	config.Storage

	Institution string `help:"Slug of the institution. Required without --built-in." placeholder:"SLUG" xor:"what"`
	BuiltIn     bool   `help:"List the built-in designs instead of the templates of an institution." name:"built-in" xor:"what"`
	Archived    bool   `help:"List archived templates instead of the others."`
}

// printOverlaps prints warnings about overlapping fields of a published template.
func (c *console) printOverlaps(t *template.Template) error {
	l := &t.Published.Layout
	lines, err := problemLines(l.Overlaps(t.Published.Pages), l)
	for _, line := range lines {
		printf(c.stderr, "certvault: warning: %s\n", line)
	}
	return err
}

type templateRow struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	State   string `json:"state"`
	Version int    `json:"version"`
	Draft   bool   `json:"draft"`
	Issued  int    `json:"issued"`
	// Signatories are the names of the members who must approve each certificate of the version.
	Signatories []string   `json:"signatories"`
	PublishedAt *time.Time `json:"published_at"`
	ArchivedAt  *time.Time `json:"archived_at"`
}

// templateRows returns the rows of templates, with the numbers of issued certificates.
func templateRows(c *console, s *template.Service, inst *account.Institution, list ...*template.Template) ([]templateRow, error) {
	if err := s.CountIssued(c.ctx, inst.ID, list...); err != nil {
		return nil, err
	}
	rows := make([]templateRow, len(list))
	for i, t := range list {
		rows[i] = templateRowOf(t)
	}
	return rows, nil
}

func templateRowOf(t *template.Template) templateRow {
	r := templateRow{ID: t.UUID, Name: t.Name, State: "draft", Version: t.Latest().Number, Draft: t.Draft != nil, Issued: t.Issued, ArchivedAt: t.ArchivedAt}
	named := t.Latest()
	if t.Published != nil {
		named = t.Published
	}
	r.Signatories = []string{}
	for _, s := range named.Signatories {
		r.Signatories = append(r.Signatories, s.Name)
	}
	if t.Published != nil {
		r.State, r.Version, r.PublishedAt = "published", t.Published.Number, t.Published.PublishedAt
	}
	if t.ArchivedAt != nil {
		r.State = "archived"
	}
	return r
}

// builtInRow is a built-in design.
type builtInRow struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Landscape   bool     `json:"landscape"`
	Papers      []string `json:"papers"`
}

// Run lists templates, newest first, or the built-in designs.
func (l *templateList) Run(c *console) error {
	if l.BuiltIn {
		return c.printBuiltIn()
	}
	if l.Institution == "" {
		return &usageError{errors.New("specify --institution or --built-in")}
	}
	return c.withTemplates(l.Storage, l.Institution, nil, func(s *template.Service, inst *account.Institution) error {
		list, err := s.List(c.ctx, inst.ID, template.Filter{Archived: l.Archived})
		if err != nil {
			return err
		}
		rows, err := templateRows(c, s, inst, list...)
		if err != nil {
			return err
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "ID", "NAME", "STATE", "VERSION", "DRAFT", "ISSUED", "SIGNATORIES", "PUBLISHED")
			for i := range rows {
				r := &rows[i]
				draft := "-"
				if r.Draft {
					draft = "yes"
				}
				table.row(r.ID, r.Name, r.State, r.Version, draft, r.Issued, cmp.Or(strings.Join(r.Signatories, ", "), "-"), formatTime(r.PublishedAt))
			}
			table.flush()
		})
	})
}

func (c *console) printBuiltIn() error {
	var rows []builtInRow
	for _, b := range builtin.All() {
		row := builtInRow{Name: b.Name, Title: b.Title, Description: b.Description, Landscape: b.Landscape}
		for _, f := range b.Formats {
			row.Papers = append(row.Papers, f.Paper)
		}
		rows = append(rows, row)
	}
	return c.print(rows, func(w io.Writer) {
		table := newTable(w, "NAME", "TITLE", "DESCRIPTION")
		for _, r := range rows {
			table.row(r.Name, r.Title, r.Description)
		}
		table.flush()
	})
}

type templateImport struct {
	config.Storage

	File        string   `arg:"" help:"File of certvault template export, or a design: PDF, PNG or JPEG." name:"FILE" optional:"" type:"path"`
	BuiltIn     string   `help:"Name of a built-in design, instead of a file." name:"built-in" placeholder:"NAME"`
	Institution string   `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Name        string   `help:"Name of the template. Default: the name in the file, or that of the design." placeholder:"NAME"`
	Paper       string   `help:"Paper of a built-in design, a4 or letter; for a picture also 16:9. Default: a4, or the size of the picture." placeholder:"a4|letter"`
	Accent      string   `help:"Color of a built-in design, as #rrggbb. Default: the institution's color." placeholder:"COLOR"`
	Language    string   `help:"Language of the texts of a built-in design. Default: en, also used if no font can write the language." placeholder:"ar|de|en|es|fr|hi|pt|zh"`
	Publish     bool     `help:"Also publish the template."`
	Fonts       []string `help:"Folders with fonts for further scripts. Default: DATA/fonts and /usr/share/fonts." placeholder:"DIR" type:"path"`
}

// Run creates a template.
func (i *templateImport) Run(c *console) error {
	if (i.File == "") == (i.BuiltIn == "") {
		return &usageError{errors.New("specify either a file or --built-in")}
	}
	return c.withTemplates(i.Storage, i.Institution, i.Fonts, func(s *template.Service, inst *account.Institution) error {
		t, err := i.create(c, s, inst)
		if err != nil {
			return err
		}
		for _, w := range t.Draft.Warnings {
			printf(c.stderr, "certvault: %s\n", w.Text)
		}
		if i.Publish {
			published, err := s.Publish(c.ctx, inst, t.UUID, t.Draft.Revision)
			if err != nil {
				return fmt.Errorf("the template %s was created as a draft: %w", t.UUID, templateError(err, &t.Draft.Layout))
			}
			t = published
			if err := c.printOverlaps(t); err != nil {
				return err
			}
		}
		return c.print(templateRowOf(t), func(w io.Writer) {
			printf(w, "%s\n", t.UUID)
			printf(c.stderr, "Template %s created %s.\n", t.Name, map[bool]string{true: "and published", false: "as a draft"}[t.Published != nil])
		})
	})
}

func (i *templateImport) create(c *console, s *template.Service, inst *account.Institution) (_ *template.Template, err error) {
	if i.BuiltIn != "" {
		name := i.Name
		if b, ok := builtin.Find(i.BuiltIn); ok && name == "" {
			name = b.Title
		}
		if name == "" {
			name = i.BuiltIn // Create rejects this unknown design and lists the known ones
		}
		return s.Create(c.ctx, template.NewTemplate{Institution: inst, Name: name, BuiltIn: i.BuiltIn, Paper: i.Paper, Accent: i.Accent, Language: i.Language})
	}
	file, err := os.Open(i.File)
	if err != nil {
		return nil, &usageError{err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	head := make([]byte, 4)
	if _, err := io.ReadFull(file, head); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if string(head) == "PK\x03\x04" {
		return s.Import(c.ctx, inst, i.Name, file)
	}
	name := i.Name
	if name == "" {
		name = strings.TrimSuffix(filepath.Base(i.File), filepath.Ext(i.File))
	}
	return s.Create(c.ctx, template.NewTemplate{Institution: inst, Name: name, Design: file, Paper: i.Paper})
}

type templatePublish struct {
	config.Storage

	ID          string   `arg:"" help:"The template's id in the output of list."`
	Institution string   `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Fonts       []string `help:"Folders with fonts for further scripts. Default: DATA/fonts and /usr/share/fonts." placeholder:"DIR" type:"path"`
}

// Run publishes the draft of a template.
func (p *templatePublish) Run(c *console) error {
	return c.withTemplates(p.Storage, p.Institution, p.Fonts, func(s *template.Service, inst *account.Institution) error {
		t, err := s.ByUUID(c.ctx, inst.ID, p.ID)
		if err != nil {
			return err
		}
		draft := t.Latest()
		if t, err = s.Publish(c.ctx, inst, p.ID, draft.Revision); err != nil {
			return templateError(err, &draft.Layout)
		}
		if err := c.printOverlaps(t); err != nil {
			return err
		}
		rows, err := templateRows(c, s, inst, t)
		if err != nil {
			return err
		}
		return c.print(rows[0], func(w io.Writer) { printf(w, "Version %d of the template %s published.\n", t.Published.Number, t.Name) })
	})
}

type templateArchive struct {
	config.Storage

	ID          string `arg:"" help:"The template's id in the output of list."`
	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Undo        bool   `help:"Make an archived template available again."`
}

// Run archives a template, or makes an archived template available again.
func (a *templateArchive) Run(c *console) error {
	return c.withTemplates(a.Storage, a.Institution, nil, func(s *template.Service, inst *account.Institution) error {
		change, done := s.Archive, "archived"
		if a.Undo {
			change, done = s.Unarchive, "available again"
		}
		if err := change(c.ctx, inst, a.ID); err != nil {
			return err
		}
		t, err := s.ByUUID(c.ctx, inst.ID, a.ID)
		if err != nil {
			return err
		}
		rows, err := templateRows(c, s, inst, t)
		if err != nil {
			return err
		}
		return c.print(rows[0], func(w io.Writer) { printf(w, "Template %s is %s.\n", t.Name, done) })
	})
}

type templateExport struct {
	config.Storage

	ID          string `arg:"" help:"The template's id in the output of list."`
	File        string `arg:"" help:"File to write, such as diploma.cvtemplate. It must not exist." name:"FILE" type:"path"`
	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// Run writes a template to a file.
func (e *templateExport) Run(c *console) error {
	return c.withTemplates(e.Storage, e.Institution, nil, func(s *template.Service, inst *account.Institution) (err error) {
		if _, err := s.ByUUID(c.ctx, inst.ID, e.ID); err != nil {
			return err
		}
		file, err := os.OpenFile(e.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return &usageError{err}
		}
		if err := errors.Join(s.Export(c.ctx, inst.ID, e.ID, file), file.Close()); err != nil {
			return errors.Join(err, os.Remove(e.File))
		}
		return c.print(struct {
			ID   string `json:"id"`
			File string `json:"file"`
		}{e.ID, e.File}, func(w io.Writer) { printf(w, "%s\n", e.File) })
	})
}

type templateIssue struct {
	remote

	ID      string `arg:"" help:"The template's id in the output of list."`
	List    string `arg:"" help:"Excel or CSV file with the columns full_name and email, and a column for each value of the template." name:"LIST" type:"path"`
	Name    string `help:"Name of the batch." placeholder:"NAME"`
	Check   bool   `help:"Only check the list, and issue nothing."`
	Notify  string `help:"Mail to the recipients: now, never, or a time such as 2026-07-01T09:00:00+02:00, at most a year ahead. Default: now." placeholder:"TIME"`
	Results string `help:"File for the result of each row. Default: LIST.results.csv in the folder of the list." placeholder:"FILE" type:"path"`
}

// Help returns the details that do not fit into the one-line help.
func (*templateIssue) Help() string {
	return `The columns title, issue_date, details and expires_on are optional. Every row is checked before any certificate is issued: if a row has a problem, nothing is issued,
and the results name the problem. After an interruption, run the same command again within 24 hours: it continues where it stopped. If the
template has signatories, the command waits until they have approved. The token needs the permission certificate-template:issue, and batch:view to wait for the
certificates.`
}

// issueResult is the output of the command. Results is the path of the file with the results.
type issueResult struct {
	Rows       int    `json:"rows"`
	Approved   int    `json:"approved"`
	Failed     int    `json:"failed"`
	Rejected   int    `json:"rejected"`
	Revoked    int    `json:"revoked"`
	Refused    int    `json:"refused"`
	Unfinished int    `json:"unfinished"`
	Results    string `json:"results,omitempty"`
}

// Run issues the certificates of a list, or only checks the list. It returns an error if a row is refused
// or gets no approved certificate.
func (t *templateIssue) Run(c *console) error {
	progress := newBar(c.stderr)
	vault, err := t.connect(c.stderr, progress.end)
	if err != nil {
		return err
	}
	found, err := vault.Template(c.ctx, t.ID)
	if err != nil {
		return t.userError(err)
	}
	entries, err := t.read(c, found.Columns)
	if err != nil {
		return &usageError{err}
	}
	run := &bulkclient.Issue{Client: vault, TemplateID: t.ID, Name: t.Name, Entries: entries, Notify: t.Notify, Report: report(progress)}
	refused, unlisted, err := run.Check(c.ctx, t.Check)
	if err != nil {
		return t.userError(err)
	}
	if unlisted > 0 {
		printf(c.stderr, "certvault: the vault lists at most 1,000 problems at once, so up to %d more rows have problems\n", unlisted)
	}
	if t.Check || len(refused) > 0 {
		return t.finish(c, len(entries.List), refused, unlisted, nil)
	}
	results, err := run.Do(c.ctx)
	progress.end()
	if results == nil {
		return t.userError(err)
	}
	return t.finish(c, len(entries.List), results, 0, err)
}

// finish writes the results and prints the number of rows with each status. unlisted is the number of
// further rows with problems. With --check, finish counts them as refused.
func (t *templateIssue) finish(c *console, rows int, results []*bulkclient.Result, unlisted int, err error) error {
	counts := bulkclient.Count(results)
	r := issueResult{
		Rows: rows, Approved: counts[bulkclient.Approved], Failed: counts[bulkclient.Failed], Rejected: counts[bulkclient.Rejected], Revoked: counts[bulkclient.Revoked],
		Refused: counts[bulkclient.Refused], Unfinished: counts[bulkclient.Unfinished],
	}
	if t.Check {
		r.Refused += unlisted
	}
	if len(results) > 0 {
		if r.Results = t.Results; r.Results == "" {
			r.Results = strings.TrimSuffix(t.List, filepath.Ext(t.List)) + ".results.csv"
		}
		if e := bulkclient.WriteResults(r.Results, results); e != nil {
			return errors.Join(t.userError(err), e)
		}
	}
	if e := c.print(r, func(w io.Writer) { r.print(w, t.Check) }); e != nil {
		return e
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w; run the same command again within 24 hours to continue", t.userError(err))
	case r.Refused > 0:
		return fmt.Errorf("rows with problems: %d of %d; nothing was issued; see %s", r.Refused, rows, r.Results)
	case !t.Check && r.Approved != rows:
		return fmt.Errorf("rows without an approved certificate: %d of %d; see %s", rows-r.Approved, rows, r.Results)
	}
	return nil
}

func (r *issueResult) print(w io.Writer, check bool) {
	if check {
		printf(w, "Rows that can be issued: %d of %d.\n", r.Rows-r.Refused, r.Rows)
		return
	}
	bulk := bulkResult{
		Rows: r.Rows, Approved: r.Approved, Failed: r.Failed, Rejected: r.Rejected, Revoked: r.Revoked, Refused: r.Refused, Unfinished: r.Unfinished, Results: r.Results,
	}
	bulk.print(w)
}

func (t *templateIssue) read(c *console, columns []client.TemplateColumn) (_ *bulkclient.Entries, err error) {
	file, err := os.Open(t.List)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	list, err := bulkclient.ReadEntries(c.ctx, file, columns, time.Now())
	if err != nil {
		return nil, err
	}
	if len(list.Unused) > 0 {
		printf(c.stderr, "certvault: the following columns are not used: %s\n", strings.Join(list.Unused, ", "))
	}
	return list, nil
}
