package pades

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// The values of /SubFilter (ISO 32000-2, table 260).
const (
	cadesDetached     = "ETSI.CAdES.detached"
	pkcs7Detached     = "adbe.pkcs7.detached"
	documentTimeStamp = "ETSI.RFC3161"
)

// Options configures Verify.
type Options struct {
	// Roots are the trusted roots of signers. Without a root, the verdict is
	// never Valid.
	Roots []*x509.Certificate
	// TimeStampRoots returns the trusted roots of time-stamp authorities, such as the
	// roots of the system. Without these roots, a time stamp does not prove the
	// time. Verify calls TimeStampRoots only for a file with a time stamp, because
	// reading the roots of the system takes 10 ms.
	TimeStampRoots func() *x509.CertPool
	// Now is the time at which a certificate must be valid if no trusted time stamp proves the
	// signing time.
	Now time.Time
}

// Verify verifies a file of size bytes, which it reads from r. The verdict depends
// mainly on the last signature. The report also contains the earlier signatures,
// such as those of the original. Verify returns an error only if r fails, never
// because of the content of the file.
func Verify(r io.ReaderAt, size int64, o Options) (*Report, error) {
	v := &verifier{r: r, size: size, now: o.Now, signers: trustAnchors{list: o.Roots, role: "the signer"}}
	v.stampers = trustAnchors{load: o.TimeStampRoots, role: "the time-stamp authority"}
	if len(o.Roots) > 0 {
		v.signers.pool = x509.NewCertPool()
		for _, c := range o.Roots {
			v.signers.pool.AddCert(c)
		}
	}
	report, err := v.run()
	if err != nil {
		return nil, fmt.Errorf("verifying the file: %w", err)
	}
	return report, nil
}

// verifier verifies one file.
type verifier struct {
	r                 io.ReaderAt
	size              int64
	now               time.Time
	signers, stampers trustAnchors // of signers and of time-stamp authorities
	doc               *pdf.Document
	compared          int   // signatures so far that do not cover the whole file
	hashed            int64 // bytes hashed so far
}

const (
	// maxCompared is the maximum number of signatures for which later changes
	// are listed.
	maxCompared = 8
	// maxHashed is the maximum number of bytes that are hashed for all
	// signatures together.
	maxHashed = 4 << 30
)

// unreadable maps errors of package pdf to verdicts.
var unreadable = []struct {
	err     error
	verdict Verdict
}{
	{pdf.ErrPassword, Unknown},
	{pdf.ErrEncryption, Unknown},
	{pdf.ErrLimit, Unknown},
	{pdf.ErrEmpty, Invalid},
	{pdf.ErrNotPDF, Invalid},
	{pdf.ErrTruncated, Invalid},
	{pdf.ErrDamaged, Invalid},
	{pdf.ErrNoPages, Invalid},
}

// unreadableVerdict returns the verdict on a file that could not be read
// completely, or "" if the content of the file did not cause err.
func unreadableVerdict(err error) Verdict {
	for _, u := range unreadable {
		if errors.Is(err, u.err) {
			return u.verdict
		}
	}
	return ""
}

// unreadableReport returns the report on a file that could not be read
// completely. It returns err if the content of the file did not cause err.
func unreadableReport(err error) (*Report, error) {
	for _, u := range unreadable {
		if errors.Is(err, u.err) {
			return &Report{Verdict: u.verdict, Reason: sentence(u.err.Error()), Signatures: []Signature{}, Unproven: []string{}}, nil
		}
	}
	return nil, err
}

// run compares the signatures that a viewer shows with the signatures in the
// bytes, and checks the signatures.
func (v *verifier) run() (*Report, error) {
	doc, err := pdf.Open(v.r, v.size)
	if err != nil {
		return unreadableReport(err)
	}
	v.doc = doc
	fields := doc.Inspect().Signatures
	if err := doc.Err(); err != nil {
		return unreadableReport(err)
	}
	list, complete, err := scan(v.r, v.size)
	if err != nil {
		return nil, err
	}
	report := &Report{Signatures: []Signature{}, Unproven: []string{}}
	if !complete || len(fields) > maxFound {
		report.Verdict, report.Reason = Unknown, "The file contains too many possible signatures to check them all."
		return report, nil
	}
	signatures, orphans := v.pair(fields, list)
	// Check the newest signatures first, so that a limit affects only older
	// signatures.
	for i := range slices.Backward(signatures) {
		if s := &signatures[i]; s.signatureDict != nil {
			if err := v.check(&s.Signature, s.signatureDict); err != nil {
				return nil, err
			}
		}
	}
	removed, err := v.checkOrphans(orphans)
	if err != nil {
		return nil, err
	}
	var last *signatureDict
	for i := range signatures {
		report.Signatures = append(report.Signatures, signatures[i].Signature)
		last = signatures[i].signatureDict
	}
	report.setVerdict(v.size, removed, len(v.signers.list) > 0)
	if len(signatures) == 0 && !removed.any {
		if whole, err := endsRevision(v.r, v.size); err != nil {
			return nil, err
		} else if !whole {
			report.Reason = "The file has no signature, and does not end as a PDF does: a part of it may be missing."
		}
	}
	if last != nil {
		if report.Original, err = v.original(last); err != nil && !errors.Is(err, errNoOriginal) {
			return nil, err
		}
	}
	if err := doc.Err(); err != nil { // a missing object may have been part of a signature
		return unreadableReport(err)
	}
	if o := report.Original; report.Verdict == Valid && o != nil && o.Result == Failed {
		report.Verdict, report.Reason = Invalid, o.Text
	}
	report.listUnproven(removed)
	return report, nil
}

// fail sets a result to Failed and adds the problem.
func (s *Signature) fail(result *Result, problem string) {
	*result = Failed
	s.Problems = append(s.Problems, problem)
}

// value returns the signature dictionary of a field as a viewer reads it.
func (v *verifier) value(field pdf.SignatureField) *pdf.Dict {
	if field.Value != (pdf.Ref{}) {
		return v.doc.Dict(field.Value)
	}
	return v.doc.Dict(v.doc.Dict(field.Field).Get("V"))
}

// describe returns the data of a signature as a viewer reads it. All results are
// NotRun.
func (v *verifier) describe(field pdf.SignatureField) Signature {
	value := v.value(field)
	s := Signature{
		Field: printable([]byte(field.Name)), SubFilter: string(field.SubFilter), ByteRange: field.ByteRange,
		Coverage: NotRun, Digest: NotRun, Value: NotRun, Chain: NotRun, Changes: NotRun,
		ClaimedTime: parseDate(v.doc.Text(value.Get("M"))), Problems: []string{}, Changed: []Change{},
	}
	for _, obj := range v.doc.Array(value.Get("Reference")) {
		reference := v.doc.Dict(obj)
		if v.doc.Name(reference.Get("TransformMethod")) != "DocMDP" {
			continue
		}
		s.Certification = 2 // the default (table 257)
		if p, ok := v.doc.Int(v.doc.Dict(reference.Get("TransformParams")).Get("P")); ok && p >= 1 && p <= 3 {
			s.Certification = p
		}
	}
	return s
}

// parseDate parses a date (7.9.4). It returns the zero time for an invalid
// date.
func parseDate(text string) time.Time {
	digits := ""
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9' || c == '+' || c == '-' || c == 'Z':
			digits += string(c)
		case c != 'D' && c != ':' && c != '\'':
			return time.Time{}
		}
	}
	if i := len("20060102150405Z"); len(digits) > i && digits[i-1] == 'Z' {
		digits = digits[:i] // omits the zeros of Z00'00'
	}
	for _, layout := range []string{"20060102150405Z0700", "20060102150405Z", "20060102150405", "20060102150405-07", "200601021504", "20060102"} {
		if t, err := time.Parse(layout, digits); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// digest hashes the bytes of a byte range. The error wraps errUnsupported if
// maxHashed is exceeded.
func (v *verifier) digest(f *signatureDict, h crypto.Hash) ([]byte, error) {
	if v.hashed += f.ranges[1] + f.ranges[3]; v.hashed > maxHashed {
		return nil, fmt.Errorf("%w: too many signatures for a file of this size", errUnsupported)
	}
	d := h.New()
	for _, part := range [][2]int64{{f.ranges[0], f.ranges[1]}, {f.ranges[2], f.ranges[3]}} {
		if _, err := io.Copy(d, io.NewSectionReader(v.r, part[0], part[1])); err != nil {
			return nil, fmt.Errorf("reading the signed bytes: %w", err)
		}
	}
	return d.Sum(nil), nil
}

// check checks the coverage and the value of a signature, and the later changes.
func (v *verifier) check(s *Signature, f *signatureDict) error {
	s.CoversFile = f.end() == v.size
	_, err := readOriginal(&f.dict)
	s.sealed = err == nil
	s.Coverage = Passed
	named, _ := readOriginal(&f.dict) // a signature of another program names no original
	s.Prefix = prefixOf(named.ReferenceID)
	if f.paddingErr != nil {
		s.unauthenticated = append(s.unauthenticated, "the padding after it")
		s.fail(&s.Coverage, sentence(f.paddingErr.Error()))
	}
	if f.isBER {
		s.unauthenticated = append(s.unauthenticated, "its encoding, which is not DER")
	}
	if !s.CoversFile {
		whole, err := endsRevision(v.r, f.end())
		if err != nil {
			return err
		}
		if !whole {
			s.fail(&s.Coverage, "The signature does not cover the file to the end of a revision.")
		}
		if v.compared++; v.compared > maxCompared {
			s.Changed = unlistedChange()
		} else if s.Changed, err = changes(v.r, f.end(), v.size); err != nil {
			return err
		}
	}
	s.checkChanges()
	return v.checkValue(s, f)
}

// checkValue checks the value of a signature according to its format.
func (v *verifier) checkValue(s *Signature, f *signatureDict) error {
	switch s.SubFilter {
	case cadesDetached, pkcs7Detached:
		return v.checkCMS(s, f)
	case documentTimeStamp:
		return v.checkTimeStamp(s, f)
	}
	s.Problems = append(s.Problems, "Signatures of this format are not supported.")
	return nil
}

// checkChanges sets the result for the changes after a signature (12.8.2.2). After a certification
// signature, a changed page is a failure. So is any change if the signature permits none, and changed
// content if the file is sealed. The result remains NotRun after other changes to a certified file,
// and after changes to the pages or the content of a file with an approval signature. The reader of
// the report must then assess the list of changes.
func (s *Signature) checkChanges() {
	pages := slices.ContainsFunc(s.Changed, func(c Change) bool { return c.Kind == ChangedPage })
	// The content of a page can be replaced without changing the page object.
	visible := slices.ContainsFunc(s.Changed, func(c Change) bool {
		return (c.Kind == ChangedStream || c.Kind == ChangedOther) && (c.Replaced > 0 || c.Added == 0)
	})
	switch {
	case s.CoversFile:
		s.Changes = Passed
	case s.Certification == 1:
		s.fail(&s.Changes, "The signature permits no changes, and the file was changed after it.")
	case s.Certification > 0 && pages:
		s.fail(&s.Changes, "The signature does not permit changes to pages, and pages were changed after it.")
	case s.Certification > 0 && s.sealed && visible:
		s.fail(&s.Changes, "The content of the file was changed after this signature.")
	case s.Certification > 0 || pages || visible:
		s.Problems = append(s.Problems, "The file was changed after this signature.")
	default:
		s.Changes = Passed
	}
}

// setCertificate sets the data of the signer's certificate.
func (s *Signature) setCertificate(c *x509.Certificate) {
	sum := sha256.Sum256(c.Raw)
	s.Signer, s.Serial = commonName(c), c.SerialNumber.Text(16)
	s.Subject, s.Issuer = printable([]byte(c.Subject.String())), printable([]byte(c.Issuer.String()))
	s.Fingerprint, s.ValidFrom, s.ValidUntil = hex.EncodeToString(sum[:]), c.NotBefore.UTC(), c.NotAfter.UTC()
}

// setError sets the result of a check that returned err. The result does not change
// if the signature is unsupported or malformed.
func (s *Signature) setError(result *Result, err error, problem string) {
	switch {
	case err == nil:
		*result = Passed
	case errors.Is(err, errUnsupported), errors.Is(err, errDER):
		if problem = sentence(err.Error()); !slices.Contains(s.Problems, problem) {
			s.Problems = append(s.Problems, problem)
		}
	default:
		s.fail(result, problem)
	}
}

// checkCMS checks a CMS signature (12.8.3.3 and 12.8.3.4).
func (v *verifier) checkCMS(s *Signature, f *signatureDict) error {
	signed, err := parseSignedData(f.cms)
	if err != nil {
		s.setError(&s.Value, err, "")
		return nil
	}
	leaf := signed.certificate()
	if leaf != nil {
		s.setCertificate(leaf)
	}
	digest, err := v.digest(f, signed.signer.hash)
	if errors.Is(err, errUnsupported) {
		s.setError(&s.Digest, err, "")
		return nil
	}
	if err != nil {
		return err
	}
	p := signed.check(digest)
	s.setError(&s.Digest, p.digest, "The file was changed: its digest is not the one that was signed.")
	s.setError(&s.Value, p.signature, "The signature was not made by the key of its certificate, or a signed attribute contradicts the certificate or the algorithm.")
	if signed.content != nil || !oidData.Equal(signed.contentType) {
		s.fail(&s.Value, "The signature is not detached: it contains content.")
	}
	if s.SubFilter == cadesDetached && p.signature == nil && !p.bound {
		s.fail(&s.Value, "The signature does not name its certificate.") // EN 319 142-1, 6.3
	}
	proven := v.checkUnsigned(s, signed)
	if s.ClaimedTime.IsZero() {
		s.ClaimedTime = signed.signer.signingTime()
	}
	if leaf == nil {
		return nil
	}
	s.unauthenticated = append(s.unauthenticated, signed.unauthenticated...)
	s.unauthenticated = append(s.unauthenticated, v.signers.unauthenticated(signed, p.bound, v.now)...)
	v.checkChain(s, leaf, signed, proven)
	return nil
}

// checkChain checks whether the certificate may sign documents and is trusted.
func (v *verifier) checkChain(s *Signature, leaf *x509.Certificate, signed *signedData, proven time.Time) {
	if !maySign(leaf) {
		s.fail(&s.Chain, "The certificate is not for signing documents.")
		return
	}
	t := v.signers.validate(leaf, signed.certificates, proven, v.now)
	if s.Chain = t.result; t.reason != "" {
		s.Problems = append(s.Problems, t.reason)
	}
}

// checkUnsigned checks the time stamp in the unsigned attributes, and returns the
// time that the time stamp proves, or the zero time. Other unsigned attributes
// are unauthenticated.
func (v *verifier) checkUnsigned(s *Signature, signed *signedData) (proven time.Time) {
	for _, a := range signed.signer.unsigned {
		if !oidTimeStampToken.Equal(a.id) {
			s.unauthenticated = append(s.unauthenticated, fmt.Sprintf("the attribute %v", a.id))
			continue
		}
		t := &TimeStamp{Value: NotRun, Chain: NotRun}
		s.TimeStamp = t
		stamp, err := parseTimeStamp(a.value)
		if err == nil {
			t.Time = stamp.time
			if c := stamp.certificate(); c != nil {
				t.Authority = commonName(c)
			}
			err = stamp.check(signed.signer.signature)
		}
		if err != nil {
			t.Problem = sentence(err.Error())
			if t.Value = Failed; errors.Is(err, errUnsupported) {
				t.Value = NotRun
			}
			continue
		}
		t.Value = Passed
		s.unauthenticated = append(s.unauthenticated, stamp.unauthenticated...)
		s.unauthenticated = append(s.unauthenticated, v.stampers.unauthenticated(stamp.signedData, true, t.Time)...)
		chain := v.stampers.validate(stamp.certificate(), stamp.certificates, t.Time, v.now)
		t.Chain, t.Problem = chain.result, chain.reason
		if t.Chain == Passed {
			proven = t.Time
			if until := stamp.certificate().NotAfter; v.now.After(until) {
				t.Problem = fmt.Sprintf("The certificate of the time-stamp authority expired on %s: the proof assumes that its key has stayed secret since.",
					until.Format(time.DateOnly))
			}
		}
	}
	return proven
}

// checkTimeStamp checks a document time stamp (12.8.5).
func (v *verifier) checkTimeStamp(s *Signature, f *signatureDict) error {
	stamp, err := parseTimeStamp(f.cms)
	if err != nil {
		s.setError(&s.Value, err, "")
		return nil
	}
	digest, err := v.digest(f, stamp.hash)
	if errors.Is(err, errUnsupported) {
		s.setError(&s.Digest, err, "")
		return nil
	}
	if err != nil {
		return err
	}
	s.ClaimedTime = stamp.time
	if slices.Equal(digest, stamp.digest) {
		s.Digest = Passed
	} else {
		s.fail(&s.Digest, "The file was changed: its digest is not the one that was stamped.")
	}
	s.setError(&s.Value, stamp.checkDigest(stamp.digest), "The time stamp was not made by the key of its certificate.")
	if leaf := stamp.certificate(); leaf != nil {
		s.setCertificate(leaf)
		s.unauthenticated = append(s.unauthenticated, stamp.unauthenticated...)
		t := v.stampers.validate(leaf, stamp.certificates, stamp.time, v.now)
		if s.Chain = t.result; t.reason != "" {
			s.Problems = append(s.Problems, t.reason)
		}
	}
	return nil
}
