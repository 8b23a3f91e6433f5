package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/search"
	"github.com/certvault/certvault/internal/web"
)

// page is a response with a list.
type page struct {
	Data  any   `json:"data"`
	Links links `json:"links"`
	Meta  meta  `json:"meta"`
}

type links struct {
	First string  `json:"first"`
	Last  *string `json:"last"`
	Prev  *string `json:"prev"`
	Next  *string `json:"next"`
}

type meta struct {
	CurrentPage  *int    `json:"current_page"`
	From         *int    `json:"from"`
	LastPage     *int    `json:"last_page"`
	Path         string  `json:"path"`
	PerPage      int     `json:"per_page"`
	To           *int    `json:"to"`
	Total        *int    `json:"total"`
	TotalAtLeast *int    `json:"total_at_least,omitempty"`
	NextCursor   *string `json:"next_cursor"`
}

// filterParameter parses the value of a query parameter into a filter. It returns a message if it rejects
// the value, and "" otherwise.
type filterParameter[F any] func(f *F, value string) string

// parameter is a filter parameter of a list of certificates.
type parameter = filterParameter[search.Filter]

// vaultParameters are the filter parameters of the list of vault certificates.
var vaultParameters = map[string]parameter{
	"status": func(f *search.Filter, value string) string {
		f.Statuses = []cert.Status{cert.Status(value)}
		return oneOf(cert.VaultStatuses, cert.Status(value))
	},
	"applicant_email": func(f *search.Filter, value string) string { f.Email = value; return "" },
	"search":          func(f *search.Filter, value string) string { f.Search = value; return "" },
	"expired":         filterExpired,
	"expires_from":    func(f *search.Filter, value string) string { f.ExpiresFrom = value; return "" },
	"expires_to":      func(f *search.Filter, value string) string { f.ExpiresTo = value; return "" },
	"replaced":        filterReplaced,
}

// filterReplaced parses the parameter that selects the certificates that were replaced, or those that
// were not replaced.
func filterReplaced(f *search.Filter, value string) string {
	f.Replaced = search.Replaced(value)
	return oneOf(search.Replacements, f.Replaced)
}

// filterExpired parses the parameter that selects the certificates that have expired, or those that
// have not expired.
func filterExpired(f *search.Filter, value string) string {
	f.Expired = search.Expiry(value)
	return oneOf(search.Expiries, f.Expired)
}

// oneOf returns a message with the valid values if value is not in list, and "" otherwise.
func oneOf[T ~string](list []T, value T) string {
	if slices.Contains(list, value) {
		return ""
	}
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = string(v)
	}
	return "The value is invalid; it must be one of " + strings.Join(names, ", ") + "."
}

func (a *API) list(w http.ResponseWriter, c *call) error {
	filter, query, err := readFilter(c, vaultParameters, search.Filter{Sources: []cert.Source{cert.Vault}})
	if err != nil {
		return err
	}
	list, err := a.Search.List(a.Replica.Allow(c.Context()), c.institution.ID, filter)
	if err != nil {
		return err
	}
	data, err := a.wireAll(c.Context(), nil, c.institution, list.Items...)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, paged(a.Links.To(c.URL.Path), query, filter.Range, list.Part, len(data), data))
}

// readFilter is readParameters for a list of certificates. It returns f with the values of the query.
func readFilter(c *call, parameters map[string]parameter, f search.Filter) (search.Filter, url.Values, error) {
	query, err := readParameters(c, parameters, &f, &f.Range)
	return f, query, err
}

// readParameters parses the query of a request. It stores the values of the given parameters in f, and
// the values of page, per_page and cursor, which every list has, in r. It ignores empty values of the
// given parameters. The error is fault.Invalid with each parameter that is unknown, repeated or invalid.
func readParameters[F any](c *call, parameters map[string]filterParameter[F], f *F, r *listing.Range) (url.Values, error) {
	query, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "The query string is malformed.", err)
	}
	var bad fault.Fields
	r.Page, r.PerPage = 1, listing.DefaultPage
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		read, known := parameters[name]
		switch value := values[0]; {
		case len(values) > 1:
			bad.Add(name, "The parameter is given more than once.")
		case name == "page":
			if n, err := strconv.Atoi(value); err == nil && n > listing.MaxDepth {
				r.Page = n // Range.Check rejects the page with a message about cursors.
			} else {
				r.Page = number(&bad, name, value, listing.MaxDepth)
			}
		case name == "per_page":
			r.PerPage = number(&bad, name, value, listing.MaxPage)
		case name == "cursor":
			r.Cursor = &value
		case !known:
			bad.Add(name, "There is no such filter.")
		case value != "":
			if message := read(f, value); message != "" {
				bad.Add(name, message)
			}
		}
	}
	if r.HasCursor() && query.Has("page") {
		bad.Add("page", "A list has pages or a cursor, not both.")
	}
	return query, bad.Err()
}

func number(bad *fault.Fields, name, value string, limit int) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > limit {
		bad.Add(name, fmt.Sprintf("The parameter must be a number from 1 to %d.", limit))
		return 1
	}
	return n
}

// paged returns the response with a page of a list. data has the n records of the page.
func paged(path string, query url.Values, r listing.Range, l listing.Part, n int, data any) page {
	link := func(name, value string) *string {
		q := maps.Clone(query)
		q.Del("page")
		q.Del("cursor")
		q.Set(name, value)
		s := path + "?" + q.Encode()
		return &s
	}
	to := func(n int) *string { return link("page", strconv.Itoa(n)) }
	p := page{Data: data, Meta: meta{Path: path, PerPage: r.PerPage}}
	follow := func() { p.Meta.NextCursor, p.Links.Next = &l.Next, link("cursor", l.Next) }
	if r.HasCursor() {
		p.Links.First = *link("cursor", "")
		if l.Next != "" {
			follow()
		}
		return p
	}
	p.Links.First, p.Meta.CurrentPage = *to(1), &r.Page
	if r.Page > 1 {
		p.Links.Prev = to(r.Page - 1)
	}
	switch {
	case !l.More:
	case (r.Page+1)*r.PerPage <= listing.MaxDepth:
		p.Links.Next = to(r.Page + 1)
	case l.Next != "":
		// The next page has no number, so its link contains a cursor.
		follow()
	}
	if n > 0 {
		from := (r.Page-1)*r.PerPage + 1
		last := from + n - 1
		p.Meta.From, p.Meta.To = &from, &last
	}
	p.Meta.Total = l.Total
	if l.Total == nil {
		p.Meta.TotalAtLeast = &l.AtLeast
		return p
	}
	last := max(1, (*l.Total+r.PerPage-1)/r.PerPage)
	p.Meta.LastPage = &last
	if last*r.PerPage <= listing.MaxDepth {
		p.Links.Last = to(last)
	}
	return p
}
