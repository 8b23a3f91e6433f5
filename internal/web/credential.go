package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
)

// These are other media types of a credential in JSON-LD. Some clients accept only application/json.
const (
	jsonLD    = "application/ld+json"
	plainJSON = "application/json"
)

// credentialNames maps the short names in the parameter format to formats. A short name is easier to
// write than a media type, because the + of a media type must be escaped in a query.
var credentialNames = map[string]issuer.Format{
	"vc": issuer.FormatVC, "jwt": issuer.FormatJWT, "sd-jwt": issuer.FormatSDJWT, "png": issuer.FormatPNG, "svg": issuer.FormatSVG,
}

// credentialExtensions maps each format to the extension of its files.
var credentialExtensions = map[issuer.Format]string{
	issuer.FormatVC: "json", issuer.FormatJWT: "jwt", issuer.FormatSDJWT: "sd-jwt", issuer.FormatPNG: "png", issuer.FormatSVG: "svg",
}

// SendCredential responds with the credential of a certificate in the format that the parameter
// format or the header Accept selects. The caller must check that the client may receive the credential.
// The error is fault.Invalid for an unknown format, or an error of issuer.Service.File or ServeContent.
func SendCredential(w http.ResponseWriter, r *http.Request, s *issuer.Service, c *cert.Certificate) error {
	mediaType, format, err := credentialFormat(r)
	if err != nil {
		return err
	}
	content, err := s.File(r.Context(), c, format)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Content-Security-Policy", FilePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Add("Vary", "Accept")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": c.ReferenceID + "." + credentialExtensions[format]}))
	return ServeContent(w, r, bytes.NewReader(content), hex.EncodeToString(sum[:16]))
}

// credentialFormat returns the format that a request selects, and the media type of the response.
func credentialFormat(r *http.Request) (mediaType string, f issuer.Format, err error) {
	query := r.URL.Query()
	if !query.Has("format") {
		mediaType = Accepted(r, string(issuer.FormatVC), jsonLD, plainJSON,
			string(issuer.FormatJWT), string(issuer.FormatSDJWT), string(issuer.FormatPNG), string(issuer.FormatSVG))
		if mediaType == jsonLD || mediaType == plainJSON {
			return mediaType, issuer.FormatVC, nil
		}
		return mediaType, issuer.Format(mediaType), nil
	}
	// In a query, a + that is not escaped is a space.
	name := strings.ReplaceAll(query.Get("format"), " ", "+")
	if name == jsonLD || name == plainJSON {
		return name, issuer.FormatVC, nil
	}
	f, ok := credentialNames[name]
	if _, known := credentialExtensions[issuer.Format(name)]; !ok && known {
		f, ok = issuer.Format(name), true
	}
	if !ok {
		return "", "", fault.OfField("format", "The format must be vc, jwt, sd-jwt, png or svg, or one of their media types.")
	}
	return string(f), f, nil
}
