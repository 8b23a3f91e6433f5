package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

const (
	// maxApplication is the maximum size of an application in JSON, in bytes.
	maxApplication = 1 << 20

	// fieldsPrefix and filesPrefix are the prefixes of the names of answers and files in errors.
	fieldsPrefix = "fields."
	filesPrefix  = "files."
)

var errFormOrJSON = fault.New(fault.Unsupported, "The request must be multipart/form-data or application/json.")

// applicationInput is the content of a request to submit an application.
type applicationInput struct {
	exchange *exchange

	texts, values map[string]string
	files         map[string][]*cert.File
	stored        int
	bad           fault.Fields
}

// createApplication submits an application for a person.
func (a *API) createApplication(w http.ResponseWriter, c *call) error {
	in := &applicationInput{texts: map[string]string{}, values: map[string]string{}, files: map[string][]*cert.File{}}
	read, err := in.reader(w, c.Request)
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	in.exchange = x
	return x.end(w, read(func() error { return a.submit(x, in) }))
}

// submit submits an application whose content was received.
func (a *API) submit(x *exchange, in *applicationInput) error {
	c := x.call
	name := strings.TrimSpace(in.texts["offer"])
	if name == "" {
		in.bad.Add("offer", "The offer field is required.")
	}
	offers, err := a.Applications.Offers(c.Context(), c.institution.ID, "")
	if err != nil {
		return err
	}
	offer := application.OfferNamed(offers, name)
	if name != "" && (offer == nil || offer.Status != application.Open) {
		in.bad.Add("offer", "There is no open offer with this id or slug.")
	}
	if err := in.bad.Err(); err != nil {
		return err
	}
	_, err = a.Applications.Submit(c.Context(), application.Submission{
		Institution: c.institution, Offer: offer, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name},
		FullName: in.texts["full_name"], Email: in.texts["applicant_email"], Values: in.values, Files: in.files,
		Then: x.withApplication(http.StatusCreated, "Application submitted.", offer.Slug),
	})
	return err
}

// reader returns the function that reads the body and then calls use, which submits the application.
func (in *applicationInput) reader(w http.ResponseWriter, r *http.Request) (func(use func() error) error, error) {
	switch mediaType(r) {
	case "multipart/form-data":
		body.Limit(w, r, limits(maxBody, malformedForm))
		form, err := body.OpenForm(r)
		return func(use func() error) error { return in.parts(form, use) }, err
	case "application/json":
		return func(use func() error) error {
			if err := in.json(w); err != nil {
				return err
			}
			return use()
		}, nil
	default:
		return nil, errFormOrJSON
	}
}

// parts reads the rest of a form and calls use. A file is written to the store while it is received. If
// the application is refused, the file is deleted; see cert.Service.Receive.
func (in *applicationInput) parts(form *body.Form, use func() error) error {
	for form.Next() {
		part := form.Part()
		name, key, ok := splitName(part.FormName())
		if ok && name == "files" && part.FileName() != "" {
			return in.file(key, cert.NewIncoming(part.FileName(), part), func() error { return in.parts(form, use) })
		}
		content, end := in.exchange.field(part.FormName())
		value := part.Value(maxValue, content)
		end()
		in.text(part, name, key, ok, string(value))
	}
	if err := form.Err(); err != nil {
		return err
	}
	if err := in.exchange.complete(); err != nil {
		return err
	}
	return use()
}

// file receives a file of a field, and then calls next, which reads the rest of the form.
func (in *applicationInput) file(key string, incoming *cert.Incoming, next func() error) error {
	x := in.exchange
	rest := func() error {
		if err := incoming.Drain(); err != nil {
			return err
		}
		x.file("files["+key+"]", incoming.SHA256())
		return next()
	}
	if x.isRepeated() {
		return rest()
	}
	if in.stored == application.MaxFiles {
		in.bad.Add(filesPrefix+shorten(key), fmt.Sprintf("An application can have at most %d files.", application.MaxFiles))
		return rest()
	}
	in.stored++
	err := x.api.Applications.Receive(x.call.Context(), x.call.institution.UUID, incoming, func(f *cert.File) error {
		in.files[key] = append(in.files[key], f)
		return rest()
	})
	if problem := cert.RefusedFile(err); problem != nil {
		name := filesPrefix + shorten(key)
		in.bad.Add(name, problemText(name, *problem))
		return rest()
	}
	return err
}

// text stores the value of a text field, or records its problem. An unknown field is ignored.
func (in *applicationInput) text(part *body.Part, name, key string, hasKey bool, value string) {
	full, to := name, in.texts
	if hasKey {
		full = name + "." + shorten(key)
	}
	switch {
	case part.FormName() == "":
		in.bad.Add("form", "Each part of the form must have a name.")
		return
	case name == "files" && hasKey:
		// If no file is chosen, a browser sends an empty part with an empty file name.
		if value != "" {
			in.bad.Add(full, problemText(full, cert.Problem{Code: cert.CodeNotFile}))
		}
		return
	case name == "fields" && hasKey:
		name, to = key, in.values
	case name == "fields" || name == "files":
		in.bad.Add(name, "The parts must be named "+name+"[key].")
		return
	case name != "offer" && name != "full_name" && name != "applicant_email":
		return
	case hasKey:
		in.bad.Add(name, problemText(name, cert.Problem{Code: codeNotString}))
		return
	}
	if _, repeated := to[name]; repeated {
		in.bad.Add(full, "The field is given more than once.")
		return
	}
	if part.FileName() != "" {
		in.bad.Add(full, problemText(full, cert.Problem{Code: codeNotString}))
		return
	}
	to[name] = value
}

// splitName splits a name such as fields[birth_date] into the name "fields" and the key "birth_date". If
// the brackets are malformed, the key is everything after the first bracket.
func splitName(full string) (name, key string, hasKey bool) {
	name, rest, found := strings.Cut(full, "[")
	if !found {
		return full, "", false
	}
	key, after, closed := strings.Cut(rest, "]")
	if !closed || after != "" || key == "" {
		return name, rest, true
	}
	return name, key, true
}

// json reads an application in JSON. Such an application cannot have files.
func (in *applicationInput) json(w http.ResponseWriter) error {
	var content struct {
		Offer          string          `json:"offer"`
		FullName       string          `json:"full_name"`
		ApplicantEmail string          `json:"applicant_email"`
		Fields         json.RawMessage `json:"fields"`
		Files          json.RawMessage `json:"files"`
	}
	if err := readJSONUpTo(w, in.exchange, maxApplication, &content); err != nil {
		return err
	}
	in.texts = map[string]string{"offer": content.Offer, "full_name": content.FullName, "applicant_email": content.ApplicantEmail}
	if given(content.Files) && !bytes.Equal(content.Files, []byte("{}")) {
		in.bad.Add("files", "A request with files must be multipart/form-data.")
	}
	if !given(content.Fields) {
		return nil
	}
	if content.Fields[0] != '{' {
		in.bad.Add("fields", "The fields field must be an object with the answers.")
		return nil
	}
	members, err := objectOf(content.Fields)
	if err != nil {
		return fault.Wrap(fault.Invalid, notObject, err)
	}
	for _, m := range members {
		in.answer(m)
	}
	return nil
}

// given reports whether a JSON value is present and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] != 'n' }

// answer stores the value of a field in JSON: a string, a number, or true. It stores false and null as "".
func (in *applicationInput) answer(m jsonMember) {
	name := fieldsPrefix + shorten(m.name)
	if _, repeated := in.values[m.name]; repeated {
		in.bad.Add(name, "The field is given more than once.")
		return
	}
	value := ""
	switch c := m.raw[0]; {
	case c == '"':
		value, _ = readText(m.raw)
	case c == 't':
		value = application.Yes
	case c == 'n' || c == 'f':
	case c == '-' || c >= '0' && c <= '9':
		value = string(m.raw)
	default:
		in.bad.Add(name, problemText(name, cert.Problem{Code: codeNotString}))
		return
	}
	in.values[m.name] = value
}
