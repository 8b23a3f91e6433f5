package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/config"
	"github.com/certvault/certvault/internal/token"
)

type tokenCommand struct {
	Create tokenCreate `cmd:"" help:"Create a token and print it. It cannot be printed again."`
	List   tokenList   `cmd:"" help:"List an institution's tokens."`
	Rotate tokenRotate `cmd:"" help:"Create a token that replaces an existing token, and print it. It cannot be printed again."`
	Revoke tokenRevoke `cmd:"" help:"Revoke a token immediately."`
}

type tokenCreate struct {
	config.Storage

	Institution string   `help:"Slug of the institution." placeholder:"SLUG" required:""`
	Name        string   `help:"Name of the token, for example its purpose." placeholder:"NAME" required:""`
	Permission  []string `help:"Permission, such as certificate-vault:create; may be repeated. An unknown name prints all names." required:"" placeholder:"P"`
	Expires     string   `help:"Expiry: a duration such as 90d, 24h or 30s, or a date. Default: no expiry." placeholder:"90d|24h|30s|DATE"`
}

// Run creates the token.
func (t *tokenCreate) Run(c *console) error {
	expires, err := parseEnd(t.Expires, time.Now())
	if err != nil {
		return &usageError{err}
	}
	return c.institution(t.Storage, t.Institution, func(base *app.Base, inst *account.Institution) error {
		permissions := make([]token.Permission, len(t.Permission))
		for i, p := range t.Permission {
			permissions[i] = token.Permission(p)
		}
		created, secret, err := base.Tokens.Create(c.ctx, inst.ID, t.Name, permissions, expires)
		if err != nil {
			return err
		}
		return c.print(struct {
			ID    int64  `json:"id"`
			Token string `json:"token"`
		}{created.ID, secret}, func(w io.Writer) {
			printf(w, "%s\n", secret)
			printf(c.stderr, "Token %d created. It is shown only once, so store it now.\n", created.ID)
		})
	})
}

// parseEnd parses a duration, in days or in the units of Go, or a date. For a duration, it returns now plus
// the duration. For a date, it returns the end of the day in UTC. For an empty text, it returns nil.
func parseEnd(s string, now time.Time) (*time.Time, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // a token may have no expiry
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36_500 {
			end := now.AddDate(0, 0, n)
			return &end, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		end := now.Add(d)
		return &end, nil
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		end := day.AddDate(0, 0, 1)
		return &end, nil
	}
	return nil, fmt.Errorf("--expires: %q is neither a duration such as 90d, 24h or 30s nor a date such as 2006-01-02", s)
}

type tokenRotate struct {
	config.Storage

	Institution string        `help:"Slug of the institution." placeholder:"SLUG" required:""`
	ID          int64         `arg:"" help:"The token's id in the output of list."`
	Overlap     time.Duration `default:"24h" help:"Time for which the old token remains valid; 0s revokes it immediately." placeholder:"24h"`
}

// Run rotates the token.
func (t *tokenRotate) Run(c *console) error {
	return c.institution(t.Storage, t.Institution, func(base *app.Base, inst *account.Institution) error {
		created, secret, old, err := base.Tokens.Rotate(c.ctx, inst.ID, t.ID, t.Overlap)
		if err != nil {
			return err
		}
		return c.print(struct {
			ID        int64      `json:"id"`
			Token     string     `json:"token"`
			OldEndsAt *time.Time `json:"old_ends_at"`
		}{created.ID, secret, old.ExpiresAt}, func(w io.Writer) {
			printf(w, "%s\n", secret)
			end := "expires at " + formatTime(old.ExpiresAt)
			if old.RevokedAt != nil {
				end = "was revoked"
			}
			printf(c.stderr, "Token %d created. It is shown only once, so store it now. The old token %s.\n", created.ID, end)
		})
	})
}

type tokenList struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
}

type tokenRow struct {
	ID          int64              `json:"id"`
	Name        string             `json:"name"`
	Hint        string             `json:"hint"`
	Permissions []token.Permission `json:"permissions"`
	Creator     string             `json:"creator"`
	CreatedAt   time.Time          `json:"created_at"`
	ExpiresAt   *time.Time         `json:"expires_at"`
	LastUsedAt  *time.Time         `json:"last_used_at"`
	RevokedAt   *time.Time         `json:"revoked_at"`
}

// Run lists tokens, newest first.
func (t *tokenList) Run(c *console) error {
	return c.institution(t.Storage, t.Institution, func(base *app.Base, inst *account.Institution) error {
		list, err := base.Tokens.List(c.ctx, inst.ID)
		if err != nil {
			return err
		}
		rows := make([]tokenRow, len(list))
		for i, k := range list {
			rows[i] = tokenRow{k.ID, k.Name, k.Hint, k.Permissions, k.Creator, k.CreatedAt, k.ExpiresAt, k.LastUsedAt, k.RevokedAt}
		}
		return c.print(rows, func(w io.Writer) {
			table := newTable(w, "ID", "NAME", "TOKEN", "CREATED", "CREATOR", "LAST USED", "EXPIRES", "STATE")
			for _, k := range rows {
				table.row(k.ID, k.Name, k.Hint+"…", formatTime(&k.CreatedAt), k.Creator, formatTime(k.LastUsedAt), formatTime(k.ExpiresAt), k.state())
			}
			table.flush()
		})
	})
}

func (k *tokenRow) state() string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !k.ExpiresAt.After(time.Now()):
		return "expired"
	default:
		return "valid"
	}
}

func formatTime(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

type tokenRevoke struct {
	config.Storage

	Institution string `help:"Slug of the institution." placeholder:"SLUG" required:""`
	ID          int64  `arg:"" help:"The token's id in the output of list."`
}

// Run revokes the token.
func (t *tokenRevoke) Run(c *console) error {
	return c.institution(t.Storage, t.Institution, func(base *app.Base, inst *account.Institution) error {
		if err := base.Tokens.Revoke(c.ctx, inst.ID, t.ID); err != nil {
			return err
		}
		return c.print(struct {
			ID      int64 `json:"id"`
			Revoked bool  `json:"revoked"`
		}{t.ID, true}, func(w io.Writer) { printf(w, "Token %d revoked.\n", t.ID) })
	})
}
