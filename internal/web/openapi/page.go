package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// page is the data of one page: the introduction, an operation or an error.
type page struct {
	Title string
	// Current is the id of the operation on this page, for the navigation.
	Current string
	Nav     []group
	Intro   *introView
	Shown   *operationView
	Error   string
	// Drill reports whether the vault is a drill of a restore.
	Drill bool
}

// group contains the operations of one tag.
type group struct {
	Name        string
	Description string
	Links       []link
}

type link struct{ ID, Label, Method, Path string }

type introView struct {
	Summary string
	Base    string
	Text    []block
}

type operationView struct {
	ID, Method, Path, Summary string
	Description               []block
	Permissions               [][]string // alternatives; a token needs all permissions of one of them
	Webhook                   bool
	Parameters                []field
	Bodies                    []bodyView
	Responses                 []responseView
	Errors                    []responseView
	Curl                      string
}

type bodyView struct {
	MediaType string
	Fields    []field
	Example   string
}

type responseView struct {
	Status, Reason, Description string
	Headers                     []field
	Bodies                      []bodyView
}

// field is a row in a list of parameters or members.
type field struct {
	Name, In, Type string
	Required       bool
	Description    string
	// Rules are the constraints on a value, and its default.
	Rules []string
}

// webhooks is the tag of the events in the document.
const webhooks = "Webhooks"

// pagesOf returns the pages of a document by the names in their URLs. The name of the introduction is
// empty.
func pagesOf(d *document) map[string]*page {
	nav := d.nav()
	pages := map[string]*page{"": {
		Title: d.Info.Title + " API", Nav: nav, Intro: &introView{Summary: d.Info.Summary, Base: d.base, Text: blocks(d.Info.Description)},
	}}
	add := func(paths ordered[pathItem], isWebhook bool) {
		for _, path := range paths {
			for _, method := range path.Value {
				v := d.operationView(path.Name, method.Name, method.Value, isWebhook)
				pages[v.ID] = &page{Title: v.Summary, Current: v.ID, Nav: nav, Shown: v}
			}
		}
	}
	add(d.Paths, false)
	add(d.Webhooks, true)
	return pages
}

func (d *document) nav() []group {
	groups := make([]group, 0, len(d.Tags)+1)
	for _, t := range d.Tags {
		groups = append(groups, group{Name: t.Name, Description: t.Description})
	}
	groups = append(groups, group{Name: webhooks, Description: "The requests that the vault sends to the server of an institution."})
	for _, paths := range []ordered[pathItem]{d.Paths, d.Webhooks} {
		for _, path := range paths {
			for _, method := range path.Value {
				o := method.Value
				for i := range groups {
					if len(o.Tags) > 0 && groups[i].Name == o.Tags[0] {
						groups[i].Links = append(groups[i].Links, link{ID: o.ID, Label: o.Summary, Method: strings.ToUpper(method.Name), Path: path.Name})
					}
				}
			}
		}
	}
	return groups
}

func (d *document) operationView(path, method string, o *operation, isWebhook bool) *operationView {
	v := &operationView{
		ID: o.ID, Method: strings.ToUpper(method), Path: path, Summary: o.Summary, Description: blocks(o.Description), Webhook: isWebhook,
	}
	for _, requirement := range o.Security {
		for _, permissions := range requirement {
			v.Permissions = append(v.Permissions, permissions)
		}
	}
	for _, p := range o.Parameters {
		v.Parameters = append(v.Parameters, d.parameterField(p))
	}
	if o.RequestBody != nil {
		v.Bodies = d.bodies(o.RequestBody.Content)
	}
	for _, r := range o.Responses {
		status, err := strconv.Atoi(r.Name)
		a := responseView{Status: r.Name, Description: r.Value.Description, Bodies: d.bodies(r.Value.Content)}
		if err == nil {
			a.Reason = http.StatusText(status)
		}
		for _, h := range r.Value.Headers {
			f := d.parameterField(h.Value)
			f.Name, f.In, f.Required = h.Name, "", false
			a.Headers = append(a.Headers, f)
		}
		if err == nil && status >= http.StatusBadRequest {
			v.Errors = append(v.Errors, a)
		} else {
			v.Responses = append(v.Responses, a)
		}
	}
	if !isWebhook {
		v.Curl = d.curl(v.Method, path, o)
	}
	return v
}

func (d *document) parameterField(p *parameter) field {
	f := field{Name: p.Name, In: p.In, Required: p.Required, Description: strings.TrimSpace(p.Description)}
	if p.Schema != nil {
		s := d.schema(p.Schema)
		f.Type, f.Rules = typeOf(d, s), rulesOf(s)
		if f.Description == "" {
			f.Description = s.Description
		}
	}
	return f
}

func (d *document) bodies(content ordered[*mediaType]) []bodyView {
	var list []bodyView
	for _, c := range content {
		b := bodyView{MediaType: c.Name, Example: exampleText(c.Value.Example)}
		if c.Value.Schema != nil {
			b.Fields = d.fields("", c.Value.Schema, 0)
		}
		list = append(list, b)
	}
	return list
}

// maxNesting is the maximum depth of a member on a page. The members of a body have the depth 0.
const maxNesting = 6

// fields returns the members of an object, and of nested objects up to the depth maxNesting. The members of
// a nested object follow the object, and their names are paths, such as data.status or data[].status. For
// alternatives (oneOf), fields returns the members of the first.
func (d *document) fields(prefix string, s *schema, depth int) []field {
	s = d.schema(s)
	if s.Items != nil {
		return d.fields(prefix+"[]", s.Items, depth)
	}
	if depth > maxNesting {
		return nil
	}
	if len(s.OneOf) > 0 {
		return d.fields(prefix, s.OneOf[0], depth)
	}
	var list []field
	add := func(name string, member *schema, required bool) {
		m := d.schema(member)
		if prefix != "" {
			name = prefix + "." + name
		}
		list = append(list, field{Name: name, Type: typeOf(d, m), Required: required, Description: strings.TrimSpace(m.Description), Rules: rulesOf(m)})
		list = append(list, d.fields(name, m, depth+1)...)
	}
	for _, p := range s.Properties {
		add(p.Name, p.Value, slices.Contains(s.Required, p.Name))
	}
	for _, p := range s.PatternProperties {
		add(plainPattern(p.Name), p.Value, false)
	}
	return list
}

// plainPattern returns the pattern for the names of form fields in a readable form, such as fields[<key>].
func plainPattern(pattern string) string {
	return strings.NewReplacer(`[0-9]{1,6}`, "<n>", `[a-z0-9_]+`, "<key>", `\`, "", "^", "", "$", "").Replace(pattern)
}

// typeOf returns the type of a schema as text, such as "array of string or null".
func typeOf(d *document, s *schema) string {
	if len(s.OneOf) > 0 {
		names := make([]string, len(s.OneOf))
		for i, x := range s.OneOf {
			names[i] = typeOf(d, d.schema(x))
		}
		return strings.Join(names, " or ")
	}
	names := make([]string, 0, len(s.Type))
	for _, t := range s.Type {
		switch {
		case t == "string" && s.ContentMediaType != "":
			t = "file"
		case t == "string" && s.Format != "":
			t = s.Format
		case t == "array" && s.Items != nil:
			t = "array of " + typeOf(d, d.schema(s.Items))
		}
		names = append(names, t)
	}
	return strings.Join(names, " or ")
}

// rulesOf returns the constraints on a value, and its default, as text.
func rulesOf(s *schema) []string {
	var rules []string
	if s.Const != nil {
		rules = append(rules, fmt.Sprintf("always `%v`", s.Const))
	}
	if len(s.Enum) > 0 {
		names := make([]string, 0, len(s.Enum))
		for _, e := range s.Enum {
			if !e.isNull() {
				names = append(names, fmt.Sprintf("`%v`", e))
			}
		}
		rules = append(rules, "one of "+strings.Join(names, ", "))
	}
	if s.MaxLength > 0 {
		rules = append(rules, fmt.Sprintf("up to %d characters", s.MaxLength))
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		rules = append(rules, fmt.Sprintf("%d to %d", *s.Minimum, *s.Maximum))
	case s.Minimum != nil && *s.Minimum > 0:
		rules = append(rules, fmt.Sprintf("from %d", *s.Minimum))
	}
	if s.MaxItems > 0 {
		rules = append(rules, fmt.Sprintf("up to %d", s.MaxItems))
	}
	if s.Default != nil {
		rules = append(rules, fmt.Sprintf("default `%v`", s.Default))
	}
	return rules
}

// exampleText returns an example as indented JSON. If the example is a string that is not JSON,
// exampleText returns the string.
func exampleText(v value) string {
	var indented bytes.Buffer
	if json.Indent(&indented, []byte(v.String()), "", "  ") != nil {
		return v.String()
	}
	return indented.String()
}
