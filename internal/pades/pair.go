package pades

import (
	"cmp"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

// pairing is a signature of the file: what is said of it, and what was found in the bytes,
// nil when nothing fits.
type pairing struct {
	Signature
	*found
}

// pair describes each signature field and finds what is in the bytes for it. They are in
// the order in which they were made; those whose byte range fits nothing come first,
// since it says nothing about when that was. Orphans are what no field has as its value.
func (v *verifier) pair(fields []pdf.SignatureField, list []found) (signatures []pairing, orphans []*found) {
	matches := match(fields, list)
	for i, field := range fields {
		s := pairing{Signature: v.describe(field)}
		switch at := matches[i]; {
		case at < 0:
			s.fail(&s.Coverage, "Its byte range does not leave out exactly its own value.")
		case count(matches, at) > 1:
			s.fail(&s.Coverage, "It stands in more than one field.")
		case !v.shows(field, &list[at]):
			s.fail(&s.Coverage, "A viewer sees another signature in its place.")
		default:
			s.found = &list[at]
			s.Revision = s.end()
		}
		signatures = append(signatures, s)
	}
	slices.SortStableFunc(signatures, func(a, b pairing) int { return cmp.Compare(a.Revision, b.Revision) })
	for i := range list {
		if !slices.Contains(matches, i) {
			orphans = append(orphans, &list[i])
		}
	}
	return signatures, orphans
}

// shows tells whether the value of a field, as a viewer has it, is what was found in the
// bytes: the cross-reference may lead to another object of the same number.
func (v *verifier) shows(field pdf.SignatureField, f *found) bool {
	value := v.value(field)
	contents, ok := v.doc.Resolve(value.Get("Contents")).(pdf.String)
	return ok && string(contents) == string(f.value) && string(field.SubFilter) == f.dict.name("SubFilter")
}

// removed is what is known of signatures that no viewer shows.
type removed struct {
	any     bool
	trusted bool // a root may vouch for one
}

// examineOrphans looks whose signatures they are that no field has. One that was
// removed before the last one was made, and that no root vouches for, is none of the
// last one's business: clearing a signature leaves it in the file.
func (v *verifier) examineOrphans(orphans []*found) (removed, error) {
	r := removed{any: len(orphans) > 0}
	for _, f := range orphans {
		s := Signature{SubFilter: f.dict.name("SubFilter"), Coverage: Passed, Chain: NotRun}
		if err := v.examineValue(&s, f); err != nil {
			return r, err
		}
		r.trusted = r.trusted || s.Intact() && s.Chain != Failed
	}
	return r, nil
}

// match finds for each field the one signature dictionary in the bytes that it has as
// its value, -1 for none.
func match(fields []pdf.SignatureField, list []found) []int {
	out := make([]int, len(fields))
	for i, field := range fields {
		out[i] = -1
		number := field.Value.Number
		if number == 0 { // the value stands in the field itself
			number = field.Field.Number
		}
		for j := range list {
			if list[j].number != number || !slices.Equal(list[j].ranges[:], field.ByteRange) {
				continue
			}
			if out[i] >= 0 { // two that could be it: neither is
				out[i] = -1
				break
			}
			out[i] = j
		}
	}
	return out
}

func count(list []int, value int) int {
	n := 0
	for _, v := range list {
		if v == value {
			n++
		}
	}
	return n
}
