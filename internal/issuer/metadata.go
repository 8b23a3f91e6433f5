package issuer

import (
	"context"
	"crypto"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/credential"
)

// Numbers of sections without the name of a document are those of OpenID for Verifiable Credential
// Issuance 1.0.

// configurations are the credential configurations in the order in which they are offered.
var configurations = []struct {
	id, format string
	of         Format
	// algorithm is the value of credential_signing_alg_values_supported: the suite of the proof for JSON-LD
	// (A.1.2.2), and the JOSE algorithm for the other formats.
	algorithm string
}{
	{"open-badge-ldp-vc", "ldp_vc", FormatVC, "eddsa-rdfc-2022"},
	{"open-badge-jwt-vc-json", "jwt_vc_json", FormatJWT, "ES256"},
	{"open-badge-dc-sd-jwt", "dc+sd-jwt", FormatSDJWT, "ES256"},
}

// ConfigurationIDs returns the ids of the credential configurations.
func ConfigurationIDs() []string {
	var list []string
	for _, c := range configurations {
		list = append(list, c.id)
	}
	return list
}

// FormatOf returns the format of a credential configuration.
func FormatOf(id string) (Format, bool) {
	for _, c := range configurations {
		if c.id == id {
			return c.of, true
		}
	}
	return "", false
}

// Metadata is the metadata of an institution as an issuer for wallets (12.2.4).
type Metadata struct {
	Issuer             string                   `json:"credential_issuer"`
	CredentialEndpoint string                   `json:"credential_endpoint"`
	NonceEndpoint      string                   `json:"nonce_endpoint"`
	Display            []display                `json:"display"`
	Configurations     map[string]configuration `json:"credential_configurations_supported"`
}

type display struct {
	Name       string `json:"name"`
	Logo       *logo  `json:"logo,omitempty"`
	Background string `json:"background_color,omitempty"`
}

type logo struct {
	URI string `json:"uri"`
}

type configuration struct {
	Format     string                `json:"format"`
	Binding    []string              `json:"cryptographic_binding_methods_supported"`
	Algorithms []string              `json:"credential_signing_alg_values_supported"`
	Proofs     map[string]proofType  `json:"proof_types_supported"`
	Definition *definition           `json:"credential_definition,omitempty"`
	VCT        string                `json:"vct,omitempty"`
	Metadata   configurationMetadata `json:"credential_metadata"`
}

type proofType struct {
	Algorithms []string `json:"proof_signing_alg_values_supported"`
}

type definition struct {
	Context []string `json:"@context,omitempty"`
	Type    []string `json:"type"`
}

type configurationMetadata struct {
	Display []display `json:"display"`
}

// Metadata returns the metadata of an institution.
func (s *Service) Metadata(ctx context.Context, i *account.Institution) (*Metadata, error) {
	profile, err := s.accounts.PublicProfile(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	id := s.ID(i.UUID)
	shown := display{Name: profile.Name}
	if profile.Logo != "" {
		shown.Logo = &logo{URI: s.base + "/logos/" + profile.Slug + "/" + profile.Logo}
	}
	m := &Metadata{
		Issuer: id, CredentialEndpoint: id + "/openid4vci/credential", NonceEndpoint: id + "/openid4vci/nonce",
		Display: []display{shown}, Configurations: map[string]configuration{},
	}
	card := shown
	card.Background = profile.Colour
	for _, c := range configurations {
		out := configuration{
			Format: c.format, Binding: []string{"jwk", "did:key", "did:jwk"}, Algorithms: []string{c.algorithm},
			Proofs:   map[string]proofType{"jwt": {[]string{"ES256", "EdDSA"}}},
			Metadata: configurationMetadata{[]display{card}},
		}
		types := []string{"VerifiableCredential", "OpenBadgeCredential"}
		switch c.of {
		case FormatVC:
			out.Definition = &definition{[]string{credential.ContextVC, credential.ContextOB}, types}
		case FormatJWT:
			out.Definition = &definition{nil, types}
		default:
			out.VCT = s.credentialType()
		}
		m.Configurations[c.id] = out
	}
	return m, nil
}

// credentialType returns the type of SD-JWT VC credentials (SD-JWT VC, 2.2.2.1). The type is the address
// of its metadata.
func (s *Service) credentialType() string { return s.base + TypePath }

// TypePath is the path of the metadata of the type of SD-JWT VC credentials.
const TypePath = "/credentials/type"

// TypeMetadata is the metadata of a type of SD-JWT VC credentials (SD-JWT VC, 4.2).
type TypeMetadata struct {
	VCT         string `json:"vct"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// TypeMetadata returns the metadata of the type of SD-JWT VC credentials.
func (s *Service) TypeMetadata() TypeMetadata {
	return TypeMetadata{s.credentialType(), "Open Badge", "A certificate as an achievement, with the values of Open Badges 3.0."}
}

// signSDJWT signs a credential as SD-JWT VC, bound to the key of a holder, if there is one.
func (s *Service) signSDJWT(c *credential.Credential, key crypto.Signer, h *Holder) (string, error) {
	o := credential.SDJWTOptions{Type: s.credentialType(), Created: s.now()}
	if h != nil {
		o.Holder = h.Key
	}
	return c.SignSDJWT(key, o)
}
