package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/template"
	"github.com/certvault/certvault/internal/web/body"
)

// maxEntry is the maximum size of an encoded entry in bytes.
const maxEntry = 256 << 10

// maxIssue is the maximum size of the body of a request to issue certificates, in bytes.
const maxIssue = 16 << 20

// valuesPrefix begins the names of columns in problems.
const valuesPrefix = "values."

var errNoEntries = batch.Problems{{Entry: batch.NoEntry, Problem: cert.Problem{Code: cert.CodeRequired}}}

// issueInput is the body of a request to issue certificates.
type issueInput struct {
	name    string
	entries []template.Entry
	// problems are those of values that are not text.
	problems batch.Problems
}

// issueName returns the name of a field in requests.
func issueName(f cert.Field) string {
	if strings.HasPrefix(string(f), valuesPrefix) {
		return string(f)
	}
	return names[f]
}

// merge returns the problems of reading and those of the content, by entry. A field that is not text has
// no other problems.
func (in *issueInput) merge(found []template.RowProblem) []template.RowProblem {
	type place struct {
		entry int
		field cert.Field
	}
	unread := map[place]bool{}
	for _, p := range in.problems {
		unread[place{p.Entry, p.Field}] = true
	}
	list := slices.Clone([]template.RowProblem(in.problems))
	for _, p := range found {
		if !unread[place{p.Entry, p.Field}] && !unread[place{p.Entry, ""}] {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b template.RowProblem) int { return cmp.Compare(a.Entry, b.Entry) })
	return list
}

// openJSON prepares reading a JSON body.
func openJSON(w http.ResponseWriter, r *http.Request, size int64) error {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" {
		return fault.New(fault.Unsupported, "The request must be application/json.")
	}
	body.Limit(w, r, limits(size, malformedJSON))
	return body.CheckEncoding(r)
}

// readIssue reads {"name": "...", "entries": [{...}, ...]}, one entry at a time. It ignores unknown
// members.
func readIssue(w http.ResponseWriter, x *exchange) (*issueInput, error) {
	if err := openJSON(w, x.call.Request, maxIssue); err != nil {
		return nil, err
	}
	guard := &tokenGuard{r: x.call.Body}
	d := &issueReader{exchange: x, guard: guard, dec: json.NewDecoder(guard)}
	err := d.document()
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return &d.issueInput, err
	}
	return nil, fault.Wrap(fault.Invalid, malformedJSON, err)
}

// readEntry reads the body of a preview, which is one entry.
func (a *API) readEntry(w http.ResponseWriter, c *call) (template.Entry, error) {
	if err := openJSON(w, c.Request, maxEntry); err != nil {
		return template.Entry{}, err
	}
	text, err := io.ReadAll(c.Body)
	if err != nil {
		return template.Entry{}, err
	}
	if !json.Valid(text) || text[bytes.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune(" \t\r\n", r) })] != '{' {
		return template.Entry{}, fault.New(fault.Invalid, notObject)
	}
	d := &issueReader{exchange: &exchange{api: a, call: c}}
	if err := d.entry(0, text); err != nil {
		return template.Entry{}, fault.Wrap(fault.Invalid, notObject, err)
	}
	return d.entries[0], d.problems.Err()
}

// issueReader reads a request to issue certificates.
type issueReader struct {
	issueInput

	exchange *exchange
	guard    *tokenGuard
	dec      *json.Decoder
	seen     map[string]bool
}

func (d *issueReader) token() (json.Token, error) {
	d.guard.left = maxEntry
	return d.dec.Token()
}

func (d *issueReader) value() (raw json.RawMessage, err error) {
	d.guard.left = maxEntry
	err = d.dec.Decode(&raw)
	return raw, err
}

func (d *issueReader) document() error {
	open, err := d.token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return errShape
	}
	d.seen = map[string]bool{}
	for d.dec.More() {
		token, err := d.token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		if d.seen[name] {
			return fault.OfField(shorten(name), "The field is given more than once.")
		}
		d.seen[name] = true
		if err := d.member(name); err != nil {
			return err
		}
	}
	if _, err := d.token(); err != nil {
		return err
	}
	if _, err := d.token(); !errors.Is(err, io.EOF) {
		return errors.Join(errShape, err)
	}
	return nil
}

func (d *issueReader) member(name string) error {
	if name == "entries" {
		return d.list()
	}
	raw, err := d.value()
	if err != nil {
		return err
	}
	d.fingerprint(name, raw)
	if name != "name" {
		return nil
	}
	if raw[0] == 'n' {
		return nil
	}
	text, ok := readText(raw)
	if !ok || len(text) > maxBulkValue {
		return fault.OfField(name, "The name field must be text of at most 255 characters.")
	}
	d.name = text
	return nil
}

func (d *issueReader) list() error {
	open, err := d.token()
	if err != nil {
		return err
	}
	if open != json.Delim('[') {
		return fault.OfField("entries", "The entries field must be an array.")
	}
	for i := 0; d.dec.More(); i++ {
		if i == batch.MaxEntries {
			return batch.Problems{{Entry: batch.NoEntry, Problem: cert.Problem{Code: batch.CodeTooManyEntries, Limit: batch.MaxEntries}}}.Err()
		}
		raw, err := d.value()
		if err != nil {
			return err
		}
		if err := d.entry(i, raw); err != nil {
			return err
		}
	}
	_, err = d.token()
	return err
}

// fingerprint adds a value to the fingerprint of the request.
func (d *issueReader) fingerprint(name string, raw json.RawMessage) {
	content, end := d.exchange.field(name)
	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		_, _ = compact.WriteTo(content) // writing to a hash cannot fail
	}
	end()
}

// entry reads an entry and adds it.
func (d *issueReader) entry(i int, raw json.RawMessage) error {
	d.fingerprint(fmt.Sprintf("entries.%d", i), raw)
	var e template.Entry
	if raw[0] != '{' && bytes.TrimSpace(raw)[0] != '{' {
		d.add(i, "", codeNotEntry)
		d.entries = append(d.entries, e)
		return nil
	}
	members, err := objectOf(raw)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, m := range members {
		switch field := entryFields[m.name]; {
		case m.name == "values":
			if given[m.name] {
				d.add(i, template.ValueField(""), batch.CodeRepeated)
			}
			if err := d.values(i, &e, m.raw); err != nil {
				return err
			}
		case field == "" || field == cert.FieldFile:
		case given[m.name]:
			d.add(i, field, batch.CodeRepeated)
		default:
			d.set(i, field, e.Of(field), m.raw)
		}
		given[m.name] = true
	}
	d.entries = append(d.entries, e)
	return nil
}

func (d *issueReader) add(i int, field cert.Field, code cert.Code) {
	d.problems = append(d.problems, batch.Problem{Entry: i, Problem: cert.Problem{Field: field, Code: code}})
}

// set reads a value: text, or null for no value.
func (d *issueReader) set(i int, field cert.Field, to *string, raw json.RawMessage) {
	if raw[0] == 'n' {
		return
	}
	text, ok := readText(raw)
	if !ok {
		d.add(i, field, codeNotString)
		return
	}
	*to = text
}

// values reads the values of the columns of an entry.
func (d *issueReader) values(i int, e *template.Entry, raw json.RawMessage) error {
	switch raw[0] {
	case 'n':
		return nil
	case '{':
	default:
		d.add(i, "values.", codeNotValues)
		return nil
	}
	members, err := objectOf(raw)
	if err != nil {
		return err
	}
	e.Values = make(map[string]string, len(members))
	for _, m := range members {
		if _, ok := e.Values[m.name]; ok {
			d.add(i, template.ValueField(shorten(m.name)), batch.CodeRepeated)
			continue
		}
		value := ""
		d.set(i, template.ValueField(shorten(m.name)), &value, m.raw)
		e.Values[m.name] = value
	}
	return nil
}

// readText returns a JSON text. Text that is not UTF-8 becomes an invalid text, because decoding would
// replace what is wrong.
func readText(raw json.RawMessage) (text string, ok bool) {
	if raw[0] != '"' {
		return "", false
	}
	if !utf8.Valid(raw) || loneSurrogate(raw) {
		return "\xff", true
	}
	return text, json.Unmarshal(raw, &text) == nil
}

// jsonMember is a member of a JSON object.
type jsonMember struct {
	name string
	raw  json.RawMessage
}

// objectOf returns the members of a JSON object in their order, with repeated ones.
func objectOf(raw json.RawMessage) (list []jsonMember, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := jsonMember{}
		m.name, _ = token.(string)
		if err := dec.Decode(&m.raw); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
