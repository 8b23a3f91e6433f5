package main

import (
	"cmp"
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

	Institution   string  `help:"Slug of the institution." required:""`
	Placement     *string `help:"auto, top-left, top-right, bottom-left, bottom-right, exact, strip or appended." placeholder:"MODE"`
	PlacementPage *int    `help:"Page of the stamp, from 1." placeholder:"N"`
	PlacementBox  *string `help:"Position of an exact stamp, in fractions of the page from its top left." placeholder:"X0,Y0,X1,Y1"`
	RefuseActive  *bool   `help:"Refuse PDF files with JavaScript, Launch and other actions." negatable:""`

	HideName       *bool   `help:"Hide names from the public." negatable:""`
	PublicImage    *bool   `help:"Show the certificate's picture to the public." negatable:""`
	PublicDownload *bool   `help:"Allow the public to download the verified PDF." negatable:""`
	Contact        *string `help:"Contact for the public: an e-mail address, an https link, or a line of text." placeholder:"TEXT"`
	Logo           *string `help:"PNG or JPEG logo for public pages; an empty name removes it." placeholder:"FILE"`
	Colour         *string `help:"Colour, as #rrggbb, on public pages and in mail; empty means the vault's." placeholder:"#RRGGBB"`

	mailFlags
	retentionFlags
}

// Run changes the given values and leaves the others. All changes are stored in one
// transaction, or none.
func (i *institutionSet) Run(c *console) error {
	var box *seal.Box
	if i.PlacementBox != nil {
		var err error
		if box, err = parseBox(*i.PlacementBox); err != nil {
			return &usageError{err}
		}
	}
	logo, err := i.logo()
	if err != nil {
		return err
	}
	return c.institution(i.Storage, i.Institution, func(base *app.Base, inst *account.Institution) error {
		if err := i.confirm(c.ctx, base, inst.ID); err != nil {
			return err
		}
		v, err := base.Accounts.Change(c.ctx, inst.ID, func(v *account.Changes) error {
			set(&v.HideName, i.HideName)
			set(&v.AllowImage, i.PublicImage)
			set(&v.AllowDownload, i.PublicDownload)
			set(&v.Contact, i.Contact)
			set(&v.Colour, i.Colour)
			v.Logo = logo
			i.mailFlags.apply(v)
			i.retentionFlags.apply(&v.Retention)
			return i.policy(cert.PolicyOf(&v.Settings), box).Apply(v)
		})
		if err != nil {
			return err
		}
		face, err := base.Accounts.Face(c.ctx, inst.ID)
		if err != nil {
			return err
		}
		return c.answer(struct {
			account.Policy
			account.Public

			Logo         string `json:"logo_sha256"`
			Colour       string `json:"colour"`
			MailLanguage string `json:"mail_language"`
			account.Letterhead
			// Words are by language.
			Words map[string]account.Words `json:"mail_words"`
			account.Retention
		}{v.Policy, v.Public, face.Logo, v.Colour, v.MailLanguage, v.Letterhead, v.Words, v.Retention}, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "Stamps of %s: %s, page %d", inst.Name, v.Placement, v.Page)
			if v.Box != nil {
				_, _ = fmt.Fprintf(w, ", box %v", *v.Box)
			}
			_, _ = fmt.Fprintf(w, "; active PDF files are %s.\n", map[bool]string{true: "refused", false: "taken and made harmless"}[v.RefuseActive])
			says := map[bool]string{true: "yes", false: "no"}
			_, _ = fmt.Fprintf(w, "Public name: %s; picture: %s; download: %s; logo: %s; colour: %s; contact: %s.\n",
				says[!v.HideName], says[v.AllowImage], says[v.AllowDownload], says[face.Logo != ""], cmp.Or(v.Colour, "the vault's"), cmp.Or(v.Contact, "none"))
			sayMail(w, v)
			printRetention(w, v.Retention)
		})
	})
}

// policy puts the flags given into a policy. A placement that is given takes the
// box away, unless that is given too.
func (i *institutionSet) policy(p *cert.Policy, box *seal.Box) *cert.Policy {
	if i.Placement != nil {
		p.Placement, p.Box = seal.Mode(*i.Placement), nil
	}
	set(&p.Page, i.PlacementPage)
	if box != nil {
		p.Box = box
	}
	set(&p.RefuseActive, i.RefuseActive)
	return p
}

// logo returns the logo given, an empty one to remove it, or nil to keep it.
func (i *institutionSet) logo() (*account.Logo, error) {
	switch {
	case i.Logo == nil:
		return nil, nil //nolint:nilnil // no flag, no change
	case *i.Logo == "":
		return account.DrawLogo(nil)
	}
	file, err := os.ReadFile(*i.Logo)
	if err != nil {
		return nil, fmt.Errorf("--logo: %w", err)
	}
	return account.DrawLogo(file)
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
