package recipient

import (
	"encoding/hex"
	"errors"
	"mime"
	"net/http"
	"path"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
	"github.com/certvault/certvault/internal/web"
)

var errNoFile = fault.New(fault.NotFound, "There is no such file.")

// file serves a file of a certificate to the signed-in recipient, or to a visitor with the mailed link.
func (p *Pages) file(w http.ResponseWriter, r *http.Request) error {
	h, err := p.holdingOf(r)
	if err != nil {
		return err
	}
	return p.send(w, r, h.certificate)
}

// shareFile serves a file of a shared certificate, except the original, which only the institution
// and the recipient may see.
func (p *Pages) shareFile(w http.ResponseWriter, r *http.Request) error {
	_, s, err := p.shared(r)
	if err != nil {
		return err
	}
	if r.PathValue("file") == "original" {
		return errNoFile
	}
	return p.send(w, r, s.Certificate)
}

// send writes a file of an approved certificate. It returns errNoFile for a certificate with
// another status.
func (p *Pages) send(w http.ResponseWriter, r *http.Request, c *cert.Certificate) (err error) {
	if c.Status != cert.Approved || c.Verified == nil {
		return errNoFile
	}
	var content *cert.Content
	var name string
	mediaType, tag := seal.PDF, hex.EncodeToString(c.Verified.SHA256[:])
	disposition := "inline"
	switch r.PathValue("file") {
	case "certificate.pdf":
		name = c.ReferenceID + ".pdf"
		content, err = p.Certs.OpenVerified(r.Context(), c)
	case "image.png":
		name, mediaType, tag = c.ReferenceID+".png", seal.PNG, tag+"-image"
		content, err = p.Certs.OpenImage(r.Context(), c)
	case "original":
		name, mediaType, tag = c.ReferenceID+"-original"+path.Ext(c.File.Name), c.File.Type, c.OriginalDigest()
		disposition = "attachment"
		content, err = p.Certs.OpenOriginal(r.Context(), c)
	case "credential":
		return web.SendCredential(w, r, p.Issuer, c)
	default:
		return errNoFile
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	h := w.Header()
	h.Set("Content-Type", string(mediaType))
	h.Set("Content-Security-Policy", web.StyledFilePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Content-Disposition", mime.FormatMediaType(disposition, map[string]string{"filename": name}))
	return web.ServeContent(w, r, content, tag)
}
