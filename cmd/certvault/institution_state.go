package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/quota"
)

type institutionDisable struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Reason      string `help:"Reason, which members and programs of the institution see: what is wrong, and whom to ask." placeholder:"TEXT"`
}

// Run disables the institution. Running servers then reject the requests of its members and
// tokens.
func (i *institutionDisable) Run(c *console) error {
	return c.changeInstitution(i.Storage, i.Institution, func(base *app.Base, inst *account.Institution) error {
		return base.Accounts.Disable(c.ctx, inst.ID, i.Reason)
	})
}

type institutionEnable struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

// Run enables the institution.
func (i *institutionEnable) Run(c *console) error {
	return c.changeInstitution(i.Storage, i.Institution, func(base *app.Base, inst *account.Institution) error {
		return base.Accounts.Enable(c.ctx, inst.ID)
	})
}

type institutionSlug struct {
	config.Storage

	Institution string `help:"Current or former slug of the institution." placeholder:"SLUG" required:""`
	New         string `arg:"" help:"New slug: 2 to 63 letters a to z, digits and single hyphens between them."`
}

// Run changes the slug.
func (i *institutionSlug) Run(c *console) error {
	return c.changeInstitution(i.Storage, i.Institution, func(base *app.Base, inst *account.Institution) error {
		return base.Accounts.SetSlug(c.ctx, inst.ID, i.New)
	})
}

type institutionLimit struct {
	config.Storage

	Institution  string  `help:"Slug of the institution." placeholder:"SLUG" required:""`
	StorageLimit *string `name:"storage" help:"Maximum size of the institution's files, such as 500GB or 1073741824; 0 means no limit." placeholder:"SIZE"`
	Certificates *int64  `help:"Maximum number of new certificates in a calendar month in UTC; 0 means no limit." placeholder:"N"`
	Requests     *int64  `help:"Maximum number of requests of all the institution's tokens together in a minute; 0 means no limit." placeholder:"N"`
}

// Run changes the given limits, and prints all limits and what the institution uses.
func (i *institutionLimit) Run(c *console) error {
	var storage *int64
	if i.StorageLimit != nil {
		n, err := account.ParseSize(*i.StorageLimit)
		if err != nil {
			return &usageError{err}
		}
		storage = &n
	}
	return c.institution(i.Storage, i.Institution, func(base *app.Base, inst *account.Institution) error {
		limits := inst.Limits
		set(&limits.Storage, storage)
		set(&limits.Certificates, i.Certificates)
		set(&limits.Requests, i.Requests)
		if err := base.Accounts.SetLimits(c.ctx, inst.ID, limits); err != nil {
			return err
		}
		all, err := quota.Of(c.ctx, base.DB, time.Now(), inst.ID)
		if err != nil {
			return err
		}
		used := all[inst.ID]
		return c.print(struct {
			Limits account.Limits `json:"limits"`
			Used   quota.Usage    `json:"used"`
		}{limits, used}, func(w io.Writer) {
			table := newTable(w, "LIMIT", "VALUE", "USED")
			storage := "none"
			if limits.Storage > 0 {
				storage = account.FormatSize(limits.Storage)
			}
			table.row("storage", storage, fmt.Sprintf("%d bytes", used.Storage))
			table.row("certificates a month", limitText(limits.Certificates), used.Certificates)
			table.row("requests a minute", limitText(limits.Requests), "")
			table.flush()
			noteCounting(w, used.Counting)
		})
	})
}

func limitText(n int64) string {
	if n == 0 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}

// institutionState is the JSON output of the commands disable, enable and slug.
type institutionState struct {
	UUID           string         `json:"uuid"`
	Slug           string         `json:"slug"`
	DisabledAt     *time.Time     `json:"disabled_at"`
	DisabledReason string         `json:"disabled_reason"`
	Limits         account.Limits `json:"limits"`
}

// changeInstitution calls f with an institution, and then prints the state of the institution.
func (c *console) changeInstitution(s config.Storage, slug string, f func(base *app.Base, inst *account.Institution) error) error {
	return c.institution(s, slug, func(base *app.Base, inst *account.Institution) error {
		if err := f(base, inst); err != nil {
			return err
		}
		now, err := base.Accounts.Institution(c.ctx, inst.ID)
		if err != nil {
			return err
		}
		return c.print(institutionState{now.UUID, now.Slug, now.DisabledAt, now.DisabledReason, now.Limits}, func(w io.Writer) {
			if now.DisabledAt == nil {
				printf(w, "%s (%s) is enabled.\n", now.Name, now.Slug)
				return
			}
			printf(w, "%s (%s) has been disabled since %s: its API tokens and its members have no access, and uploads and new applications are rejected.\n",
				now.Name, now.Slug, formatTime(now.DisabledAt))
			if now.DisabledReason != "" {
				printf(w, "Reason: %s\n", now.DisabledReason)
			}
		})
	})
}
