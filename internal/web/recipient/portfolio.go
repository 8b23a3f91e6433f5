package recipient

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
	"github.com/certvault/certvault/internal/web"
)

const portfolioPath = "/account/portfolio"

// portfolioRoutes adds the routes of portfolios.
func (p *Pages) portfolioRoutes(route routeFunc) {
	route(p.secret, "GET /p/{slug}", p.publicPortfolio)
	route(p.signedIn, "GET "+portfolioPath, p.Gate.Require(p.portfolio))
	route(p.signedIn, "POST "+portfolioPath, p.Gate.Require(p.savePortfolio))
	for name, change := range map[string]entryChange{
		"add": p.Recipients.AddEntry, "remove": p.Recipients.RemoveEntry,
		"up": func(ctx context.Context, userID int64, uuid string) error {
			return p.Recipients.MoveEntry(ctx, userID, uuid, true)
		},
		"down": func(ctx context.Context, userID int64, uuid string) error {
			return p.Recipients.MoveEntry(ctx, userID, uuid, false)
		},
	} {
		route(p.signedIn, "POST "+portfolioPath+"/{uuid}/"+name, p.Gate.Require(p.changeEntry(name, change)))
	}
}

// entryChange changes the entry of a certificate in a person's portfolio.
type entryChange func(ctx context.Context, userID int64, uuid string) error

// portfolioPage is the data of the page on which a person changes the portfolio.
type portfolioPage struct {
	*recipient.Portfolio
	recipient.PortfolioSettings

	// Address is the address of the public page, or "" if the person has no portfolio. Prefix is the
	// address without the slug.
	Address, Prefix string
	// Wallet is one page of the person's certificates that Filter selects, or nil if the person has no
	// portfolio. Before and After are the addresses of the previous and the next page, or "".
	Wallet        *recipient.Wallet
	Filter        recipient.Filter
	Before, After string
}

// Full reports whether the portfolio has no room for another certificate.
func (d *portfolioPage) Full() bool { return len(d.Certificates) >= recipient.MaxEntries }

// Last returns the index of the last entry.
func (d *portfolioPage) Last() int { return len(d.Certificates) - 1 }

// On reports whether the stored settings make the public page visible.
func (d *portfolioPage) On() bool { return d.Portfolio.Visible }

// portfolioPageOf returns the data of the page for a request, with the stored settings.
func (p *Pages) portfolioPageOf(r *http.Request) (*portfolioPage, error) {
	s, _ := p.Gate.Person(r)
	stored, err := p.Recipients.Portfolio(r.Context(), s.Person.ID)
	if err != nil {
		return nil, err
	}
	d := &portfolioPage{
		Portfolio: stored, Prefix: p.Links.To(recipient.PortfolioPath("")),
		PortfolioSettings: recipient.PortfolioSettings{Slug: stored.Slug, DisplayName: stored.DisplayName, Visible: stored.Visible, Listed: stored.Listed},
	}
	if stored.Slug == "" {
		d.PortfolioSettings.DisplayName = s.Person.Name
		return d, nil
	}
	d.Address = p.Links.To(recipient.PortfolioPath(stored.Slug))
	q := r.URL.Query()
	d.Filter = recipient.Filter{Text: strings.TrimSpace(q.Get("search")), Page: 1}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && n > 0 {
		d.Filter.Page = n
	}
	if d.Wallet, err = p.listed(r.Context(), s.Person.ID, &d.Filter); fault.Is(err, fault.Invalid) {
		d.Filter = recipient.Filter{Page: 1}
		d.Wallet, err = p.listed(r.Context(), s.Person.ID, &d.Filter)
	}
	if err != nil {
		return nil, err
	}
	at := func(n int) string {
		return portfolioPath + "?" + url.Values{"search": {d.Filter.Text}, "page": {strconv.Itoa(n)}}.Encode()
	}
	if d.Filter.Page > 1 {
		d.Before = at(d.Filter.Page - 1)
	}
	if d.Filter.Page < d.Wallet.Pages() {
		d.After = at(d.Filter.Page + 1)
	}
	return d, nil
}

// portfolio shows the settings and the entries of the person's portfolio.
func (p *Pages) portfolio(w http.ResponseWriter, r *http.Request) error {
	d, err := p.portfolioPageOf(r)
	if err != nil {
		return err
	}
	return p.signedIn.Draw(w, r, http.StatusOK, "portfolio_edit.html", d)
}

// savePortfolio stores the settings of the person's portfolio.
func (p *Pages) savePortfolio(w http.ResponseWriter, r *http.Request) error {
	s, _ := p.Gate.Person(r)
	n := recipient.PortfolioSettings{
		Slug: r.PostFormValue("slug"), DisplayName: r.PostFormValue("display_name"),
		Visible: r.PostFormValue("visible") != "", Listed: r.PostFormValue("listed") != "",
	}
	if r.PostFormValue("random") != "" {
		n.Slug = recipient.RandomSlug()
	}
	if saveErr := p.Recipients.SavePortfolio(r.Context(), s.Person.ID, n); saveErr != nil {
		d, err := p.portfolioPageOf(r)
		if err != nil {
			return err
		}
		d.PortfolioSettings = n
		return p.signedIn.ShowAgain(w, r, "portfolio_edit.html", d, translate(saveErr))
	}
	return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(portfolioPath), "portfolio_saved")
}

// changeEntry returns a handler that applies a change to the entry of the certificate in the path.
func (p *Pages) changeEntry(name string, change entryChange) web.Func {
	return func(w http.ResponseWriter, r *http.Request) error {
		s, _ := p.Gate.Person(r)
		if err := change(r.Context(), s.Person.ID, r.PathValue("uuid")); err != nil {
			if fault.Is(err, fault.NotFound) {
				return err
			}
			d, e := p.portfolioPageOf(r)
			if e != nil {
				return e
			}
			return p.signedIn.ShowAgain(w, r, "portfolio_edit.html", d, translate(err))
		}
		anchor := "#entries"
		if name == "add" {
			anchor = "#more"
		}
		return p.signedIn.Redirect(w, r, p.signedIn.Reader(r).Link(portfolioPath)+anchor, "portfolio_"+name)
	}
}

// shownPortfolio is the data of the public page of a portfolio.
type shownPortfolio struct {
	*recipient.Portfolio

	Entries []*certificateView
}

// publicPortfolio shows the portfolio with a slug.
func (p *Pages) publicPortfolio(w http.ResponseWriter, r *http.Request) error {
	found, err := p.Recipients.PublicPortfolio(r.Context(), r.PathValue("slug"))
	if err != nil {
		return p.notFound(w, r, err)
	}
	d := &shownPortfolio{Portfolio: found}
	for _, c := range found.Certificates {
		entry, err := p.certificateView(r.Context(), c, "")
		if err != nil {
			return err
		}
		d.Entries = append(d.Entries, entry)
	}
	name := "portfolio.html"
	if found.Listed {
		name = "portfolio_public.html"
	}
	return p.secret.Draw(w, r, http.StatusOK, name, d)
}
