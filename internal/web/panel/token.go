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

// endsSoon is from when on a token is marked.
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

// Open tells whether the token opens anything.
func (t tokenRow) Open() bool { return t.State == "active" || t.State == "ends" }

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
		if row.Open() {
			list.Active++
		} else {
			list.Over++
		}
		if row.Open() != list.Ended {
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
	t, err := p.Tokens.Get(r.Context(), v.Institution().ID, id)
	if err != nil {
		return tokenRow{}, err
	}
	return p.tokenRow(t), nil
}

// tokenAsk is a token that something is to be done to.
type tokenAsk struct {
	Visit *Visit
	Token tokenRow
	// Overlap is what is chosen of overlaps.
	Overlap string
}

// overlap is for how long the old token of a rotation may work on.
type overlap struct {
	Value, Label string
	Time         time.Duration
}

var overlaps = []overlap{
	{"0", "It ends at once", 0}, {"1h", "One hour", time.Hour}, {"24h", "One day", 24 * time.Hour}, {"7d", "One week", 7 * 24 * time.Hour},
}

// usualOverlap is what is chosen for who chooses nothing.
const usualOverlap = "24h"

// Overlaps gives how long the old token may work on.
func (tokenAsk) Overlaps() []overlap { return overlaps }

// askRotateToken asks how a token is to be followed by another.
func (p *Panel) askRotateToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "token_rotate.html", tokenAsk{v, t, usualOverlap})
}

// rotateToken makes a token that follows another, and shows it this once.
func (p *Panel) rotateToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	ask := tokenAsk{v, t, r.PostForm.Get("overlap")}
	i := slices.IndexFunc(overlaps, func(o overlap) bool { return o.Value == ask.Overlap })
	if i < 0 {
		return p.again(w, r, "token_rotate.html", ask, fault.OfField("overlap", "Choose how long the old token works on."))
	}
	made, secret, old, err := p.Tokens.Rotate(r.Context(), v.Institution().ID, t.ID, overlaps[i].Time)
	if err != nil {
		return p.again(w, r, "token_rotate.html", ask, err)
	}
	before := p.tokenRow(old)
	return p.draw(w, r, "token_made.html", madeToken{Visit: v, Token: p.tokenRow(made), Secret: secret, Try: p.tryLine(made, secret), Old: &before})
}

// askRevokeToken asks whether a token is to end.
func (p *Panel) askRevokeToken(w http.ResponseWriter, r *http.Request, v *Visit) error {
	t, err := p.tokenOf(r, v)
	if err != nil {
		return err
	}
	return p.draw(w, r, "token_revoke.html", tokenAsk{Visit: v, Token: t})
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
