package pades

import (
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/pdf"
)

// sentence formats the text of an error as a sentence.
func sentence(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:] + "."
}

// signingTime returns the signingTime attribute (RFC 5652, 11.3), or the zero
// time if it is absent or invalid.
func (s *signerInfo) signingTime() time.Time {
	value, _ := find(s.signed, oidSigningTime)
	var t time.Time
	if _, err := asn1.Unmarshal(value, &t); err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// setVerdict sets the verdict. If the file was signed again after a sealed certification signature,
// setVerdict also sets Changes of that signature to Failed. removed describes signatures that no
// viewer shows. hasRoots reports whether there is a trusted root of signers.
func (r *Report) setVerdict(size int64, removed removedSignatures, hasRoots bool) {
	verdict := func(v Verdict, format string, args ...any) {
		r.Verdict, r.Reason = v, fmt.Sprintf(format, args...)
	}
	if len(r.Signatures) == 0 {
		if removed.any {
			verdict(Invalid, "The file was signed, and its signature was removed.")
		} else {
			verdict(Unknown, "The file has no signature.")
		}
		return
	}
	for i := range r.Signatures {
		s := &r.Signatures[i]
		sealed := s.sealed && s.Certification > 0
		if sealed && s.Changes != Failed && signedAgain(r.Signatures[i+1:]) {
			s.fail(&s.Changes, "The file was signed again after this signature.")
		}
		switch {
		case s.Changes != Failed:
		case s.Certification == 1:
			verdict(Invalid, "The file was changed after a signature that permits no changes.")
			return
		case sealed:
			verdict(Invalid, "The file was changed after the vault sealed it.")
			return
		}
	}
	last := &r.Signatures[len(r.Signatures)-1]
	switch {
	case last.Coverage == Failed:
		verdict(Invalid, "%s", last.Problems[0])
	case last.Digest == Failed, last.Value == Failed:
		verdict(Invalid, "The file is not as it was signed.")
	case !last.CoversFile:
		verdict(Invalid, "%d bytes were added after the last signature.", size-last.Revision)
	case removed.trusted && hasRoots:
		verdict(Invalid, "A signature was removed from the file.")
	case !last.Intact():
		verdict(Unknown, "The format of the signature is not supported.")
	case last.SubFilter == documentTimeStamp:
		verdict(Unknown, "The last signature is a document time stamp, which does not prove the signer.")
	case last.TimeStamp != nil && last.TimeStamp.Value == Failed:
		verdict(Invalid, "The time stamp of the signature is not genuine.")
	case last.Chain == Failed:
		verdict(Invalid, "%s", last.Problems[len(last.Problems)-1])
	case !hasRoots:
		verdict(Unknown, "The file is as it was signed, but without a trusted root the signer cannot be verified.")
	case last.Chain != Passed:
		verdict(Unknown, "%s", last.Problems[len(last.Problems)-1])
	case len(last.unauthenticated) > 0:
		verdict(Unknown, "The signature contains data that is not protected: %s.", strings.Join(last.unauthenticated, ", "))
	case last.TimeStamp != nil && last.TimeStamp.Value != Passed:
		verdict(Unknown, "The format of the signature's time stamp is not supported.")
	default:
		verdict(Valid, "The file is as %s signed it.", last.SignerWithPrefix())
	}
}

// signedAgain reports whether one of the signatures is not a document time stamp.
// The certification of a sealed file permits signing, because a document time
// stamp is a signature too (ISO 32000-2, 12.8.5). No other signature is accepted,
// because the vault never adds another signature to a file that it sealed.
func signedAgain(later []Signature) bool {
	return slices.ContainsFunc(later, func(s Signature) bool { return s.SubFilter != documentTimeStamp })
}

// listUnproven lists what the file alone cannot prove.
func (r *Report) listUnproven(removed removedSignatures) {
	if len(r.Signatures) == 0 {
		r.Unproven = append(r.Unproven, "Whether the vault has a record of this file: look it up at its verification page.")
		return
	}
	r.Unproven = append(r.Unproven, "Whether the certificate was revoked after it was signed: look it up at the vault's verification page.")
	last := &r.Signatures[len(r.Signatures)-1]
	if last.TimeStamp == nil || last.TimeStamp.Value != Passed || last.TimeStamp.Chain != Passed {
		r.Unproven = append(r.Unproven, "When it was signed: the signer claims the time, and no trusted time stamp proves it.")
	}
	for i := range r.Signatures[:len(r.Signatures)-1] {
		if s := &r.Signatures[i]; !s.Intact() || s.Chain != Passed {
			r.Unproven = append(r.Unproven, "Who made the earlier signatures, and whether they were valid when the vault received the file: "+
				"the vault accepts a file without verifying its signatures.")
			break
		}
	}
	if removed.any {
		r.Unproven = append(r.Unproven, "Why a signature was removed from the file before the last one was made.")
	}
	if r.Original == nil {
		r.Unproven = append(r.Unproven, "What was uploaded: the signature does not name an original.")
	}
}

// readOriginal parses the private entry of a signature dictionary.
func readOriginal(dict *node) (Original, error) {
	entry, ok := dict.get(string(keyOriginal))
	if !ok || entry.kind != kindDict {
		return Original{}, errNoOriginal
	}
	o := Original{ReferenceID: printable([]byte(entry.name(string(keyReferenceID))))}
	for _, form := range []Form{Prefix, Stream, Source} {
		if entry.name(string(keyForm)) == string(formNames[form]) {
			o.Form = form
		}
	}
	sum, err := hex.DecodeString(entry.name(string(keySHA256)))
	length, ok := entry.get(string(keyLength))
	if err != nil || len(sum) != sha256.Size || !ok || o.Form == "" {
		return o, errNoOriginal
	}
	copy(o.SHA256[:], sum)
	if o.Length, ok = length.integer(); !ok {
		return o, errNoOriginal
	}
	if stream, ok := entry.get(string(keyStream)); ok && stream.kind == kindRef {
		number := node{kind: kindNumber, text: stream.text}
		n, _ := number.integer()
		o.Stream.Number = int(min(n, 1<<31-1))
	}
	return o, nil
}

// minPrefix and maxPrefix limit the length of the prefix of a reference id.
const (
	minPrefix = 2
	maxPrefix = 10
)

// prefixOf returns the prefix of a reference id: the part before the first
// hyphen. It returns "" if there is no hyphen, or if that part is not 2 to 10
// characters from A to Z and 0 to 9.
func prefixOf(referenceID string) string {
	prefix, _, found := strings.Cut(referenceID, "-")
	if !found || len(prefix) < minPrefix || len(prefix) > maxPrefix || strings.ContainsFunc(prefix, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		return ""
	}
	return prefix
}

// errNoOriginal reports that a signature dictionary names no original.
var errNoOriginal = errors.New("the signature names no original")

// original checks whether the file contains the original that a signature names. The
// error is errNoOriginal if the signature names no original, for example because
// another program made it.
func (v *verifier) original(f *signatureDict) (*OriginalReport, error) {
	o, err := readOriginal(&f.dict)
	if err != nil {
		return nil, err
	}
	report := &OriginalReport{
		Form: o.Form, Length: o.Length, SHA256: hex.EncodeToString(o.SHA256[:]), ReferenceID: o.ReferenceID, Result: Failed,
	}
	var data io.Reader
	switch o.Form {
	case Prefix:
		if o.Length > f.ranges[1] {
			report.Text = "The file is shorter than the original that the signature names."
			return report, nil
		}
		data = io.NewSectionReader(v.r, 0, o.Length)
	case Stream:
		stream, ok := v.doc.Object(o.Stream).(*pdf.Stream)
		if ok {
			data, err = stream.Raw()
		}
		if !ok || err != nil {
			report.Text = "The original that the signature names is not in the file."
			return report, nil //nolint:nilerr // the report contains the error
		}
	case Source:
		report.Result = NotRun
		report.Text = "The file was made from the original that the signature names, and does not contain it byte for byte."
		return report, nil
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(data, o.Length+1))
	if err != nil && o.Form == Prefix { // in the form Stream, the data may be impossible to decrypt
		return nil, fmt.Errorf("reading the original: %w", err)
	}
	if n != o.Length || hex.EncodeToString(h.Sum(nil)) != report.SHA256 {
		report.Text = "The original in the file is not the one that the signature names."
		return report, nil
	}
	report.Result = Passed
	report.Text = "The original in the file is the one that the signature names."
	return report, nil
}
