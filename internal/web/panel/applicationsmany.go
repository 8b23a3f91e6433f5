package panel

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/task"
)

// decideForm is the maximum size in bytes of a form with up to application.MaxMany selected applications.
const decideForm = 512 << 10

// manyPage is the data of the page that confirms a decision about many applications.
type manyPage struct {
	Visit    *Visit
	View     queueView
	Decision application.Decision
	Selected []application.Selected
	Text     string
	// Names are the first selected applications, at most shownNames.
	Names []*application.Application
}

// Key returns the catalog key of a message about the decision.
func (d *manyPage) Key(name string) string { return manyKey(d.Decision, name) }

func manyKey(d application.Decision, name string) string {
	return "applications_many." + string(d) + "_" + name
}

// Asks reports whether the decision requires a text for the applicants.
func (d *manyPage) Asks() bool {
	return d.Decision == application.DecideHold || d.Decision == application.DecideReject
}

// More returns the number of selected applications that are not in Names.
func (d *manyPage) More() int { return len(d.Selected) - len(d.Names) }

// Typed returns the number of applications, which the person must type to confirm. It returns "" if the
// applications fit on one page of the queue.
func (d *manyPage) Typed() string {
	if len(d.Selected) <= applicationsPerPage {
		return ""
	}
	return strconv.Itoa(len(d.Selected))
}

// Value returns the value of the field that selects an application.
func (*manyPage) Value(s application.Selected) string { return selectedValue(s.UUID, s.Revision) }

// selectedValue returns the value of the field that selects an application: its UUID, a period, and the
// revision that the reviewer sees.
func selectedValue(uuid string, revision int64) string {
	return uuid + "." + strconv.FormatInt(revision, 10)
}

// selectedApplications returns the applications that a form selects: single applications, or all open
// applications of the view. The error is errForm for a value without a revision.
func (p *Panel) selectedApplications(r *http.Request, v *Visit, view queueView) ([]application.Selected, error) {
	if r.PostForm.Get("which") == "all" && view.Tab != "ended" {
		return p.Applications.Select(r.Context(), v.Institution().ID, view.filter(v.Person.ID))
	}
	var list []application.Selected
	for _, value := range r.PostForm["selected"] {
		uuid, number, _ := strings.Cut(value, ".")
		revision, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, errForm
		}
		list = append(list, application.Selected{UUID: uuid, Revision: revision})
	}
	return list, nil
}

// decideMany starts a task that decides many applications. A page first asks for confirmation, except for
// a claim of single applications.
func (p *Panel) decideMany(w http.ResponseWriter, r *http.Request, v *Visit) error {
	f := r.PostForm
	d := &manyPage{Visit: v, View: viewOf(f), Decision: application.Decision(f.Get("decision")), Text: strings.TrimSpace(f.Get("text"))}
	if !slices.Contains(application.Decisions, d.Decision) {
		return errForm
	}
	var err error
	if d.Selected, err = p.selectedApplications(r, v, d.View); err != nil {
		return err
	}
	if len(d.Selected) == 0 {
		return p.redirect(w, r, v, "applications"+d.View.Query(), "no_application")
	}
	if err := p.nameSelected(r, d); err != nil {
		return err
	}
	asks := d.Decision != application.DecideClaim || f.Get("which") == "all"
	switch {
	case asks && f.Get("sure") == "":
		return p.draw(w, r, "applications_many.html", d)
	case d.Typed() != "" && digitsOf(f.Get("number")) != d.Typed():
		return p.showAgain(w, r, "applications_many.html", d, fault.OfField("number", "applications_many.number_differs"))
	}
	started, err := p.Tasks.Decide(r.Context(), v.Institution().ID, task.Decisions{
		Decision: d.Decision, Applications: d.Selected, Text: d.Text, Member: v.Person.ID,
	})
	if err != nil {
		if slices.ContainsFunc(cert.ProblemsOf(err), func(b cert.Problem) bool { return b.Field == cert.FieldSelected }) {
			return errForm
		}
		form := &applicationPage{A: &application.Application{}, Form: url.Values{}}
		return p.showAgain(w, r, "applications_many.html", d, p.texts(r).approvalError(err, form))
	}
	return p.redirect(w, r, v, "tasks/"+started.UUID, "")
}

// nameSelected sets d.Names.
func (p *Panel) nameSelected(r *http.Request, d *manyPage) error {
	var ids []string
	for _, one := range d.Selected[:min(len(d.Selected), shownNames)] {
		ids = append(ids, one.UUID)
	}
	found, err := p.Applications.ByUUIDs(r.Context(), d.Visit.Institution().ID, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if a := found[id]; a != nil {
			d.Names = append(d.Names, a)
		}
	}
	return nil
}

// outcome returns a text that says why a task did not change an application. a is nil if the application
// does not exist.
func (t texts) outcome(err error, a *application.Application) string {
	if a == nil {
		return t.of("applications_many.unknown")
	}
	form := &applicationPage{A: a, Form: url.Values{}}
	if e, ok := errors.AsType[*fault.Error](t.approvalError(t.reviewError(err, a), form)); ok {
		switch {
		case e.Kind == fault.Forbidden:
			return t.of("application.not_reviewer")
		case e.Kind == fault.Internal:
		case e.Message != "":
			return t.domain(e.Message)
		case len(e.Fields) > 0:
			if e.Fields[0].Name == controlOf[cert.FieldFile] {
				return t.of("applications_many.needs_file")
			}
			return t.domain(strings.Join(e.Fields[0].Messages, " "))
		}
	}
	return t.of("applications_many.failed")
}
