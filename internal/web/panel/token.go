package panel

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/token"
)

var errNoToken = fault.New(fault.NotFound, "This institution has no such token.")

// tokenRow is a token as pages show it.
type tokenRow struct {
	*token.Token

	// State is active, ends (within a week), ended or revoked.
	State string
}

const endsSoon = 7 * 24 * time.Hour

func (p *Panel) tokenRow(t *token.Token) tokenRow {
	row := tokenRow{Token: t, State: "active"}
	switch now := p.Now(); {
	case t.RevokedAt != nil:
		row.State = "revoked"
	case t.ExpiresAt != nil && !t.ExpiresAt.After(now):
		row.State = "ended"
	case t.ExpiresAt != nil && t.ExpiresAt.Before(now.Add(endsSoon)):
		row.State = "ends"
	}
	return row
}

// Works tells whether the token opens anything.
func (t tokenRow) Works() bool { return t.State == "active" || t.State == "ends" }

type tokenList struct {
	Visit *Visit
	Rows  []tokenRow
	// Ended is set where the page shows the tokens that do not work any more.
	Ended bool
	// Active and Over count both kinds.
	Active, Over int
}

// tokens lists tokens: those that work, or those that do not any more.
func (p *Panel) tokens(w http.ResponseWriter, r *http.Request, v *Visit) error {
	all, err := p.Tokens.List(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	list := tokenList{Visit: v, Ended: r.URL.Query().Get("show") == "ended"}
	for _, t := range all {
		row := p.tokenRow(t)
		if row.Works() {
			list.Active++
		} else {
			list.Over++
		}
		if row.Works() != list.Ended {
			list.Rows = append(list.Rows, row)
		}
	}
	return p.draw(w, r, "tokens.html", list)
}

// tokenOf gives the token that the path names. One of another institution is
// not found.
func (p *Panel) tokenOf(r *http.Request, v *Visit) (tokenRow, error) {
	id, err := strconv.ParseInt(r.PathValue("token"), 10, 64)
	if err != nil {
		return tokenRow{}, errNoToken
	}
	all, err := p.Tokens.List(r.Context(), v.Institution().ID)
	if err != nil {
		return tokenRow{}, err
	}
	i := slices.IndexFunc(all, func(t *token.Token) bool { return t.ID == id })
	if i < 0 {
		return tokenRow{}, errNoToken
	}
	return p.tokenRow(all[i]), nil
}

type tokenAsk struct {
	Visit *Visit
	Token tokenRow
}

// askRevokeToken asks whether a token is to end.
func (p *Panel) askRevokeToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "token_revoke.html", tokenAsk{v, t})
}

// revokeToken ends a token.
func (p *Panel) revokeToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Tokens.Revoke(r.Context(), v.Institution().ID, t.ID); err != nil {
		return err
	}
	return p.lead(w, r, v, "tokens", "token_revoked")
}
