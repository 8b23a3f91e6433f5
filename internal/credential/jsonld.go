package credential

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/piprate/json-gold/ld"
)

// This file converts a JSON-LD document to RDF. JSON-LD processors drop members that no context defines,
// and values with a relative or invalid IRI. A signature does not cover dropped values, so they could be
// changed. This conversion returns an error instead. It also rejects other spellings of the name of a
// member, because the code that reads the member would not find it.

var errNotCovered = errors.New("a signature would not cover the whole document")

func notCovered(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotCovered, fmt.Sprintf(format, args...))
}

// canonical returns the canonical form of a document that parseObject returned.
func canonical(ctx context.Context, document map[string]any) ([]byte, error) {
	if err := checkContexts(document["@context"]); err != nil {
		return nil, err
	}
	for name, value := range document {
		if name == "@context" {
			continue
		}
		if err := checkName(name); err != nil {
			return nil, err
		}
		if err := checkSpelling(value); err != nil {
			return nil, err
		}
	}
	dataset, err := toRDF(document)
	if err != nil {
		return nil, err
	}
	return canonicalize(ctx, dataset)
}

// maxContexts is the maximum number of contexts of a document. This package knows nine contexts.
const maxContexts = 9

// checkContexts accepts URLs of known contexts. It rejects contexts that the document itself defines, because
// they could change the meaning of any name.
func checkContexts(v any) error {
	contexts := list(v)
	switch n := len(contexts); {
	case n == 0:
		return notCovered("it has no context")
	case n > maxContexts:
		return fmt.Errorf("%w: %d contexts", errTooMany, n)
	}
	for _, c := range contexts {
		url, ok := c.(string)
		if !ok {
			return notCovered("it defines a context of its own")
		}
		if contextNames[url] == "" {
			return &UnknownContextError{url}
		}
	}
	return nil
}

// checkName rejects keywords and IRIs as names of members. Otherwise the member "validUntil" could be
// renamed to the IRI of the term without a change of the canonical form.
func checkName(name string) error {
	if strings.HasPrefix(name, "@") || strings.Contains(name, ":") {
		return notCovered("the member %q is a keyword or an IRI", name)
	}
	return nil
}

// checkSpelling checks the value of a member of the document: the names and the ids of the objects in it,
// and its texts with a language.
func checkSpelling(v any) error {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if err := checkSpelling(item); err != nil {
				return err
			}
		}
	case map[string]any:
		if _, ok := v["@value"]; ok {
			return checkLanguageValue(v)
		}
		for name, value := range v {
			if err := checkName(name); err != nil {
				return err
			}
			if id, ok := value.(string); ok && name == "id" && strings.HasPrefix(id, "_:") {
				return notCovered("the id %q is a label", id)
			}
			if err := checkSpelling(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkLanguageValue accepts only a text with an optional language (VC, 11.1). It rejects a direction,
// because RDF has no direction, so the signature would not cover it.
func checkLanguageValue(v map[string]any) error {
	for name, value := range v {
		if _, ok := value.(string); !ok || name != "@value" && name != "@language" {
			return notCovered("a value has the member %q", name)
		}
	}
	return nil
}

const (
	rdfType  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
	rdfFirst = "http://www.w3.org/1999/02/22-rdf-syntax-ns#first"
	rdfRest  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#rest"
	rdfNil   = "http://www.w3.org/1999/02/22-rdf-syntax-ns#nil"
	rdfLang  = "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"

	xsdBoolean = "http://www.w3.org/2001/XMLSchema#boolean"
	xsdInteger = "http://www.w3.org/2001/XMLSchema#integer"
	xsdDouble  = "http://www.w3.org/2001/XMLSchema#double"
)

// toRDF expands a document and deserializes it to RDF (JSON-LD 1.1 Processing Algorithms, 5.1 and 8.1).
func toRDF(document map[string]any) ([]quad, error) {
	options := ld.NewJsonLdOptions("")
	options.DocumentLoader = contextLoader{}
	options.SafeMode = true // reject members that no context defines
	expanded, err := ld.NewJsonLdProcessor().Expand(document, options)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotCovered, err)
	}
	if len(expanded) != 1 {
		return nil, notCovered("it has %d top-level values", len(expanded))
	}
	w := rdfWriter{seen: map[quad]bool{}}
	if _, err := w.node(expanded[0], term{}); err != nil {
		return nil, err
	}
	return w.quads, nil
}

// rdfWriter collects the quads of an expanded document.
type rdfWriter struct {
	quads  []quad
	seen   map[quad]bool
	blanks int
}

func (w *rdfWriter) add(q quad) {
	if !w.seen[q] {
		w.seen[q] = true
		w.quads = append(w.quads, q)
	}
}

func (w *rdfWriter) blank() term {
	w.blanks++
	return term{kind: blank, value: "b" + strconv.Itoa(w.blanks)}
}

// node adds the quads of a node object and returns its subject.
func (w *rdfWriter) node(v any, graph term) (term, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return term{}, notCovered("a value is not an object")
	}
	var subject term
	if id, ok := object["@id"]; !ok {
		subject = w.blank()
	} else if named, err := newIRI(id); err != nil {
		return term{}, err
	} else {
		subject = named
	}
	for _, property := range sortedKeys(object) {
		var err error
		switch property {
		case "@id":
		case "@type":
			err = w.types(subject, object[property], graph)
		case "@graph":
			for _, item := range list(object[property]) {
				if _, err := w.node(item, subject); err != nil {
					return term{}, err
				}
			}
		default:
			err = w.property(subject, property, object[property], graph)
		}
		if err != nil {
			return term{}, err
		}
	}
	return subject, nil
}

func (w *rdfWriter) types(subject term, v any, graph term) error {
	for _, item := range list(v) {
		object, err := newIRI(item)
		if err != nil {
			return err
		}
		w.add(quad{subject, term{kind: iri, value: rdfType}, object, graph})
	}
	return nil
}

func (w *rdfWriter) property(subject term, property string, v any, graph term) error {
	predicate, err := newIRI(property)
	if err != nil {
		return err
	}
	for _, item := range list(v) {
		object, err := w.object(item, graph)
		if err != nil {
			return err
		}
		w.add(quad{subject, predicate, object, graph})
	}
	return nil
}

// object adds the quads of a value of a property and returns its term.
func (w *rdfWriter) object(v any, graph term) (term, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return term{}, notCovered("a value is not an object")
	}
	if items, ok := object["@list"]; ok {
		return w.list(list(items), graph)
	}
	if value, ok := object["@value"]; ok {
		return newLiteral(value, object)
	}
	return w.node(object, graph)
}

func (w *rdfWriter) list(items []any, graph term) (term, error) {
	head := term{kind: iri, value: rdfNil}
	for _, item := range slices.Backward(items) {
		object, err := w.object(item, graph)
		if err != nil {
			return term{}, err
		}
		cell := w.blank()
		w.add(quad{cell, term{kind: iri, value: rdfFirst}, object, graph})
		w.add(quad{cell, term{kind: iri, value: rdfRest}, head, graph})
		head = cell
	}
	return head, nil
}

// newIRI returns the term of an absolute IRI. It rejects an IRI with the character U+007F, or with a character
// that N-Quads forbids in IRIs.
func newIRI(v any) (term, error) {
	s, _ := v.(string)
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || scheme == "_" || strings.ContainsAny(scheme, "/?#") {
		return term{}, notCovered("%q is not an absolute IRI", s)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || strings.ContainsRune("<>\"{}|^`\\\x7f", r) }) {
		return term{}, notCovered("the IRI %q has a forbidden character", s)
	}
	return term{kind: iri, value: s}, nil
}

// newLiteral returns the literal of a value object (JSON-LD 1.1 Processing Algorithms, 8.2.2).
func newLiteral(value any, object map[string]any) (term, error) {
	for name := range object {
		if name != "@value" && name != "@type" && name != "@language" {
			return term{}, notCovered("a value has the member %q", name)
		}
	}
	datatype := ""
	if v, ok := object["@type"]; ok {
		t, err := newIRI(v)
		if err != nil {
			return term{}, err
		}
		datatype = t.value
	}
	language, _ := object["@language"].(string)
	typed := func(value, otherwise string) (term, error) {
		if datatype == "" {
			datatype = otherwise
		}
		return term{kind: literal, value: value, datatype: datatype}, nil
	}
	switch v := value.(type) {
	case string:
		if language == "" {
			return typed(v, xsdString)
		}
		if strings.ContainsFunc(language, func(r rune) bool { return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') }) {
			return term{}, notCovered("%q is not a language tag", language)
		}
		return term{kind: literal, value: v, datatype: rdfLang, language: language}, nil
	case bool:
		return typed(strconv.FormatBool(v), xsdBoolean)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e21 && datatype != xsdDouble {
			return typed(strconv.FormatFloat(v, 'f', 0, 64), xsdInteger)
		}
		return typed(ld.GetCanonicalDouble(v), xsdDouble)
	}
	return term{}, notCovered("a value has an unknown type")
}
