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

// tokenRow is the data of a token on a page.
type tokenRow struct {
	*token.Token

	// State is "active", "ends" (the token expires within a week), "ended" (the token has expired)
	// or "revoked".
	State string
}

// endsSoon is the time before the expiry of a token in which its state is "ends".
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

// Open reports whether the token is usable.
func (t tokenRow) Open() bool { return t.State == "active" || t.State == "ends" }

type tokenList struct {
	Visit *Visit
	Rows  []tokenRow
	// Ended reports whether the page lists the tokens that are no longer usable.
	Ended bool
	// Active is the number of usable tokens. EndedCount is the number of expired and revoked tokens.
	Active, EndedCount int
}

// tokens lists the usable tokens, or the expired and revoked tokens if the query has show=ended.
func (p *Panel) tokens(w http.ResponseWriter, r *http.Request, v *Visit) error {
	all, err := p.Tokens.List(r.Context(), v.Institution().ID)
	if err != nil {
		return err
	}
	list := tokenList{Visit: v, Ended: r.URL.Query().Get("show") == "ended"}
	for _, t := range all {
		row := p.tokenRow(t)
		if row.Open() {
			list.Active++
		} else {
			list.EndedCount++
		}
		if row.Open() != list.Ended {
			list.Rows = append(list.Rows, row)
		}
	}
	return p.draw(w, r, "tokens.html", list)
}

// tokenOf returns the token in the path. The token must belong to the institution of the visit.
func (p *Panel) tokenOf(r *http.Request, v *Visit) (tokenRow, error) {
	id, err := strconv.ParseInt(r.PathValue("token"), 10, 64)
	if err != nil {
		return tokenRow{}, errNoToken
	}
	t, err := p.Tokens.Get(r.Context(), v.Institution().ID, id)
	if err != nil {
		return tokenRow{}, err
	}
	return p.tokenRow(t), nil
}

// tokenConfirmation is the data of the page that asks for confirmation before a token is rotated or
// revoked.
type tokenConfirmation struct {
	Visit *Visit
	Token tokenRow
	// Overlap is the value of the chosen overlap.
	Overlap string
}

// overlap is a choice of how long the old token stays usable after a rotation.
type overlap struct {
	Value string
	Time  time.Duration
}

var overlaps = []overlap{{"0", 0}, {"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// defaultOverlap is the value of the overlap that is selected initially.
const defaultOverlap = "24h"

// Overlaps returns the overlaps that can be chosen.
func (tokenConfirmation) Overlaps() []overlap { return overlaps }

// askRotateToken shows the form for the rotation of a token, in which the member chooses the overlap.
func (p *Panel) askRotateToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "token_rotate.html", tokenConfirmation{v, t, defaultOverlap})
}

// rotateToken creates the successor of a token, and shows the secret of the successor once.
func (p *Panel) rotateToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	c := tokenConfirmation{v, t, r.PostForm.Get("overlap")}
	i := slices.IndexFunc(overlaps, func(o overlap) bool { return o.Value == c.Overlap })
	if i < 0 {
		return p.showAgain(w, r, "token_rotate.html", c, fault.OfField("overlap", "tokens.choose_overlap"))
	}
	created, secret, old, err := p.Tokens.Rotate(r.Context(), v.Institution().ID, t.ID, overlaps[i].Time)
	if err != nil {
		return p.showAgain(w, r, "token_rotate.html", c, err)
	}
	oldRow := p.tokenRow(old)
	return p.showToken(w, r, v, created, secret, &oldRow)
}

// askRevokeToken asks for confirmation before a token is revoked.
func (p *Panel) askRevokeToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "token_revoke.html", tokenConfirmation{Visit: v, Token: t})
}

func (p *Panel) revokeToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	if err := p.Tokens.Revoke(r.Context(), v.Institution().ID, t.ID); err != nil {
		return err
	}
	return p.redirect(w, r, v, "tokens", "token_revoked")
}
