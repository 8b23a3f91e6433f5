package pades

import "time"

// Result is the outcome of a check.
type Result string

// The results. What could not be checked is not a failure, and not a success.
const (
	Passed Result = "passed"
	Failed Result = "failed"
	NotRun Result = "not_run"
)

// Verdict is what is to be thought of a file.
type Verdict string

// The verdicts.
const (
	// Valid: the last signature is that of somebody a root vouches for, it covers
	// the whole file, and the file is as it was signed.
	Valid Verdict = "valid"
	// Invalid: the file is not what somebody trusted signed.
	Invalid Verdict = "invalid"
	// Unknown: what is in the file does not suffice to tell.
	Unknown Verdict = "unknown"
)

// Report is what Verify found.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Reason is one sentence on the verdict.
	Reason string `json:"reason"`
	// Signatures are in the order in which they were made.
	Signatures []Signature `json:"signatures"`
	// Original is the original that the last signature names, nil when it
	// names none.
	Original *OriginalReport `json:"original"`
	// Untold is what the file alone cannot tell, a sentence each.
	Untold []string `json:"untold"`
}

// Signature is what was found out about one signature.
type Signature struct {
	Field     string `json:"field"`
	SubFilter string `json:"sub_filter"`

	Signer        string    `json:"signer"` // the common name, or the whole name without one
	Subject       string    `json:"subject"`
	Issuer        string    `json:"issuer"`
	Serial        string    `json:"serial"` // of the certificate, in hexadecimal
	Fingerprint   string    `json:"fingerprint"`
	ValidFrom     time.Time `json:"valid_from,omitzero"`
	ValidUntil    time.Time `json:"valid_until,omitzero"`
	ClaimedTime   time.Time `json:"claimed_time,omitzero"` // the signer's word; zero when there is none
	Certification int       `json:"certification"`
	// ByteRange is /ByteRange, nil when it is not four numbers in order.
	ByteRange []int64 `json:"byte_range"`
	// Revision is the length of the file as it was signed.
	Revision   int64 `json:"revision"`
	CoversFile bool  `json:"covers_file"`

	// Coverage: the byte range leaves out the value of this signature alone, and ends
	// where a revision does.
	Coverage Result `json:"coverage"`
	// Digest: what it covers is what was signed.
	Digest Result `json:"digest"`
	// Value: the signature was made by the key of the certificate.
	Value Result `json:"value"`
	// Chain: a root vouches for the certificate at the time of signing.
	Chain Result `json:"chain"`
	// Changes: what came after it is what it permits.
	Changes Result `json:"changes"`
	// Problems are what is behind a result that is not Passed, a sentence each.
	Problems []string `json:"problems"`

	TimeStamp *TimeStamp `json:"time_stamp"`
	// Changed is what was changed in the file after it.
	Changed []Change `json:"changed"`

	// unvouched is what nothing accounts for, though it stands in the signature.
	unvouched []string
}

// Intact tells that what it covers is as it was signed, by whomsoever.
func (s *Signature) Intact() bool {
	return s.Coverage == Passed && s.Digest == Passed && s.Value == Passed
}

// TimeStamp is what was found out about the time stamp of a signature.
type TimeStamp struct {
	Time      time.Time `json:"time,omitzero"`
	Authority string    `json:"authority"`
	// Value: it is of this signature, and made by the key of its certificate.
	Value Result `json:"value"`
	// Chain: a root vouches for the authority.
	Chain Result `json:"chain"`
	// Problem is a sentence on what keeps the stamp from proving the time, or is taken on
	// trust where it does; empty when there is nothing to say.
	Problem string `json:"problem"`
}

// ChangeKind is what kind of object was changed.
type ChangeKind string

// The kinds.
const (
	ChangedSignature  ChangeKind = "signature"       // a signature, or its field
	ChangedForm       ChangeKind = "form"            // a form field, or the form
	ChangedAnnotation ChangeKind = "annotation"      // an annotation, or the list of a page
	ChangedPage       ChangeKind = "page"            // a page, or the tree of pages
	ChangedCatalog    ChangeKind = "catalog"         // the document catalog
	ChangedMetadata   ChangeKind = "metadata"        // metadata
	ChangedValidation ChangeKind = "validation_data" // what is kept to validate signatures later
	ChangedStream     ChangeKind = "stream"          // content, an appearance, a font, an image
	ChangedOther      ChangeKind = "other"
)

// Change counts the objects of a kind that were added or replaced.
type Change struct {
	Kind     ChangeKind `json:"kind"`
	Added    int        `json:"added"`
	Replaced int        `json:"replaced"`
}

// OriginalReport is what was found out about the original.
type OriginalReport struct {
	Form        Form   `json:"form"`
	Length      int64  `json:"length"`
	SHA256      string `json:"sha256"`
	ReferenceID string `json:"reference_id"`
	// Result: the file contains the original, with this digest.
	Result Result `json:"result"`
	// Text says that in a sentence.
	Text string `json:"text"`
}
