package openapi

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is as much of an OpenAPI 3.1 document as the pages show, in the
// order in which it is written.
type document struct {
	Info       info              `yaml:"info"`
	Tags       []tag             `yaml:"tags"`
	Paths      ordered[pathItem] `yaml:"paths"`
	Webhooks   ordered[pathItem] `yaml:"webhooks"`
	Components components        `yaml:"components"`

	base string
	json []byte
}

type info struct {
	Title       string `yaml:"title"`
	Version     string `yaml:"version"`
	Summary     string `yaml:"summary"`
	Description string `yaml:"description"`
}

type tag struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
}

// pathItem is the operations of a path by method, in lower case.
type pathItem = ordered[*operation]

type operation struct {
	ID          string                `yaml:"operationId"`
	Tags        []string              `yaml:"tags"`
	Summary     string                `yaml:"summary"`
	Description string                `yaml:"description"`
	Security    []map[string][]string `yaml:"security"`
	Parameters  []*parameter          `yaml:"parameters"`
	RequestBody *requestBody          `yaml:"requestBody"`
	Responses   ordered[*response]    `yaml:"responses"`
}

type parameter struct {
	Ref         string  `yaml:"$ref"`
	Name        string  `yaml:"name"`
	In          string  `yaml:"in"`
	Required    bool    `yaml:"required"`
	Description string  `yaml:"description"`
	Schema      *schema `yaml:"schema"`
}

type requestBody struct {
	Content ordered[*mediaType] `yaml:"content"`
}

type mediaType struct {
	Schema  *schema   `yaml:"schema"`
	Example yaml.Node `yaml:"example"`
}

type response struct {
	Ref         string              `yaml:"$ref"`
	Description string              `yaml:"description"`
	Headers     ordered[*parameter] `yaml:"headers"`
	Content     ordered[*mediaType] `yaml:"content"`
}

type components struct {
	Parameters map[string]*parameter `yaml:"parameters"`
	Headers    map[string]*parameter `yaml:"headers"`
	Responses  map[string]*response  `yaml:"responses"`
	Schemas    map[string]*schema    `yaml:"schemas"`
}

// schema is a JSON Schema of the 2020-12 dialect (OpenAPI 3.1, 4.8.24).
type schema struct {
	Ref               string           `yaml:"$ref"`
	Type              types            `yaml:"type"`
	Format            string           `yaml:"format"`
	Description       string           `yaml:"description"`
	ContentMediaType  string           `yaml:"contentMediaType"`
	Enum              []any            `yaml:"enum"`
	Const             any              `yaml:"const"`
	Default           any              `yaml:"default"`
	Examples          []any            `yaml:"examples"`
	MaxLength         int              `yaml:"maxLength"`
	Minimum           *int             `yaml:"minimum"`
	Maximum           *int             `yaml:"maximum"`
	MaxItems          int              `yaml:"maxItems"`
	Required          []string         `yaml:"required"`
	Properties        ordered[*schema] `yaml:"properties"`
	PatternProperties ordered[*schema] `yaml:"patternProperties"`
	Items             *schema          `yaml:"items"`
	OneOf             []*schema        `yaml:"oneOf"`
}

// types is a schema's type: one, or a list of them.
type types []string

// UnmarshalYAML reads either form.
func (t *types) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = types{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

// ordered is a mapping that keeps the order in which it is written.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML reads a mapping.
func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: there must be a mapping here", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := entry[T]{Name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&e.Value); err != nil {
			return err
		}
		*o = append(*o, e)
	}
	return nil
}

// read reads the document and makes base its server.
func read(text []byte, base string) (*document, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	doc := &document{base: base}
	if err := root.Decode(doc); err != nil {
		return nil, err
	}
	if err := doc.resolveAll(); err != nil {
		return nil, err
	}
	var err error
	doc.json, err = toJSON(&root, base)
	return doc, err
}

// resolveAll puts what references name in the place of parameters, headers and
// responses; schemas keep their references until they are shown.
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
		answer := &o.Responses[i]
		if err := follow(&answer.Value, answer.Value.Ref, "responses", d.Components.Responses); err != nil {
			return err
		}
		for j, h := range answer.Value.Headers {
			if err := follow(&answer.Value.Headers[j].Value, h.Value.Ref, "headers", d.Components.Headers); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow puts the component that a reference names, if there is one, in place.
func follow[T any](place *T, ref, kind string, from map[string]T) error {
	if ref == "" {
		return nil
	}
	name, ok := strings.CutPrefix(ref, "#/components/"+kind+"/")
	found, there := from[name]
	if !ok || !there {
		return fmt.Errorf("there is no component %s", ref)
	}
	*place = found
	return nil
}

// schema gives a schema with what it refers to. The keywords beside a reference
// hold too (JSON Schema Core 2020-12, 8.2.3.1).
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
