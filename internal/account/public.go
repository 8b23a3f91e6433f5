package account

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/picture"
)

const (
	maxContact = 255
	// maxLogoFile is the maximum size of a logo's file in bytes.
	maxLogoFile = 1 << 20
	// logoWidth and logoHeight are about twice the maximum size at which pages show a logo, for screens
	// with a high resolution.
	logoWidth  = 480
	logoHeight = 128
)

// Public has the settings for the public pages of an institution's certificates. The zero value is
// the default: the pages show the recipient's name, but neither the picture nor the file.
type Public struct {
	HideName bool `json:"hide_name"`
	// AllowImage and AllowDownload let anyone with the reference id see the certificate's picture
	// and download the verified PDF. Both show the recipient's name.
	AllowImage    bool `json:"public_image"`
	AllowDownload bool `json:"public_download"`
	// Contact is an e-mail address, a link, or a line of text for questions from the public, or "".
	Contact string `json:"contact"`
	// LinkedIn is the number of the institution's page on LinkedIn, or "".
	LinkedIn string `json:"linkedin"`
}

// PublicProfile is the public information about an institution.
type PublicProfile struct {
	Public

	Name, Slug string
	// Prefix is the beginning of the institution's reference ids. Unlike the name, it never changes
	// and belongs to one institution only.
	Prefix string
	// Colour is the institution's colour as "#rrggbb", or "" for the vault's colour.
	Colour string
	// Logo is the SHA-256 digest of the logo in hexadecimal, or "".
	Logo string
}

// PublicProfile returns the public information about an institution, or fault.NotFound.
func (s *Service) PublicProfile(ctx context.Context, id int64) (*PublicProfile, error) {
	var f PublicProfile
	var logo []byte
	err := s.db.QueryRowContext(ctx, `
		SELECT i.name, i.slug, i.prefix, i.hide_name, i.public_image, i.public_download, i.contact, i.linkedin, i.colour, l.sha256
		FROM institutions i LEFT JOIN institution_logos l ON l.institution_id = i.id WHERE i.id = $1`, id).
		Scan(&f.Name, &f.Slug, &f.Prefix, &f.HideName, &f.AllowImage, &f.AllowDownload, &f.Contact, &f.LinkedIn, &f.Colour, &logo)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInstitution
	}
	if err != nil {
		return nil, fmt.Errorf("reading an institution's public profile: %w", err)
	}
	f.Logo = hex.EncodeToString(logo)
	return &f, nil
}

// Issuer returns the name and the prefix, as pages show them. Two institutions may have names that
// look the same, but not the same prefix.
func (f *PublicProfile) Issuer() string { return f.Name + " (" + f.Prefix + ")" }

// AddToLinkedIn returns the address of LinkedIn's form that adds a certificate to a profile. If the
// institution's page is known, LinkedIn shows the institution's logo. expiresOn is "" for a certificate
// that does not expire.
func (f *PublicProfile) AddToLinkedIn(title, issueDate, expiresOn, verifyURL, referenceID string) string {
	q := url.Values{
		"startTask": {"CERTIFICATION_NAME"}, "name": {title}, "organizationName": {f.Name}, "certUrl": {verifyURL}, "certId": {referenceID},
	}
	if f.LinkedIn != "" {
		q.Set("organizationId", f.LinkedIn)
	}
	for name, date := range map[string]string{"issue": issueDate, "expiration": expiresOn} {
		if day, err := time.Parse(time.DateOnly, date); err == nil {
			q.Set(name+"Year", strconv.Itoa(day.Year()))
			q.Set(name+"Month", strconv.Itoa(int(day.Month())))
		}
	}
	return "https://www.linkedin.com/profile/add?" + q.Encode()
}

// SetPublic changes the settings for the public pages.
func (s *Service) SetPublic(ctx context.Context, id int64, p Public) error {
	return s.set(ctx, id, func(c *Changes) { c.Public = p })
}

func (p *Public) check() error {
	p.Contact = strings.TrimSpace(p.Contact)
	var bad fault.Fields
	if p.HideName && (p.AllowImage || p.AllowDownload) {
		bad.Add("hide_name", "The image and the file show the name. Hide the name, or allow the image and the download, but not both.")
	}
	if len([]rune(p.Contact)) > maxContact || !CleanText(p.Contact) || strings.ContainsAny(p.Contact, "\r\n") {
		bad.Add("contact", fmt.Sprintf("The contact must be one line of at most %d characters.", maxContact))
	}
	number := linkedInPage.FindStringSubmatch(strings.TrimSpace(p.LinkedIn))
	if number == nil {
		bad.Add("linkedin", "Enter the number of the LinkedIn page. It is in the page's address when you manage the page, such as linkedin.com/company/1234567/admin.")
	} else {
		p.LinkedIn = number[1]
	}
	return bad.Err()
}

// linkedInPage matches the number of a page on LinkedIn, alone or in the address of the page. It also
// matches an empty text.
var linkedInPage = regexp.MustCompile(`^(?:(?:(?:https://)?(?:www\.)?linkedin\.com/company/)?([1-9][0-9]{0,18})(?:[/?].*)?)?$`)

// Logo returns the logo of an institution as PNG. The error is fault.NotFound if the institution
// has no logo with the digest.
func (s *Service) Logo(ctx context.Context, slug, digest string) ([]byte, error) {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		return nil, errNoLogo
	}
	var content []byte
	err = s.db.QueryRowContext(ctx, `
		SELECT png FROM institution_logos
		WHERE sha256 = $2 AND institution_id IN (
			SELECT id FROM institutions WHERE slug = $1 UNION ALL SELECT institution_id FROM former_slugs WHERE slug = $1)`, slug, sum).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoLogo
	}
	if err != nil {
		return nil, fmt.Errorf("reading a logo: %w", err)
	}
	return content, nil
}

var (
	errNoInstitution = fault.New(fault.NotFound, "There is no such institution.")
	errNoLogo        = fault.New(fault.NotFound, "There is no such logo.")
)

// Logo is a picture in the size and format in which it is stored.
type Logo struct {
	png []byte
	sum [sha256.Size]byte
}

// DrawLogo draws a PNG or JPEG file as a new picture, so that visitors get no data of the file except
// its pixels. For a nil file, it returns an empty logo. The error is fault.Invalid if the file is too
// large or cannot be decoded.
func DrawLogo(file []byte) (*Logo, error) {
	if file == nil {
		return &Logo{}, nil
	}
	content, err := drawLogo(file)
	if err != nil {
		return nil, err
	}
	return &Logo{content, sha256.Sum256(content)}, nil
}

// SetLogo stores a logo, given as a PNG or JPEG file. A nil file removes the logo.
func (s *Service) SetLogo(ctx context.Context, id int64, file []byte) error {
	logo, err := DrawLogo(file)
	if err != nil {
		return err
	}
	return s.set(ctx, id, func(c *Changes) { c.Logo = logo })
}

func drawLogo(file []byte) ([]byte, error) {
	drawn, err := picture.Draw(file, picture.Limits{Bytes: maxLogoFile, Width: logoWidth, Height: logoHeight})
	if errors.Is(err, picture.ErrRefused) {
		return nil, fault.OfField("logo", "The logo must be a PNG or JPEG file of at most 1 MB and 8 megapixels, and at most 4096 pixels wide and high.")
	}
	return drawn, err
}
