package panel

import (
	"html/template"
	"maps"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/bulkimport"
	"github.com/certvault/certvault/internal/web/page"
)

// bulkStep is a step of a bulk upload. Path is "" if the step is not possible yet. State is done, open,
// doubtful or wrong. Missing is a text about the work that remains, or "". Events is the address of the
// server-sent events while archives are unpacked, or "".
type bulkStep struct {
	Name, Path, State, Missing, Events string
	Current                            bool
}

// Steps returns the steps of a bulk upload with their states.
func (d *draftPage) Steps() []bulkStep {
	steps := []bulkStep{d.listStep(), d.columnsStep()}
	if d.Template == nil {
		place := bulkStep{Name: "placement", State: "open"}
		if d.Mapped && (d.Placed || d.Wanted != nil || len(d.PlacedRows()) > 0) {
			place.State = "done"
		}
		steps = append(steps, d.filesStep(), d.rowsStep(), place)
	} else {
		steps = append(steps, d.rowsStep())
	}
	steps = append(steps, bulkStep{Name: "submit", State: "open"})
	for i := range steps {
		s := &steps[i]
		s.Current = s.Name == d.Step
		switch {
		case s.Name == "columns" && d.ListName == "", i > 1 && s.Name != "files" && !d.Mapped:
		default:
			s.Path = d.Path(stepPaths[s.Name])
		}
		if s.Name == "rows" && s.Path != "" && len(d.ToCorrect) == 0 && d.ToCheck() > 0 {
			s.Path = d.Path("rows?show=" + string(bulkimport.ShowDoubtful))
		}
	}
	return steps
}

// stepPaths are the paths of the steps below the path of a bulk upload.
var stepPaths = map[string]string{
	"list": "", "columns": "columns", "files": "files", "rows": "rows?show=problems", "placement": "placement", "submit": "submit",
}

func (d *draftPage) listStep() bulkStep {
	if d.ListName == "" {
		return bulkStep{Name: "list", State: "open", Missing: d.texts.of("bulk_steps.none")}
	}
	return bulkStep{Name: "list", State: "done"}
}

func (d *draftPage) columnsStep() bulkStep {
	switch {
	case d.Mapped:
		return bulkStep{Name: "columns", State: "done"}
	case d.ListName != "":
		return bulkStep{Name: "columns", State: "open", Missing: d.texts.of("bulk_steps.confirm")}
	default:
		return bulkStep{Name: "columns", State: "open"}
	}
}

func (d *draftPage) filesStep() bulkStep {
	switch {
	case d.Unpacking():
		return bulkStep{Name: "files", State: "open", Missing: d.texts.of("bulk_steps.unpacking"), Events: d.Path("events")}
	case d.NoFiles():
		return bulkStep{Name: "files", State: "open", Missing: d.texts.of("bulk_steps.none")}
	case d.Mapped && len(d.Missing) > 0:
		return bulkStep{Name: "files", State: "wrong", Missing: d.texts.count("bulk_steps.missing", len(d.Missing))}
	default:
		return bulkStep{Name: "files", State: "done"}
	}
}

func (d *draftPage) rowsStep() bulkStep {
	switch {
	case !d.Mapped:
		return bulkStep{Name: "rows", State: "open"}
	case len(d.ToCorrect) > 0:
		return bulkStep{Name: "rows", State: "wrong", Missing: d.texts.count("bulk_steps.errors", len(d.ToCorrect))}
	case d.Invalid > 0:
		return bulkStep{Name: "rows", State: "open"}
	case d.ToCheck() > 0:
		return bulkStep{Name: "rows", State: "doubtful", Missing: d.texts.count("bulk_steps.to_check", d.ToCheck())}
	default:
		return bulkStep{Name: "rows", State: "done"}
	}
}

// Continue returns the address of the first step with remaining work that is not the current step. If
// there is none, it returns the address of the placement. If the placement is the current step or is
// not possible, it returns the address of the summary.
func (d *draftPage) Continue() string {
	for _, s := range d.Steps() {
		if s.Path != "" && s.Name != d.Step && (s.State == "wrong" || s.Missing != "") {
			return s.Path
		}
	}
	if d.Mapped && d.Step != "placement" && d.Template == nil {
		return d.Path("placement")
	}
	return d.Path("submit")
}

// count returns a message about a number in the language of a page. It adds _one or _many to the key.
func count(g *page.Page, key string, n int, args ...any) string {
	return texts{g.Language}.count(key, n, args...)
}

// withBulkFuncs adds the template functions of the pages of bulk uploads.
func withBulkFuncs(funcs template.FuncMap) template.FuncMap {
	maps.Copy(funcs, template.FuncMap{
		"count": count, "templateLink": templateLink, "dayOf": dayOf, "dayTag": dayTag, "fileName": fileName, "minus": minus,
	})
	return funcs
}

// RowLink returns a link to a row, with the recipient's name. If the row has no name, another text of the
// row replaces the name; see Row.Person.
func (d *draftPage) RowLink(row *bulkimport.Row) template.HTML {
	label := template.HTMLEscapeString(d.texts.of("bulk.row", "number", row.Number))
	address := d.RowPath(row)
	if d.Step == "submit" {
		address += "?from=" + fromSummary
	}
	link := template.HTML(`<a href="` + template.HTMLEscapeString(address) + `">` + label + `</a>`) //nolint:gosec // the text is escaped
	name := row.Person()
	if name == "" {
		return link
	}
	text, err := d.texts.language.HTML("bulk.to_name", "row", link, "name", shown(name))
	if err != nil {
		return link
	}
	return text
}

// RowName returns the text of RowLink without a link.
func (d *draftPage) RowName(row *bulkimport.Row) template.HTML {
	label := template.HTML(template.HTMLEscapeString(d.texts.of("bulk.row", "number", row.Number))) //nolint:gosec // the text is escaped
	name := row.Person()
	if name == "" {
		return label
	}
	text, err := d.texts.language.HTML("bulk.to_name", "row", label, "name", shown(name))
	if err != nil {
		return label
	}
	return text
}

// RowLinks returns the results of RowLink for rows, separated by semicolons.
func (d *draftPage) RowLinks(rows []*bulkimport.Row) template.HTML {
	links := make([]string, len(rows))
	for i, row := range rows {
		links[i] = string(d.RowLink(row))
	}
	return template.HTML(strings.Join(links, "; ")) //nolint:gosec // the links are escaped
}

// templateLink returns a link whose text is the message with the key.
func templateLink(g *page.Page, address, key string) template.HTML {
	text := template.HTMLEscapeString(texts{g.Language}.of(key))
	return template.HTML(`<a href="` + template.HTMLEscapeString(address) + `">` + text + `</a>`) //nolint:gosec // the text is escaped
}

// dayOf returns the date of a time in UTC, for DayTag.
func dayOf(t time.Time) *string {
	date := t.UTC().Format(time.DateOnly)
	return &date
}

// dayTag returns a time element for a date.
func dayTag(g *page.Page, date string) template.HTML { return g.DayTag(&date) }

// fileName returns the file name in a row, or a message if the row has no file name.
func fileName(g *page.Page, row *bulkimport.Row) string {
	if row.FileName == "" {
		return texts{g.Language}.of("bulk_files.empty")
	}
	return shown(row.FileName)
}

// OfTemplate returns a link to the template, with its name and the number of its version.
func (d *draftPage) OfTemplate() template.HTML {
	name := template.HTMLEscapeString(d.texts.of("issue_list.version", "name", d.Template.Name, "n", d.texts.language.Number(d.Template.Number)))
	return template.HTML(`<a href="` + template.HTMLEscapeString(d.Visit.Path("templates/"+d.Template.UUID)) + `">` + name + `</a>`) //nolint:gosec // the text is escaped
}

func minus(a, b int) int { return a - b }
