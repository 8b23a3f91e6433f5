package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/credential"
)

// writeCredential writes the report on a credential as text for people without expert knowledge.
func (v *verifyCommand) writeCredential(w io.Writer, r *credentialReport) error {
	t := textReport{file: v.File}
	t.linef("%s: %s", credentialVerdicts[r.Verdict], credentialReason(r.Report))
	if r.Lost && r.Verdict != credential.Invalid {
		t.linef("")
		t.linef("Your vault issued the credential, but does not have its certificate, because the vault")
		t.linef("was restored from an older backup. Ask the institution whether the certificate is correct.")
		t.linef("If it is not, certvault credential revoke FILE revokes the credential.")
	}
	t.linef("")
	t.entryf("File", "%s", v.File)
	t.entryf("", "%s", carriers[r.Carrier])
	t.statement(r.Report)
	t.linef("")
	t.linef("What was checked")
	for _, c := range r.Shown() {
		t.linef("  %-14s%s", checkResults[c.Result], checkText(c))
		if c.Detail != "" {
			t.linef("  %-14s(%s)", "", c.Detail)
		}
	}
	t.credentialLimits(r.Report, v.Online)
	_, err := io.WriteString(w, t.out.String())
	return err
}

var (
	credentialVerdicts = map[credential.Verdict]string{
		credential.Valid: "VALID", credential.Invalid: "NOT VALID", credential.Unknown: "CANNOT TELL",
	}
	carriers = map[credential.Carrier]string{
		credential.CarrierText: "a credential", credential.CarrierPNG: "a credential in a PNG picture", credential.CarrierSVG: "a credential in an SVG picture",
	}
	checkResults = map[credential.Result]string{
		credential.Passed: "passed", credential.Failed: "FAILED", credential.NotRun: "not checked",
	}
)

// credentialReason returns the sentence that explains the verdict. Unless the verdict is Valid, it is the
// sentence of the first check that led to the verdict.
func credentialReason(r *credential.Report) string {
	for _, c := range r.Checks {
		if r.Verdict == credential.Invalid && c.Result == credential.Failed ||
			r.Verdict == credential.Unknown && c.Result == credential.NotRun && c.Code != credential.CodeNoStatus {
			return checkText(c)
		}
	}
	return fmt.Sprintf("The website %s signed the credential.", r.Statement.IssuerSite)
}

// passedText has the sentence for each check that passed.
var passedText = map[credential.CheckName]string{
	credential.CheckForm:   "The file has all parts of a credential.",
	credential.CheckIssuer: "The issuer's website publishes the key of the signature.",
	credential.CheckProof:  "The signature is valid, and covers the whole credential.",
	credential.CheckPeriod: "The credential is valid at this time.",
	credential.CheckStatus: "The issuer has not revoked the credential.",
}

// codeText has the sentences for checks that failed or were not run. checkText has the sentences for
// CodeOffline and CodeUnreachable, which depend on the check.
var codeText = map[credential.Code]string{
	credential.CodeMalformed:      "A required part of the credential is missing or damaged.",
	credential.CodeTooComplex:     "The credential is too large or too complex to be checked.",
	credential.CodeUnknownContext: "The credential uses a vocabulary that this program does not know.",
	credential.CodeUnknownProof:   "The credential has no signature of a kind that this program knows.",
	credential.CodeUnsigned:       "The credential is not signed.",
	credential.CodeNotCovered:     "The signature does not cover a part of the credential.",
	credential.CodeSignature:      "The signature is not valid: the credential was changed, or another key signed it.",
	credential.CodeUnknownIssuer:  "This program cannot find the keys of this kind of issuer.",
	credential.CodeAnonymous:      "The issuer is only a key, which anyone can create. The credential does not show whose key it is.",
	credential.CodeNotIssuersKey:  "The key of the signature does not belong to the issuer.",
	credential.CodeNoKey:          "The signature cannot be checked without the issuer's key.",
	credential.CodeUnproven:       "It was not checked whether the credential was revoked, because its signature was not verified.",
	credential.CodeNotYet:         "The credential is not valid yet.",
	credential.CodeExpired:        "The credential has expired.",
	credential.CodeNoStatus:       "The credential has no status: its issuer cannot revoke it.",
	credential.CodeUnknownStatus:  "The credential has a kind of status that this program does not know.",
	credential.CodeBadList:        "Could not check whether the credential was revoked: the issuer's status list is not valid.",
	credential.CodeRevoked:        "The issuer revoked the credential.",
	credential.CodeSuspended:      "The issuer suspended the credential.",
}

// checkText returns the sentence for a check.
func checkText(c credential.Check) string {
	what := "Could not check the signature: the issuer's key"
	if c.Name == credential.CheckStatus {
		what = "Could not check whether the credential was revoked: the issuer's status list"
	}
	switch {
	case c.Result == credential.Passed:
		return passedText[c.Name]
	case c.Code == credential.CodeOffline:
		return what + " was not fetched."
	case c.Code == credential.CodeUnreachable:
		return what + " cannot be fetched."
	}
	return codeText[c.Code]
}

// statement writes what the credential states. If no key of the issuer is proved to have signed the
// credential, statement marks the values as not verified.
func (t *textReport) statement(r *credential.Report) {
	s, unproven := r.Statement, ""
	if !r.Proven() {
		unproven = " (stated by the file, not verified)"
	}
	entry := func(heading, value string) {
		if value != "" {
			t.entryf(heading, "%s%s", value, unproven)
		}
	}
	entry("Credential", s.Title)
	if s.Achievement != s.Title {
		entry("Achievement", s.Achievement)
	}
	entry("Recipient", s.Recipient)
	entry("Issuer", s.IssuerID)
	if s.IssuerName != "" {
		t.entryf("", "which calls itself %s", s.IssuerName)
	}
	if !s.ValidFrom.IsZero() {
		entry("Valid from", s.ValidFrom.Format(time.DateOnly))
	}
	if !s.ValidUntil.IsZero() {
		entry("Valid until", s.ValidUntil.Format(time.DateOnly))
	}
}

// credentialLimits writes what the checks cannot show and, if documents were not fetched, which flags are
// needed.
func (t *textReport) credentialLimits(r *credential.Report, online bool) {
	t.linef("")
	t.linef("What the checks cannot show")
	if s := r.Statement.IssuerSite; s != "" {
		t.linef("  - Who runs the website %s: check that the address belongs to the institution.", s)
	}
	t.linef("  - Whether the person who shows the credential is its recipient.")
	if !online && slices.ContainsFunc(r.Checks, func(c credential.Check) bool { return c.Code == credential.CodeOffline }) {
		t.linef("")
		t.linef("Nothing was fetched. --online fetches the issuer's key and its status list by https;")
		t.linef("  --document FILE specifies saved copies of them.")
	}
}
