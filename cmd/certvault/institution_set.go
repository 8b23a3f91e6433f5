package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/seal"
)

type institutionSet struct {
	config.Storage

	Institution   string  `help:"Slug of the institution."                                                         required:""`
	Placement     *string `help:"auto, top-left, top-right, bottom-left, bottom-right, exact, strip or appended." placeholder:"MODE"`
	PlacementPage *int    `help:"Page of the stamp, from 1."                                             placeholder:"N"`
	PlacementBox  *string `help:"Position of an exact stamp, in fractions of the page from its top left."               placeholder:"X0,Y0,X1,Y1"`
	RefuseActive  *bool   `help:"Refuse PDF files with JavaScript, Launch and other actions."                      negatable:""`

	HideName       *bool   `help:"Hide names from the public."                                                      negatable:""`
	PublicImage    *bool   `help:"Show the certificate's picture to the public."                                    negatable:""`
	PublicDownload *bool   `help:"Allow the public to download the verified PDF."                                        negatable:""`
	Contact        *string `help:"Contact for the public: an e-mail address, an https link, or a line of text."   placeholder:"TEXT"`
	Logo           *string `help:"PNG or JPEG logo for public pages; an empty name removes it."                  placeholder:"FILE"`
	Colour         *string `help:"Colour, as #rrggbb, on public pages and in mail; empty means the vault's."      placeholder:"#RRGGBB"`

	mailFlags
	keepFlags
}

// Run changes the given values and leaves the others.
func (i *institutionSet) Run(c *console) error {
	return c.institution(i.Storage, i.Institution, func(base *app.Base, inst *account.Institution) error {
		p, err := cert.ReadPolicy(c.ctx, base.DB, inst.ID)
		if err != nil {
			return err
		}
		if i.Placement != nil {
			p.Placement = seal.Mode(*i.Placement)
			p.Box = nil
		}
		if i.PlacementPage != nil {
			p.Page = *i.PlacementPage
		}
		if i.PlacementBox != nil {
			if p.Box, err = parseBox(*i.PlacementBox); err != nil {
				return &usageError{err}
			}
		}
		if i.RefuseActive != nil {
			p.RefuseActive = *i.RefuseActive
		}
		if err := cert.SetPolicy(c.ctx, base.DB, inst.ID, p); err != nil {
			return err
		}
		face, err := i.setPublic(c.ctx, base.Accounts, inst.ID)
		if err != nil {
			return err
		}
		letters, err := i.mailFlags.set(c.ctx, base.Accounts, inst.ID)
		if err != nil {
			return err
		}
		kept, err := i.keepFlags.set(c.ctx, base, inst.ID)
		if err != nil {
			return err
		}
		return c.answer(struct {
			Placement     seal.Mode `json:"placement"`
			PlacementPage int       `json:"placement_page"`
			PlacementBox  *seal.Box `json:"placement_box"`
			RefuseActive  bool      `json:"refuse_active"`

			HideName       bool   `json:"hide_name"`
			PublicImage    bool   `json:"public_image"`
			PublicDownload bool   `json:"public_download"`
			Contact        string `json:"contact"`
			Logo           string `json:"logo_sha256"`
			Colour         string `json:"colour"`

			*mailAnswer
			account.Keep
		}{p.Placement, p.Page, p.Box, p.RefuseActive, face.HideName, face.AllowImage, face.AllowDownload, face.Contact, face.Logo, face.Colour, letters, kept}, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "Stamps of %s: %s, page %d", inst.Name, p.Placement, p.Page)
			if p.Box != nil {
				_, _ = fmt.Fprintf(w, ", box %v", *p.Box)
			}
			_, _ = fmt.Fprintf(w, "; active PDF files are %s.\n", map[bool]string{true: "refused", false: "taken and made harmless"}[p.RefuseActive])
			says := map[bool]string{true: "yes", false: "no"}
			_, _ = fmt.Fprintf(w, "Public name: %s; picture: %s; download: %s; logo: %s; colour: %s; contact: %s.\n",
				says[!face.HideName], says[face.AllowImage], says[face.AllowDownload], says[face.Logo != ""], cmp.Or(face.Colour, "the vault's"), cmp.Or(face.Contact, "none"))
			letters.say(w)
			sayKeep(w, kept)
		})
	})
}

// setPublic changes the public profile and returns it.
func (i *institutionSet) setPublic(ctx context.Context, accounts *account.Service, id int64) (*account.Face, error) {
	face, err := accounts.Face(ctx, id)
	if err != nil {
		return nil, err
	}
	set(&face.HideName, i.HideName)
	set(&face.AllowImage, i.PublicImage)
	set(&face.AllowDownload, i.PublicDownload)
	set(&face.Contact, i.Contact)
	if err := accounts.SetPublic(ctx, id, face.Public); err != nil {
		return nil, err
	}
	if i.Colour != nil {
		if err := accounts.SetColour(ctx, id, *i.Colour); err != nil {
			return nil, err
		}
	}
	if i.Logo != nil {
		var file []byte
		if *i.Logo != "" {
			if file, err = os.ReadFile(*i.Logo); err != nil {
				return nil, fmt.Errorf("--logo: %w", err)
			}
		}
		if err := accounts.SetLogo(ctx, id, file); err != nil {
			return nil, err
		}
	}
	return accounts.Face(ctx, id)
}

// set stores a value if it was given.
func set[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}

// parseBox parses "x0,y0,x1,y1".
func parseBox(s string) (*seal.Box, error) {
	parts := strings.Split(s, ",")
	var b seal.Box
	if len(parts) != len(b) {
		return nil, fmt.Errorf("--placement-box: %q is not X0,Y0,X1,Y1", s)
	}
	for i, part := range parts {
		f, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return nil, fmt.Errorf("--placement-box: %q is not a number", part)
		}
		b[i] = f
	}
	return &b, nil
}
