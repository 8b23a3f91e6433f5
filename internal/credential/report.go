package credential

import "time"

// Verdict is the result of a verification.
type Verdict string

const (
	// Valid means that all checks passed, except that CheckStatus may have CodeNoStatus.
	Valid Verdict = "valid"
	// Invalid means that a check failed.
	Invalid Verdict = "invalid"
	// Unknown means that no check failed, but a necessary check was not possible.
	Unknown Verdict = "unknown"
)

// Result is the result of one check.
type Result string

const (
	// Passed means that the check found no problem.
	Passed Result = "passed"
	// Failed means that the check found a problem.
	Failed Result = "failed"
	// NotRun means that the check was not possible or not applicable.
	NotRun Result = "not_run"
)

// CheckName names a check.
type CheckName string

const (
	// CheckForm checks whether the file is a credential with all required parts.
	CheckForm CheckName = "form"
	// CheckIssuer checks whether the issuer published the key of the signature.
	CheckIssuer CheckName = "issuer"
	// CheckProof checks whether the key created the signature, and whether the signature covers the whole
	// credential.
	CheckProof CheckName = "proof"
	// CheckPeriod checks whether the credential is already valid and has not expired.
	CheckPeriod CheckName = "period"
	// CheckStatus checks whether the issuer revoked or suspended the credential.
	CheckStatus CheckName = "status"
)

// Code states why a check has its result. It is empty for a check that passed.
type Code string

const (
	// CodeMalformed means that the form of the credential is wrong: for example, a required part is missing.
	CodeMalformed Code = "malformed"
	// CodeTooComplex means that the credential exceeds a limit of this program.
	CodeTooComplex Code = "too_complex"
	// CodeUnknownContext means that the credential has a JSON-LD context that this program does not know. A
	// context defines the meaning of names.
	CodeUnknownContext Code = "unknown_context"
	// CodeUnknownProof means that the credential has no signature of a kind that this program knows.
	CodeUnknownProof Code = "unknown_proof"
	// CodeUnsigned means that the credential has no signature at all.
	CodeUnsigned Code = "unsigned"
	// CodeNotCovered means that the signature does not cover a part of the credential.
	CodeNotCovered Code = "not_covered"
	// CodeSignature means that the signature is not valid, for example because the credential was changed.
	CodeSignature Code = "signature"
	// CodeOffline means that a document was needed, but fetching is not allowed.
	CodeOffline Code = "offline"
	// CodeUnreachable means that a document could not be fetched or read.
	CodeUnreachable Code = "unreachable"
	// CodeUnknownIssuer means that this program cannot find the keys of this kind of issuer.
	CodeUnknownIssuer Code = "unknown_issuer"
	// CodeAnonymous means that only a key identifies the issuer. Anyone can create such an issuer.
	CodeAnonymous Code = "anonymous"
	// CodeNotIssuersKey means that the key of the signature does not belong to the issuer.
	CodeNotIssuersKey Code = "not_issuers_key"
	// CodeNoKey means that the check needs the issuer's key, which is not known.
	CodeNoKey Code = "no_key"
	// CodeUnproven means that the check would rely on a credential whose signature was not verified.
	CodeUnproven Code = "unproven"
	// CodeNotYet means that the credential is not valid yet.
	CodeNotYet Code = "not_yet"
	// CodeExpired means that the credential has expired.
	CodeExpired Code = "expired"
	// CodeNoStatus means that the credential has no status, so its issuer cannot revoke it.
	CodeNoStatus Code = "no_status"
	// CodeUnknownStatus means that the credential has a kind of status that this program does not know.
	CodeUnknownStatus Code = "unknown_status"
	// CodeBadList means that the issuer's status list was fetched, but is not valid.
	CodeBadList Code = "bad_list"
	// CodeRevoked means that the issuer revoked the credential.
	CodeRevoked Code = "revoked"
	// CodeSuspended means that the issuer suspended the credential.
	CodeSuspended Code = "suspended"
)

// Codes contains all codes.
var Codes = []Code{
	CodeMalformed, CodeTooComplex, CodeUnknownContext, CodeUnknownProof, CodeUnsigned,
	CodeNotCovered, CodeSignature, CodeOffline, CodeUnreachable, CodeUnknownIssuer,
	CodeAnonymous, CodeNotIssuersKey, CodeNoKey, CodeUnproven, CodeNotYet,
	CodeExpired, CodeNoStatus, CodeUnknownStatus, CodeBadList, CodeRevoked,
	CodeSuspended,
}

// complete contains the codes that need no technical explanation.
var complete = []Code{CodeUnsigned, CodeAnonymous, CodeNoKey, CodeUnproven, CodeNoStatus, CodeRevoked, CodeSuspended}

// Check is the result of one check.
type Check struct {
	Name   CheckName `json:"name"`
	Result Result    `json:"result"`
	Code   Code      `json:"code,omitempty"`
	// Detail is a technical explanation in English. It may contain text of the credential.
	Detail string `json:"detail,omitempty"`
}

// Report is the result of a verification. Checks contains one check for each CheckName, in the order of the
// constants. Statement and Places come from the issuer only if Proven returns true.
type Report struct {
	Verdict   Verdict   `json:"verdict"`
	Carrier   Carrier   `json:"carrier"`
	Format    string    `json:"format"` // a media type
	Checks    []Check   `json:"checks"`
	Statement Statement `json:"statement"`
	// Places are the entries of status lists that the credential names for its revocation.
	Places []StatusEntry `json:"-"`
}

// Proven reports whether a key that the issuer published signed the credential.
func (r *Report) Proven() bool {
	return r.Check(CheckIssuer).Result == Passed && r.Check(CheckProof).Result == Passed
}

// Statement is what a credential states.
type Statement struct {
	ID         string `json:"id,omitempty"`
	Badge      bool   `json:"badge"` // it is an Open Badges credential
	Title      string `json:"title,omitempty"`
	IssuerID   string `json:"issuer_id"`
	IssuerName string `json:"issuer_name,omitempty"`
	// IssuerSite is the website that the issuer's identifier denotes, without "https://". It is empty
	// if the identifier denotes no website.
	IssuerSite  string `json:"issuer_site,omitempty"`
	Recipient   string `json:"recipient,omitempty"` // a name
	Achievement string `json:"achievement,omitempty"`
	Description string `json:"description,omitempty"`
	Criteria    string `json:"criteria,omitempty"`
	// ValidFrom and ValidUntil are zero if the credential has no such time.
	ValidFrom  time.Time `json:"valid_from,omitzero"`
	ValidUntil time.Time `json:"valid_until,omitzero"`
}

// Check returns the check with the given name. The result is NotRun if the report has no such check.
func (r *Report) Check(name CheckName) Check {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return Check{Name: name, Result: NotRun}
}

// Shown returns the checks to show to a user: only CheckForm if it did not pass, because the other checks
// were then not possible for the same reason.
func (r *Report) Shown() []Check {
	if len(r.Checks) > 0 && r.Checks[0].Result != Passed {
		return r.Checks[:1]
	}
	return r.Checks
}

// decide sets the verdict. A credential without a status list can be valid, because its issuer cannot
// revoke it.
func (r *Report) decide() {
	r.Verdict = Valid
	for _, c := range r.Checks {
		switch {
		case c.Result == Failed:
			r.Verdict = Invalid
			return
		case c.Result == NotRun && c.Code != CodeNoStatus:
			r.Verdict = Unknown
		}
	}
}

// problem is the reason why a check did not pass.
type problem struct {
	result Result
	code   Code
	err    error
}

func (p *problem) Error() string { return p.err.Error() }

func (p *problem) Unwrap() error { return p.err }

func failed(code Code, err error) error { return &problem{Failed, code, err} }

func notRun(code Code, err error) error { return &problem{NotRun, code, err} }
