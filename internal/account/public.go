package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // a logo may come as JPEG
	"image/png"
	"strings"

	"golang.org/x/image/draw"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	maxContact = 255
	// maxLogoFile bounds a logo as it is given, maxLogoSide and maxLogoPixels as
	// it unfolds.
	maxLogoFile   = 1 << 20
	maxLogoSide   = 4096
	maxLogoPixels = 8 << 20
	// logoWidth and logoHeight are what pages show it at, twice, for fine
	// screens.
	logoWidth  = 480
	logoHeight = 128
)

// Public is what an institution lets the public see of its certificates. The
// zero value is what holds until it decides: the name, and neither picture nor
// file.
type Public struct {
	HideName bool
	// AllowImage and AllowDownload let anyone with the reference id see the
	// certificate's picture and download the verified PDF. Both show the name.
	AllowImage, AllowDownload bool
	// Contact is where the public can ask: an e-mail address, a link, or a line
	// of text; empty for none.
	Contact string
}

// Face is what the public sees of an institution.
type Face struct {
	Public

	Name, Slug string
	// Colour is its own as "#rrggbb", empty for the vault's.
	Colour string
	// Logo is the digest of its logo in hexadecimal, empty without one.
	Logo string
}

// Face gives what the public sees of an institution.
func (s *Service) Face(ctx context.Context, id int64) (*Face, error) {
	var f Face
	var logo []byte
	err := s.db.QueryRowContext(ctx, `
		SELECT i.name, i.slug, i.hide_name, i.public_image, i.public_download, i.contact, i.colour, l.sha256
		FROM institutions i LEFT JOIN institution_logos l ON l.institution_id = i.id WHERE i.id = $1`, id).
		Scan(&f.Name, &f.Slug, &f.HideName, &f.AllowImage, &f.AllowDownload, &f.Contact, &f.Colour, &logo)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoInstitution
	}
	if err != nil {
		return nil, fmt.Errorf("reading an institution's public face: %w", err)
	}
	f.Logo = hex.EncodeToString(logo)
	return &f, nil
}

// SetPublic changes what the public sees, from the next request on.
func (s *Service) SetPublic(ctx context.Context, id int64, p Public) error {
	p.Contact = strings.TrimSpace(p.Contact)
	var bad fault.Fields
	if p.HideName && (p.AllowImage || p.AllowDownload) {
		bad.Add("hide_name", "The picture and the file show the name: hide it, or let the public have them, not both.")
	}
	if len([]rune(p.Contact)) > maxContact || !CleanText(p.Contact) || strings.ContainsAny(p.Contact, "\r\n") {
		bad.Add("contact", fmt.Sprintf("The contact must be one line of at most %d characters.", maxContact))
	}
	if err := bad.Err(); err != nil {
		return err
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		var was Public
		err := tx.QueryRowContext(ctx, `SELECT hide_name, public_image, public_download, contact FROM institutions WHERE id = $1`, id).
			Scan(&was.HideName, &was.AllowImage, &was.AllowDownload, &was.Contact)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoInstitution
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx,
			`UPDATE institutions SET hide_name = $1, public_image = $2, public_download = $3, contact = $4 WHERE id = $5`,
			p.HideName, p.AllowImage, p.AllowDownload, p.Contact, id); err != nil {
			return err
		}
		changes, err := audit.Changes(was.forLog(), p.forLog())
		if err != nil || changes == nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: id, At: s.now(), Action: audit.InstitutionChanged, Detail: changes})
	}); err != nil {
		return fmt.Errorf("changing what the public sees: %w", err)
	}
	return nil
}

// forLog gives it as the audit log writes what changed.
func (p *Public) forLog() any {
	return struct {
		HideName       bool   `json:"hide_name"`
		PublicImage    bool   `json:"public_image"`
		PublicDownload bool   `json:"public_download"`
		Contact        string `json:"contact"`
	}{p.HideName, p.AllowImage, p.AllowDownload, p.Contact}
}

// Logo gives the logo of an institution as PNG.
func (s *Service) Logo(ctx context.Context, slug, digest string) ([]byte, error) {
	sum, err := hex.DecodeString(digest)
	if err != nil || len(sum) != sha256.Size {
		return nil, errNoLogo
	}
	var content []byte
	err = s.db.QueryRowContext(ctx, `
		SELECT l.png FROM institutions i JOIN institution_logos l ON l.institution_id = i.id WHERE i.slug = $1 AND l.sha256 = $2`, slug, sum).Scan(&content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoLogo
	}
	if err != nil {
		return nil, fmt.Errorf("reading a logo: %w", err)
	}
	return content, nil
}

var (
	errNoInstitution = fault.New(fault.NotFound, "No such institution.")
	errNoLogo        = fault.New(fault.NotFound, "No such logo.")
)

// SetLogo keeps a logo, given as PNG or JPEG; nil takes it away. What is kept is
// drawn anew in the size that pages show, so that no byte of the given file
// reaches a visitor.
func (s *Service) SetLogo(ctx context.Context, id int64, file []byte) error {
	if file == nil {
		return s.db.Tx(ctx, func(tx *db.Tx) error {
			if _, err := tx.ExecContext(ctx, `DELETE FROM institution_logos WHERE institution_id = $1`, id); err != nil {
				return fmt.Errorf("taking the logo away: %w", err)
			}
			return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: id, At: s.now(), Action: audit.LogoChanged})
		})
	}
	content, err := drawLogo(file)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO institution_logos (institution_id, sha256, png) VALUES ($1, $2, $3)
			ON CONFLICT (institution_id) DO UPDATE SET sha256 = excluded.sha256, png = excluded.png`, id, sum[:], content); err != nil {
			return err
		}
		return audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: id, At: s.now(), Action: audit.LogoChanged, Detail: audit.Detail{"sha256": hex.EncodeToString(sum[:])},
		})
	}); err != nil {
		return fmt.Errorf("keeping the logo: %w", err)
	}
	return nil
}

func drawLogo(file []byte) ([]byte, error) {
	refused := fault.OfField("logo", "The logo must be a PNG or JPEG file of at most 1 MB, and at most 4096 pixels wide and high.")
	if len(file) > maxLogoFile {
		return nil, refused
	}
	head, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil || head.Width < 1 || head.Height < 1 || head.Width > maxLogoSide || head.Height > maxLogoSide || head.Width*head.Height > maxLogoPixels {
		return nil, refused
	}
	given, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, refused
	}
	scale := min(1, float64(logoWidth)/float64(head.Width), float64(logoHeight)/float64(head.Height))
	drawn := image.NewNRGBA(image.Rect(0, 0, max(1, int(scale*float64(head.Width))), max(1, int(scale*float64(head.Height)))))
	draw.CatmullRom.Scale(drawn, drawn.Bounds(), given, given.Bounds(), draw.Src, nil)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, drawn); err != nil {
		return nil, fmt.Errorf("drawing the logo: %w", err)
	}
	return b.Bytes(), nil
}
