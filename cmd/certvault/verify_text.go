package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/pades"
)

// textReport formats a report as text for people without expert knowledge.
type textReport struct {
	report  *pades.Report
	trusted roots
	file    string
	out     strings.Builder
}

// rootAddress is the path at which a vault serves its root certificates.
const rootAddress = "/.well-known/certvault/root.pem"

var verdictWords = map[pades.Verdict]string{
	pades.Valid: "VALID", pades.Invalid: "NOT VALID", pades.Unknown: "CANNOT TELL",
}

// text returns the report.
func (t *textReport) text() string {
	r := t.report
	t.linef("%s: %s", verdictWords[r.Verdict], r.Reason)
	t.linef("")
	t.entryf("File", "%s", t.file)
	t.roots()
	if n := len(r.Signatures); n > 0 {
		last := &r.Signatures[n-1]
		t.signature(last)
		t.original()
		for i := range r.Signatures[:n-1] {
			t.linef("")
			t.linef("An earlier signature, %d of %d", i+1, n)
			t.signature(&r.Signatures[i])
		}
	}
	t.unverifiable()
	return t.out.String()
}

// linef writes a line. It escapes control characters, so that text from the file cannot control the
// terminal.
func (t *textReport) linef(format string, args ...any) {
	t.out.WriteString(strings.TrimRight(plain(fmt.Sprintf(format, args...)), " "))
	t.out.WriteByte('\n')
}

// entryf writes a line with a heading, which may be empty.
func (t *textReport) entryf(heading, format string, args ...any) {
	t.linef("  %-14s%s", heading, fmt.Sprintf(format, args...))
}

// maxRootsListed is the maximum number of roots that are listed.
const maxRootsListed = 4

// roots writes the roots that the command trusts.
func (t *textReport) roots() {
	for i, c := range t.trusted.list {
		heading := ""
		if i == 0 {
			heading = "Trusted root"
		}
		if i == maxRootsListed {
			t.entryf("", "and %d more", len(t.trusted.list)-i)
			break
		}
		t.entryf(heading, "root %s from %s,", certificateName(c.Subject.CommonName, c.Subject.String()), t.trusted.from)
		t.entryf("", "SHA-256 %s", authority.Fingerprint(c))
	}
}

func certificateName(common, whole string) string {
	if common != "" {
		return common
	}
	return whole
}

// signature writes the signer of a signature, the time, what the signature permits, the later
// changes and the problems.
func (t *textReport) signature(s *pades.Signature) {
	switch {
	case s.Signer == "":
		t.entryf("Signed by", "an unknown signer; field %s", s.Field)
	case s.Chain == pades.Passed && s.Intact():
		t.entryf("Signed by", "%s", s.SignerWithPrefix())
	default: // the name in a certificate is not verified
		t.entryf("Signed by", "an unknown signer whose certificate has the name %s", s.Signer)
	}
	if s.Signer != "" {
		t.entryf("", "certificate of %s,", s.Subject)
		t.entryf("", "issued by %s,", s.Issuer)
		t.entryf("", "valid from %s until %s,", s.ValidFrom.UTC().Format(time.DateOnly), s.ValidUntil.UTC().Format(time.DateOnly))
		t.entryf("", "SHA-256 %s", authority.Pairs(s.Fingerprint))
	}
	t.when(s)
	if words, ok := certificationWords[s.Certification]; ok {
		t.entryf("Permits", "%s", words)
	}
	t.changes(s)
	for _, p := range s.Problems {
		t.entryf("Problem", "%s", p)
	}
}

// certificationWords describes what a certification permits (ISO 32000-2, table 257).
var certificationWords = map[int]string{
	1: "no change at all",
	2: "filling in forms and signing",
	3: "annotations, filling in forms and signing",
}

// when writes the time of signing, and whether a time stamp proves it.
func (t *textReport) when(s *pades.Signature) {
	claimed := "The signature contains no signing time."
	if !s.ClaimedTime.IsZero() {
		claimed = fmt.Sprintf("The signer claims %s.", moment(s.ClaimedTime))
	}
	stamp := s.TimeStamp
	switch {
	case stamp == nil:
		t.entryf("When", "%s", claimed)
		t.entryf("", "No time stamp proves it.")
		return
	case stamp.Value == pades.Passed && stamp.Chain == pades.Passed:
		t.entryf("When", "Not later than %s, as the time stamp of %s proves.", moment(stamp.Time), stamp.Authority)
		if stamp.Problem != "" {
			t.entryf("", "%s", stamp.Problem)
		}
	case stamp.Value == pades.Passed:
		t.entryf("When", "%s according to a time stamp of %s, which is not trusted:", moment(stamp.Time), stamp.Authority)
		t.entryf("", "%s", stamp.Problem)
	default:
		t.entryf("When", "The time stamp is not valid: %s", stamp.Problem)
	}
	t.entryf("", "%s", claimed)
}

func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// changeWords are the names of the kinds of changes in the report.
var changeWords = map[pades.ChangeKind]string{
	pades.ChangedSignature:  "signatures",
	pades.ChangedForm:       "form fields",
	pades.ChangedAnnotation: "annotations, or a page's list of annotations",
	pades.ChangedPage:       "pages",
	pades.ChangedCatalog:    "the document's catalog",
	pades.ChangedMetadata:   "metadata",
	pades.ChangedValidation: "data that helps to validate signatures later",
	pades.ChangedStream:     "page content, images or fonts",
	pades.ChangedOther:      "other objects",
}

// changes writes the changes to the file after a signature.
func (t *textReport) changes(s *pades.Signature) {
	switch {
	case s.CoversFile:
		t.entryf("Later changes", "nothing was changed or added")
	case s.Revision == 0:
		t.entryf("Later changes", "unknown: the signature does not state which part of the file it covers")
	case len(s.Changed) == 0:
		t.entryf("Later changes", "data was added that changes no object of the document")
	}
	for i, c := range s.Changed {
		heading := ""
		if i == 0 {
			heading = "Later changes"
		}
		t.entryf(heading, "%s", changed(c))
	}
}

func changed(c pades.Change) string {
	var counts []string
	if c.Added > 0 {
		counts = append(counts, fmt.Sprintf("%d added", c.Added))
	}
	if c.Replaced > 0 {
		counts = append(counts, fmt.Sprintf("%d replaced", c.Replaced))
	}
	if len(counts) == 0 {
		counts = []string{"too many to count"}
	}
	return changeWords[c.Kind] + ": " + strings.Join(counts, ", ")
}

// original writes what the last signature states about the original.
func (t *textReport) original() {
	o := t.report.Original
	if o == nil {
		return
	}
	unverified := ""
	if t.report.Verdict != pades.Valid {
		unverified = " (stated by the signature, not verified)"
	}
	if o.ReferenceID != "" {
		t.entryf("Reference id", "%s%s", o.ReferenceID, unverified)
	}
	t.entryf("Original", "%s", o.Text)
	t.entryf("", "SHA-256 %s, %d bytes%s", o.SHA256, o.Length, unverified)
}

// unverifiable writes what the file alone cannot prove, and where to check it. If the command has no roots,
// unverifiable also writes how to specify one.
func (t *textReport) unverifiable() {
	r := t.report
	if len(r.Unproven) == 0 {
		return
	}
	t.linef("")
	t.linef("What the file alone cannot prove")
	for _, u := range r.Unproven {
		t.linef("  - %s", u)
	}
	if len(r.Signatures) == 0 {
		return
	}
	if o := r.Original; o != nil && o.ReferenceID != "" {
		t.linef("  Look up %s at the institution's verification page, which ends in /verify/%s.", o.ReferenceID, o.ReferenceID)
		t.linef("  The QR code on the document contains the address of this page. Check that the address belongs to the institution.")
	}
	if len(t.trusted.list) > 0 {
		return
	}
	t.linef("")
	t.linef("No root certificate was given, so the signer cannot be verified.")
	t.linef("  Download the root certificate from the vault's address followed by %s,", rootAddress)
	t.linef("  compare its SHA-256 fingerprint with the fingerprint that the institution publishes, and specify it with --root FILE.")
	t.linef("  On the computer of your own vault, --data DIR specifies the roots of its data folder. The environment variables")
	t.linef("  CERTVAULT_ROOT and CERTVAULT_DATA, or root and data in the file of --config, have the same effect.")
}
