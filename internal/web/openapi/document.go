package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// document is the part of an OpenAPI 3.1 document that the pages show. Paths and other lists have the order
// of the file. base is the base URL of the vault, and json is the whole document.
type document struct {
	Info       info              `json:"info"`
	Tags       []tag             `json:"tags"`
	Paths      ordered[pathItem] `json:"paths"`
	Webhooks   ordered[pathItem] `json:"webhooks"`
	Components components        `json:"components"`

	base string
	json []byte
}

type info struct {
	Title       string `json:"title"`
	Version     string `json:"version"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
}

type tag struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// pathItem has the operations of a path by the method in lower case, such as "get".
type pathItem = ordered[*operation]

type operation struct {
	ID          string                `json:"operationId"`
	Tags        []string              `json:"tags"`
	Summary     string                `json:"summary"`
	Description string                `json:"description"`
	Security    []map[string][]string `json:"security"`
	Parameters  []*parameter          `json:"parameters"`
	RequestBody *requestBody          `json:"requestBody"`
	Responses   ordered[*response]    `json:"responses"`
}

type parameter struct {
	Ref         string  `json:"$ref"`
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required"`
	Description string  `json:"description"`
	Schema      *schema `json:"schema"`
}

type requestBody struct {
	Content ordered[*mediaType] `json:"content"`
}

type mediaType struct {
	Schema  *schema `json:"schema"`
	Example value   `json:"example"`
}

type response struct {
	Ref         string              `json:"$ref"`
	Description string              `json:"description"`
	Headers     ordered[*parameter] `json:"headers"`
	Content     ordered[*mediaType] `json:"content"`
}

type components struct {
	Parameters map[string]*parameter `json:"parameters"`
	Headers    map[string]*parameter `json:"headers"`
	Responses  map[string]*response  `json:"responses"`
	Schemas    map[string]*schema    `json:"schemas"`
}

// schema is a JSON Schema of the 2020-12 dialect (OpenAPI 3.1, 4.8.24).
type schema struct {
	Ref               string           `json:"$ref"`
	Type              types            `json:"type"`
	Format            string           `json:"format"`
	Description       string           `json:"description"`
	ContentMediaType  string           `json:"contentMediaType"`
	Enum              []value          `json:"enum"`
	Const             *value           `json:"const"`
	Default           *value           `json:"default"`
	Examples          []value          `json:"examples"`
	MaxLength         int              `json:"maxLength"`
	Minimum           *int             `json:"minimum"`
	Maximum           *int             `json:"maximum"`
	MaxItems          int              `json:"maxItems"`
	Required          []string         `json:"required"`
	Properties        ordered[*schema] `json:"properties"`
	PatternProperties ordered[*schema] `json:"patternProperties"`
	Items             *schema          `json:"items"`
	OneOf             []*schema        `json:"oneOf"`
}

// types are the types that a schema allows, such as "string" and "null".
type types []string

// UnmarshalJSON reads the name of one type, or a list of names.
func (t *types) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	*t = make(types, 1)
	return json.Unmarshal(text, &(*t)[0])
}

// value is any JSON value.
type value struct{ json.RawMessage }

// String returns the text of a JSON string, and other values as JSON.
func (v value) String() string {
	var text string
	if json.Unmarshal(v.RawMessage, &text) == nil && !v.isNull() {
		return text
	}
	return string(v.RawMessage)
}

func (v value) isNull() bool { return string(v.RawMessage) == "null" }

// ordered is a JSON object whose members keep their order.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalJSON reads an object.
func (o *ordered[T]) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return errors.Join(errors.New("expected an object"), err)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		e := entry[T]{Name: fmt.Sprint(name)}
		if err := dec.Decode(&e.Value); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		*o = append(*o, e)
	}
	return nil
}

// read parses text, an OpenAPI document in JSON, and sets base as its only server.
func read(text []byte, base string) (*document, error) {
	doc := &document{base: base}
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, err
	}
	if err := doc.resolveAll(); err != nil {
		return nil, err
	}
	var err error
	doc.json, err = withServer(text, base)
	return doc, err
}

// withServer returns text, an OpenAPI document in JSON, without white space. base is its only server.
func withServer(text []byte, base string) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, err
	}
	var members struct {
		Servers json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(compact.Bytes(), &members); err != nil {
		return nil, err
	}
	if members.Servers == nil {
		return nil, errors.New("the document has no servers")
	}
	servers, err := json.Marshal([]map[string]string{{"url": base}})
	if err != nil {
		return nil, fmt.Errorf("writing the server: %w", err)
	}
	return bytes.Replace(compact.Bytes(), fmt.Appendf(nil, `"servers":%s`, members.Servers), fmt.Appendf(nil, `"servers":%s`, servers), 1), nil
}

// resolveAll replaces references to parameters, headers and responses with the components.
// The method schema resolves references to schemas later.
func (d *document) resolveAll() error {
	for _, paths := range []ordered[pathItem]{d.Paths, d.Webhooks} {
		for _, path := range paths {
			for _, method := range path.Value {
				if err := d.resolve(method.Value); err != nil {
					return fmt.Errorf("%s %s: %w", method.Name, path.Name, err)
				}
			}
		}
	}
	return nil
}

func (d *document) resolve(o *operation) error {
	for i, p := range o.Parameters {
		if err := follow(&o.Parameters[i], p.Ref, "parameters", d.Components.Parameters); err != nil {
			return err
		}
	}
	for i := range o.Responses {
		response := &o.Responses[i]
		if err := follow(&response.Value, response.Value.Ref, "responses", d.Components.Responses); err != nil {
			return err
		}
		for j, h := range response.Value.Headers {
			if err := follow(&response.Value.Headers[j].Value, h.Value.Ref, "headers", d.Components.Headers); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow replaces the value at place with the component that ref names. If ref is empty, it does nothing.
func follow[T any](place *T, ref, kind string, from map[string]T) error {
	if ref == "" {
		return nil
	}
	name, ok := strings.CutPrefix(ref, "#/components/"+kind+"/")
	found, exists := from[name]
	if !ok || !exists {
		return fmt.Errorf("there is no component %s", ref)
	}
	*place = found
	return nil
}

// schema returns s merged with the schema that s refers to, because keywords next to a reference also
// apply (JSON Schema Core 2020-12, 8.2.3.1). It merges only the description, the required members, and the
// constants of members. If s has no reference or an unknown one, schema returns s.
func (d *document) schema(s *schema) *schema {
	if s.Ref == "" {
		return s
	}
	target, ok := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	if !ok {
		return s
	}
	merged := *d.schema(target)
	if s.Description != "" {
		merged.Description = s.Description
	}
	merged.Required = append(append([]string{}, merged.Required...), s.Required...)
	merged.Properties = append(ordered[*schema]{}, merged.Properties...)
	for _, extra := range s.Properties {
		for i, p := range merged.Properties {
			if p.Name == extra.Name {
				narrowed := *p.Value
				narrowed.Const, narrowed.Enum = extra.Value.Const, nil
				merged.Properties[i].Value = &narrowed
			}
		}
	}
	return &merged
}
