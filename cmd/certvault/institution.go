package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/quota"
)

type institutionCommand struct {
	Create institutionCreate `cmd:"" help:"Create an institution and its owner."`
	List   institutionList   `cmd:"" help:"List the institutions."`
	Set    institutionSet    `cmd:"" help:"Change an institution's name, QR codes, accepted files, public profile, mail and retention."`

	Disable institutionDisable `cmd:"" help:"Disable an institution: its tokens and members have no access, and new uploads and applications are rejected. Public pages remain."`
	Enable  institutionEnable  `cmd:"" help:"Enable a disabled institution."`
	Slug    institutionSlug    `cmd:"" help:"Change the slug (the name in web addresses) of an institution. Addresses with the former slug redirect."`
	Limit   institutionLimit   `cmd:"" help:"Show the limits and the use of an institution, or change the limits."`
}

type institutionCreate struct {
	config.Storage

	Name               string `help:"Name of the institution." placeholder:"NAME" required:""`
	Prefix             string `help:"Prefix of the institution's reference ids: 2 to 10 characters of A-Z and 0-9." placeholder:"PREFIX" required:""`
	OwnerEmail         string `help:"E-mail address of the institution's first owner." placeholder:"ADDRESS" required:""`
	OwnerName          string `help:"Name of the institution's first owner." placeholder:"NAME" required:""`
	OwnerPasswordStdin bool   `help:"Read the owner's password from standard input." required:""`
	AllowSameName      bool   `help:"Allow a name that looks the same as the name of another institution."`
}

// Run creates the institution with its owner and its keys. Run also creates the storage if it does
// not exist.
func (i *institutionCreate) Run(c *console) error {
	password, err := readLine(c.stdin)
	if err != nil {
		return err
	}
	return c.vault(i.Storage, func(base *app.Base) error {
		created, err := base.Accounts.CreateInstitution(c.ctx, account.NewInstitution{
			Name: i.Name, Prefix: i.Prefix, OwnerEmail: i.OwnerEmail, OwnerName: i.OwnerName, OwnerPassword: password, AllowSameName: i.AllowSameName,
		})
		if err != nil {
			return hintSameName(err)
		}
		// If this fails, the server creates the keys when it starts.
		keyErr := base.CreateKeys(c.ctx)
		err = c.print(struct {
			ID     int64  `json:"id"`
			UUID   string `json:"uuid"`
			Slug   string `json:"slug"`
			Prefix string `json:"prefix"`
		}{created.ID, created.UUID, created.Slug, created.Prefix}, func(w io.Writer) {
			printf(w, "Institution %s created: slug %s, prefix %s, uuid %s.\n", created.Name, created.Slug, created.Prefix, created.UUID)
			if created.OwnerExisted {
				printf(w, "%s already has an account. Its password was not changed; a person without a password signs in with a sign-in link.\n", i.OwnerEmail)
			}
		})
		if keyErr != nil {
			return errors.Join(err, fmt.Errorf("the institution was created, but the creation of its signing key failed: %w", keyErr))
		}
		return err
	})
}

// hintSameName adds to account.ErrSameName the hint to specify --allow-same-name, because a person who
// runs commands may allow the name. It returns other errors unchanged.
func hintSameName(err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && errors.Is(err, account.ErrSameName) {
		return fault.OfField("name", strings.Join(e.Fields[0].Messages, " ")+" Specify --allow-same-name to allow it.")
	}
	return err
}

type institutionList struct {
	config.Storage

	Search string `help:"Only institutions whose name, slug or prefix contains a text." placeholder:"TEXT"`
}

type institutionRow struct {
	ID        int64     `json:"id"`
	UUID      string    `json:"uuid"`
	Slug      string    `json:"slug"`
	Name      string    `json:"name"`
	Prefix    string    `json:"prefix"`
	Members   int       `json:"members"`
	CreatedAt time.Time `json:"created_at"`

	DisabledAt     *time.Time     `json:"disabled_at"`
	DisabledReason string         `json:"disabled_reason"`
	Limits         account.Limits `json:"limits"`
	Used           quota.Usage    `json:"used"`
}

// Run lists institutions in the order of their names, with their usage.
func (i *institutionList) Run(c *console) error {
	return c.existing(i.Storage, func(base *app.Base) error {
		rows := []institutionRow{}
		for total := 1; len(rows) < total; {
			list, n, err := base.Accounts.FindInstitutions(c.ctx, i.Search, len(rows), institutionsAtOnce)
			if err != nil {
				return err
			}
			ids := make([]int64, len(list))
			for n := range list {
				ids[n] = list[n].ID
			}
			used, err := quota.Of(c.ctx, base.DB, time.Now(), ids...)
			if err != nil {
				return err
			}
			for _, k := range list {
				rows = append(rows, institutionRow{
					ID: k.ID, UUID: k.UUID, Slug: k.Slug, Name: k.Name, Prefix: k.Prefix, Members: k.Members, CreatedAt: k.CreatedAt,
					DisabledAt: k.DisabledAt, DisabledReason: k.DisabledReason, Limits: k.Limits, Used: used[k.ID],
				})
			}
			if total = n; len(list) == 0 {
				break
			}
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "SLUG", "PREFIX", "STATE", "MEMBERS", "THIS MONTH", "BYTES", "LAST CHANGE", "SINCE", "NAME")
			for _, r := range rows {
				state := "enabled"
				if r.DisabledAt != nil {
					state = "disabled"
				}
				table.row(r.Slug, r.Prefix, state, r.Members, r.Used.Certificates, r.Used.Storage, formatTime(r.Used.ChangedAt), r.CreatedAt.Format(time.DateOnly), r.Name)
			}
			table.flush()
			noteCounting(w, len(rows) > 0 && rows[len(rows)-1].Used.Counting)
		})
	})
}

// noteCounting prints a note if the usage of institutions is incomplete, because a server still counts
// older certificates.
func noteCounting(w io.Writer, counting bool) {
	if counting {
		printf(w, "%s\n", "A running server still counts certificates from before the last upgrade. Until that is complete, the figures "+
			"for storage and for certificates this month may be too low, and limits may be exceeded.")
	}
}

// institutionsAtOnce is the maximum number of institutions that one call of FindInstitutions returns.
const institutionsAtOnce = 500

// readLine reads the first line, at most 8 KiB, and returns it without the end of the line.
func readLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, 8<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
