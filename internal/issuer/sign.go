package issuer

import (
	"context"
	"crypto"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/fault"
)

// Format is the media type of a credential.
type Format string

const (
	// FormatVC is JSON-LD with a Data Integrity proof.
	FormatVC Format = credential.MediaTypeVC
	// FormatJWT is a JWT with ES256.
	FormatJWT Format = credential.MediaTypeVCJWT
	// FormatSDJWT is an SD-JWT VC.
	FormatSDJWT Format = credential.MediaTypeSDJWT
	// FormatPNG is a PNG picture that contains the credential.
	FormatPNG Format = "image/png"
	// FormatSVG is an SVG drawing that contains the credential.
	FormatSVG Format = "image/svg+xml"
)

// allFormats are the formats that are signed. The pictures contain FormatVC.
var allFormats = []Format{FormatVC, FormatJWT, FormatSDJWT}

// signers returns the current keys of an institution for Data Integrity proofs and for JWT.
func (s *Service) signers(ctx context.Context, i *account.Institution) (proof, jwt crypto.Signer, err error) {
	keys, err := s.institutionKeys(ctx, i)
	if err != nil {
		return nil, nil, err
	}
	for _, k := range keys {
		if k.Number != keys[0].Number {
			break
		}
		signer, err := s.keys.CredentialSigner(ctx, k)
		if err != nil {
			return nil, nil, unavailable(err)
		}
		switch k.Algorithm {
		case authority.Ed25519:
			proof = signer
		case authority.P256:
			jwt = signer
		}
	}
	if proof == nil || jwt == nil {
		return nil, nil, unavailable(&authority.Fault{Code: authority.CodeMissing, Err: fmt.Errorf("institution %s lacks a key for credentials", i.UUID)})
	}
	return proof, jwt, nil
}

// DIDDocument returns the DID document of an institution, with its current and former keys.
func (s *Service) DIDDocument(ctx context.Context, i *account.Institution) ([]byte, error) {
	return s.publish(ctx, i, credential.DIDDocument)
}

// IssuerMetadata returns the metadata of an institution as the issuer of SD-JWT VC, with its current and
// former keys.
func (s *Service) IssuerMetadata(ctx context.Context, i *account.Institution) ([]byte, error) {
	return s.publish(ctx, i, credential.IssuerMetadata)
}

// publish returns the document that write creates from the DID and the keys of an institution.
func (s *Service) publish(ctx context.Context, i *account.Institution, write func(did string, keys []crypto.PublicKey) ([]byte, error)) ([]byte, error) {
	keys, err := s.institutionKeys(ctx, i)
	if err != nil {
		return nil, err
	}
	public := make([]crypto.PublicKey, len(keys))
	for n, k := range keys {
		public[n] = k.Public
	}
	did, err := s.DID(i.UUID)
	if err != nil {
		return nil, err
	}
	return write(did, public)
}

// listURL returns the address of a status list.
func (s *Service) listURL(id string) string { return s.base + StatusPath + id }

// sign signs the credential of a certificate in the given formats. The subject is the holder, or the
// e-mail address of the certificate if h is nil.
func (s *Service) sign(ctx context.Context, c *cert.Certificate, e Entry, h *Holder, formats []Format) (*Credential, error) {
	institution, err := account.InstitutionByID(ctx, s.db, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	proof, jwt, err := s.signers(ctx, institution)
	if err != nil {
		return nil, err
	}
	in, err := s.input(ctx, institution, c, e, h)
	if err != nil {
		return nil, err
	}
	built, err := credential.New(*in)
	if err != nil {
		return nil, err
	}
	out := &Credential{Entry: e}
	if slices.Contains(formats, FormatVC) {
		text, err := built.SignDataIntegrity(proof, s.now())
		if err != nil {
			return nil, err
		}
		out.VC = string(text)
	}
	if slices.Contains(formats, FormatJWT) {
		if out.JWT, err = built.SignJWT(jwt); err != nil {
			return nil, err
		}
	}
	if slices.Contains(formats, FormatSDJWT) {
		if out.SDJWT, err = s.signSDJWT(built, jwt, h); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// input returns the values of the credential of a certificate.
func (s *Service) input(ctx context.Context, institution *account.Institution, c *cert.Certificate, e Entry, h *Holder) (*credential.Input, error) {
	profile, err := s.accounts.PublicProfile(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	did, err := s.DID(institution.UUID)
	if err != nil {
		return nil, err
	}
	in := &credential.Input{
		ID: c.UUID, Title: c.Title,
		Issuer: credential.Issuer{DID: did, Name: profile.Name, URL: s.base},
		Document: &credential.Document{
			Name: c.ReferenceID + ".pdf", URL: s.verify(c.ReferenceID), SHA256: c.Verified.SHA256,
		},
		Status: &credential.StatusEntry{List: s.listURL(e.List), Index: e.Position},
	}
	if !profile.HideName {
		in.Recipient.Name = c.FullName
	}
	if h != nil {
		in.Recipient.DID = h.DID
	} else {
		// The credential contains a salted digest of the folded form of the address.
		email, err := account.ParseEmail(c.Email)
		if err != nil {
			return nil, err
		}
		in.Recipient.Email, in.Recipient.Salt = email.Folded, rand.Text()
	}
	if in.IssuedOn, err = time.Parse(time.DateOnly, c.IssueDate); err != nil {
		return nil, fmt.Errorf("reading the issue date: %w", err)
	}
	if c.ExpiresOn != "" {
		if in.ExpiresOn, err = time.Parse(time.DateOnly, c.ExpiresOn); err != nil {
			return nil, fmt.Errorf("reading the last day: %w", err)
		}
	}
	in.Achievement, err = s.achievementOf(ctx, institution, c)
	return in, err
}

// signList signs a status list with the given revoked positions.
func (s *Service) signList(ctx context.Context, i *account.Institution, id string, revoked []int, at time.Time) (vc, token []byte, err error) {
	proof, jwt, err := s.signers(ctx, i)
	if err != nil {
		return nil, nil, err
	}
	did, err := s.DID(i.UUID)
	if err != nil {
		return nil, nil, err
	}
	bits, err := credential.NewBitstring(revoked...)
	if err != nil {
		return nil, nil, err
	}
	l := credential.StatusList{URL: s.listURL(id), Issuer: did, Bits: bits, Issued: at.Add(-listSkew), Lifetime: listSkew + listLife, MaxAge: ListCached}
	if vc, err = credential.SignStatusList(l, proof); err != nil {
		return nil, nil, err
	}
	text, err := credential.SignStatusToken(l, jwt)
	return vc, []byte(text), err
}

// File returns the credential of a certificate in a format. The error is fault.Invalid for an unknown format,
// or an error of Credential.
func (s *Service) File(ctx context.Context, c *cert.Certificate, f Format) ([]byte, error) {
	found, err := s.Credential(ctx, c)
	if err != nil {
		return nil, err
	}
	switch f {
	case FormatVC, FormatJWT, FormatSDJWT:
		return []byte(found.text(f)), nil
	case FormatPNG, FormatSVG:
		return s.bake(ctx, c, found, f)
	}
	return nil, fault.New(fault.Invalid, "Unknown format.")
}
