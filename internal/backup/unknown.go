package backup

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/webhook"
)

// Unknown lists the tokens, members, operators, signing keys and webhook endpoints of a restored vault.
// They may have been revoked, removed, changed or replaced after the backup. A person must check the list.
type Unknown struct {
	Tokens    []UnknownToken    `json:"tokens"`
	Members   []UnknownMember   `json:"members"`
	Operators []UnknownPerson   `json:"operators"`
	Keys      []UnknownKey      `json:"keys"`
	Endpoints []UnknownEndpoint `json:"endpoints"`
}

// UnknownToken is a token that is valid in the restored vault.
type UnknownToken struct {
	Institution string     `json:"institution"`
	ID          int64      `json:"id"`
	Name        string     `json:"name"`
	Hint        string     `json:"hint"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

// UnknownMember is a member of an institution in the restored vault.
type UnknownMember struct {
	Institution string       `json:"institution"`
	Name        string       `json:"name"`
	Email       string       `json:"email"`
	Role        account.Role `json:"role"`
}

// UnknownPerson is an operator of the restored vault.
type UnknownPerson struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// UnknownKey is the newest signing key of an institution in the restored vault.
type UnknownKey struct {
	Institution string         `json:"institution"`
	Kind        authority.Kind `json:"kind"`
	// Serial is the serial number of the key's certificate.
	Serial string `json:"serial"`
	// CreatedAt is the time at which the key was added to the vault.
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// UnknownEndpoint is a webhook endpoint of an institution in the restored vault. It may have been removed
// after the backup, its URL may have been changed, and its secret rotated.
type UnknownEndpoint struct {
	Institution string `json:"institution"`
	ID          string `json:"id"`
	// Origin is the scheme and host of the URL. The rest of the URL may contain a key.
	Origin    string    `json:"origin"`
	CreatedAt time.Time `json:"created_at"`
	// SecretAt is the time at which the current secret was created.
	SecretAt time.Time `json:"secret_at"`
}

// Summary returns the lengths of the lists as a text, such as "2 tokens, 1 member, 1 operator, 1 signing
// key and 3 webhook endpoints".
func (u *Unknown) Summary() string {
	counts := make([]string, 0, 5)
	for _, c := range []struct {
		n    int
		noun string
	}{{len(u.Tokens), "token"}, {len(u.Members), "member"}, {len(u.Operators), "operator"}, {len(u.Keys), "signing key"}, {len(u.Endpoints), "webhook endpoint"}} {
		text := strconv.Itoa(c.n) + " " + c.noun
		if c.n != 1 {
			text += "s"
		}
		counts = append(counts, text)
	}
	last := len(counts) - 1
	return strings.Join(counts[:last], ", ") + " and " + counts[last]
}

// Services are the services that ListUnknown calls.
type Services struct {
	Accounts *account.Service
	Tokens   *token.Service
	Hooks    *webhook.Service
	Keys     *authority.Authority
}

// ListUnknown returns the tokens that are valid, the members, the operators, the signing keys and the
// webhook endpoints of a restored vault.
func ListUnknown(ctx context.Context, s Services, now time.Time) (*Unknown, error) {
	u := &Unknown{Tokens: []UnknownToken{}, Members: []UnknownMember{}, Operators: []UnknownPerson{}, Keys: []UnknownKey{}, Endpoints: []UnknownEndpoint{}}
	operators, err := s.Accounts.Operators(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range operators {
		u.Operators = append(u.Operators, UnknownPerson{Name: p.Name, Email: p.Email})
	}
	institutions, err := s.Accounts.Institutions(ctx)
	if err != nil {
		return nil, err
	}
	for i := range institutions {
		inst := &institutions[i].Institution
		list, err := s.Tokens.List(ctx, inst.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.ValidAt(now) {
				u.Tokens = append(u.Tokens, UnknownToken{
					Institution: inst.Slug, ID: t.ID, Name: t.Name, Hint: t.Hint, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
				})
			}
		}
		members, err := s.Accounts.Members(ctx, inst.ID)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			u.Members = append(u.Members, UnknownMember{Institution: inst.Slug, Name: m.Name, Email: m.Email, Role: m.Role})
		}
		u.addKey(ctx, inst, s.Keys)
		if err := u.addEndpoints(ctx, inst, s.Hooks); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// addKey adds the newest signing key of an institution. It ignores a key that is missing or cannot
// be read, because certvault doctor reports the key.
func (u *Unknown) addKey(ctx context.Context, inst *account.Institution, keys *authority.Authority) {
	list, err := keys.Certificates(ctx, inst.UUID)
	if err != nil || len(list) == 0 {
		return
	}
	newest := list[0]
	c := newest.Chain[0]
	u.Keys = append(u.Keys, UnknownKey{
		Institution: inst.Slug, Kind: newest.Kind, Serial: c.SerialNumber.Text(16), CreatedAt: newest.CreatedAt, ExpiresAt: authority.Expiry(newest.Chain).UTC(),
	})
}

// addEndpoints adds the webhook endpoints of an institution.
func (u *Unknown) addEndpoints(ctx context.Context, inst *account.Institution, hooks *webhook.Service) error {
	list, err := hooks.List(ctx, inst.ID)
	if err != nil || len(list) == 0 {
		return err
	}
	rotated, err := hooks.SecretTimes(ctx, inst.ID)
	if err != nil {
		return err
	}
	for i := range list {
		e := &list[i]
		secretAt, ok := rotated[e.UUID]
		if !ok {
			secretAt = e.CreatedAt
		}
		u.Endpoints = append(u.Endpoints, UnknownEndpoint{Institution: inst.Slug, ID: e.UUID, Origin: e.Origin(), CreatedAt: e.CreatedAt, SecretAt: secretAt})
	}
	return nil
}
