package web

import (
	"crypto/hmac"
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/keyring"
)

// linkLife is the time for which a capability URL is valid.
const linkLife = 24 * time.Hour

// Kind is the kind of file that a capability URL grants access to.
type Kind string

const (
	// PDFFile is the verified PDF.
	PDFFile Kind = "pdf"
	// ImageFile is an image of the first page.
	ImageFile Kind = "image"
)

// Links creates the public URLs of the vault and checks capability URLs.
type Links struct {
	base string
	ring *keyring.Ring
	now  func() time.Time
}

// NewLinks returns Links for a vault with the given base URL. now returns the current time.
func NewLinks(base string, ring *keyring.Ring, now func() time.Time) *Links {
	return &Links{base: base, ring: ring, now: now}
}

// To returns the URL of a path of the vault.
func (l *Links) To(path string) string { return l.base + path }

// Verify returns the URL of the public page of the certificate with a reference id.
func (l *Links) Verify(referenceID string) string {
	return l.base + "/verify/" + url.PathEscape(referenceID)
}

// QRCode returns the URL of a reference id's QR code.
func (l *Links) QRCode(referenceID string) string { return l.Verify(referenceID) + "/qrcode.svg" }

// Barcode returns the URL of a reference id's barcode.
func (l *Links) Barcode(referenceID string) string { return l.Verify(referenceID) + "/barcode.svg" }

// File returns the capability URL of a file. The URL grants access to the file without a token, for
// 24 hours.
func (l *Links) File(uuid string, kind Kind) (string, error) {
	end := strconv.FormatInt(l.now().Add(linkLife).Unix(), 10)
	mac, err := l.mac(uuid, string(kind), end)
	if err != nil {
		return "", err
	}
	return l.base + "/files/" + uuid + "/" + string(kind) + "?expires=" + end + "&signature=" + encode(mac), nil
}

func encode(mac []byte) string { return base64.RawURLEncoding.EncodeToString(mac) }

// FileAllowed reports whether query, the query of a capability URL, has a valid signature and has not
// expired.
func (l *Links) FileAllowed(uuid, kind string, query url.Values) (bool, error) {
	end := query.Get("expires")
	seconds, err := strconv.ParseInt(end, 10, 64)
	if err != nil || !l.now().Before(time.Unix(seconds, 0)) {
		return false, nil //nolint:nilerr // a malformed link is not allowed
	}
	mac, err := l.mac(uuid, kind, end)
	if err != nil {
		return false, err
	}
	// Compare the texts, because two different texts can decode to the same bytes.
	return hmac.Equal([]byte(encode(mac)), []byte(query.Get("signature"))), nil
}

// mac returns the MAC of the parts of a capability URL. The separator is a line feed, which no part of a
// URL from File contains.
func (l *Links) mac(uuid, kind, end string) ([]byte, error) {
	return l.ring.MAC(keyring.CapabilityURL, []byte(strings.Join([]string{uuid, kind, end}, "\n")))
}
