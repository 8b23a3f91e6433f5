package panel

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
)

// offerForm is the data of the form of an offer. The controls have the names of the fields in problems of
// package application, such as "fields.0.label".
type offerForm struct {
	Visit *Visit
	// Offer is the offer to change, or nil for a new one.
	Offer *application.Offer
	// Form are the values of the controls.
	Form url.Values
	// Rows are the questions.
	Rows []offerRow
	// Templates are the published templates and the chosen template. Template is the chosen template if
	// it is published, and nil otherwise. Columns are the columns of Template.
	Templates []*template.Template
	Template  *template.Template
	Columns   []string
	// Members are the members who may review. Former are the other people whom the offer names as reviewers,
	// and Unreviewed reports whether it names no one else.
	Members    []account.Member
	Former     []formerReviewer
	Unreviewed bool
	// Address is the public address of the offer, or "" for a new one.
	Address string
	// Register is the form of the register.
	Register registerForm
	// Focus is the control that gets the focus, or "".
	Focus string
}

// formerReviewer is a person who may not review any more. Name is "" if the account was deleted.
type formerReviewer struct {
	ID   int64
	Name string
}

// offerRow is a question in the form of an offer.
type offerRow struct {
	application.Field

	Index int
}

// Name returns the name of the control for a part of the question, such as "label".
func (f offerRow) Name(part string) string { return fmt.Sprintf("fields.%d.%s", f.Index, part) }

// Number returns the number of the question, from 1.
func (f offerRow) Number() int { return f.Index + 1 }

// Lines returns the choices, one in each line.
func (f offerRow) Lines() string { return strings.Join(f.Choices, "\n") }

// Types returns the types that a question can have.
func (*offerForm) Types() []application.FieldType { return application.FieldTypes }

// HoldKinds returns the kinds of holds that can have a text.
func (*offerForm) HoldKinds() []application.HoldKind { return application.HoldKinds }

// Last returns the index of the last question.
func (d *offerForm) Last() int { return len(d.Rows) - 1 }

// Reviews reports whether a person is chosen as a reviewer.
func (d *offerForm) Reviews(userID int64) bool {
	return slices.Contains(d.Form["reviewers"], strconv.FormatInt(userID, 10))
}

// HoldText returns the text for a kind of hold.
func (d *offerForm) HoldText(kind application.HoldKind) string {
	return d.Form.Get("hold_texts." + string(kind))
}

// Path returns the address to which the form is submitted.
func (d *offerForm) Path() string {
	if d.Offer == nil {
		return d.Visit.Path("offers")
	}
	return d.Visit.Path("offers/" + d.Offer.UUID)
}

// maxQuestions is the maximum number of questions that the form reads.
const maxQuestions = application.MaxFields

// offerForm returns the form of an offer, or of a new offer if o is nil.
func (p *Panel) offerForm(r *http.Request, v *Visit, o *application.Offer) (*offerForm, error) {
	d := &offerForm{Visit: v, Offer: o, Form: url.Values{"hold_days": {"14"}, "retention_days": {"180"}, "max_files": {"5"}}}
	if o != nil {
		d.Form = url.Values{
			"name": {o.Name}, "slug": {o.Slug}, "description": {o.Description}, "criteria": {o.Criteria}, "template_id": {o.TemplateID},
			"hold_days": {strconv.Itoa(o.HoldDays)}, "retention_days": {strconv.Itoa(o.RetentionDays)}, "max_files": {strconv.Itoa(o.MaxFiles)},
			"revision": {strconv.FormatInt(o.Revision, 10)}, "register_number": {o.RegisterNumber}, "register_name": {o.RegisterName}, "register_birth": {o.RegisterBirth},
		}
		if o.FourEyes {
			d.Form.Set("four_eyes", "1")
		}
		for _, id := range o.Reviewers {
			d.Form.Add("reviewers", strconv.FormatInt(id, 10))
		}
		for kind, text := range o.HoldTexts {
			d.Form.Set("hold_texts."+string(kind), text)
		}
		for i, f := range o.Fields {
			d.Rows = append(d.Rows, offerRow{f, i})
		}
	}
	return d, p.fillOfferForm(r, d)
}

// submittedOffer returns the submitted form of an offer, or of a new offer if o is nil.
func (p *Panel) submittedOffer(r *http.Request, v *Visit, o *application.Offer) (*offerForm, error) {
	d := &offerForm{Visit: v, Offer: o, Form: r.PostForm}
	n, _ := strconv.Atoi(r.PostForm.Get("questions")) // 0 if the text is not a number
	for i := range min(max(n, 0), maxQuestions) {
		row := offerRow{Index: i}
		get := func(part string) string { return strings.TrimSpace(r.PostForm.Get(row.Name(part))) }
		row.Field = application.Field{
			Key: get("key"), Label: get("label"), Type: application.FieldType(get("type")), Help: get("help"), Required: get("required") != "", Column: get("column"),
		}
		for line := range strings.Lines(r.PostForm.Get(row.Name("choices"))) {
			if line = strings.TrimSpace(line); line != "" {
				row.Choices = append(row.Choices, line)
			}
		}
		d.Rows = append(d.Rows, row)
	}
	return d, p.fillOfferForm(r, d)
}

// fillOfferForm reads the templates, the members, the public address and the reviewers that the form shows.
func (p *Panel) fillOfferForm(r *http.Request, d *offerForm) error {
	id := d.Visit.Institution().ID
	templates, err := p.Templates.List(r.Context(), id, template.Filter{})
	if err != nil {
		return err
	}
	for _, t := range templates {
		chosen := t.UUID == d.Form.Get("template_id")
		if t.Published != nil || chosen {
			d.Templates = append(d.Templates, t)
		}
		if chosen && t.Published != nil {
			d.Template = t
			for _, use := range t.Published.Layout.Columns() {
				d.Columns = append(d.Columns, use.Name)
			}
		}
	}
	members, err := p.Accounts.Members(r.Context(), id)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Role.Can(account.MayReview) {
			d.Members = append(d.Members, m)
		}
	}
	if d.Offer == nil {
		return nil
	}
	d.Address = p.offerAddress(d.Visit, d.Offer)
	people, err := p.Applications.Reviewers(r.Context(), id, []*application.Offer{d.Offer})
	if err != nil {
		return err
	}
	for _, id := range d.Offer.Reviewers {
		if !people[id].Role.Can(account.MayReview) {
			d.Former = append(d.Former, formerReviewer{id, people[id].Name})
		}
	}
	d.Unreviewed = d.Offer.Unreviewed(people)
	return nil
}

// input returns the offer that the form describes. Questions without a key get one from their label.
func (d *offerForm) input() application.OfferInput {
	get := func(name string) string { return strings.TrimSpace(d.Form.Get(name)) }
	in := application.OfferInput{
		Slug: cmp.Or(get("slug"), plainKey(get("name"), '-')), Name: get("name"), Description: get("description"), Criteria: get("criteria"), TemplateID: get("template_id"),
		FourEyes: get("four_eyes") != "", HoldTexts: map[application.HoldKind]string{},
		RegisterNumber: get("register_number"), RegisterName: get("register_name"), RegisterBirth: get("register_birth"),
	}
	in.HoldDays, in.RetentionDays, in.MaxFiles = positive(get("hold_days")), positive(get("retention_days")), positive(get("max_files"))
	for _, id := range d.Form["reviewers"] {
		n, _ := strconv.ParseInt(id, 10, 64) // 0, which is not a member, if the text is not a number
		in.Reviewers = append(in.Reviewers, n)
	}
	for _, kind := range application.HoldKinds {
		if text := d.HoldText(kind); strings.TrimSpace(text) != "" {
			in.HoldTexts[kind] = text
		}
	}
	d.fillKeys()
	for _, row := range d.Rows {
		in.Fields = append(in.Fields, row.Field)
	}
	return in
}

// positive parses a positive number of a form. For any other text, it returns -1, which is not valid for
// any number of an offer.
func positive(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return -1
	}
	return n
}

// fillKeys sets a key for each question without one. The key is unique in the offer.
func (d *offerForm) fillKeys() {
	taken := map[string]bool{"answer": true}
	for _, row := range d.Rows {
		taken[row.Key] = true
	}
	for i := range d.Rows {
		row := &d.Rows[i]
		if row.Key != "" {
			continue
		}
		base := cmp.Or(plainKey(row.Label, '_'), "question")
		key := base
		for n := 2; taken[key]; n++ {
			key = fmt.Sprintf("%s_%d", base, n)
		}
		row.Key, taken[key] = key, true
	}
}

// maxPlainKey is the maximum length in bytes of the result of plainKey.
const maxPlainKey = 32

// plainKey returns the ASCII letters and digits of a text in lower case, with a separator between words.
// It returns "" for a text without ASCII letters and digits.
func plainKey(text string, separator byte) string {
	var b []byte
	for _, c := range []byte(strings.ToLower(text)) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b = append(b, c)
		case len(b) > 0 && b[len(b)-1] != separator && c < utf8.RuneSelf:
			b = append(b, separator)
		}
		if len(b) == maxPlainKey {
			break
		}
	}
	return strings.Trim(string(b), string(separator))
}

// edit changes the questions if the form was submitted with one of the buttons for questions, and reports
// whether it was. Each change is a request, so that the form works without a script.
func (d *offerForm) edit() bool {
	do, at, _ := strings.Cut(d.Form.Get("do"), " ")
	i, err := strconv.Atoi(at)
	inside := err == nil && i >= 0 && i < len(d.Rows)
	switch {
	case do == "add":
		if len(d.Rows) < maxQuestions {
			d.Rows = append(d.Rows, offerRow{Field: application.Field{Type: application.Line}})
			d.Focus = offerRow{Index: d.Last()}.Name("label")
		}
	case do == "columns":
		d.addColumns()
	case do == "refresh":
	case do == "remove" && inside:
		d.Rows = slices.Delete(d.Rows, i, i+1)
	case do == "up" && inside && i > 0:
		d.Rows[i-1], d.Rows[i] = d.Rows[i], d.Rows[i-1]
		d.Focus = offerRow{Index: i - 1}.Name("label")
	case do == "down" && inside && i < len(d.Rows)-1:
		d.Rows[i+1], d.Rows[i] = d.Rows[i], d.Rows[i+1]
		d.Focus = offerRow{Index: i + 1}.Name("label")
	default:
		return do != ""
	}
	for i := range d.Rows {
		d.Rows[i].Index = i
	}
	return true
}

// addColumns adds a question for each column of the template that has no question.
func (d *offerForm) addColumns() {
	if d.Template == nil {
		return
	}
	for _, use := range d.Template.Published.Layout.Columns() {
		if len(d.Rows) < maxQuestions && !slices.ContainsFunc(d.Rows, func(f offerRow) bool { return f.Column == use.Name }) {
			d.Rows = append(d.Rows, offerRow{Field: application.Field{Label: use.Name, Type: application.Line, Required: use.Required, Column: use.Name}})
		}
	}
}

// newOffer shows the form of a new offer.
func (p *Panel) newOffer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.offerForm(r, v, nil)
	if err != nil {
		return err
	}
	return p.draw(w, r, "offer.html", d)
}

// offer shows the form of an offer, its public address and its register.
func (p *Panel) offer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	d, err := p.offerForm(r, v, o)
	if err != nil {
		return err
	}
	return p.draw(w, r, "offer.html", d)
}

// createOffer creates an offer, or changes the questions of its form.
func (p *Panel) createOffer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	d, err := p.submittedOffer(r, v, nil)
	if err != nil {
		return err
	}
	if d.edit() {
		return p.draw(w, r, "offer.html", d)
	}
	o, err := p.Applications.CreateOffer(r.Context(), v.Institution(), d.input())
	if err != nil {
		return p.showAgain(w, r, "offer.html", d, p.texts(r).offerError(err, d))
	}
	return p.redirect(w, r, v, "offers/"+o.UUID, "offer_created")
}

// changeOffer saves an offer, or changes the questions of its form.
func (p *Panel) changeOffer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	d, err := p.submittedOffer(r, v, o)
	if err != nil {
		return err
	}
	if d.edit() {
		return p.draw(w, r, "offer.html", d)
	}
	revision, _ := strconv.ParseInt(r.PostForm.Get("revision"), 10, 64) // 0, which is not a revision, if the text is not a number
	if _, err := p.Applications.ChangeOffer(r.Context(), v.Institution().ID, o.UUID, revision, d.input()); err != nil {
		return p.showAgain(w, r, "offer.html", d, p.texts(r).offerError(err, d))
	}
	return p.redirect(w, r, v, "offers/"+o.UUID, "offer_saved")
}

// askDeleteOffer asks for confirmation before an offer is deleted.
func (p *Panel) askDeleteOffer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "offer_delete.html", &offerForm{Visit: v, Offer: o})
}

// deleteOffer deletes an offer that has no applications.
func (p *Panel) deleteOffer(w http.ResponseWriter, r *http.Request, v *Visit) error {
	o, err := p.offerOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Applications.DeleteOffer(r.Context(), v.Institution().ID, o.UUID); err != nil {
		return p.showAgain(w, r, "offer_delete.html", &offerForm{Visit: v, Offer: o}, p.texts(r).offerError(err, nil))
	}
	return p.redirect(w, r, v, "offers", "offer_deleted")
}

// offerCodes maps each code of a problem of an offer that has its own message to the placeholder of the
// message: the limit, the number of a row, or none.
var offerCodes = map[cert.Code]string{
	application.CodeSlug: "", application.CodeTaken: "", application.CodeRange: "limit", application.CodeKey: "", application.CodeSameKey: "", application.CodeType: "",
	application.CodeChoices: "limit", application.CodeTemplate: "", application.CodeMember: "", application.CodeField: "", application.CodeFields: "limit",
	application.CodeRows: "limit", application.CodeRow: "row", cert.CodeRequired: "", cert.CodeTooLong: "limit", cert.CodeNotText: "",
}

// offerMessage returns the message for a problem of an offer or of its register.
func (t texts) offerMessage(p cert.Problem) string {
	placeholder, ok := offerCodes[p.Code]
	key := "offer_problem." + string(p.Code)
	switch {
	case !ok:
		return t.of("offer_problem.invalid")
	case placeholder == "limit":
		return t.of(key, "limit", t.language.Number(p.Limit))
	case placeholder == "row":
		return t.of(key, "row", p.Detail)
	}
	return t.of(key)
}

// offerError replaces the problems of an offer with messages at the controls of its form. A conflict means
// that the offer has applications if d is nil, and otherwise that another person has changed the offer.
func (t texts) offerError(err error, d *offerForm) error {
	if fault.Is(err, fault.Conflict) {
		key := "offers.changed_meanwhile"
		if d == nil {
			key = "offers.has_applications"
		}
		return fault.Wrap(fault.Conflict, key, err)
	}
	if u, ok := errors.AsType[*template.Unusable](err); ok {
		return fault.OfField("template_id", "issue_problem."+string(u.Code))
	}
	problems := cert.ProblemsOf(err)
	if len(problems) == 0 {
		return err
	}
	var bad fault.Fields
	for _, p := range problems {
		control := string(p.Field)
		if p.Field == "fields" {
			control = "questions"
		}
		message := t.offerMessage(p)
		if part, ok := strings.CutPrefix(control, "fields."); ok {
			if number, name, ok := strings.Cut(part, "."); ok {
				n, _ := strconv.Atoi(number) // package application writes a number here
				message = t.of("offer_problem.of_question", "n", t.language.Number(n+1), "problem", message)
				if name == "key" || name == "type" {
					control = fmt.Sprintf("fields.%d.label", n)
				}
			}
		}
		bad.Add(control, message)
	}
	return bad.Err()
}
