package credential

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// This file implements RDFC-1.0 for the quads of jsonld.go. json-gold implements only predecessors of
// RDFC-1.0, such as URDNA2015, which escapes fewer characters. json-gold also has no time limit: a hostile
// document of a few kilobytes ("dataset poisoning", RDFC, 7) could occupy it for years.

// termKind is the kind of a term.
type termKind byte

const (
	noTerm termKind = iota // the default graph
	iri
	blank
	literal
)

// term is a component of a quad. A blank node's value is its label without "_:".
type term struct {
	kind                      termKind
	value, datatype, language string
}

// quad is a statement of an RDF dataset.
type quad struct {
	subject, predicate, object, graph term
}

const xsdString = "http://www.w3.org/2001/XMLSchema#string"

// maxSteps limits the work of the Hash N-Degree Quads algorithm. A usual credential needs fewer than 100
// steps; maxSteps steps take about a second.
const maxSteps = 200_000

var errPoisoned = errors.New("the canonical form takes too much time: too many nodes are alike")

// write appends a term in canonical N-Quads (RDFC, A).
func (t term) write(b *strings.Builder) {
	switch t.kind {
	case noTerm:
	case blank:
		b.WriteString("_:")
		b.WriteString(t.value)
	case iri:
		b.WriteByte('<')
		b.WriteString(t.value) // newIRI rejects characters that need an escape
		b.WriteByte('>')
	case literal:
		b.WriteByte('"')
		writeEscaped(b, t.value)
		b.WriteByte('"')
		switch {
		case t.language != "":
			b.WriteByte('@')
			b.WriteString(t.language)
		case t.datatype != xsdString:
			b.WriteString("^^<")
			b.WriteString(t.datatype)
			b.WriteByte('>')
		}
	}
}

func writeEscaped(b *strings.Builder, s string) {
	for _, r := range s {
		switch r {
		case '\b':
			b.WriteString(`\b`)
		case '\t':
			b.WriteString(`\t`)
		case '\n':
			b.WriteString(`\n`)
		case '\f':
			b.WriteString(`\f`)
		case '\r':
			b.WriteString(`\r`)
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			if r < 0x20 || r == 0x7f || r == 0xfffe || r == 0xffff {
				fmt.Fprintf(b, `\u%04X`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
}

// line returns a quad in canonical N-Quads. rename returns the new label of a blank node.
func (q quad) line(rename func(label string) string) string {
	var b strings.Builder
	for _, t := range []term{q.subject, q.predicate, q.object, q.graph} {
		if t.kind == noTerm {
			continue
		}
		if t.kind == blank {
			t.value = rename(t.value)
		}
		t.write(&b)
		b.WriteByte(' ')
	}
	b.WriteString(".\n")
	return b.String()
}

// issuer issues identifiers for blank nodes (RDFC, 4.5).
type issuer struct {
	prefix string
	issued map[string]string
	order  []string
}

func newIssuer(prefix string) *issuer {
	return &issuer{prefix: prefix, issued: map[string]string{}}
}

func (i *issuer) issue(label string) string {
	id, ok := i.issued[label]
	if !ok {
		id = i.prefix + strconv.Itoa(len(i.order))
		i.issued[label] = id
		i.order = append(i.order, label)
	}
	return id
}

func (i *issuer) clone() *issuer {
	return &issuer{prefix: i.prefix, issued: maps.Clone(i.issued), order: slices.Clone(i.order)}
}

// canonicalization is the canonicalization state (RDFC, 4.2).
type canonicalization struct {
	ctx         context.Context //nolint:containedctx // the state lives as long as one call of canonicalize
	quads       map[string][]quad
	firstDegree map[string]string
	canonical   *issuer
	steps       int
}

// canonicalize returns the canonical N-Quads of a dataset without duplicates (RDFC, 4.4.3).
func canonicalize(ctx context.Context, dataset []quad) ([]byte, error) {
	c := canonicalization{ctx: ctx, quads: map[string][]quad{}, firstDegree: map[string]string{}, canonical: newIssuer("c14n")}
	for _, q := range dataset { // step 2
		components := []term{q.subject, q.object, q.graph}
		for i, t := range components {
			if t.kind == blank && !slices.Contains(components[:i], t) {
				c.quads[t.value] = append(c.quads[t.value], q)
			}
		}
	}
	alike := map[string][]string{} // step 3
	for label := range c.quads {
		hash := c.hashFirstDegree(label)
		alike[hash] = append(alike[hash], label)
	}
	hashes := sortedKeys(alike)
	for _, hash := range hashes { // step 4
		if len(alike[hash]) == 1 {
			c.canonical.issue(alike[hash][0])
		}
	}
	for _, hash := range hashes { // step 5
		if len(alike[hash]) == 1 {
			continue
		}
		if err := c.distinguish(alike[hash]); err != nil {
			return nil, err
		}
	}
	lines := make([]string, len(dataset)) // step 6
	for i, q := range dataset {
		lines[i] = q.line(func(label string) string { return c.canonical.issued[label] })
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), nil
}

// path is a path of the Hash N-Degree Quads algorithm, or its hash, with the issuer of its identifiers.
type path struct {
	hash   string
	issuer *issuer
}

// distinguish issues identifiers for blank nodes with the same first-degree hash (RDFC, 4.4.3, step 5).
func (c *canonicalization) distinguish(labels []string) error {
	var paths []path
	for _, label := range labels {
		if _, ok := c.canonical.issued[label]; ok {
			continue
		}
		temporary := newIssuer("b")
		temporary.issue(label)
		p, err := c.hashNDegree(label, temporary, 0)
		if err != nil {
			return err
		}
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(a, b path) int { return cmp.Compare(a.hash, b.hash) })
	for _, p := range paths {
		for _, label := range p.issuer.order {
			c.canonical.issue(label)
		}
	}
	return nil
}

// hashFirstDegree is the Hash First Degree Quads algorithm (RDFC, 4.6.3).
func (c *canonicalization) hashFirstDegree(label string) string {
	if hash, ok := c.firstDegree[label]; ok {
		return hash
	}
	lines := make([]string, len(c.quads[label]))
	for i, q := range c.quads[label] {
		lines[i] = q.line(func(other string) string {
			if other == label {
				return "a"
			}
			return "z"
		})
	}
	slices.Sort(lines)
	hash := digest(strings.Join(lines, ""))
	c.firstDegree[label] = hash
	return hash
}

// hashRelated is the Hash Related Blank Node algorithm (RDFC, 4.7.3).
func (c *canonicalization) hashRelated(related string, q quad, i *issuer, position string) string {
	input := position
	if position != "g" {
		input += "<" + q.predicate.value + ">"
	}
	if id, ok := c.canonical.issued[related]; ok {
		return digest(input + "_:" + id)
	}
	if id, ok := i.issued[related]; ok {
		return digest(input + "_:" + id)
	}
	return digest(input + c.hashFirstDegree(related))
}

// step counts a step. It returns an error after maxSteps steps, or when the context is done.
func (c *canonicalization) step() error {
	if c.steps++; c.steps > maxSteps {
		return errPoisoned
	}
	return c.ctx.Err()
}

// hashNDegree is the Hash N-Degree Quads algorithm (RDFC, 4.8.3).
func (c *canonicalization) hashNDegree(label string, i *issuer, depth int) (path, error) {
	if depth > 64 { // along a chain of nodes, maxSteps would allow a deeper recursion
		return path{}, errPoisoned
	}
	related := map[string][]string{} // steps 1 to 3
	for _, q := range c.quads[label] {
		if err := c.step(); err != nil {
			return path{}, err
		}
		for _, p := range []struct {
			t        term
			position string
		}{{q.subject, "s"}, {q.object, "o"}, {q.graph, "g"}} {
			if p.t.kind == blank && p.t.value != label {
				hash := c.hashRelated(p.t.value, q, i, p.position)
				related[hash] = append(related[hash], p.t.value)
			}
		}
	}
	var data strings.Builder
	for _, hash := range sortedKeys(related) { // step 5
		data.WriteString(hash)
		chosen, err := c.choose(related[hash], i, depth)
		if err != nil {
			return path{}, err
		}
		data.WriteString(chosen.hash)
		i = chosen.issuer
	}
	return path{digest(data.String()), i}, nil
}

// choose returns the smallest path of all permutations of labels (RDFC, 4.8.3, step 5.4).
func (c *canonicalization) choose(labels []string, i *issuer, depth int) (path, error) {
	var chosen path
	labels = slices.Clone(labels)
	slices.Sort(labels)
	for more := true; more; more = nextPermutation(labels) {
		p, err := c.follow(labels, i.clone(), chosen.hash, depth)
		if err != nil {
			return path{}, err
		}
		if p.issuer != nil && (chosen.issuer == nil || p.hash < chosen.hash) {
			chosen = p
		}
	}
	return chosen, nil
}

// follow returns the path of one permutation (RDFC, 4.8.3, steps 5.4.1 to 5.4.5). It returns the zero path
// if the path becomes greater than chosen, and is not shorter.
func (c *canonicalization) follow(labels []string, i *issuer, chosen string, depth int) (path, error) {
	var b strings.Builder
	greater := func() bool { return chosen != "" && b.Len() >= len(chosen) && b.String() > chosen }
	var recursion []string
	for _, label := range labels { // step 5.4.4
		if err := c.step(); err != nil {
			return path{}, err
		}
		if id, ok := c.canonical.issued[label]; ok {
			b.WriteString("_:" + id)
		} else {
			if _, ok := i.issued[label]; !ok {
				recursion = append(recursion, label)
			}
			b.WriteString("_:" + i.issue(label))
		}
		if greater() {
			return path{}, nil
		}
	}
	for _, label := range recursion { // step 5.4.5
		result, err := c.hashNDegree(label, i, depth+1)
		if err != nil {
			return path{}, err
		}
		b.WriteString("_:" + i.issue(label) + "<" + result.hash + ">")
		i = result.issuer
		if greater() {
			return path{}, nil
		}
	}
	return path{b.String(), i}, nil
}

// nextPermutation changes s to its next permutation in lexicographic order. It reports whether there was
// one.
func nextPermutation(s []string) bool {
	i := len(s) - 2
	for i >= 0 && s[i] >= s[i+1] {
		i--
	}
	if i < 0 {
		return false
	}
	j := len(s) - 1
	for s[j] <= s[i] {
		j--
	}
	s[i], s[j] = s[j], s[i]
	slices.Reverse(s[i+1:])
	return true
}

// digest returns the SHA-256 digest of a text in hexadecimal.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
