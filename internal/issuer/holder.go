package issuer

import (
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/credential"
)

// Holder is the owner of a key to which a credential is bound.
type Holder = credential.Holder

// proofAge is the maximum difference between the time of a proof and the time of the vault. The clock of
// a phone may be wrong by some minutes. The nonce also limits the age of a proof.
const proofAge = 15 * time.Minute

// Holder checks a proof of possession of a key for an institution (OpenID4VCI 1.0, F.4), and returns the
// holder of the key. The error is a *WalletError if the proof is not valid.
func (s *Service) Holder(i *account.Institution, proof string) (*Holder, error) {
	p, err := credential.ParseHolderProof(proof)
	if err != nil {
		return nil, &WalletError{Code: ErrProof.Code, Description: err.Error()}
	}
	switch now := s.now(); {
	case p.Audience != s.ID(i.UUID):
		return nil, &WalletError{Code: ErrProof.Code, Description: "The proof is not for this issuer."}
	case p.IssuedAt.After(now.Add(proofAge)) || p.IssuedAt.Before(now.Add(-proofAge)):
		return nil, &WalletError{Code: ErrProof.Code, Description: "The time of the proof is too far from the time of the issuer."}
	}
	if err := s.CheckNonce(i.UUID, p.Nonce); err != nil {
		return nil, err
	}
	return &p.Holder, nil
}
