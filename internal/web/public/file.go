package public

import (
	"bytes"
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
)

var errNoFile = fault.New(fault.NotFound, "There is no such file, or the link to it has expired.")

func assetHeaders(w http.ResponseWriter, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Security-Policy", web.StyledFilePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
}

// file writes a verified PDF, or a picture of the PDF, if the request has a valid capability URL and the
// certificate is approved. Otherwise it returns errNoFile.
func (p *Pages) file(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	id, err := uuid.Parse(r.PathValue("uuid"))
	if err != nil {
		return errNoFile
	}
	kind := web.Kind(r.PathValue("kind"))
	allowed, err := p.Links.FileAllowed(id.String(), string(kind), r.URL.Query())
	if err != nil {
		return err
	}
	if !allowed {
		return errNoFile
	}
	c, err := p.Certs.BySignedLink(ctx, id.String())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || c.Status != cert.Approved {
		return errNoFile
	}
	return p.send(w, r, c, kind)
}

// publicFile writes the verified PDF of the certificate with a reference id, or a picture of the
// PDF, if the institution permits it. Otherwise it returns errNoFile.
func (p *Pages) publicFile(w http.ResponseWriter, r *http.Request, kind web.Kind) error {
	v, err := p.find(r.Context(), r.PathValue("reference_id"))
	if fault.Is(err, fault.NotFound) {
		return errNoFile
	}
	if err != nil {
		return err
	}
	if kind == web.PDFFile && v.Downloadable() || kind == web.ImageFile && v.Pictured() {
		return p.send(w, r, v.certificate, kind)
	}
	return errNoFile
}

// send writes a file of a certificate.
func (p *Pages) send(w http.ResponseWriter, r *http.Request, c *cert.Certificate, kind web.Kind) (err error) {
	open, name, mediaType := p.Certs.OpenVerified, c.ReferenceID+".pdf", string(seal.PDF)
	tag := hex.EncodeToString(c.Verified.SHA256[:])
	switch kind {
	case web.PDFFile:
	case web.ImageFile:
		open, name, mediaType, tag = p.Certs.OpenImage, c.ReferenceID+".png", string(seal.PNG), tag+"-image"
	default:
		return errNoFile
	}
	content, err := open(r.Context(), c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	assetHeaders(w, mediaType)
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": name}))
	return web.ServeContent(w, r, content, tag)
}

// logo writes an institution's logo. The URL contains the digest of the logo, so that browsers can
// cache the logo for a year.
func (p *Pages) logo(w http.ResponseWriter, r *http.Request) error {
	content, err := p.Accounts.Logo(r.Context(), r.PathValue("slug"), r.PathValue("digest"))
	if err != nil {
		return err
	}
	assetHeaders(w, string(seal.PNG))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	return nil
}

func (p *Pages) qrCode(w http.ResponseWriter, r *http.Request) error {
	return p.symbol(w, r, func(referenceID string) ([]byte, error) { return seal.QRCodeSVG(p.Links.Verify(referenceID)) })
}

func (p *Pages) barcode(w http.ResponseWriter, r *http.Request) error {
	return p.symbol(w, r, seal.BarcodeSVG)
}

// symbol writes the QR code or the barcode of a certificate that find returns. The reference id is the only
// data of the certificate in both.
func (p *Pages) symbol(w http.ResponseWriter, r *http.Request, draw func(referenceID string) ([]byte, error)) error {
	v, err := p.find(r.Context(), r.PathValue("reference_id"))
	if err != nil {
		return err
	}
	svg, err := draw(v.ReferenceID)
	if err != nil {
		return err
	}
	assetHeaders(w, "image/svg+xml")
	w.Header().Set("Cache-Control", "private, max-age=86400")
	if _, err := w.Write(svg); err != nil {
		return nil //nolint:nilerr // the client has disconnected
	}
	return nil
}

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
