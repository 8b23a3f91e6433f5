package credential

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// maxProofs is the maximum number of proofs to verify. There is a limit because each proof takes time: its
// options must be canonicalized.
const maxProofs = 4

// openJSON reads a credential in JSON.
func (v *verifier) openJSON(data []byte) (*signed, error) {
	s := &signed{format: MediaTypeVC}
	object, err := parseObject(data)
	if errors.Is(err, errTooMany) || errors.Is(err, errTooDeep) || errors.Is(err, errTooLarge) {
		return s, notRun(CodeTooComplex, err)
	}
	if err != nil {
		return s, err
	}
	if s.statement, err = readVC(object); err != nil {
		return s, err
	}
	s.verify = func() (error, error) { return v.verifyIntegrity(object, s.statement.IssuerID) }
	s.status = func() error { return v.entries(object, s.statement.IssuerID) }
	s.places = places(object)
	return s, nil
}

// verifyIntegrity verifies the eddsa-rdfc-2022 proofs of a document. It ignores other proofs, and proofs with
// previousProof. At least one proof must remain, and all that remain must be valid (VC-DI, 4.5).
// verifyIntegrity returns the results of CheckIssuer and CheckProof.
func (v *verifier) verifyIntegrity(document map[string]any, issuer string) (key, proof error) {
	var known []map[string]any
	var other string
	proofs := list(document["proof"])
	for _, p := range proofs {
		p, ok := p.(map[string]any)
		if !ok {
			return noKey, failed(CodeMalformed, errors.New("a proof is not an object"))
		}
		if text(p, "type") == typeDataIntegrity && text(p, "cryptosuite") == suiteEdDSA && p["previousProof"] == nil {
			known = append(known, p)
		} else {
			other = strings.TrimSpace(text(p, "type") + " " + text(p, "cryptosuite"))
		}
	}
	switch {
	case len(proofs) == 0:
		return noKey, failed(CodeUnsigned, errors.New("it has no proof"))
	case len(known) == 0:
		return noKey, notRun(CodeUnknownProof, fmt.Errorf("its proof is of the kind %q", other))
	case len(known) > maxProofs:
		return noKey, notRun(CodeTooComplex, fmt.Errorf("it has %d proofs", len(known)))
	}
	statement := sync.OnceValues(func() ([]byte, error) { return documentHash(v.ctx, document) })
	for _, p := range known {
		if key, proof = v.verifyProof(document, p, issuer, statement); key != nil || proof != nil {
			return key, proof
		}
	}
	return nil, nil
}

// noKey is the result of CheckIssuer if no usable signature names a key.
var noKey = notRun(CodeUnknownProof, errors.New("there is no signature that names a key"))

// verifyProof verifies a proof (DI-EdDSA, 3.2.2; VC-DI, 4.4).
func (v *verifier) verifyProof(document, p map[string]any, issuer string, statement func() ([]byte, error)) (key, proof error) {
	signature, err := proofValue(p)
	if err != nil {
		return noKey, failed(CodeMalformed, err)
	}
	public, err := v.sources.key(v.ctx, issuer, text(p, "verificationMethod"))
	if err != nil {
		return err, notRun(CodeNoKey, errors.New("the key of the signature is not known"))
	}
	if _, ok := public.(ed25519.PublicKey); !ok {
		return nil, failed(CodeSignature, errors.New("the key of the proof is not an Ed25519 key"))
	}
	if err := v.checkProof(p); err != nil {
		return nil, err
	}
	if err := checkIDs(document); err != nil {
		return nil, failed(CodeNotCovered, err)
	}
	config, err := optionsHash(v.ctx, document, p)
	if err != nil {
		return nil, canonicalProblem(err)
	}
	hash, err := statement()
	if err != nil {
		return nil, canonicalProblem(err)
	}
	if err := verifySignature(public, append(config, hash...), signature); err != nil {
		return nil, failed(CodeSignature, err)
	}
	return nil, nil
}

// checkProof checks the options of a proof.
func (v *verifier) checkProof(p map[string]any) error {
	if p["proofPurpose"] != purposeAssertion {
		return failed(CodeSignature, fmt.Errorf("the purpose of the proof is %q", p["proofPurpose"]))
	}
	if _, ok := p["@context"]; ok {
		return notRun(CodeUnknownProof, errors.New("the proof has a context of its own"))
	}
	if _, err := readTime(p, "created"); err != nil {
		return failed(CodeMalformed, err)
	}
	expires, err := readTime(p, "expires")
	if err != nil {
		return failed(CodeMalformed, err)
	}
	if !expires.IsZero() && v.now.After(expires) {
		return failed(CodeSignature, fmt.Errorf("the proof was valid until %s", expires.Format(time.RFC3339)))
	}
	return nil
}

// checkIDs rejects a document whose id occurs again within it. In RDF, the document and an object with the
// same id are one node, so a member can be moved to that object without a change of the canonical form. For
// example, the expiry could be moved to an object in which no program reads it.
func checkIDs(document map[string]any) error {
	id := text(document, "id")
	for name, value := range document {
		if id != "" && name != "proof" && contains(value, id) {
			return notCovered("the id %q occurs twice", id)
		}
	}
	return nil
}

// proofValue decodes the signature of a proof from base58 (DI-EdDSA, 3.2.1).
func proofValue(p map[string]any) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text(p, "proofValue"), "z")
	if !ok {
		return nil, errors.New("the proof has no value in base58")
	}
	return base58Decode(encoded)
}

// canonicalProblem returns the result of CheckProof for an error of canonical.
func canonicalProblem(err error) error {
	if unknown, ok := errors.AsType[*UnknownContextError](err); ok {
		return notRun(CodeUnknownContext, unknown)
	}
	switch {
	case errors.Is(err, errPoisoned), errors.Is(err, errTooMany):
		return notRun(CodeTooComplex, err)
	case errors.Is(err, errNotCovered):
		return failed(CodeNotCovered, err)
	}
	return err
}
