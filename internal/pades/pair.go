package pades

import (
	"cmp"
	"slices"

	"github.com/certvault/certvault/internal/pdf"
)

// fieldSignature is a signature of the file: its report, and its dictionary in the
// bytes, or nil if none matches.
type fieldSignature struct {
	Signature
	*signatureDict
}

// pair describes each signature field and finds its dictionary in the bytes.
// The signatures are in the order in which they were made. Signatures without a
// match come first, because their order is unknown. Orphans are dictionaries
// that are not the value of any field.
func (v *verifier) pair(fields []pdf.SignatureField, list []signatureDict) (signatures []fieldSignature, orphans []*signatureDict) {
	matches := match(fields, list)
	for i, field := range fields {
		s := fieldSignature{Signature: v.describe(field)}
		switch at := matches[i]; {
		case at < 0:
			s.fail(&s.Coverage, "The byte range of the signature does not omit exactly the value of the signature.")
		case count(matches, at) > 1:
			s.fail(&s.Coverage, "The signature is the value of more than one field.")
		case !v.isShown(field, &list[at]):
			s.fail(&s.Coverage, "A viewer shows another signature instead.")
		default:
			s.signatureDict = &list[at]
			s.Revision = s.end()
		}
		signatures = append(signatures, s)
	}
	slices.SortStableFunc(signatures, func(a, b fieldSignature) int { return cmp.Compare(a.Revision, b.Revision) })
	for i := range list {
		if !slices.Contains(matches, i) {
			orphans = append(orphans, &list[i])
		}
	}
	return signatures, orphans
}

// isShown reports whether a viewer reads the dictionary that was found in the
// bytes as the value of the field. The cross-reference table may refer to another
// object with the same number.
func (v *verifier) isShown(field pdf.SignatureField, f *signatureDict) bool {
	value := v.value(field)
	contents, ok := v.doc.Resolve(value.Get("Contents")).(pdf.String)
	return ok && string(contents) == string(f.value) && string(field.SubFilter) == f.dict.name("SubFilter")
}

// removedSignatures describes signatures that no viewer shows.
type removedSignatures struct {
	any     bool
	trusted bool // at least one of them is intact, and its certificate may be trusted
}

// checkOrphans checks signatures that are not the value of any field. The signature of a cleared
// field remains in the bytes. It does not affect the verdict if its signer is not trusted and the
// file was signed again later.
func (v *verifier) checkOrphans(orphans []*signatureDict) (removedSignatures, error) {
	r := removedSignatures{any: len(orphans) > 0}
	for _, f := range orphans {
		s := Signature{SubFilter: f.dict.name("SubFilter"), Coverage: Passed, Chain: NotRun}
		if err := v.checkValue(&s, f); err != nil {
			return r, err
		}
		r.trusted = r.trusted || s.Intact() && s.Chain != Failed
	}
	return r, nil
}

// match returns, for each field, the index in list of the dictionary that is the value of the
// field, or -1 if there is no such dictionary or more than one.
func match(fields []pdf.SignatureField, list []signatureDict) []int {
	out := make([]int, len(fields))
	for i, field := range fields {
		out[i] = -1
		number := field.Value.Number
		if number == 0 { // the value is a direct object of the field
			number = field.Field.Number
		}
		for j := range list {
			if list[j].number != number || !slices.Equal(list[j].ranges[:], field.ByteRange) {
				continue
			}
			if out[i] >= 0 { // with two candidates, neither candidate matches
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
