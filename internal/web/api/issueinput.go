package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
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

// valuesPrefix is the prefix of the names of columns in problems.
const valuesPrefix = "values."

var errNoEntries = batch.Problems{{Entry: batch.NoEntry, Problem: cert.Problem{Code: cert.CodeRequired}}}

// issueInput is the body of a request to issue certificates.
type issueInput struct {
	name    string
	notify  cert.Notify
	entries []template.Entry
	// problems are the problems of reading the entries, such as values that are not text.
	problems batch.Problems
}

// fieldValues is the field of a problem with the whole member "values" of an entry, not with one column.
const fieldValues cert.Field = "values"

// issueName returns the name of a field in requests.
func issueName(f cert.Field) string {
	if name, ok := names[f]; ok {
		return name
	}
	return string(f)
}

// merge returns in.problems and found, sorted by entry. It omits a found problem if its field or its whole
// entry already has one of in.problems.
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

// openJSON checks the type and the encoding of a JSON body, and limits the body to size bytes.
func openJSON(w http.ResponseWriter, r *http.Request, size int64) error {
	if mediaType(r) != "application/json" {
		return errNotJSON
	}
	body.Limit(w, r, limits(size, malformedJSON))
	return body.CheckEncoding(r)
}

// readIssue reads {"name": "...", "notify": "...", "entries": [{...}, ...]}, one entry at a time. It
// ignores unknown members.
func readIssue(w http.ResponseWriter, x *exchange) (*issueInput, error) {
	if err := openJSON(w, x.call.Request, maxIssue); err != nil {
		return nil, err
	}
	d := &issueReader{exchange: x, jsonReader: newJSONReader(x.call.Body, maxEntry)}
	err := d.document(map[string]func() error{"name": d.batchName, notifyName: d.notifyMember, "entries": d.list})
	return &d.issueInput, err
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
	jsonReader

	exchange *exchange
}

// maxBatchName is the maximum length of the name of a batch in characters.
const maxBatchName = 255

// batchName reads the name of the batch: text, or null for no name.
func (d *issueReader) batchName() error {
	const name = "name"
	raw, err := d.value()
	if err != nil {
		return err
	}
	d.fingerprint(name, raw)
	if raw[0] == 'n' {
		return nil
	}
	text, ok := readText(raw)
	if !ok || !account.CleanText(text) || utf8.RuneCountInString(text) > maxBatchName {
		return fault.OfField(name, fmt.Sprintf("The name field must be text of at most %d characters.", maxBatchName))
	}
	d.name = strings.TrimSpace(text)
	return nil
}

// notifyMember reads the member "notify": text for cert.ReadNotify, or null for mail at the approval.
func (d *issueReader) notifyMember() error {
	raw, err := d.value()
	if err != nil {
		return err
	}
	d.fingerprint(notifyName, raw)
	if raw[0] == 'n' {
		return nil
	}
	text, ok := readText(raw)
	if !ok {
		return errNotifyText
	}
	d.notify = cert.ReadNotify(text)
	return nil
}

// list reads the array of entries.
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

// entry reads the entry with the index i and appends it to the entries. A value that is not an object
// is appended as an empty entry with a problem.
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
				d.add(i, fieldValues, batch.CodeRepeated)
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

// set stores a value: text, or null for no value.
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

// values reads the values of the columns of the entry with the index i into e.
func (d *issueReader) values(i int, e *template.Entry, raw json.RawMessage) error {
	switch raw[0] {
	case 'n':
		return nil
	case '{':
	default:
		d.add(i, fieldValues, codeNotValues)
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

// readText returns the value of a JSON string, and reports whether raw is a string. For a string with
// invalid UTF-8 or an unpaired surrogate, it returns text that is not valid UTF-8, because decoding
// would replace the invalid part with the replacement character.
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

// objectOf returns the members of a JSON object in their order, including repeated members.
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
