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

	Institution   string  `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Name          *string `help:"Name of the institution. Signatures keep the name that the institution had when its key was created." placeholder:"NAME"`
	AllowSameName bool    `help:"Allow the name even if it looks the same as the name of another institution."`
	Placement     *string `help:"Position of the QR code: auto, top-left, top-right, bottom-left, bottom-right, exact, strip or appended." placeholder:"MODE"`
	PlacementPage *int    `help:"Page of the QR code, from 1." placeholder:"N"`
	PlacementBox  *string `help:"Position for exact, in fractions of the page, measured from its top left corner." placeholder:"X0,Y0,X1,Y1"`
	PlainStamp    *bool   `help:"Add only the QR code and the reference id, as in earlier versions." negatable:""`
	RefuseActive  *bool   `help:"Reject PDF files with JavaScript, Launch and other actions." negatable:""`

	HideName       *bool   `help:"Hide recipients' names on public pages." negatable:""`
	PublicImage    *bool   `help:"Show an image of the certificate on public pages." negatable:""`
	PublicDownload *bool   `help:"Allow the public to download the verified PDF." negatable:""`
	Contact        *string `help:"Contact for the public: an e-mail address, an https link, or a line of text." placeholder:"TEXT"`
	LinkedIn       *string `name:"linkedin" help:"Number of the institution's LinkedIn page; with it, LinkedIn shows the logo next to a certificate." placeholder:"NUMBER"`
	Logo           *string `help:"PNG or JPEG file with the logo for public pages and mail; an empty value removes the logo." placeholder:"FILE"`
	Colour         *string `help:"Color of public pages and mail as #rrggbb; empty means the vault's color." name:"color" aliases:"colour" placeholder:"#RRGGBB"`

	mailFlags
	retentionFlags
	expiryFlags
}

// Run changes the given settings in one transaction, and prints all settings.
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
			set(&v.Name, i.Name)
			v.AllowSameName = i.AllowSameName
			set(&v.HideName, i.HideName)
			set(&v.AllowImage, i.PublicImage)
			set(&v.AllowDownload, i.PublicDownload)
			set(&v.Contact, i.Contact)
			set(&v.LinkedIn, i.LinkedIn)
			set(&v.Colour, i.Colour)
			v.Logo = logo
			i.mailFlags.apply(v)
			i.retentionFlags.apply(&v.Retention)
			i.expiryFlags.apply(&v.Expiry)
			return i.policy(cert.PolicyOf(&v.Settings), box).Apply(v)
		})
		if err != nil {
			return mailFields(hintSameName(err))
		}
		profile, err := base.Accounts.PublicProfile(c.ctx, inst.ID)
		if err != nil {
			return err
		}
		return c.print(struct {
			account.Policy
			account.Public

			Logo         string `json:"logo_sha256"`
			Colour       string `json:"colour"`
			MailLanguage string `json:"mail_language"`
			account.MailSender
			// Words contains the texts of mail by language.
			Words map[string]account.MailText `json:"mail_words"`
			account.Retention
			account.Expiry
		}{v.Policy, v.Public, profile.Logo, v.Colour, v.MailLanguage, v.MailSender, v.MailTexts, v.Retention, v.Expiry}, func(w io.Writer) {
			printf(w, "Stamps of %s: %s, page %d", v.Name, v.Placement, v.Page)
			if v.Box != nil {
				printf(w, ", box %v", *v.Box)
			}
			if v.PlainStamp {
				printf(w, ", plain")
			}
			printf(w, "; PDF files with active content are %s.\n", map[bool]string{true: "rejected", false: "accepted, and the content is disabled"}[v.RefuseActive])
			text := map[bool]string{true: "yes", false: "no"}
			printf(w, "Public name: %s; image: %s; download: %s; logo: %s; color: %s; contact: %s; LinkedIn page: %s.\n",
				text[!v.HideName], text[v.AllowImage], text[v.AllowDownload], text[profile.Logo != ""],
				cmp.Or(v.Colour, "the vault's color"), cmp.Or(v.Contact, "none"), cmp.Or(v.LinkedIn, "none"))
			printMail(w, v)
			printRetention(w, v.Retention)
			printExpiry(w, v.Expiry)
		})
	})
}

// policy sets the values of the given flags in a policy. If a placement is given without a box, policy
// removes the box.
func (i *institutionSet) policy(p *cert.Policy, box *seal.Box) *cert.Policy {
	if i.Placement != nil {
		p.Placement, p.Box = seal.Mode(*i.Placement), nil
	}
	set(&p.Page, i.PlacementPage)
	if box != nil {
		p.Box = box
	}
	set(&p.RefuseActive, i.RefuseActive)
	set(&p.PlainStamp, i.PlainStamp)
	return p
}

// logo returns the logo of the given file, an empty logo if the flag is empty, or nil if the flag
// is not given. An empty logo removes the current logo.
func (i *institutionSet) logo() (*account.Logo, error) {
	switch {
	case i.Logo == nil:
		return nil, nil //nolint:nilnil // nil means no change
	case *i.Logo == "":
		return account.DrawLogo(nil)
	}
	file, err := os.ReadFile(*i.Logo)
	if err != nil {
		return nil, fmt.Errorf("--logo: %w", err)
	}
	return account.DrawLogo(file)
}

// set copies *given to *to, unless given is nil.
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
