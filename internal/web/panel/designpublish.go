package panel

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

// publishTemplate publishes the draft. If the draft has problems, the designer shows them.
func (p *Panel) publishTemplate(w http.ResponseWriter, r *http.Request, v *Visit) error {
	var in struct {
		Revision int64 `json:"revision"`
	}
	script := wantsJSON(r)
	if _, err := p.templateOf(r, v); err != nil {
		return err
	}
	if script {
		if err := readJSON(r, &in); err != nil {
			return p.sendError(w, r, err, nil)
		}
	} else {
		if err := body.ParseForm(w, r, maxForm); err != nil {
			return errForm
		}
		in.Revision, _ = strconv.ParseInt(r.PostForm.Get("revision"), 10, 64) // Publish refuses the revision 0
	}
	id := r.PathValue("template")
	_, err := p.Templates.Publish(r.Context(), v.Institution(), id, in.Revision)
	if err != nil && !script {
		d, e := p.designerPage(r, v)
		if e != nil {
			return e
		}
		return p.showAgain(w, r, "designer.html", d, p.withFields(r, err, d.Start.Layout))
	}
	if err != nil {
		t, e := p.templateOf(r, v)
		if e != nil {
			return p.sendError(w, r, e, nil)
		}
		return p.sendError(w, r, err, &t.Latest().Layout)
	}
	if !script {
		return p.redirect(w, r, v, "templates/"+id, "template_published")
	}
	// The redirect sets the notice for the page that the script opens.
	to := &locationWriter{ResponseWriter: w}
	if err := p.view.Redirect(to, r, v.Path("templates/"+id), "template_published"); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, struct {
		URL string `json:"url"`
	}{v.Path("templates/" + id)})
}

// locationWriter keeps the headers of a redirect except Location. It discards the status and the body.
type locationWriter struct{ http.ResponseWriter }

// WriteHeader discards the status and the header Location.
func (w *locationWriter) WriteHeader(int) { w.Header().Del("Location") }

// Write discards the body.
func (*locationWriter) Write(b []byte) (int, error) { return len(b), nil }

// withFields returns the problems of a layout as the problems of a form. A problem of a field refers to
// the link of the field in the list of fields.
func (p *Panel) withFields(r *http.Request, err error, l *design.Layout) error {
	problems, ok := errors.AsType[design.Problems](err)
	if !ok {
		return err
	}
	var bad fault.Fields
	for _, one := range p.texts(r).problemViews(problems, l) {
		name, text := "", one.Text
		if one.Field != "" {
			name, text = "field-"+one.Field, p.texts(r).of("designer.problem_of", "field", one.Title, "problem", one.Text)
		}
		bad.Add(name, text)
	}
	return bad.Err()
}
