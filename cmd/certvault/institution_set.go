package main

import (
	"fmt"
	"io"
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
	PlacementPage *int    `help:"Page that carries the stamp, from 1."                                             placeholder:"N"`
	PlacementBox  *string `help:"Place of an exact stamp: fractions of the page, from its top left."               placeholder:"X0,Y0,X1,Y1"`
	RefuseActive  *bool   `help:"Refuse PDF files with JavaScript, Launch and other actions."                      negatable:""`
}

// Run changes what is given and leaves the rest.
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
		return c.answer(struct {
			Placement     seal.Mode `json:"placement"`
			PlacementPage int       `json:"placement_page"`
			PlacementBox  *seal.Box `json:"placement_box"`
			RefuseActive  bool      `json:"refuse_active"`
		}{p.Placement, p.Page, p.Box, p.RefuseActive}, func(w io.Writer) {
			_, _ = fmt.Fprintf(w, "Stamps of %s go to %s, page %d", inst.Name, p.Placement, p.Page)
			if p.Box != nil {
				_, _ = fmt.Fprintf(w, ", box %v", *p.Box)
			}
			_, _ = fmt.Fprintf(w, "; active PDF files are %s.\n", map[bool]string{true: "refused", false: "taken and made harmless"}[p.RefuseActive])
		})
	})
}

// parseBox reads "x0,y0,x1,y1".
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
