package backup

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/token"
)

// Unknown lists the tokens, members, operators and signing keys that a restored vault accepts although
// they may have been revoked, removed or replaced after the backup. A person must check the list.
type Unknown struct {
	Tokens    []UnknownToken  `json:"tokens"`
	Members   []UnknownMember `json:"members"`
	Operators []UnknownPerson `json:"operators"`
	Keys      []UnknownKey    `json:"keys"`
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

// Summary returns the lengths of the lists as a text, such as "2 tokens, 1 member, 1 operator and 1
// signing key".
func (u *Unknown) Summary() string {
	counts := make([]string, 0, 4)
	for _, c := range []struct {
		n    int
		noun string
	}{{len(u.Tokens), "token"}, {len(u.Members), "member"}, {len(u.Operators), "operator"}, {len(u.Keys), "signing key"}} {
		text := strconv.Itoa(c.n) + " " + c.noun
		if c.n != 1 {
			text += "s"
		}
		counts = append(counts, text)
	}
	last := len(counts) - 1
	return strings.Join(counts[:last], ", ") + " and " + counts[last]
}

// ListUnknown returns the tokens that are valid, the members, the operators and the signing keys of
// a restored vault.
func ListUnknown(ctx context.Context, accounts *account.Service, tokens *token.Service, keys *authority.Authority, now time.Time) (*Unknown, error) {
	u := &Unknown{Tokens: []UnknownToken{}, Members: []UnknownMember{}, Operators: []UnknownPerson{}, Keys: []UnknownKey{}}
	operators, err := accounts.Operators(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range operators {
		u.Operators = append(u.Operators, UnknownPerson{Name: p.Name, Email: p.Email})
	}
	institutions, err := accounts.Institutions(ctx)
	if err != nil {
		return nil, err
	}
	for i := range institutions {
		inst := &institutions[i].Institution
		list, err := tokens.List(ctx, inst.ID)
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
		members, err := accounts.Members(ctx, inst.ID)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			u.Members = append(u.Members, UnknownMember{Institution: inst.Slug, Name: m.Name, Email: m.Email, Role: m.Role})
		}
		u.addKey(ctx, inst, keys)
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
