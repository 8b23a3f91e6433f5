package main

import (
	"errors"
	"io"
	"strings"

	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
)

var (
	errHasOwner = errors.New("the vault already has an owner; use certvault institution create for a further institution")
	errNoBase   = errors.New("no server has stored its base URL yet; set --base-url")
)

type setupLinkCommand struct {
	config.Storage

	BaseURL string `help:"Base URL of the link. Default: that of the server." name:"base-url" placeholder:"URL"`
}

// Run prints a new set-up link, which is valid for an hour. Earlier links remain valid, each for an hour.
func (s *setupLinkCommand) Run(c *console) error {
	return c.existing(s.Storage, func(base *app.Base) error {
		owned, err := base.Accounts.HasOwner(c.ctx)
		if err != nil {
			return err
		}
		if owned {
			return errHasOwner
		}
		address := strings.TrimRight(s.BaseURL, "/")
		if address == "" {
			if address, err = base.DB.BaseURL(c.ctx); err != nil {
				return err
			}
		}
		if address == "" {
			return errNoBase
		}
		secret, err := base.Accounts.NewSetupLink(c.ctx)
		if err != nil {
			return err
		}
		link := address + "/setup?token=" + secret
		return c.print(struct {
			URL string `json:"url"`
		}{link}, func(w io.Writer) { printf(w, "%s\n", link) })
	})
}
