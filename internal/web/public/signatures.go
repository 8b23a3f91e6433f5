package public

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"net/http"
	"strconv"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/web"
)

// rootPath is the path of the root certificates.
const rootPath = "/.well-known/certvault/root.pem"

// root is the data of a root certificate on the page.
type root struct {
	Name, Fingerprint   string
	ValidFrom, ValidEnd *string
}

// signatures shows the page that explains how to verify a signature with only the file and the root
// certificate.
func (p *Pages) signatures(w http.ResponseWriter, r *http.Request) error {
	list, err := p.Keys.Roots(r.Context())
	if err != nil {
		return fmt.Errorf("reading the root certificates: %w", err)
	}
	roots := make([]root, len(list))
	for i, c := range list {
		roots[i] = root{
			Name: c.Subject.CommonName, Fingerprint: authority.Fingerprint(c),
			ValidFrom: web.Timestamp(&c.NotBefore), ValidEnd: web.Timestamp(&c.NotAfter),
		}
	}
	w.Header().Set("Cache-Control", "no-cache")
	return p.view.Draw(w, r, http.StatusOK, "signatures.html", roots)
}

// root writes the root certificates as PEM, the current certificate first. The name and the
// fingerprint of each certificate are above its PEM block. Parsers ignore text outside of PEM
// blocks (RFC 7468, 5.2).
func (p *Pages) root(w http.ResponseWriter, r *http.Request) error {
	list, err := p.Keys.Roots(r.Context())
	if err != nil {
		return fmt.Errorf("reading the root certificates: %w", err)
	}
	var b bytes.Buffer
	for _, c := range list {
		_, _ = fmt.Fprintf(&b, "%s\nSHA-256 %s\n", c.Subject.CommonName, authority.Fingerprint(c))
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return fmt.Errorf("writing the root certificates: %w", err)
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-pem-file")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Cache-Control", "public, max-age=3600")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(b.Bytes()) // a failed write means that the client has disconnected
	return nil
}
