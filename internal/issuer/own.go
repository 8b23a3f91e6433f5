package issuer

import (
	"context"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/credential"
)

// The paths of the documents of this vault to which credentials refer.
const (
	// InstitutionsPath is the path below which each institution has its documents.
	InstitutionsPath = "/institutions/"
	// StatusPath is the path below which the status lists are.
	StatusPath = "/credentials/status/"
	// documentName is the name of a DID document (did:web, 2.5.2).
	documentName = "/did.json"
)

// Documents returns a Fetcher that reads the documents of this vault from the database, and requests
// other documents from the Fetcher others. A vault can therefore verify its own credentials even if its
// address is not public.
func (s *Service) Documents(others credential.Fetcher) credential.Fetcher {
	return &documents{s, others}
}

type documents struct {
	own    *Service
	others credential.Fetcher
}

// Fetch returns the document at a URL. The error is fault.NotFound if a document of this vault does not
// exist.
func (d *documents) Fetch(ctx context.Context, address, accept string) ([]byte, error) {
	path, ok := d.own.path(address)
	if !ok {
		return d.others.Fetch(ctx, address, accept)
	}
	if id, ok := strings.CutPrefix(path, StatusPath); ok {
		list, err := d.own.List(ctx, id)
		if err != nil {
			return nil, err
		}
		if accept == credential.MediaTypeStatusJWT {
			return list.Token, nil
		}
		return list.VC, nil
	}
	publish := d.own.IssuerMetadata
	id, ok := strings.CutPrefix(path, credential.IssuerMetadataPath+InstitutionsPath)
	if !ok {
		publish = d.own.DIDDocument
		id = strings.TrimSuffix(strings.TrimPrefix(path, InstitutionsPath), documentName)
	}
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return nil, errNoDocument
	}
	i, err := d.own.Institution(ctx, id)
	if err != nil {
		return nil, err
	}
	return publish(ctx, i)
}

// path returns the path of an address, and reports whether the path is for documents of this vault. The
// comparison of the host ignores case, because the host in a DID is in lower case.
func (s *Service) path(address string) (string, bool) {
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(u.Scheme+"://"+u.Host, s.base) || u.RawQuery != "" {
		return "", false
	}
	path := u.EscapedPath()
	owned := strings.HasPrefix(path, StatusPath) || strings.HasPrefix(path, credential.IssuerMetadataPath+InstitutionsPath) ||
		strings.HasPrefix(path, InstitutionsPath) && strings.HasSuffix(path, documentName)
	return path, owned
}
