package pades

import "time"

// Result is the outcome of a check.
type Result string

// The results. NotRun is neither a success nor a failure: the check was not made, or
// could not decide.
const (
	Passed Result = "passed"
	Failed Result = "failed"
	NotRun Result = "not_run"
)

// Verdict is the overall result for a file.
type Verdict string

// The verdicts.
const (
	// Valid means that the certificate of the last signer chains to a trusted root, that the last
	// signature covers the whole file, and that the file is unchanged since that signature.
	Valid Verdict = "valid"
	// Invalid means that the file was changed after it was signed, that a signature or
	// its time stamp is wrong, that a signature was removed, that the signer is not
	// trusted, or that the file is damaged.
	Invalid Verdict = "invalid"
	// Unknown means that a verdict is not possible, for example because the file has no
	// signature or exceeds a limit, a format is not supported, or no trusted root was given.
	Unknown Verdict = "unknown"
)

// Report is the result of Verify.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Reason explains the verdict in one sentence.
	Reason string `json:"reason"`
	// Signatures are in the order in which they were made. Signatures that were not
	// found in the bytes of the file come first.
	Signatures []Signature `json:"signatures"`
	// Original is the result for the original that the last signature names. It is nil
	// if that signature names none, or was not found in the bytes of the file.
	Original *OriginalReport `json:"original"`
	// Unproven lists what the file alone cannot prove, one sentence each.
	Unproven []string `json:"untold"`
}

// Signature is the result for one signature.
type Signature struct {
	Field     string `json:"field"`
	SubFilter string `json:"sub_filter"`

	Signer string `json:"signer"` // the common name, or the whole name if there is none
	// Prefix is the prefix of the signer's reference ids, from the reference id
	// in the signature, or "" if there is none. The names of two signers may look
	// the same, but their prefixes differ within one vault.
	Prefix        string    `json:"prefix"`
	Subject       string    `json:"subject"`
	Issuer        string    `json:"issuer"`
	Serial        string    `json:"serial"` // serial number of the certificate, in hexadecimal
	Fingerprint   string    `json:"fingerprint"`
	ValidFrom     time.Time `json:"valid_from,omitzero"`
	ValidUntil    time.Time `json:"valid_until,omitzero"`
	ClaimedTime   time.Time `json:"claimed_time,omitzero"` // as the signer states it; zero if absent
	Certification int       `json:"certification"`
	// ByteRange is /ByteRange, or nil if it is not four integers.
	ByteRange []int64 `json:"byte_range"`
	// Revision is the length of the file at the time of signing, or 0 if the
	// signature was not found in the bytes of the file.
	Revision   int64 `json:"revision"`
	CoversFile bool  `json:"covers_file"`

	// Coverage reports whether the byte range omits only the value of this
	// signature and ends where a revision ends, and whether viewers show this
	// signature.
	Coverage Result `json:"coverage"`
	// Digest reports whether the covered bytes match the signed digest.
	Digest Result `json:"digest"`
	// Value reports whether the key of the certificate made the signature.
	Value Result `json:"value"`
	// Chain reports whether the certificate is for signing documents, chains to a
	// trusted root, and was valid at the time that a time stamp proves. Without a
	// trusted time stamp, the certificate must be valid at Options.Now.
	Chain Result `json:"chain"`
	// Changes reports whether the signature permits the later changes.
	Changes Result `json:"changes"`
	// Problems lists the reasons for results other than Passed, one sentence
	// each.
	Problems []string `json:"problems"`

	TimeStamp *TimeStamp `json:"time_stamp"`
	// Changed lists what was changed in the file after the signature.
	Changed []Change `json:"changed"`

	// sealed reports whether the signature names an original, as the signatures
	// of this package do.
	sealed bool
	// unauthenticated lists parts of the signature that nothing authenticates.
	unauthenticated []string
}

// SignerWithPrefix returns the name of the signer, with the prefix in parentheses if there is one.
func (s *Signature) SignerWithPrefix() string {
	if s.Prefix == "" {
		return s.Signer
	}
	return s.Signer + " (" + s.Prefix + ")"
}

// Intact reports whether the covered bytes are unchanged and the signature was
// made by the key of its certificate. The result does not depend on whether the
// signer is trusted.
func (s *Signature) Intact() bool {
	return s.Coverage == Passed && s.Digest == Passed && s.Value == Passed
}

// TimeStamp is the result for the time stamp of a signature.
type TimeStamp struct {
	Time      time.Time `json:"time,omitzero"`
	Authority string    `json:"authority"`
	// Value reports whether the stamp is for this signature and was made by the
	// key of its certificate.
	Value Result `json:"value"`
	// Chain reports whether the certificate of the authority chains to a
	// trusted root.
	Chain Result `json:"chain"`
	// Problem is a sentence: the reason why the stamp does not prove the time, or an
	// assumption on which the proof depends. It is empty if there is neither.
	Problem string `json:"problem"`
}

// ChangeKind is the kind of a changed object.
type ChangeKind string

// The kinds of changed objects.
const (
	ChangedSignature  ChangeKind = "signature"       // a signature, or its field
	ChangedForm       ChangeKind = "form"            // a form field, or the form
	ChangedAnnotation ChangeKind = "annotation"      // an annotation, or the annotations of a page
	ChangedPage       ChangeKind = "page"            // a page, or the tree of pages
	ChangedCatalog    ChangeKind = "catalog"         // the document catalog
	ChangedMetadata   ChangeKind = "metadata"        // metadata
	ChangedValidation ChangeKind = "validation_data" // data for long-term validation
	ChangedStream     ChangeKind = "stream"          // content, an appearance, a font, an image
	ChangedOther      ChangeKind = "other"
)

// Change counts the objects of a kind that were added or replaced. A removed
// object counts as replaced.
type Change struct {
	Kind     ChangeKind `json:"kind"`
	Added    int        `json:"added"`
	Replaced int        `json:"replaced"`
}

// OriginalReport is the result for the original.
type OriginalReport struct {
	Form        Form   `json:"form"`
	Length      int64  `json:"length"`
	SHA256      string `json:"sha256"`
	ReferenceID string `json:"reference_id"`
	// Result reports whether the file contains the original with this digest.
	Result Result `json:"result"`
	// Text describes the result in a sentence.
	Text string `json:"text"`
}
