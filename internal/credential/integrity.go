package credential

import (
	"context"
	"crypto"
	"crypto/sha256"
	"fmt"
	"maps"
	"time"
)

// The type, the cryptosuite and the purpose of the proofs that this package creates and verifies (DI-EdDSA,
// 2.2 and 3.2).
const (
	typeDataIntegrity = "DataIntegrityProof"
	suiteEdDSA        = "eddsa-rdfc-2022"
	purposeAssertion  = "assertionMethod"
)

// proof is a Data Integrity proof (VC-DI, 2.1).
type proof struct {
	Type               string `json:"type"`
	Cryptosuite        string `json:"cryptosuite"`
	Created            string `json:"created"`
	VerificationMethod string `json:"verificationMethod"`
	ProofPurpose       string `json:"proofPurpose"`
	ProofValue         string `json:"proofValue,omitempty"`
}

// SignDataIntegrity returns the credential in JSON with an eddsa-rdfc-2022 Data Integrity proof. The key
// is an Ed25519 key of the issuer.
func (c *Credential) SignDataIntegrity(key crypto.Signer, created time.Time) ([]byte, error) {
	signed := c.document
	p, err := newProof(signed, signed.Issuer.ID, key, created)
	if err != nil {
		return nil, fmt.Errorf("signing a credential: %w", err)
	}
	signed.Proof = p
	return marshal(signed)
}

// newProof returns a proof for a document that has no proof (DI-EdDSA, 3.2.1).
func newProof(document any, did string, key crypto.Signer, created time.Time) (*proof, error) {
	data, err := marshal(document)
	if err != nil {
		return nil, err
	}
	object, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	method, err := MethodID(did, key.Public())
	if err != nil {
		return nil, err
	}
	p := &proof{
		Type: typeDataIntegrity, Cryptosuite: suiteEdDSA, Created: created.UTC().Format(time.RFC3339),
		VerificationMethod: method, ProofPurpose: purposeAssertion,
	}
	message, err := signedHash(context.Background(), object, map[string]any{
		"type": p.Type, "cryptosuite": p.Cryptosuite, "created": p.Created,
		"verificationMethod": p.VerificationMethod, "proofPurpose": p.ProofPurpose,
	})
	if err != nil {
		return nil, err
	}
	signature, err := signEd25519(key, message)
	if err != nil {
		return nil, err
	}
	p.ProofValue = "z" + base58Encode(signature)
	return p, nil
}

// signedHash returns the bytes that a proof signs: the hash of the proof's options with the context of
// the document, followed by the hash of the document without proofs (DI-EdDSA, 3.2.3 to 3.2.5).
func signedHash(ctx context.Context, document, options map[string]any) ([]byte, error) {
	statement, err := documentHash(ctx, document)
	if err != nil {
		return nil, err
	}
	config, err := optionsHash(ctx, document, options)
	if err != nil {
		return nil, err
	}
	return append(config, statement...), nil
}

func documentHash(ctx context.Context, document map[string]any) ([]byte, error) {
	document = maps.Clone(document)
	delete(document, "proof")
	return canonicalHash(ctx, document)
}

func optionsHash(ctx context.Context, document, options map[string]any) ([]byte, error) {
	options = maps.Clone(options)
	delete(options, "proofValue")
	options["@context"] = document["@context"]
	return canonicalHash(ctx, options)
}

func canonicalHash(ctx context.Context, document map[string]any) ([]byte, error) {
	data, err := canonical(ctx, document)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return sum[:], nil
}
